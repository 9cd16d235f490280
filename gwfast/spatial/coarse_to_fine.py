"""Slices of many spots: matched on few of them first, then on more and more, each time
with less entropy. What a level hands on is small, whatever the number of its spots: the
state of its linearization, and potentials.
"""

import dataclasses
import math
import time

import numpy as np
from scipy.stats import chi2

from ..kernels.threads import single_threaded_blas
from ..problems.epsilon import Epsilon, Schedule
from ..quadratic.factory import linearize
from ..quadratic.stopping import Limits, RelativeChange
from ..quadratic.stores import NeighborTier
from ..results.candidates import Candidates
from ..solvers.checkpoint import NOT_KEPT
from ..solvers.contestants import promote
from ..solvers.diagnosis import conclude, doubted
from ..solvers.levels import choose
from ..solvers.product_plan import completed, unsolved
from ..solvers.race import search
from ..utils.deadline import OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.progress import ProgressEvent, reporting

# Spots a side of the first level, where starts race, and the factor to the next: spots
# of one level are twice as far apart as those of the next.
FIRST, GROWTH = 1500, 4.0
# Fraction of all spots from which on a level has all.
NEARLY_ALL = 0.6
# Part of the mass of a plan between neighbors that may be outside of those kept: as
# much moves no match.
OUTSIDE = 0.01
# Bits of each coordinate in the place of a spot on a curve.
BITS = 16


class StateSettles(RelativeChange):
    """The state changes by at most the tolerance, relatively.

    The objective is no help here: it is the difference of terms that grow with the
    slice, and a marginal error within tolerance moves it by more than the tolerance.
    """

    def inner_tol(self, tol, rough, precision):
        # The marginals have the same tolerance, which last plans are to meet.
        return max(tol / 3, precision.inner_tol)

    def in_kernel(self, limits, linearization, epsilon):
        return None

    def judge(self, seen):
        return seen.change <= seen.tol, False


# Limits of the levels before the last.
COARSE = Limits(
    max_outer=40, max_inner=1000, tol=1e-3, marginal_tol=1e-3, rule=StateSettles()
)


def solve_by_levels(problem, options):
    """The `GWResult` of a fused problem of the spots of two slices, whose clouds have
    squared distances; `options` have a number as epsilon, and no "auto" as tier.
    """
    began, threads = time.perf_counter(), options.threads(problem)
    limit, races = as_memory_limit(options.memory_limit), problem.is_balanced
    tier = choose(problem, options.tier, limit, threads, races=races)
    given = dict(memory_limit=limit, tier=tier, checkpoint=NOT_KEPT, placement=None)
    options = dataclasses.replace(options, **given)
    with (
        single_threaded_blas(max(problem.shape)),
        reporting(options.progress) as report,
    ):
        try:
            winner, tie, candidates = _descended(problem, options, report)
            result = conclude(winner.solution, tie, options.limits)
            result = dataclasses.replace(result, candidates=Candidates(candidates))
            result = doubted(problem, result)
        except OutOfTime:
            result = unsolved(problem, options)
    return completed(problem, result, time.perf_counter() - began, limit)


def _descended(problem, options, report):
    """The `Contestant` on all spots, `is_tie` and what was tried for it."""
    sides = (problem.x, problem.p), (problem.y, problem.q)
    orders = [along_curve(side.points, masses) for side, masses in sides]
    largest, limits, winner = max(problem.shape), options.limits, None
    for number, size in enumerate([*level_sizes(largest), largest]):
        report(ProgressEvent("level", f"{size} of {largest} spots", number))
        rows = [np.sort(one[: -(-size * len(one) // largest)]) for one in orders]
        part = problem if size == largest else problem.take(*rows)
        # On few spots the plan is as wide, in distances of these.
        epsilon = options.epsilon.value * largest / size
        until = limits if size == largest else limits.within(COARSE)
        if winner is None:
            first = dict(tier="dense", limits=until, epsilon=Epsilon(epsilon))
            here = dataclasses.replace(options, callback=None, **first)
            winner, tie, candidates = search(part, here, report)
        else:
            limits.deadline.check()
            at = [np.searchsorted(*pair) for pair in zip(rows, inside, strict=True)]
            costs = linearize(
                part, options.threads(part), options.tier, mechanisms=options.mechanisms
            )
            winner = promote(winner, costs, Schedule(epsilon, epsilon), at)
            callback = options.callback if size == largest else None
            winner = winner.advance(until, None, callback)
            candidates = [*candidates, winner.with_outcome("won").candidate()]
        inside = rows
    return winner, tie, candidates


def level_sizes(largest):
    """Spots a side of the levels before the last."""
    sizes, size = [], FIRST
    while size < NEARLY_ALL * largest:
        sizes.append(size)
        size = int(size * GROWTH)
    return sizes


def along_curve(points, masses):
    """The spots (n,) in an order whose first ones are spread evenly over the slice, as
    its moments are then those of few spots: at even steps on Morton's curve through
    all. Those without mass come last.
    """
    low, size = points.min(axis=0), np.ptp(points, axis=0).max() or 1.0
    cells = ((points - low) / size * (2**BITS - 1)).astype(np.int64)
    d, code = points.shape[1], np.zeros(len(points), dtype=np.int64)
    for bit in range(min(BITS, 62 // d)):
        for axis in range(d):
            code |= (cells[:, axis] >> (BITS - 1 - bit) & 1) << (62 - bit * d - axis)
    ranked = np.argsort(code, kind="stable")
    # However many multiples of the golden ratio there are, modulo one they fill the
    # unit interval evenly.
    golden = np.arange(len(points)) * ((np.sqrt(5.0) - 1.0) / 2.0)
    ranked = ranked[np.argsort(golden % 1.0, kind="stable")]
    return ranked[np.argsort(masses[ranked] == 0, kind="stable")]


def neighbors_of(blur, d):
    """The `NeighborTier` for plans that spread over `blur` spots of `d` dimensions.

    A match that is r spots too far costs ``alpha r^2`` in the linearized problem, so
    that the plan of a spot is ``exp(-r^2 / blur^2)`` at most: features only narrow it.
    What is beyond r is a Gaussian tail, and within r are as many spots as the unit
    ball's volume times ``r^d``, a seventh more on a grid of triangles.
    """
    r = blur * math.sqrt(chi2.isf(OUTSIDE, d) / 2)
    return NeighborTier(math.ceil(math.pi ** (d / 2) / math.gamma(d / 2 + 1) * r**d))
