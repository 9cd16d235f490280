"""Slices of many spots: matched on few of them first, then on more and more, each time
with less entropy. What a level hands on is small, whatever the number of its spots: the
state of its linearization, and potentials.
"""

import dataclasses
import time

import numpy as np
from scipy.spatial import cKDTree

from ..kernels.threads import single_threaded_blas
from ..linear.log_domain import Potentials
from ..linear.truncation import MAX_BOUND
from ..problems.epsilon import Epsilon, Schedule
from ..quadratic.factory import linearize
from ..quadratic.outer_loop import OuterLoop
from ..quadratic.stopping import Limits, RelativeChange
from ..results.candidates import Candidates
from ..results.status import Status
from ..solvers.checkpoint import NOT_KEPT
from ..solvers.contestants import Contestant
from ..solvers.diagnosis import conclude, doubted
from ..solvers.levels import choose, needs
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
# Bits of each coordinate in the place of a spot on a curve.
BITS = 16


def solve_by_levels(problem, options):
    """The `GWResult` of a fused problem of the spots of two slices, whose clouds have
    squared distances; `options` have a number as epsilon.
    """
    began, threads = time.perf_counter(), options.threads(problem)
    limit, largest = as_memory_limit(options.memory_limit), max(problem.shape)
    tier = options.tier
    if tier == "auto":
        tier = _tier(problem, limit, threads, not level_sizes(largest))
    tier = choose(problem, tier or "auto", limit, threads)
    limits = dataclasses.replace(options.limits, rule=StateSettles())
    options = dataclasses.replace(
        options,
        limits=limits,
        memory_limit=limit,
        tier=tier,
        checkpoint=NOT_KEPT,
        placement=None,
    )
    with single_threaded_blas(largest), reporting(options.progress) as report:
        try:
            solution, tie, candidates = _descended(problem, options, report)
            result = conclude(solution, tie, options.limits)
            result = dataclasses.replace(result, candidates=Candidates(candidates))
            result = doubted(problem, result)
        except OutOfTime:
            result = unsolved(problem, options)
    return completed(problem, result, time.perf_counter() - began, limit)


def _descended(problem, options, report):
    """The `Solution` of all spots, `is_tie` and what was tried for it."""
    orders = [
        along_curve(side.points, masses)
        for side, masses in ((problem.x, problem.p), (problem.y, problem.q))
    ]
    largest, limits = max(problem.shape), options.limits
    sizes = [*level_sizes(largest), largest]
    # On few spots the plan is as wide, in distances of these; each level but the last
    # ends with that of the next one, which so begins where what it gets is right.
    epsilons = [options.epsilon.value * largest / size for size in sizes]
    coarse = dict(limits=limits.within(COARSE), callback=None)
    # What a level hands on is there until the next has begun.
    takes = needs(problem, options.threads(problem), races=False)[options.tier]
    room = options.memory_limit - takes
    winner = inside = None
    for k, (size, epsilon) in enumerate(zip(sizes, epsilons, strict=True)):
        report(ProgressEvent("level", f"{size} of {largest} spots", k))
        is_last = size == largest
        rows = [np.sort(one[: -(-size * len(one) // largest)]) for one in orders]
        part = problem if is_last else problem.take(*rows)
        here = dataclasses.replace(options, epsilon=Epsilon(epsilon))
        if not is_last:
            tier = _tier(part, room, options.threads(part), winner is None)
            if tier is None:
                continue
            here = dataclasses.replace(here, tier=tier, **coarse)
        if winner is None:
            winner, tie, candidates = search(part, here, report)
        else:
            limits.deadline.check()
            at = [np.searchsorted(*pair) for pair in zip(rows, inside, strict=True)]
            winner = _promoted(winner, part, at, epsilon, here)
            winner = winner.advance(here.limits, None, here.callback)
            candidates = [*candidates, winner.with_outcome("won").candidate()]
        if not is_last:
            winner = _sharpened(winner, part, epsilons[k + 1], here)
            winner = winner.advance(here.limits)
        inside = rows
    return _certified(winner, here).solution, tie, candidates


def _certified(one, options):
    """The `Contestant` after as many iterations more as it takes, three at most, until
    what a truncated kernel leaves out is known to be little: entries that were chosen
    for the costs before the last step may still serve, or not.
    """
    for _ in range(3):
        bound = one.solution.stepped.update.truncation_bound
        if bound <= MAX_BOUND or one.status != Status.CONVERGED:
            break
        one = one.advance(options.limits, None, options.callback)
    return one


def _tier(part, room, n_threads, is_first):
    """The tier for a level within so many bytes, None if there is none: with a kernel
    that is truncated from the first iteration, as plans are of neighbors. (20,000 spots
    a slice in .26 GB, and in a quarter of the time of a whole kernel.)
    """
    takes = needs(part, n_threads, races=is_first)
    if part.is_balanced and not is_first:
        takes = {tier: takes[tier] for tier in sorted(takes, key="sparse".__ne__)}
    return next((tier for tier, size in takes.items() if size <= room), None)


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


def _promoted(coarse, part, at, epsilon, options):
    """The `Contestant` on more spots, among which the coarse ones are `at`, yet to
    descend.
    """
    before = coarse.loop.linearization
    handed = dict(before.export())
    if not part.is_balanced:
        handed["standing"] = _marginals(handed["standing"], before.problem, part, at)

    def set_state(fork):
        # As after an iteration that hardly changed it: a kernel may be truncated.
        fork.restore(handed, coarse.loop.change, epsilon)
        return coarse.gw_cost

    given = options.threads(part), options.tier
    linearization = linearize(part, *given, mechanisms=options.mechanisms)
    how = Schedule(epsilon, epsilon), set_state, (coarse.loop.potentials, *at)
    return Contestant.at_start(coarse.label, linearization, *how)


def _sharpened(one, part, epsilon, options):
    """The `Contestant` on the same spots with another epsilon, yet to descend."""
    before = one.loop.linearization
    given = options.threads(part), options.tier
    linearization = linearize(part, *given, mechanisms=options.mechanisms)
    linearization.restore(before.export(), one.loop.change, epsilon)
    # What hardly depends on epsilon are the potentials beside a kernel that has the
    # masses as factors; without, that kernel is far from a plan, and nothing to
    # choose entries by.
    factor = (epsilon - one.loop.epsilons.last) / before.cost_scale
    with np.errstate(divide="ignore"):
        added = (factor * np.log(masses) for masses in (part.p, part.q))
    known = one.loop.potentials
    potentials = Potentials(
        *(x + more for x, more in zip((known.f, known.g), added, strict=True))
    )
    how = dict(potentials=potentials)
    loop = OuterLoop(linearization, Schedule(epsilon, epsilon), one.gw_cost, **how)
    return dataclasses.replace(one, loop=loop)


def _marginals(standing, few, part, at):
    """Free marginals on more spots, each of which keeps as much of its mass as the
    nearest of the `few`, and the entropy.
    """
    *sums, entropy = standing
    made, sides = (
        [],
        zip((few.p, few.q), (part.p, part.q), (part.x, part.y), strict=True),
    )
    for kept, rows, (before, masses, cloud) in zip(sums, at, sides, strict=True):
        shares = np.divide(kept, before, out=np.zeros_like(kept), where=before > 0)
        nearest = cKDTree(cloud.points[rows]).query(cloud.points)[1]
        made.append(masses * shares[nearest])
        # Each pair of spots becomes several.
        entropy += kept.sum() * np.log(len(masses) / len(before))
    return *made, entropy
