"""On how many points a problem is solved before all of them, in which tier its kernel
is kept, and how much memory that takes.

- "dense": the kernel in one n x m float32 buffer, the fastest;
- "tiled": never more than a strip of rows a thread; every pass makes the kernel anew,
  a product of 2 n m d flops;
- "neighbors": the entries of a few columns for each row and of a few rows for each
  column, an approximation that has to be asked for.
"""

import dataclasses
import functools
import math

import numpy as np

from ..problems.leading import SPAN
from ..problems.low_rank import has_low_rank
from ..quadratic.factory import TIERS, WHOLE_TIERS, is_factored, is_placed, nbytes, tiers
from ..quadratic.methods import PGD
from ..quadratic.stores import NeighborTier
from ..utils.blocks import SCRATCH_BYTES
from ..utils.golden import golden
from ..utils.validation import one_of
from .starts import QUANTILES, default_starts

# Points a side on which candidates race, mostly enough to tell optima apart on word
# vectors. Dense costs pay two matrix products for what takes point clouds milliseconds.
# Over leading eigenvectors, 1500 points take 1.3 times as long as 1000 on graphs of
# 1500 and 2000 words, and lead to no lower optimum.
RACE_POINTS, RACE_POINTS_DENSE, RACE_POINTS_SMOOTH = 1500, 750, 1000
# Largest factor between the points a side of one level and the next, and the factor up
# to which a level is so close to the next that it is not worth its linearization.
GROWTH, MIN_GROWTH = 3.5, 1.2
# Points in the order "given": how many are the first of these, where fresh starts join
# the race; and how many a level has on which further ones stand for all others.
FIRST_GIVEN, SPREAD_GIVEN = 3000, 6750
# Most candidates on the level after the first, fresh starts included, and on later levels.
SECOND_LEVEL_STATES, LATER_STATES = 4, 2


def level_sizes(problem, tier, *, is_smooth=False, order=None):
    """Points a side of the levels before the whole problem, in increasing order;
    `is_smooth` says that the problem has the leading eigenvectors of costs.
    """
    first = RACE_POINTS if is_factored(problem) else RACE_POINTS_DENSE
    largest, sizes = max(problem.shape), [RACE_POINTS_SMOOTH if is_smooth else first]
    if order == "given" and first * GROWTH * MIN_GROWTH < largest:
        sizes += [FIRST_GIVEN, SPREAD_GIVEN][: 1 + (2 * SPREAD_GIVEN < largest)]
    while sizes[-1] * GROWTH < largest:
        sizes.append(int(sizes[-1] * GROWTH))
    smaller = [size for size in sizes if size * MIN_GROWTH < largest]
    # Most starts are made as arrays, so that only a dense level can race.
    return smaller or ([] if tier == "dense" else [largest])


def points_first(problem, order):
    """For each side all points in the order in which coarse levels take them: in the
    order "given" the first as they are, the others spread evenly over the rest; or the
    largest masses first. Points of equal mass are spread evenly over the range of
    their mean squared costs, which do not depend on the order of rows.
    """
    made = []
    for geometry, masses in ((problem.x, problem.p), (problem.y, problem.q)):
        if order == "given":
            given = np.argsort(masses == 0, kind="stable")
            first, rest = np.split(given, [FIRST_GIVEN])
            made.append(np.append(first, spread(rest)))
            continue
        ranked = spread(np.argsort(geometry.square_times(masses), kind="stable"))
        made.append(ranked[np.argsort(-masses[ranked], kind="stable")])
    return made


def spread(ranked):
    """The same in another order, of which the first few are spread evenly over all."""
    return ranked[np.argsort(golden(len(ranked)), kind="stable")]


def taken(problem, orders, size, order):
    """The problem on that many points of both sides, and which these are. In the order
    "given" those that are spread have the masses of all that they stand for: rare words
    have other costs than frequent ones.
    """
    rows, rule = [np.sort(every[:size]) for every in orders], problem.rule
    if order == "given" and size > FIRST_GIVEN:
        masses = [rule.p.copy(), rule.q.copy()]
        for one, every in zip(masses, orders, strict=True):
            some, rest = every[FIRST_GIVEN:size], every[FIRST_GIVEN:]
            if (mass := one[some].sum()) > 0:
                one[some] *= one[rest].sum() / mass
        rule = dataclasses.replace(rule, p=masses[0], q=masses[1])
    return problem.replace(rule=rule).take(*rows), rows


def _dense_race(problem, n_threads, itemsize, shape, smooth):
    """Bytes that a race over dense costs takes with all of its levels; `smooth` says
    that it is over their leading eigenvectors.
    """
    sized = functools.partial(nbytes, problem, "dense", n_threads)
    n, m = shape
    largest = MIN_GROWTH * (RACE_POINTS_SMOOTH if smooth else RACE_POINTS_DENSE)
    few = [min(size, largest) for size in shape]
    if smooth:
        # A kernel, and the eigenvectors in several forms.
        first = below = 4 * n * m + 4 * 12 * SPAN * (n + m)
    else:
        n_starts = len(default_starts([int(size) or 1 for size in few], 0))
        first, below = (sized(shape=few, n_states=k) for k in (n_starts, LATER_STATES))
    # Profiles, and up to four float64 matrices a side for profiles of square roots, of
    # which eigenvectors save one.
    n_matrices = 3 if smooth else 4
    first += 8 * 6 * QUANTILES * (n + m) + 8 * n_matrices * max(few) ** 2
    # Only the winner goes on in float64.
    last = sized(shape=shape, itemsize=itemsize)
    if smooth or max(shape) > largest:
        is_second = not smooth and max(shape) <= GROWTH * largest
        n_states = SECOND_LEVEL_STATES if is_second else LATER_STATES
        last = max(last, below + sized(shape=shape, n_states=n_states))
    return max(first, last)


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
    neighbors="neighbors",
):
    """Bytes that a solve takes beside its input, by tier, with `scale` times as many points.
    Without `races` it has one start, or `n_states` candidates on all points. `smooth` allows for a
    race over the leading eigenvectors of the costs, and `neighbors` may be a `NeighborTier`.
    """
    n, m = shape = tuple(scale * points for points in problem.shape)
    kind = dict(method=method, shape=shape, itemsize=itemsize, n_states=n_states)
    kind["placement"] = placement
    takes = {
        tier: nbytes(problem, neighbors if tier == "neighbors" else tier, n_threads, **kind)
        for tier in tiers(problem, method)
    }
    if not races or method is not PGD:
        return takes
    if not problem.is_balanced:
        balanced = problem.replace(rule=problem.rule.balanced())
        first = needs(balanced, n_threads, scale=scale, neighbors=neighbors)
        # The balanced problem has the tier "neighbors" if this one has.
        return {
            tier: size + first[tier if tier == "neighbors" else "dense"]
            for tier, size in takes.items()
        }
    if is_factored(problem, method):
        # A kernel and a start of the first level, profiles and scratch; the first two
        # are there until the last level has begun.
        n, m = (min(size, MIN_GROWTH * RACE_POINTS) for size in shape)
        scratch, kept = min(SCRATCH_BYTES, 8 * max(n, m) ** 2), 8 * n * m
        first = kept + 8 * 6 * QUANTILES * (n + m) + scratch
        return {tier: max(size + kept, first) for tier, size in takes.items()}
    smooth = smooth and has_low_rank(problem, shape)
    return {"dense": _dense_race(problem, n_threads, itemsize, shape, smooth)}


def fits(problem, options, tier="dense", times=1, **kind):
    """Whether so many solves at a time are within the memory limit of the options;
    `kind` are options of `needs`.
    """
    kind["placement"] = options.placement
    size = needs(problem, options.threads(problem), **kind)[tier]
    return times * size <= options.memory_limit


def choose(problem, tier, limit, n_threads, **kind):
    """The tier to use within a limit of bytes: "auto" is the first that fits. `kind`
    are options of `needs`. MemoryError, with the sizes, if none fits.
    """
    method, neighbors = kind.get("method", PGD), NeighborTier.of(tier)
    name = one_of(str(tier) if neighbors else tier, "tier", ("auto", *TIERS))
    if name == "auto" and limit == math.inf:
        return tiers(problem, method)[0]
    if neighbors and is_placed(problem, kind.get("placement"), method):
        raise ValueError(f"tier must be 'auto', 'dense' or 'tiled' on a cluster, got {tier!r}")
    sized = functools.partial(needs, problem, n_threads, **kind)
    if neighbors:
        sized.keywords["neighbors"] = neighbors
    takes = sized()
    if name != "auto" and name not in takes:
        raise ValueError(
            f"tier must be 'dense' for costs that are not two point clouds under the "
            f"squared loss, or have a matrix between them, got {tier!r}"
        )
    # Neighbors are an approximation, for those who ask for it.
    names = [name] if name != "auto" else [x for x in takes if x in WHOLE_TIERS]
    allowed = {name: takes[name] for name in names}
    for name, size in allowed.items():
        if size <= limit:
            return neighbors or name
    n, m = problem.shape
    sizes = ", ".join(f"{size / 1e9:.3g} GB ({name})" for name, size in takes.items())
    asked = "" if tier == "auto" else f" with tier={tier!r}"
    raise MemoryError(
        f"a problem of {n} x {m} takes {sizes}, and memory_limit is {limit / 1e9:.3g} "
        f"GB{asked}; {_what_fits(problem, sized, allowed, limit)} would fit"
    )


def _what_fits(problem, sized, allowed, limit):
    fitting = [name for name, size in sized().items() if size <= limit]
    if fitting:
        return f"tier={fitting[0]!r}"
    low, high = 0.0, 1.0
    for _ in range(20):
        scale = (low + high) / 2
        fits = min(map(sized(scale=scale).get, allowed)) <= limit
        low, high = (scale, high) if fits else (low, scale)
    n, m = (int(low * size) for size in problem.shape)
    return f"about {n} x {m}" if min(n, m) > 1 else "nothing"
