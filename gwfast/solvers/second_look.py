"""Looks for a lower optimum than that of a race's winner, on few points: escapes from
the winner, and, where the race is not sure, starts from coarse clusters. The best goes
on to all points.
"""

import dataclasses

import numpy as np

from ..problems.epsilon import Schedule
from ..problems.losses import LOSSES
from ..quadratic.factory import is_factored, linearize
from ..quadratic.stopping import Limits
from ..results.candidates import Candidates
from ..results.status import Status
from ..utils.deadline import OutOfTime
from ..utils.precision import SINGLE
from ..utils.progress import ProgressEvent
from .agreement import costs_nothing, is_sure
from .clusters import cluster_starts
from .contestants import Contestant, Standing, candidates_from_starts, promote
from .diagnosis import conclude
from .levels import fits, level_sizes, points_first
from .race import (
    RACE,
    TIE,
    as_good,
    check_time,
    finish,
    same_state,
    successive_halving,
)

# Clusterings that are tried at most where nobody says how long, and starts of each that
# race. Italian and Japanese need the third clustering for the lowest optimum; digits
# (pixels against edges), and Spanish and English with noise, the first.
N_CLUSTERINGS, N_STARTS = 3, 4
# Points a side of matrices of costs from which on there are starts from clusters.
MIN_POINTS = 128
# Outer iterations after which winners of different races are compared: candidates that
# lead to the lowest optimum take up to 170.
MAX_COMPARED = 200
# Starts from clusters are annealed: the first epsilon, as a multiple of the last one,
# and the factor that lowers it. The profiles of digits lead to the lowest optimum only
# with annealing.
FIRST_EPSILON, COOLING = 3.0, 0.95
# Plan entries that escapes make at most, and since the last that led lower, as shares
# of what the race has made.
MOST, PATIENCE = 0.5, 0.15
# Escapes of which one begins from the product plan, with noise, rather than from the
# best one.
EVERY = 4
# Deviations of the logarithms of the factors that entries are multiplied by, and the
# logarithm of the first epsilon as a multiple of the last one: uniform between these;
# below zero is none. Graphs with edges moved need little noise or none, clouds without
# preferred directions so much that hardly anything of the plan is left.
NOISE, RISE = (0.5, 5.0), (-1.0, 2.3)
# Limits of escapes, and how far above the best they are given up.
ROUGH = Limits(max_outer=100, max_inner=1000, tol=1e-3, marginal_tol=1e-3)
HOPEFUL = 0.05
# Escapes that have a row of their own in the table of candidates.
MAX_ROWS = 1000
WENT_ON, LOST = "went on", "lost"


def has_room(problem, options):
    """Whether a second solve fits beside one, in float32 and in the dense tier."""
    if options.tier != "dense" or options.precision is not SINGLE:
        return False
    if options.is_placed(problem):
        return False
    return fits(problem, options, times=2, races=False)


def without_winner(candidates):
    """The candidates, with the fate "lost" for a winner."""
    return [row._replace(fate=LOST) if row.fate == "won" else row for row in candidates]


def second_look(problem, solution, result, options, report):
    """The `GWResult` with the lowest objective: that of the race, from the `Solution`
    of its winner, or one that is found from there. Only a race under given marginals
    has a second look.
    """
    ended = result.status in (Status.STOPPED, Status.TIME_LIMIT)
    wanted = options.mechanisms.second_look and problem.is_balanced
    if ended or not wanted or costs_nothing(result.candidates):
        return result
    if not has_room(problem, options):
        return result
    # As many points as the first level of a race has.
    size = [*level_sizes(problem, options.tier), max(problem.shape)][0]
    rows = [np.sort(order[:size]) for order in points_first(problem, options.order)]
    part = problem.take(*rows)
    kind = dict(mechanisms=options.mechanisms)
    linearization = linearize(part, options.threads(part), **kind)
    epsilon = options.epsilon.resolve(linearization).last
    winners = [row.start for row in result.candidates if row.fate == "won"]
    first = Contestant.at_start(
        winners[-1] if winners else "",
        linearization,
        Schedule(epsilon, epsilon),
        lambda fork: _start_from(fork, solution.linearization, rows),
    )
    search = _Search(first, options, report, _Budget.of(result.candidates, size))
    if _has_clusters(problem) and not is_sure(result.candidates):
        search.look_at_clusters()
    search.escape()
    candidates = Candidates([*result.candidates, *search.records()])
    result = dataclasses.replace(result, candidates=candidates)
    if search.best is search.first:
        return result
    return _with_all_points(problem, search.best, rows, result, options, report)


def _has_clusters(problem):
    """Whether starts from clusters are those of the problem."""
    plain = problem.is_plain and LOSSES[problem.loss].keeps_factors
    if is_factored(problem) or not plain:
        return is_factored(problem)
    many = min(problem.shape) >= MIN_POINTS
    return many and problem.x.symmetric and problem.y.symmetric


def _start_from(fork, whole, rows):
    """Set the state to that of the same problem with more points, among which those of
    the fork are `rows`; returns the objective.
    """
    if is_factored(fork.problem):
        return fork.start_from(whole, *rows)
    plan = whole.state[np.ix_(*rows)]
    return fork.start(plan / plan.sum())


class _Budget:
    """How long is looked on: until so much is spent, or so much since the last time
    that something lower was found.
    """

    def __init__(self, most, patience):
        self._most, self._patience = most, patience
        self._spent = self._found = 0.0

    @classmethod
    def of(cls, candidates, size):
        """Of outer iterations on so many points, by those of the race."""
        made = sum(row.n_outer * (row.n_points / size) ** 2 for row in candidates)
        return cls(MOST * made, PATIENCE * made)

    @property
    def goes_on(self):
        since = self._spent - self._found
        return self._spent < self._most and since < self._patience

    def spend(self, n_outer):
        self._spent += n_outer

    def renew(self):
        """Something was found."""
        self._found = self._spent


class _Search:
    """Looks for a lower optimum than that of a contestant, the `first`.

    Attributes
    ----------
    first, best : Contestant
    """

    def __init__(self, first, options, report, budget):
        self._options, self._report, self._budget = options, report, budget
        self._linearization = first.loop.linearization
        self._epsilon, self._tried = first.loop.epsilons.last, []
        limits = options.limits
        # Under the limits of the result: a rougher solution would pass for a lower
        # optimum.
        most = min(MAX_COMPARED, limits.max_outer)
        self.first = first.advance(dataclasses.replace(limits, max_outer=most))
        self._far = limits.within(dataclasses.replace(RACE, max_outer=MAX_COMPARED))
        self._lead(self.first)

    def _lead(self, one):
        """Take a contestant, which has just advanced, for the best."""
        self.best, self._plan = one, one.solution.coupling.toarray().copy()

    def _compare(self, one):
        """Compare a contestant with the best, which it may become. Returns whether
        both are in the same optimum, and the contestant with its fate.
        """
        one = one.advance(self._far)
        equal = as_good(one, self.best, TIE) and as_good(self.best, one, TIE)
        same = equal and same_state(one, self.best)
        lower = not as_good(self.best, one, TIE)
        fate = f"same as {self.best.label}" if same else WENT_ON if lower else LOST
        one = one.with_outcome(fate)
        if lower:
            self._lead(one)
            self._budget.renew()
        return same, one

    def records(self):
        """A `Candidate` of each that was tried. Of all that were the best for a time,
        only the last goes on.
        """
        return [
            row._replace(fate=LOST)
            if row.fate == WENT_ON and row.start != self.best.label
            else row
            for row in self._tried
        ]

    def look_at_clusters(self):
        """Race starts from one clustering after another, until one leads to the optimum
        that is known.
        """
        options, limits = self._options, self._options.limits
        schedule = Schedule(self._epsilon, FIRST_EPSILON * self._epsilon, COOLING)
        for seed in range(options.seed, options.seed + N_CLUSTERINGS):
            text = f"clusters {seed}"
            self._report(ProgressEvent("start", text, seed - options.seed))
            try:
                given = self._epsilon, seed, N_STARTS, limits.deadline
                starts = cluster_starts(self._linearization.problem, *given)
                if not starts:
                    return
                given = schedule, starts, self._report, limits.deadline
                field = candidates_from_starts(self._linearization, *given)
                standing = Standing().with_field(field)
                given = standing, RACE.max_outer, limits, self._report
                standing = successive_halving(*given)
            except OutOfTime:
                return
            if standing.is_late:
                return
            one, *others = standing.left
            same, one = self._compare(one)
            others = [other.with_outcome(LOST) for other in others]
            self._tried += standing.dropping([], [one, *others]).records()
            if same:
                return

    def escape(self):
        """Descend from the best plan with noise, or at random, over and over."""
        rng, limits = np.random.default_rng(self._options.seed), self._options.limits
        number = 0
        while self._budget.goes_on and not limits.deadline.passed():
            text = f"escape {number}"
            self._report(ProgressEvent("start", text, number))
            number += 1
            try:
                one = self._escaped(text, rng, at_random=number % EVERY == 0)
            except OutOfTime:
                return
            self._budget.spend(one.n_outer)
            if one.is_late:
                return
            if as_good(one, self.best, HOPEFUL):
                before = one.n_outer
                _, one = self._compare(one)
                self._budget.spend(one.n_outer - before)
            else:
                one = one.with_outcome(LOST)
            if one.outcome == WENT_ON or number <= MAX_ROWS:
                self._tried.append(one.candidate())

    def _escaped(self, label, rng, *, at_random):
        """The contestant that descends from the best plan, or from the product plan,
        with noise.
        """
        problem, plan = self._linearization.problem, self._plan
        if at_random:
            plan = np.outer(problem.p, problem.q).astype(np.float32)
        factors = rng.standard_normal(plan.shape, dtype=np.float32)
        factors *= np.float32(rng.uniform(*NOISE))
        plan = plan * np.exp(factors, out=factors)
        plan /= plan.sum()
        first = max(1.0, np.exp(rng.uniform(*RISE))) * self._epsilon
        epsilons = Schedule(self._epsilon, first)
        set_state = lambda fork: fork.start(plan, takes=True)  # noqa: E731
        one = Contestant.at_start(label, self._linearization, epsilons, set_state)
        return one.advance(self._options.limits.within(ROUGH))


def _with_all_points(problem, best, rows, result, options, report):
    """The `GWResult` of all points from the best contestant on some rows, if its
    objective is lower.
    """
    try:
        check_time(best, problem, options.limits)
    except OutOfTime:
        return result
    kind = dict(mechanisms=options.mechanisms)
    linearization = linearize(problem, options.threads(problem), **kind)
    schedule = options.epsilon.resolve(linearization)
    one = promote(best, linearization, schedule, rows, alone=True)
    standing = Standing().with_field([one])
    standing = finish(standing, options.limits, options.callback, report)
    made = conclude(standing.left[0].solution, False, options.limits)
    ours, theirs = standing.records(), list(result.candidates)
    if made.gw_cost < result.gw_cost:
        result, theirs = made, without_winner(theirs)
    else:
        ours = without_winner(ours)
    return dataclasses.replace(result, candidates=Candidates([*theirs, *ours]))
