"""Slices of many spots: matched on few of them first, then on more and more, each time
with less entropy. A level hands on its potentials and the
small state of its linearization.
"""

import contextlib
import dataclasses
import math
import time

import numpy as np
from scipy.stats import chi2

from ..problems.epsilon import Epsilon, Schedule
from ..quadratic.descend import Descent
from ..quadratic.judge import Limits
from ..quadratic.linearize import linearize
from ..quadratic.neighbors import NeighborTier
from ..results.tables import Candidates
from ..solvers.search.confidence import TIE, winner_of
from ..solvers.search.driver import Found, search
from ..solvers.search.levels import fits, spread
from ..solvers.search.portfolio import Entrant, entered
from ..utils.deadline import OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.progress import ProgressEvent

# Spots a side of the first level, where starts race, and the factor to the next: spots
# of one level are twice as far apart as spots of the next level.
FIRST, GROWTH = 1500, 4.0
# Pairs of spots up to which a kernel with all entries is the faster one: 1 GiB.
MAX_DENSE = 1 << 28
# Where slices overlap in part, distances mislead until the overlap is known: starts follow their
# features first, with fractions of `alpha` or of this if it is larger.
MOST_ALPHA = 0.1


def race_of(problem, blur, options):
    """Return `by_levels`, or None if slices of few spots need no more than a race, and the
    options with the tier for "auto": "dense" while that tier is faster and fits, else a
    `NeighborTier` for plans that spread over `blur` spots.

    The linearized problem takes ``alpha r^2 / d`` times the matched mass for a match of
    the spot in the middle that is r spots too far, in d dimensions, and more for
    others, so that the plan of a spot is within a Gaussian; features only narrow it.
    Beyond r is its tail; the number of spots within r is the volume of a ball.
    """
    if not level_sizes(max(problem.shape)):
        return None if problem.is_balanced else by_levels, options
    if options.tier != "auto":
        return by_levels, options
    limit = as_memory_limit(options.memory_limit)
    few = math.prod(problem.shape) <= MAX_DENSE
    if few and fits(problem, dataclasses.replace(options, memory_limit=limit)):
        return by_levels, dataclasses.replace(options, tier="dense")
    d = problem.x.n_coordinates
    # On grids of 50,000 spots .001 leaves .005 of the mass outside of the neighbors.
    r = blur * math.sqrt(chi2.isf(1e-4, d) * d / (2 * problem.mass))
    volume = math.pi ** (d / 2) / math.gamma(d / 2 + 1) * r**d
    return by_levels, dataclasses.replace(options, tier=NeighborTier(math.ceil(volume)))


def by_levels(problem, options, report):
    """Return what is `Found` of a fused problem of the spots of two slices, whose clouds have
    squared distances; `options` have a number as epsilon.
    """
    sides = (problem.x, problem.p), (problem.y, problem.q)
    orders = [along_curve(side.points, masses) for side, masses in sides]
    largest, winner, inside = max(problem.shape), None, None
    sizes = [*level_sizes(largest), largest]
    # The width of the plan, in distances of the level's own spots, is the same on each level; a
    # level ends with the epsilon of the next level, for which its plan is then right.
    epsilons = [options.epsilon.value * largest / size for size in sizes]
    for size, first, last in zip(sizes, epsilons, [*epsilons[1:], None], strict=True):
        report(ProgressEvent("level", f"{size} of {largest} spots", sizes.index(size)))
        rows = [np.sort(one[: -(-size * len(one) // largest)]) for one in orders]
        if last is None:
            part, here, last = problem, options, first
        else:
            kind = dict(
                limits=options.limits.within(
                    Limits(max_outer=40, max_inner=1000, tol=1e-3, marginal_tol=1e-3)
                ),
                callback=None,
            )
            if isinstance(options.tier, NeighborTier):
                # The plan of the level ends as narrow, in spots, as half of them.
                kind["tier"] = NeighborTier(math.ceil(options.tier.k / GROWTH))
            part, here = problem.take(*rows), dataclasses.replace(options, **kind)
        if winner is None:
            epsilon = Epsilon(last, anneal_from=first / last)
            here = dataclasses.replace(here, epsilon=epsilon, tier="dense")
            found = search(part, dataclasses.replace(here, checkpoint=None), report)
            # The confidence of the result tells by this label which starts led to the winner.
            label, tie, candidates = winner_of(found.candidates), found.is_tie, found.candidates
            winner = Entrant(label, found.descent)
            if 0 < problem.alpha < 1 and not problem.is_balanced:
                least = min(1.0, MOST_ALPHA / problem.alpha) * size / largest
                schedule, field = Schedule(last, first, 0.5), [winner]
                for share in (0.1, 0.3):
                    with contextlib.suppress(OutOfTime):
                        field.append(_led_by_features(part, share * least, schedule, here))
                field.sort(key=lambda one: one.gw_cost)
                winner, tie = field[0], False
                candidates = [
                    one.ended("lost" if k else "won").row() for k, one in enumerate(field)
                ]
        else:
            options.limits.deadline.check()
            at = [np.searchsorted(*pair) for pair in zip(rows, inside, strict=True)]
            winner = _promoted(winner, part, at, Schedule(last, first, 0.5), here)
            winner = winner.advance(here.limits, callback=here.callback)
            candidates = [*candidates, winner.ended("won").row()]
        inside = rows
    return Found(winner.descent, tie, Candidates(candidates))


def _led_by_features(part, factor, epsilons, options):
    """Return the `Entrant` that begins where distances weigh `factor` of their weight; OutOfTime
    if there is no time for it.
    """
    options.limits.deadline.check()
    costs = part.replace(alpha=factor * part.alpha)
    costs = linearize(costs, options.threads(part), mechanisms=options.mechanisms)
    epsilon = Schedule(factor * epsilons.first, factor * epsilons.first)
    first = entered(f"alpha={factor * part.alpha:.2g}", costs, epsilon, None, time.perf_counter())
    first = first.advance(options.limits)
    options.limits.deadline.check()
    every = [np.arange(n) for n in part.shape]
    return _promoted(first, part, every, epsilons, options).advance(options.limits)


def disagree(candidates):
    """Return whether the two lowest plans of the first level differ in their objectives."""
    costs = [one.gw_cost for one in candidates[:2]]
    return len(costs) == 2 and costs[1] - costs[0] > TIE * abs(costs[0])


def _promoted(coarse, part, at, epsilons, options):
    """Return the `Entrant` on more spots, among which the coarse ones are `at`."""
    threads, before = options.threads(part), coarse.descent
    costs = linearize(part, threads, options.tier, mechanisms=options.mechanisms)
    epsilon = epsilons.first / costs.cost_scale
    state = costs.extended(before.state, before.linearization, *at, epsilon)
    return Entrant(coarse.label, Descent.at(costs, state, epsilons, change=0.01))


def level_sizes(largest):
    """Spots a side of the levels before the last."""
    sizes, size = [], FIRST
    while size < 0.6 * largest:
        sizes.append(size)
        size = int(size * GROWTH)
    return sizes


def along_curve(points, masses):
    """Return the spots (n,) in an order whose first spots are spread evenly over the slice, which
    keeps its moments: at even steps on Morton's curve. Spots without mass come last.
    """
    low, size = points.min(axis=0), np.ptp(points, axis=0).max() or 1.0
    cells = ((points - low) / size * (2**16 - 1)).astype(np.int64)
    d, code = points.shape[1], np.zeros(len(points), dtype=np.int64)
    for bit in range(min(16, 62 // d)):
        for axis in range(d):
            code |= (cells[:, axis] >> (16 - 1 - bit) & 1) << (62 - bit * d - axis)
    ranked = spread(np.argsort(code, kind="stable"))
    return ranked[np.argsort(masses[ranked] == 0, kind="stable")]
