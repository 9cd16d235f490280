"""The candidates of a race, each a start with its descent, and the standing of all of
them on one level. Both classes are frozen: each step of a race makes new objects.
"""

import dataclasses
import time

import numpy as np

from ..linear.sinkhorn_solver import in_units
from ..problems.epsilon import Schedule
from ..quadratic.factory import is_factored
from ..quadratic.outer_loop import OuterLoop
from ..quadratic.solution import Solution
from ..quadratic.stopping import Limits
from ..results.status import Status
from ..results.tables import Candidate
from ..utils.deadline import NEVER, OutOfTime
from ..utils.progress import ProgressEvent
from .checkpoint import STARTS
from .starts import Shared, shared_profiles, start_plan

# Outcomes, besides the fates of `Candidate`: still racing, and settled within the last
# limits before the winner is known. SKIPPED and WON are fates.
AHEAD, SETTLED, SKIPPED, WON = "ahead", "at the end", "out of time", "won"
# Outer iterations after which annealing has ended, before candidates are compared.
EARLY = 7


@dataclasses.dataclass(frozen=True, eq=False)
class Contestant:
    """A candidate: its descent, the seconds that making its start took, the solution
    and status of its last run, its outcome and its number in the field.
    """

    label: str
    loop: OuterLoop
    seconds: float
    solution: Solution | None = None
    status: Status | None = None
    outcome: str = AHEAD
    number: int = 0

    @classmethod
    def at_start(cls, label, linearization, epsilons, set_state, coarse=()):
        """A candidate whose state is set by ``set_state(fork)``, which returns its objective.
        `coarse` are the potentials on some rows and columns, the rows and the columns.
        """
        began, potentials = time.perf_counter(), None
        fork = linearization.fork()
        gw_cost = set_state(fork)
        if coarse:
            epsilon = in_units(epsilons.at(0), fork.cost_scale, fork.precision)
            potentials = fork.extend_potentials(*coarse, epsilon)
        loop = OuterLoop(fork, epsilons, gw_cost, potentials=potentials)
        return cls(label, loop, time.perf_counter() - began)

    @classmethod
    def restored(cls, linearization, saved):
        """The contestant that `export` described, without its solution."""
        return cls(
            str(saved["label"]),
            OuterLoop.restored(linearization.fork(), saved["loop"]),
            float(saved["seconds"]),
            status=None if saved["status"] is None else Status(saved["status"]),
            outcome=str(saved["outcome"]),
            number=int(saved["number"]),
        )

    def export(self):
        """A tree of arrays, numbers and texts."""
        names = "label", "seconds", "status", "outcome", "number"
        fields = {name: getattr(self, name) for name in names}
        return dict(loop=self.loop.export(), **fields)

    @property
    def gw_cost(self):
        return self.loop.gw_cost

    @property
    def n_outer(self):
        return len(self.loop.history)

    @property
    def is_moving(self):
        return self.status in (None, Status.MAX_OUTER, Status.TIME_LIMIT)

    @property
    def is_late(self):
        return self.status == Status.TIME_LIMIT

    def advance(self, limits, save=None, callback=None):
        """The contestant after its loop has run to the limits."""
        solution = self.loop.run(limits, callback, save)
        return dataclasses.replace(self, solution=solution, status=solution.status)

    def with_outcome(self, outcome):
        return dataclasses.replace(self, outcome=outcome)

    def candidate(self):
        # The result has the winner's plan, and reports the more precise objective.
        won = self.outcome == WON and self.solution is not None
        return Candidate(
            start=self.label,
            n_points=max(self.loop.linearization.problem.shape),
            epsilon=self.loop.epsilons.last,
            gw_cost=self.solution.objective if won else self.gw_cost,
            n_outer=self.n_outer,
            seconds=self.seconds + self.loop.seconds,
            fate=self.outcome,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Standing:
    """How a race stands on one level: a `Candidate` of each on coarser levels, the round, from 1,
    the number of early comparisons of states made in the first round, the contestants that still
    race, and of each that was dropped its number in the field and its `Candidate`.
    """

    level: int = 0
    candidates: list = dataclasses.field(default_factory=list)
    round: int = 1
    n_met: int = 0
    left: list = dataclasses.field(default_factory=list)
    ended: list = dataclasses.field(default_factory=list)

    @classmethod
    def restored(cls, linearization, saved):
        """The standing that `export` described, on the same level."""
        if not saved["left"]:
            raise ValueError("expected somebody who is left")
        return cls(
            int(saved["level"]),
            restored_candidates(saved["candidates"]),
            max(int(saved["round"]), 1),
            max(int(saved["n_met"]), 0),
            [Contestant.restored(linearization, one) for one in saved["left"]],
            [(int(number), *restored_candidates([one])) for number, one in saved["ended"]],
        )

    def export(self):
        """A tree of arrays, numbers and texts, valid until a loop goes on."""
        fields = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return {**fields, "left": [one.export() for one in self.left]}

    @property
    def is_late(self):
        """Whether time was up for a candidate that is left."""
        return any(one.is_late for one in self.left)

    def records(self):
        """A `Candidate` of each on this level, in the order of the field."""
        left = [(one.number, one.candidate()) for one in self.left]
        return [candidate for _, candidate in sorted([*left, *self.ended])]

    def with_field(self, field):
        """The standing before the first round of a race of the contestants left and of a field."""
        entered = len(self.left) + len(self.ended)
        new = [dataclasses.replace(one, number=k) for k, one in enumerate(field, entered)]
        return dataclasses.replace(self, round=1, n_met=0, left=[*self.left, *new])

    def replacing(self, k, one):
        """The standing with another contestant as number k of `left`."""
        left = [*self.left[:k], one, *self.left[k + 1 :]]
        return dataclasses.replace(self, left=left)

    def dropping(self, left, dropped):
        """The standing with these left and these dropped."""
        dropped = [(one.number, one.candidate()) for one in dropped]
        return dataclasses.replace(self, left=left, ended=self.ended + dropped)

    def advance(self, k, limits, checkpoint, callback=None):
        """The standing after contestant k of `left` has run to the limits."""
        save = checkpoint.saver(STARTS, self.export)
        one = self.left[k].advance(limits, save, callback)
        checkpoint.stop_if(one.is_late)
        return self.replacing(k, one)

    def advance_each(self, limits, most, checkpoint, announce=None, final=False):
        """The standing after all contestants left have run, in turn, to the limits and `most`
        outer iterations, which may be none; each is announced by ``announce(k, one)``. When time
        is up, contestants without an iteration are dropped.

        A `final` run marks the contestants that settle within its limits; under rougher
        limits before they may have stopped moving already.
        """
        standing, left, skipped = self, [], []
        far, late = dataclasses.replace(limits, max_outer=max(most, 1)), self.is_late
        for k, one in enumerate(self.left):
            if late and not one.n_outer:
                skipped.append(one.with_outcome(SKIPPED))
                continue
            moving = one.outcome != SETTLED if final else one.is_moving
            if not late and moving and one.n_outer < most:
                if announce is not None:
                    announce(k, one)
                standing = standing.advance(k, far, checkpoint)
                late = standing.left[k].is_late
                if final and not standing.left[k].is_moving:
                    one = standing.left[k].with_outcome(SETTLED)
                    standing = standing.replacing(k, one)
            left.append(standing.left[k])
        return standing.dropping(left, skipped)


def candidates_from_starts(linearization, schedule, starts, report, deadline=NEVER, profiles=None):
    """A contestant for each start that there is time for; OutOfTime if for none.
    `profiles` are `shared_profiles`; None makes those of the problem.
    """
    problem, n_threads = linearization.problem, linearization.n_threads
    profiles, made = profiles or shared_profiles(problem, n_threads, deadline), []
    for k, start in enumerate(starts, start=1):
        label = str(start)
        report(ProgressEvent("start", f"start {k} of {len(starts)}: {label}", k))

        def set_state(fork, start=start):
            # The plan may be made in the common buffer: the state copies what it needs.
            shared = Shared(profiles, fork.scratch, deadline)
            return fork.start(start_plan(start, problem, n_threads, shared))

        try:
            deadline.check()
            made.append(Contestant.at_start(label, linearization, schedule, set_state))
        except OutOfTime:
            if not made:
                raise
            break
    return made


def promote(coarse, linearization, schedule, at, *, alone=False):
    """The contestant on a finer level: on more points, among which the coarse points
    are `at`, or on the costs whose leading eigenvectors the coarse level has. A
    contestant that is `alone` may keep its plan in the common buffer.
    """
    before, schedule = coarse.loop.linearization, Schedule(schedule.last, schedule.last)
    if not is_factored(before.problem) or is_factored(linearization.problem):
        return Contestant.at_start(
            coarse.label,
            linearization,
            schedule,
            lambda fork: fork.start_from(before, *at),
            (coarse.loop.potentials, *at),
        )
    # One more iteration makes a plan: a low-rank problem's state is a small matrix.
    one = coarse.advance(Limits(coarse.n_outer + 1, 1000, tol=1e-3, marginal_tol=1e-3))
    began, fork = time.perf_counter(), linearization.fork()
    plan, potentials, shape = one.solution.coupling.toarray(), None, fork.problem.shape
    if plan.shape == shape:
        potentials = one.solution.potentials_for(fork)
    else:
        plan, some = np.zeros(shape, dtype=plan.dtype), plan
        plan[np.ix_(*at)], alone = some, True
    gw_cost = fork.start(plan, takes=alone)
    loop = OuterLoop(fork, schedule, gw_cost, potentials=potentials)
    return Contestant(coarse.label, loop, time.perf_counter() - began)


def annealed_early(schedule):
    """The schedule, so steep that it ends in `EARLY` iterations."""
    factor = (schedule.last / schedule.first) ** (1.0 / EARLY)
    return dataclasses.replace(schedule, factor=min(factor, schedule.factor))


def restored_candidates(saved):
    """Candidates of a tree."""
    kinds = str, int, float, float, int, float, str
    return [Candidate(*(kind(x) for kind, x in zip(kinds, one, strict=True))) for one in saved]
