"""From coarse to fine: on which points, costs and precisions a problem is solved before the whole
problem, in which tier its kernel is kept, and how much memory that takes.

Tiers: "dense" has the kernel in one float32 buffer, "tiled" makes it anew, a few rows at a time,
"neighbors" keeps a few entries of each row and column, an approximation that has to be asked for.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np

from ...problems.low_rank import low_rank_problem
from ...problems.quadratic import QuadraticProblem
from ...quadratic.linearize import (
    TIERS,
    WHOLE_TIERS,
    Tier,
    is_factored,
    is_placed,
    linearize,
    nbytes,
    tiers,
)
from ...quadratic.methods import PGD
from ...quadratic.neighbors import NeighborTier
from ...utils.precision import SINGLE, FloatPrecision
from ...utils.validation import one_of
from .starts import QUANTILES

# Points a side on which starts race: matrices, clouds, and leading eigenvectors of costs.
RACE_POINTS, RACE_POINTS_SMOOTH = (750, 1500), 1000
# Largest and least factor between the points of one level and the next.
GROWTH, MIN_GROWTH = 3.5, 1.2
# Points in the order "given": how many are the first, and on a level that has others, too.
FIRST_GIVEN, SPREAD_GIVEN = 3000, 6750
# Entries from which on a float64 solve begins in float32.
MIN_FLOAT32_ENTRIES = 1 << 16


class Level(NamedTuple):
    """A problem of some points, which are these rows of either side, or of all points."""

    problem: QuadraticProblem
    rows: list
    tier: Tier
    precision: FloatPrecision

    def linearization(self, options):
        """Return the `Linearization`, and the `Schedule` of epsilon."""
        threads, single = options.threads(self.problem), self.precision is SINGLE
        at = linearize(
            self.problem,
            threads,
            self.tier,
            method=options.method,
            precision=self.precision,
            deadline=options.limits.deadline,
            mechanisms=options.mechanisms,
            placement=options.placement,
        )
        schedule = at.schedule(options.epsilon)
        if single and options.precision is not SINGLE:
            # Float32 only finds the start here.
            least = SINGLE.min_epsilon * at.cost_scale
            last, first = max(schedule.last, least), max(schedule.first, least)
            schedule = dataclasses.replace(schedule, last=last, first=first)
        return at, schedule


def ladder(problem, options, *, races):
    """Yield the levels of a solve, the whole problem as the last; default starts race on few points
    first if it `races`.
    """
    rows, threads = [np.arange(n) for n in problem.shape], options.threads(problem)
    levels, smooth, single = options.mechanisms.levels, None, options.precision is SINGLE
    pgd = options.method is PGD
    coarse = pgd and problem.is_balanced and levels
    few = (races and not coarse) or options.limits.max_outer < 50
    if pgd and not (few or is_placed(problem, options.placement)) and levels:
        smooth = low_rank_problem(problem, threads)
    if coarse and races:
        source, order = smooth or problem, options.order
        orders = points_first(problem, order)
        for size in level_sizes(source, options.tier, smooth is not None, order):
            part, some = taken(source, orders, size, order)
            yield Level(part, some, "dense", SINGLE)
    if smooth is not None:
        yield Level(smooth, rows, "dense", SINGLE)
    many = problem.shape[0] * problem.shape[1] >= MIN_FLOAT32_ENTRIES and not few
    if not single and pgd and (coarse if races else many and levels):
        yield Level(problem, rows, "dense", SINGLE)
    yield Level(problem, rows, options.tier, options.precision)


def level_sizes(problem, tier, is_smooth=False, order=None):
    """Return the points a side of the levels before the whole problem, in increasing order."""
    first = RACE_POINTS_SMOOTH if is_smooth else RACE_POINTS[is_factored(problem)]
    largest, sizes = max(problem.shape), [first]
    if order == "given" and first * GROWTH * MIN_GROWTH < largest:
        sizes += [FIRST_GIVEN, SPREAD_GIVEN][: 1 + (2 * SPREAD_GIVEN < largest)]
    while sizes[-1] * GROWTH < largest:
        sizes.append(int(sizes[-1] * GROWTH))
    smaller = [size for size in sizes if size * MIN_GROWTH < largest]
    # Most starts are made as arrays, so that only a dense level can race.
    return smaller or ([] if tier == "dense" or is_smooth else [largest])


def points_first(problem, order):
    """Return for each side all points in the order in which coarse levels take them: in the order
    "given" the first as they are, the others spread evenly over the rest; or the largest masses
    first, points of equal mass spread evenly over their mean squared costs.
    """
    orders = []
    for geometry, masses in ((problem.x, problem.p), (problem.y, problem.q)):
        if order == "given":
            first, rest = np.split(np.argsort(masses == 0, kind="stable"), [FIRST_GIVEN])
            orders.append(np.append(first, spread(rest)))
        else:
            ranked = spread(np.argsort(geometry.square_times(masses), kind="stable"))
            orders.append(ranked[np.argsort(-masses[ranked], kind="stable")])
    return orders


def spread(ranked):
    """Return the same in another order, the first few spread evenly over all."""
    # Multiples of the golden ratio modulo one: the first k fill the interval evenly, for every k.
    golden = np.arange(len(ranked)) * ((np.sqrt(5.0) - 1.0) / 2.0) % 1.0
    return ranked[np.argsort(golden, kind="stable")]


def taken(problem, orders, size, order):
    """Return the problem on that many points of both sides, and which points these are. Points
    that stand for others have their masses: rare words have other costs than frequent ones.
    """
    rows, rule = [np.sort(every[:size]) for every in orders], problem.rule
    if order == "given" and size > FIRST_GIVEN:
        masses = [rule.p.copy(), rule.q.copy()]
        for side, every in zip(masses, orders, strict=True):
            some, rest = every[FIRST_GIVEN:size], every[FIRST_GIVEN:]
            if (mass := side[some].sum()) > 0:
                side[some] *= side[rest].sum() / mass
        rule = dataclasses.replace(rule, p=masses[0], q=masses[1])
    return problem.replace(rule=rule).take(*rows), rows


def needs(
    problem,
    n_threads,
    *,
    method=PGD,
    itemsize=4,
    scale=1.0,
    races=True,
    n_states=1,
    placement=None,
    neighbors="neighbors",
):
    """Return bytes by tier, less the input, with `scale` times the points: of one start or, if it
    `races`, of a race on few points and two starts on all.
    """
    shape = tuple(scale * points for points in problem.shape)
    sized = functools.partial(nbytes, problem, n_threads=n_threads, placement=placement)
    races = races and method is PGD
    factored, balanced = is_factored(problem, method), problem.is_balanced
    n_states = max(n_states, 2 if races and balanced and not factored else 1)
    bytes_of = {
        tier: sized(
            tier=neighbors if tier == "neighbors" else tier,
            method=method,
            shape=shape,
            itemsize=itemsize,
            n_states=n_states,
        )
        for tier in tiers(problem, method)
    }
    if not races:
        return bytes_of
    if not balanced:
        balanced = problem.replace(rule=problem.rule.balanced())
        first = needs(balanced, n_threads, scale=scale, neighbors=neighbors)
        # The balanced problem has the tier "neighbors" if this one has.
        return {
            tier: size + first[tier if tier == "neighbors" else "dense"]
            for tier, size in bytes_of.items()
        }
    few, points = shape, RACE_POINTS[factored]
    if max(shape) > MIN_GROWTH * points:
        few = tuple(min(size, points) for size in shape)
    race = sized(tier="dense", shape=few, n_states=1 if factored else 7)
    profiles = 16 * QUANTILES * sum(few)
    race += 8 * few[0] * few[1] + 3 * profiles
    return {tier: max(size + profiles, race) for tier, size in bytes_of.items()}


def fits(problem, options, tier="dense", **how):
    """Return whether a solve is within the memory limit of the options; for `how` see `needs`."""
    how["placement"] = options.placement
    if options.memory_limit is None:
        return True
    return needs(problem, options.threads(problem), **how)[tier] <= options.memory_limit


def choose(problem, tier, limit, n_threads, **how):
    """Return the tier to use within a limit of bytes: "auto" is the first that fits; MemoryError,
    with the sizes, if none fits. For `how` see `needs`.
    """
    method, neighbors = how.get("method", PGD), NeighborTier.of(tier)
    name = one_of(str(tier) if neighbors else tier, "tier", ("auto", *TIERS))
    if name == "auto" and limit == math.inf:
        return tiers(problem, method)[0]
    if neighbors and is_placed(problem, how.get("placement"), method):
        raise ValueError(f"tier must be 'auto', 'dense' or 'tiled' on a cluster, got {tier!r}")
    if neighbors:
        how["neighbors"] = neighbors
    sized = functools.partial(needs, problem, n_threads, **how)
    bytes_of = sized()
    if name != "auto" and name not in bytes_of:
        raise ValueError(
            f"tier must be 'dense' for costs that are not two point clouds under the "
            f"squared loss, or have a matrix between them, got {tier!r}"
        )
    # Neighbors are an approximation, which has to be asked for.
    allowed = [name] if name != "auto" else [one for one in bytes_of if one in WHOLE_TIERS]
    for one in allowed:
        if bytes_of[one] <= limit:
            return neighbors or one
    n, m = problem.shape
    sizes = ", ".join(f"{size / 1e9:.3g} GB ({one})" for one, size in bytes_of.items())
    asked = "" if tier == "auto" else f" with tier={tier!r}"
    fitting = next((f"tier={one!r}" for one, size in bytes_of.items() if size <= limit), None)
    raise MemoryError(
        f"a problem of {n} x {m} takes {sizes}, and memory_limit is {limit / 1e9:.3g} "
        f"GB{asked}; {fitting or _largest(problem, sized, allowed, limit)} would fit"
    )


def _largest(problem, sized, allowed, limit):
    """Return the size of a problem of the same kind that fits, as text."""
    low, high = 0.0, 1.0
    for _ in range(20):
        scale = (low + high) / 2
        bytes_of = sized(scale=scale)
        fitting = min(bytes_of[tier] for tier in allowed) <= limit
        low, high = (scale, high) if fitting else (low, scale)
    n, m = (int(low * size) for size in problem.shape)
    return f"about {n} x {m}" if min(n, m) > 1 else "nothing"
