"""The exact search: descents with entropy from many plans, the best of which go on with
less of it, and in the end with none.

The objective has many local minima at the vertices, of which conditional gradient finds the
nearest. Entropy smooths it: with much there are few minima, and which of these is the lowest says
which vertices are (deterministic annealing: Rose, Gurewitz and Fox, Physical Review Letters 1990).
On 20 pairs of curves and graphs of 50 to 100 points this search ends by mean where exact descents
from a whole race with entropy do, in a tenth of the time; the best of 33 exact descents, which
take twice as long as this, is 3 % above.
"""

import contextlib
import dataclasses
import itertools
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ..problems.epsilon import Epsilon
from ..quadratic import dense
from ..quadratic.frank_wolfe import ExactLimits, FrankWolfe
from ..quadratic.methods import PGD
from ..quadratic.outer_loop import OuterLoop
from ..quadratic.small_descent import SmallDescent
from ..quadratic.stopping import Limits
from ..results.result import GWResult
from ..results.tables import Candidate, Candidates
from ..utils.deadline import OutOfTime, Patience
from ..utils.progress import ProgressEvent
from .agreement import LEVEL, confidence_of
from .isomorphism import isomorphisms


class Level(NamedTuple):
    """Epsilon as a fraction of the objective of the product plan, the `tol` of descents
    with it, and how many of their plans go on.
    """

    epsilon: float
    tol: float
    n_left: int


# On 20 pairs of curves and graphs of 50 to 100 points ends are by mean .2 % higher with .085
# first, or with one and a half times the first tolerance. With another level, with .05 or .06
# first, with a fifth of the tolerance or with four plans left they are the same to .1 %, and take
# up to a third longer. Exact descents from all plans of the first level end .5 % higher.
LEVELS = Level(0.07, 0.05, 3), Level(0.03, 0.03, 2), Level(0.012, 0.02, 2)
# What the product plan begins with a second time: between words a descent from there
# hardly moves with more within the tolerance, and ends are up to 4 % higher.
LATE = 0.05
# Of all descents with entropy: plans are rough, as the next level moves them further. Most take
# ten iterations; those of graphs of blocks, which go round, would take hundreds, to the same ends.
MAX_OUTER, MAX_INNER, MARGINAL_TOL = 25, 100, 1e-3
# Relative difference of objectives up to which two plans of a level are one.
SAME = 1e-4
# Mass, as a fraction, that two plans match otherwise if they are different solutions.
APART = 0.25
# Eigenvectors of which all choices of signs are starts. On the same pairs those of four
# lead no lower than those of three, those of two and as many more random plans .1 %
# higher, random plans alone 1 %.
N_SIGNS = 3
# Starts by signs and at random together, where nobody says how many of these. Two fewer
# or more change the mean by .05 %, and the time by a sixth.
N_STARTS = 12
# Starts that anneal together, of which the best are polished before there are more.
MAX_FIELD = 64
# Rows of the table of what was tried; later starts have one only if they are the best.
MAX_ROWS = 1000


@dataclasses.dataclass(frozen=True, eq=False)
class Runner:
    """A start, the plan that its descents have led to, None for the product plan, what
    they have shown, the epsilon of the first, and the result of a race that led there.
    """

    label: str
    plan: np.ndarray | None
    row: Candidate | None = None
    first: float = LEVELS[0].epsilon
    race: GWResult | None = None

    @property
    def gw_cost(self):
        return self.row.gw_cost

    def after(self, plan, epsilon, gw_cost, n_outer, seconds):
        """The runner after another descent."""
        if self.row is not None:
            n_outer, seconds = n_outer + self.row.n_outer, seconds + self.row.seconds
        shown = max(plan.shape), epsilon, gw_cost, n_outer, seconds
        return Runner(self.label, plan, Candidate(self.label, *shown, fate="lost"))


def are_apart(plan, other):
    """Return whether plans differ by more than a few exchanged points."""
    return bool(np.abs(plan - other).sum() > 2 * APART * plan.sum())


class Found:
    """The best of the exact descents so far.

    Attributes
    ----------
    solution : ExactSolution
    runner : Runner
        What led to it.
    is_tie : bool
        Whether another plan has the same objective.
    """

    def __init__(self, problem, n_threads, limits):
        self.solver = FrankWolfe(problem, n_threads)
        self.solution, self.is_tie = None, False
        self._limits, self._rows, self._best = limits, [], 0

    def polish(self, runner):
        """Take a runner to its end. Returns whether that is the best one."""
        solution = self.solver.solve(runner.plan, self._limits)
        shown = 0.0, solution.gw_cost, len(solution.trace), solution.seconds
        leads, best = True, self.solution
        if best is not None:
            leads = solution.gw_cost < best.gw_cost
            if self.solver.are_equal(solution.gw_cost, best.gw_cost):
                self.is_tie |= are_apart(solution.plan, best.plan)
            elif leads:
                self.is_tie = False
        if leads:
            self.solution, self.runner = solution, runner
            self._best = len(self._rows)
        if leads or len(self._rows) < MAX_ROWS:
            self._rows.append(runner.after(solution.plan, *shown).row)
        return leads

    def note(self, rows):
        """Keep the rows of runners that have ended on the way."""
        self._rows += rows[: max(MAX_ROWS - len(self._rows), 0)]

    @property
    def is_least(self):
        """Whether no plan is better than one that is known."""
        known = self.solution is not None
        return known and self.solver.is_least(self.solution.gw_cost)

    @property
    def is_done(self):
        """Whether there is no time for more, or none is better."""
        return self.is_least or self._limits.deadline.passed()

    @property
    def confidence(self):
        """See `confidence_of`."""
        return confidence_of(self.candidates, self.solution.status, exact=True)

    @property
    def candidates(self):
        rows = list(self._rows)
        rows[self._best] = rows[self._best]._replace(fate="won")
        return Candidates(rows)


class Descents:
    """Descents of a problem with entropy, as many at a time as there are threads."""

    def __init__(self, problem, n_threads, deadline):
        self._problem, self._n_threads, self._deadline = problem, n_threads, deadline
        # Linearizations that no thread has at the moment.
        self._idle = []

    @contextlib.contextmanager
    def pool(self):
        """Yield a parallel ``map``, and a function that starts a call and returns its waiter."""

        def at_once(function, given):
            function(given)
            return lambda: None

        if self._n_threads == 1:
            yield map, at_once
        else:
            with ThreadPoolExecutor(self._n_threads, "gwfast") as pool:
                yield pool.map, lambda *call: pool.submit(*call).result

    def go_on(self, runner, level):
        """The runner after a level; as it is where time is up."""
        if self._deadline.passed():
            return runner
        began = time.perf_counter()
        try:
            whole = self._idle.pop()
        except IndexError:
            whole = dense.Dense(self._problem, 1)
        at = whole.fork()
        gw_cost = at.start(runner.plan)
        fraction = level.epsilon if runner.row else runner.first
        epsilons = Epsilon(relative=fraction).resolve(at)
        limits = MAX_OUTER, MAX_INNER, level.tol, MARGINAL_TOL
        limits = Limits(*limits, deadline=self._deadline)
        small, gw_costs = SmallDescent(at), []
        if small.goes_on:
            # What this leaves to others hardly moves, or goes round.
            steps, *_ = small.take(0, limits, epsilons, None, False)
            gw_costs = steps[0] if steps else []
        if not gw_costs:
            loop = OuterLoop(at, epsilons, gw_cost)
            try:
                loop.run(limits)
            except OutOfTime:
                return runner
            gw_costs = [step.gw_cost for step in loop.history]
        plan = at.state.copy()
        self._idle.append(whole)
        shown = epsilons.last, gw_costs[-1], len(gw_costs)
        return runner.after(plan, *shown, time.perf_counter() - began)


def lowest(
    problem,
    n_threads,
    limits,
    seed=0,
    n_random=None,
    *,
    search_time=None,
    memory=math.inf,
    report=None,
    looks_on=False,
):
    """Search for the plan of the lowest objective.

    Parameters
    ----------
    problem : QuadraticProblem
    n_threads : int
        Each makes descents of its own: the result is the same with any number.
    limits : ExactLimits
        Of exact descents. Random starts are tried as far as there is time.
    seed : int, default=0
        The k-th random plan is that of ``seed + k``.
    n_random : int or None, default=None
        None makes `N_STARTS` with those of eigenvectors.
    search_time : float or None, default=None
        Seconds for more random plans, or half of them since anything lower was found.
    memory : float, default=inf
        Bytes beside the exact problem; if too few, the product plan is the only start.
    report : callable or None, default=None
        Called with a `ProgressEvent` for each start.
    looks_on : bool, default=False
        Whether to make `N_STARTS` more random starts if the others leave doubt.

    Returns
    -------
    Found
    """
    found, deadline = Found(problem, n_threads, limits), limits.deadline
    rows, cols = problem.rule.product()
    product = np.multiply.outer(rows, cols / problem.mass)
    # From None ties are broken, as they are where the product plan is the only start:
    # no search ends above that.
    field, descents = [Runner("product", None)], Descents(problem, n_threads, deadline)
    size = n_threads * dense.nbytes(problem, problem.shape, 4, PGD, MAX_FIELD)
    for plan in itertools.islice(isomorphisms(problem), size <= memory):
        found.polish(Runner("isomorphism", plan))
    if found.is_least:
        return found
    with descents.pool() as (each, begin):
        # The descents of the first level need not wait for it.
        first = begin(found.polish, field[0])
        others = _signs(found.solver)
        if size > memory or not problem.is_balanced:
            first()
        if size > memory:
            return found
        if not (problem.is_balanced or found.is_done):
            field.append(_balanced(problem, n_threads, deadline, seed, n_random))
            found.polish(field[1])
        field = [Runner(f"annealed {one.label}", one.plan) for one in field]
        field += [Runner("annealed product, late", product, first=LATE), *others]
        if n_random is None:
            n_random = N_STARTS - len(others)
        most, done, left, patience = MAX_FIELD, 0, range(n_random), None
        of = f" of {len(field) + n_random}"
        while not found.is_done:
            if not (field or left) and search_time:
                # What nobody has asked for by number is tried as long as there is time.
                patience, most, of = Patience(search_time), max(N_STARTS, n_threads), ""
                left, search_time = range(n_random, sys.maxsize), None
            if not (field or left) or (patience and not patience.goes_on):
                break
            some, left = left[: most - len(field)], left[most - len(field) :]
            field += [random_runner(seed + k, product) for k in some]
            _tell(report, field, done, of)
            runners = _annealed(descents, each, field, found, first)
            led = [found.polish(one) for one in runners if not deadline.passed()]
            if patience and any(led):
                patience.renew()
            done, field = done + len(field), []
            if looks_on and not (field or left) and found.confidence < LEVEL:
                left = range(n_random, n_random + N_STARTS)
                n_random, looks_on, of = left.stop, False, f" of {done + N_STARTS}"
        first()
    return found


def _tell(report, field, done, of):
    """Report the runners of a field, if someone listens."""
    for number, one in enumerate(field, done + 1) if report else ():
        text = f"start {number}{of}: {one.label}"
        report(ProgressEvent("start", text, number))


def _balanced(problem, n_threads, deadline, seed, n_random):
    """The runner from the best plan of the balanced problem of the same costs."""
    balanced = problem.replace(rule=problem.rule.balanced())
    limits = ExactLimits(deadline=deadline)
    best = lowest(balanced, n_threads, limits, seed, n_random).solution
    return Runner("balanced", problem.mass * best.plan)


def _annealed(descents, each, field, found, first):
    """The runners of a field that are left after all levels, the best first; the others
    are noted. None are if no plan is better than where `first` has led.
    """
    for number, level in enumerate(LEVELS, 1):
        field = list(each(descents.go_on, field, itertools.repeat(level)))
        first()
        if found.is_least:
            return []
        field = [one for one in field if one.row is not None]
        field, ended = _best(field, level.n_left, f"dropped in round {number}")
        found.note(ended)
    return field


def _best(runners, n_left, fate):
    """So many runners that differ, the best first, and the rows of the others."""
    left, ended, last = [], [], None
    for one in sorted(runners, key=lambda one: one.gw_cost):
        if last and one.gw_cost - last.gw_cost <= SAME * abs(last.gw_cost):
            ended.append(one.row._replace(fate=f"same as {last.label}"))
            continue
        last = one
        if len(left) < n_left:
            left.append(one)
        else:
            ended.append(one.row._replace(fate=fate))
    return left, ended


def random_runner(seed, product):
    """The runner from independent exponential entries, with about the marginals."""
    entries = np.random.default_rng(seed).standard_exponential(product.shape)
    plan = entries * product
    return Runner(f"annealed random {seed}", plan * (product.sum() / plan.sum()))


def _signs(solver):
    """Return runners from the product plan turned along eigenvectors, one for each choice of their
    signs: of smooth shapes these are the mirror images.
    """
    if not all(side.masses.all() for side in solver.sides):
        return []
    return [
        Runner(f"annealed eigenvectors {label}", plan) for label, plan in solver.turned(N_SIGNS)
    ]
