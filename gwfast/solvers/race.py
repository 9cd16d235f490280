"""Which start leads to the lowest optimum: candidates race on few points, and the
winner goes on from coarse to fine.

Candidates share costs and buffers and take turns. After every round those that follow
another into the same optimum are dropped, and the worse half by `gw_cost`, compared at
equal epsilon; no correspondence is ever looked at.
"""

import dataclasses
import time

import numpy as np

from ..kernels.threads import resolve_n_threads
from ..linear.sinkhorn_solver import in_units
from ..problems.epsilon import Schedule
from ..quadratic.factory import linearize
from ..quadratic.outer_loop import OuterLoop
from ..quadratic.solution import Solution, WarmStart
from ..quadratic.stopping import Limits
from ..results.result import Candidate, Candidates
from ..results.status import Status
from .levels import level_sizes, nbytes
from .starts import WIDTH, Product, Profile, Random, start_plan

# Points a side up to which the second level can afford two fresh starts.
CHEAP_POINTS = 3500
# Outer iterations after which candidates are compared; the first comparison comes when
# all annealing is over. On the word vectors and cells measured, a start that led to the
# lowest optimum was among the first five of thirty by then.
ROUNDS = (8, 20, 40, 80)
ANNEALING_STEPS = 7
# What the race, and levels on the way to the last, are worth. The objective of a plan
# that misses its marginals is off by about that much of the largest terms in it, so the
# race, which compares them, is stricter.
RACE = Limits(max_outer=ROUNDS[-1], max_inner=1000, tol=1e-4, marginal_tol=1e-4)
COARSE = Limits(max_outer=ROUNDS[-1], max_inner=1000, tol=1e-3, marginal_tol=1e-3)
# States that differ by less than this (relatively) with objectives that do are on the
# way to the same optimum. Mirror images differ by 0.5 to 1.4.
SAME_STATE, SAME_COST = 0.3, 0.05
# A state that differs from the product plan's by less, relatively, is that.
NO_STATE = 1e-5
# Two different optima are a tie where their objectives differ by less; what is close to
# that during the race is not dropped, up to so many.
TIE, CLOSE, MOST_CLOSE = 1e-3, 5e-3, 2
# An annealed candidate begins at this multiple of epsilon, or at this share of the mean
# pseudo-cost where that is more.
ANNEAL_FROM, ANNEAL_FROM_RELATIVE = 3.0, 0.05
# Random starts: as many as cost about as much as the others on a large problem. Graphs
# of a few hundred points have many optima.
RANDOM_WORK, FEWEST_RANDOM, MOST_RANDOM = 1_500_000, 1, 48
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


@dataclasses.dataclass
class Runner:
    """A start and its loop."""

    label: str
    loop: OuterLoop
    seconds: float
    fate: str = "ahead"
    solution: Solution | None = None

    def run(self, limits, callback=None):
        self.solution = self.loop.run(limits, callback)

    @property
    def gw_cost(self):
        return self.loop.gw_cost

    @property
    def n_outer(self):
        return len(self.loop.history)

    @property
    def is_moving(self):
        return self.solution is None or self.solution.status == Status.MAX_OUTER

    def candidate(self):
        loop = self.loop
        return Candidate(
            start=self.label,
            n_points=max(loop.linearization.problem.shape),
            epsilon=loop.epsilons.last,
            gw_cost=loop.gw_cost,
            n_outer=self.n_outer,
            seconds=self.seconds + loop.seconds,
            fate=self.fate,
        )


def default_starts(shape, seed, n_random=None):
    """Pairs of a start and whether to anneal it, for a problem of this shape."""
    if n_random is None:
        n_random = RANDOM_WORK // (shape[0] * shape[1])
        n_random = min(max(n_random, FEWEST_RANDOM), MOST_RANDOM)
    return [
        (Profile(), False),
        (Profile(), True),
        (Profile(width=0.05), False),
        (Profile(root=True), False),
        (Product(), False),
        *((Random(seed + k), False) for k in range(n_random)),
    ]


def search(
    problem, epsilon, limits, *, order, n_threads, tier, limit, seed, callback, watch
):
    """Solve a problem from the best of the default starts.

    Parameters
    ----------
    problem : QuadraticProblem
    epsilon : Epsilon
    limits : Limits
    order : "given" or "mass"
        Which points the first levels have: the first ones, or those with most mass.
        Among equal masses these are spread evenly over the mean squared costs of
        points, which do not depend on the order of rows either.
    n_threads, seed : int
    tier : {"dense", "sparse", "tiled"}
        Of the last level.
    limit : float
        Bytes; levels before the last are dense, and left out where that is too much.
    callback : callable or None
        For the outer iterations of the last descent.
    watch : callable
        ``watch(text)`` is told what is going on.

    Returns
    -------
    winner : Descent
        After its last `advance`.
    tie : bool
        Whether another descent ended in another optimum that is as good.
    candidates : Candidates
    """
    orders = [
        _order(*side, order)
        for side in ((problem.x, problem.p), (problem.y, problem.q))
    ]
    runners, inside, candidates = None, None, []
    for number, size in enumerate([*level_sizes(problem, tier), None]):
        rows = [np.sort(every[:size]) for every in orders]
        part = problem if size is None else problem.take(*rows)
        threads = resolve_n_threads(n_threads, work=part.shape[0] * part.shape[1])
        kept = tier if size is None else "dense"
        if number > 0 and size is not None and nbytes(part, kept, threads) > limit:
            continue
        linearization = linearize(part, threads, kept)
        epsilons = hurried(epsilon.resolve(linearization))
        if number == 0:
            starts = default_starts(part.shape, seed)
            runners = line_up(linearization, epsilons, starts, watch)
        else:
            at = [np.searchsorted(*pair) for pair in zip(rows, inside, strict=True)]
            runners = [_promote(one, linearization, epsilons, at) for one in runners]
        if number == 1 and kept == "dense":
            # The few points of the race may have had other optima than all have.
            widths = (0.05, WIDTH) if max(part.shape) <= CHEAP_POINTS else (0.05,)
            fresh = [(Profile(width), False) for width in widths]
            newcomers = line_up(linearization, epsilons, fresh, watch)
            for newcomer in newcomers:
                newcomer.label = f"fresh {newcomer.label}"
            runners += newcomers
        part.profiles.clear()  # all starts are made
        inside, field = rows, runners
        # What starts anew has to catch up with what comes from below.
        runners = race(
            runners,
            limits.max_outer - 1 if size is None else RACE.max_outer,
            limits.max_inner,
            watch,
            spare=number == 1,
        )
        if size is None:
            tie = finish(runners, limits, callback, watch)
        else:
            few = min(COARSE.max_inner, limits.max_inner)
            for runner in runners:
                runner.fate = "went on"
                if runner.is_moving:
                    runner.run(dataclasses.replace(COARSE, max_inner=few))
        candidates += [runner.candidate() for runner in field]
    return runners[0], tie, Candidates(candidates)


def line_up(linearization, epsilons, starts, watch):
    """A runner for every pair of a start and whether to anneal it."""
    runners, n_threads = [], linearization.n_threads
    for k, (start, annealed) in enumerate(starts, start=1):
        schedule, label = epsilons, str(start)
        if annealed:
            schedule, label = _annealed(epsilons, linearization), f"{label}, annealed"
        watch(f"start {k} of {len(starts)}: {label}")
        began = time.perf_counter()
        fork = linearization.fork()
        plan = start_plan(start, linearization.problem, n_threads)
        gw_cost = fork.start(plan)
        loop = OuterLoop(fork, schedule, gw_cost)
        runners.append(Runner(label, loop, time.perf_counter() - began))
    return runners


def resume(runner, epsilon):
    """A runner at another epsilon from where one ended, which gives up its state."""
    fork = runner.loop.linearization.fork()
    loop = OuterLoop(fork, Schedule.constant(epsilon), runner.gw_cost)
    return Runner(f"epsilon {runner.loop.epsilons.last:.3g}", loop, 0.0)


def race(runners, max_outer, max_inner, watch, *, spare=False):
    """Advance all in rounds, dropping the worse half, until one is left.

    With `spare`, the first round only drops what comes to the same optimum.

    Returns
    -------
    list of Runner
        By `gw_cost`; more than one where the others are different and nearly as good.
    """
    for number, n_outer in enumerate(ROUNDS, start=1):
        if len(runners) == 1:
            break
        most, few = min(n_outer, max_outer), min(RACE.max_inner, max_inner)
        for k, runner in enumerate(runners, start=1):
            watch(f"round {number}: candidate {k} of {len(runners)}")
            if runner.n_outer < most and runner.is_moving:
                runner.run(dataclasses.replace(RACE, max_outer=most, max_inner=few))
        runners = _distinct(sorted(runners, key=_rank))
        keep = sum(_as_good(runner, runners[0], CLOSE) for runner in runners)
        keep = min(keep, MOST_CLOSE)
        if spare and number == 1:
            keep = len(runners)
        elif number < len(ROUNDS):
            keep = max(keep, len(runners) // 2)
        for runner in runners[keep:]:
            runner.fate = f"dropped in round {number}"
        runners = runners[:keep]
    return runners


def finish(runners, limits, callback, watch):
    """Take the runners that are left to the end; puts the best first.

    Returns
    -------
    bool
        Whether another one ended in another optimum that is as good.
    """
    if len(runners) > 1:
        # All but one iteration: the plan in the common buffer has to be the best one's.
        before = dataclasses.replace(limits, max_outer=max(limits.max_outer - 1, 1))
        for runner in runners:
            watch(f"solving from {runner.label}")
            if runner.n_outer < limits.max_outer - 1:
                runner.run(before)
        runners.sort(key=_rank)
    best = runners[0]
    watch(f"solving from {best.label}")
    best.run(limits, callback)
    best.fate, tie = "won", False
    for runner in runners[1:]:
        runner.fate = "lost"
        if _as_good(runner, best, TIE):
            same = _distance(runner.loop, best.loop) < SAME_STATE
            runner.fate = f"same as {best.label}" if same else "tie"
            tie = tie or not same
    return tie


def _rank(runner):
    """By objective; what is not a number comes last."""
    return runner.gw_cost if runner.gw_cost == runner.gw_cost else np.inf


def _as_good(runner, best, share):
    """Whether its objective exceeds that of the best by at most a share of it."""
    rounding = 1e-6 * best.loop.linearization.magnitude
    return runner is best or (
        runner.gw_cost - best.gw_cost <= share * abs(best.gw_cost) + rounding
    )


def _order(geometry, masses, order):
    """All points, those that the first levels should have first."""
    if order == "given":
        return np.argsort(masses == 0, kind="stable")
    ranked = np.argsort(geometry.square_times(masses), kind="stable")
    # Multiples of the golden ratio fill the unit interval evenly, however many: so do
    # the first points of this order the range of spreads.
    turn = np.argsort(np.arange(geometry.n) * GOLDEN % 1.0, kind="stable")
    ranked = ranked[turn]
    return ranked[np.argsort(-masses[ranked], kind="stable")]


def _annealed(epsilons, linearization):
    first = ANNEAL_FROM_RELATIVE * linearization.product_cost
    first = max(ANNEAL_FROM * epsilons.last, first)
    return hurried(Schedule(epsilons.last, first))


def hurried(epsilons):
    """The schedule so steep that it is over before candidates are compared."""
    factor = (epsilons.last / epsilons.first) ** (1.0 / ANNEALING_STEPS)
    return dataclasses.replace(epsilons, factor=min(factor, epsilons.factor))


def _promote(runner, linearization, epsilons, at):
    """The runner on more points, among which `at` are those it had."""
    began = time.perf_counter()
    fork = linearization.fork()
    gw_cost = fork.start_from(runner.loop.linearization, *at)
    schedule = Schedule.constant(epsilons.last)
    epsilon = in_units(schedule.last, fork.cost_scale, fork.precision)
    start = WarmStart.from_subset(runner.solution, fork, *at, epsilon)
    loop = OuterLoop(fork, schedule, gw_cost, warm_start=start)
    return Runner(runner.label, loop, time.perf_counter() - began)


def _distinct(runners):
    """Without those that are on the way to the optimum of one before them."""
    kept = []
    for runner in runners:
        for other in kept:
            close = _as_good(runner, other, SAME_COST)
            if close and _distance(runner.loop, other.loop) < SAME_STATE:
                runner.fate = f"same as {other.label}"
                break
        else:
            kept.append(runner)
    return kept


def _distance(one, other):
    """Relative distance of two states from one another, 0 to about 1.4."""
    one, other = one.linearization.deviation(), other.linearization.deviation()
    size = max(np.linalg.norm(one), np.linalg.norm(other))
    return np.linalg.norm(one - other) / size if size > NO_STATE else 0.0
