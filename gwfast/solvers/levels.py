"""On how many points a problem is solved before all of them, in which tier its kernel
is kept, and what that takes.

- "dense": the kernel in one n x m float32 buffer, the fastest;
- "sparse": the entries of it that matter, once the plan is concentrated on a few;
  before, and to find them, as "tiled";
- "tiled": never more of the kernel than a strip of rows a thread; every pass makes it
  anew, which costs a product of 2 n m d flops.
"""

import functools

import numpy as np

from ..problems.low_rank import RANK, has_low_rank
from ..quadratic.factory import TIERS, is_factored, nbytes, tiers
from ..quadratic.methods import PGD
from ..utils.blocks import SCRATCH_BYTES
from ..utils.validation import one_of
from .starts import QUANTILES, default_starts

# Points a side on which candidates race: on word vectors mostly enough to tell optima
# apart. Dense costs pay two products of matrices for what takes point clouds
# milliseconds.
RACE_POINTS, RACE_POINTS_DENSE = 1500, 750
# The same over the leading eigenvectors of costs, to which starts are made that take
# all of them: with 1500 graphs of 1500 and 2000 words took 1.3 times as long, and did
# not end lower.
RACE_POINTS_SMOOTH = 1000
# Most that the points a side are multiplied by from one level to the next.
GROWTH = 3.5
# Matrices of a side in float64 that profiles of square roots are made of.
ROOTS = 4
# What multiples of, modulo one, fill the unit interval evenly, however many.
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
# Solves that take turns on the level after the first, and on later ones.
SECOND_LEVEL_STATES, LATER_STATES = 4, 2


def level_sizes(problem, tier, *, is_smooth=False):
    """Points a side of the levels before the whole problem, few to many; whether that
    `is_smooth` has the leading eigenvectors of costs.
    """
    first = RACE_POINTS if is_factored(problem) else RACE_POINTS_DENSE
    return _sizes(max(problem.shape), RACE_POINTS_SMOOTH if is_smooth else first, tier)


def points_first(geometry, masses, order):
    """All points, those that the first levels should have first: in the order "given",
    or those with most mass; equal masses are spread evenly over the mean squared costs
    of points, which do not depend on the order of rows either.
    """
    if order == "given":
        return np.argsort(masses == 0, kind="stable")
    ranked = np.argsort(geometry.square_times(masses), kind="stable")
    # Multiples of the golden ratio fill the unit interval evenly, however many: so do
    # the first points of this order the range of spreads.
    turn = np.argsort(np.arange(geometry.n) * GOLDEN % 1.0, kind="stable")
    ranked = ranked[turn]
    return ranked[np.argsort(-masses[ranked], kind="stable")]


def _sizes(largest, first, tier):
    sizes = [first]
    while sizes[-1] * GROWTH < largest:
        sizes.append(int(sizes[-1] * GROWTH))
    # A level hardly smaller than the next is not worth a linearization.
    smaller = [size for size in sizes if size * 1.2 < largest]
    # Most starts are made as arrays, so that only a dense level can race.
    return smaller or ([] if tier == "dense" else [largest])


def _first_level(shape):
    """Bytes that the first level takes of point clouds: a kernel and a start, the
    profiles of points, and scratch.
    """
    n, m = (min(size, 1.2 * RACE_POINTS) for size in shape)
    scratch = min(SCRATCH_BYTES, 8 * max(n, m) ** 2)
    return 8 * n * m + 8 * 6 * QUANTILES * (n + m) + scratch


def _dense_race(problem, n_threads, itemsize, shape, smooth):
    """Bytes that a race over dense costs takes, with all of its levels; over their
    leading eigenvectors where these are `smooth`.
    """
    if smooth:
        return _smooth_race(problem, n_threads, itemsize, shape)
    sizes = _sizes(max(shape), RACE_POINTS_DENSE, "dense")
    n, m = (min([size, *sizes[:1]]) for size in shape)
    few, n_starts = (n, m), len(default_starts((int(n) or 1, int(m) or 1), 0))
    sized = functools.partial(nbytes, problem, "dense", n_threads)
    # Profiles, and the eigenvectors of roots of costs.
    made = 8 * 3 * QUANTILES * (n + m) + 8 * ROOTS * max(n, m) ** 2
    first = sized(shape=few, n_states=n_starts) + made
    # Only the winner goes on in float64.
    last = sized(shape=shape, itemsize=itemsize)
    if sizes:
        n_states = SECOND_LEVEL_STATES if len(sizes) == 1 else LATER_STATES
        before = sized(shape=few, n_states=LATER_STATES)
        last = max(last, before + sized(shape=shape, n_states=n_states))
    return max(first, last)


def _smooth_race(problem, n_threads, itemsize, shape):
    n, m = shape
    sized = functools.partial(nbytes, problem, "dense", n_threads, shape=shape)
    # A kernel, and the eigenvectors in the forms that there are of them; at first
    # profiles as well, and what those of few points are made of.
    few = min(max(shape), 1.2 * RACE_POINTS_SMOOTH)
    race, first = 4 * n * m + 4 * 12 * RANK * (n + m), 8 * 6 * QUANTILES * (n + m)
    first += 8 * ROOTS * few**2
    return max(
        race + first, race + sized(n_states=LATER_STATES), sized(itemsize=itemsize)
    )


def needs(
    problem,
    n_threads,
    *,
    method=PGD,
    itemsize=4,
    scale=1.0,
    races=True,
    n_states=1,
    smooth=True,
    placement=None,
):
    """Bytes that a solve takes beside its input, by tier; or would with `scale` times
    as many points. Without `races` it is of one start, or of `n_states` on all points;
    unless it is `smooth` eigenvectors of the costs do not do.
    """
    shape = tuple(scale * points for points in problem.shape)
    kind = dict(method=method, shape=shape, itemsize=itemsize, n_states=n_states)
    kind["placement"] = placement
    takes = {
        tier: nbytes(problem, tier, n_threads, **kind)
        for tier in tiers(problem, method)
    }
    if not races or method is not PGD:
        return takes
    if not problem.is_balanced:
        balanced = problem.with_rule(problem.rule.balanced())
        more = needs(balanced, n_threads, scale=scale)
        return {tier: size + more["dense"] for tier, size in takes.items()}
    if is_factored(problem, method):
        first = _first_level(shape)
        return {tier: size + first for tier, size in takes.items()}
    smooth = smooth and has_low_rank(problem, shape)
    return {"dense": _dense_race(problem, n_threads, itemsize, shape, smooth)}


def choose(problem, tier, limit, n_threads, **kind):
    """The tier to use within a limit of bytes: "auto" is the first that fits; `kind`
    are options of `needs`. A MemoryError, which has the sizes, says that none does.
    """
    one_of(tier, "tier", ("auto", *TIERS))
    sized = functools.partial(needs, problem, n_threads, **kind)
    takes = sized()
    if tier != "auto" and tier not in takes:
        raise ValueError(
            f"tier must be 'dense' for costs that are not two point clouds under the "
            f"squared loss, or have a matrix between them, got {tier!r}"
        )
    allowed = takes if tier == "auto" else {tier: takes[tier]}
    for name, size in allowed.items():
        if size <= limit:
            return name
    n, m = problem.shape
    sizes = ", ".join(f"{size / 1e9:.3g} GB ({name})" for name, size in takes.items())
    asked = "" if tier == "auto" else f" with tier={tier!r}"
    raise MemoryError(
        f"a problem of {n} x {m} takes {sizes}, and memory_limit is {limit / 1e9:.3g} "
        f"GB{asked}; {_advice(problem, sized, allowed, limit)}"
    )


def _advice(problem, sized, allowed, limit):
    fitting = [name for name, size in sized().items() if size <= limit]
    if fitting:
        return f"tier={fitting[0]!r} would fit"
    low, high = 0.0, 1.0
    for _ in range(20):
        scale = (low + high) / 2
        fits = min(map(sized(scale=scale).get, allowed)) <= limit
        low, high = (scale, high) if fits else (low, scale)
    n, m = (int(low * size) for size in problem.shape)
    return f"about {n} x {m} would fit" if min(n, m) > 1 else "nothing would fit"
