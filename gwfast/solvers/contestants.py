"""Those who take part in a race: a start and how far it has come, and how all of them
stand on one level. Both are frozen: each step of a race makes another.
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
from ..results.candidates import Candidate
from ..results.status import Status
from ..utils.deadline import NEVER, OutOfTime
from ..utils.progress import ProgressEvent
from .checkpoint import STARTS
from .starts import Shared, shared_profiles, start_plan

# Outer iterations within which all annealing is over, before candidates are compared.
ANNEALING_STEPS = 7
# Limits of the iteration that makes a plan for other costs, but for their number.
NEXT = Limits(max_outer=1, max_inner=1000, tol=1e-3, marginal_tol=1e-3)
# What becomes of a contestant, see `Candidate.fate`: nothing yet; those for which there
# was no time.
AHEAD, SKIPPED = "ahead", "out of time"


@dataclasses.dataclass(frozen=True, eq=False)
class Contestant:
    """A start, the seconds that making it took, and how far it has come."""

    label: str
    loop: OuterLoop
    seconds: float
    # Of the last time that it came to its limits, and the status of that.
    solution: Solution | None = None
    status: Status | None = None
    # See `Candidate.fate`.
    outcome: str = AHEAD
    # In its field.
    number: int = 0

    @classmethod
    def at_start(cls, label, linearization, epsilons, set_state, coarse=()):
        """One whose state is set by ``set_state(fork)``, which returns its objective;
        its potentials by `coarse`: those on some rows and columns, and these.
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
        loop = OuterLoop.restored(linearization.fork(), saved["loop"])
        status = None if saved["status"] is None else Status(saved["status"])
        return cls(
            str(saved["label"]),
            loop,
            float(saved["seconds"]),
            status=status,
            outcome=str(saved["outcome"]),
            number=int(saved["number"]),
        )

    def export(self):
        """Where it stands: a tree of arrays, numbers and texts."""
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
        """The contestant when it has come to the limits; for `save` and `callback` see
        `OuterLoop.run`.
        """
        solution = self.loop.run(limits, callback, save)
        return dataclasses.replace(self, solution=solution, status=solution.status)

    def ended(self, outcome):
        return dataclasses.replace(self, outcome=outcome)

    def candidate(self):
        return Candidate(
            start=self.label,
            n_points=max(self.loop.linearization.problem.shape),
            epsilon=self.loop.epsilons.last,
            gw_cost=self.gw_cost,
            n_outer=self.n_outer,
            seconds=self.seconds + self.loop.seconds,
            fate=self.outcome,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Standing:
    """How a race stands on one level.

    Attributes
    ----------
    level : int
    candidates : list of Candidate
        Of the levels before.
    round : int
        From 1.
    n_met : int
        Looks at who is near another that there were in the first round.
    left : list of Contestant
    ended : list of tuple
        The others of the field: their numbers, and a `Candidate` of each.
    """

    level: int
    candidates: list
    round: int
    n_met: int
    left: list
    ended: list

    @classmethod
    def at_start(cls, field, level=0, candidates=()):
        """Before the first round."""
        left = [dataclasses.replace(one, number=k) for k, one in enumerate(field)]
        return cls(level, [*candidates], 1, 0, left, [])

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
            [
                (int(number), *restored_candidates([one]))
                for number, one in saved["ended"]
            ],
        )

    def export(self):
        """A tree of arrays, numbers and texts, good until a loop goes on."""
        fields = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return {**fields, "left": [one.export() for one in self.left]}

    def records(self):
        """A `Candidate` of each, in the order of the field."""
        left = [(one.number, one.candidate()) for one in self.left]
        return [candidate for _, candidate in sorted([*left, *self.ended])]

    def advance(self, k, limits, checkpoint, callback=None):
        """The standing when one of those left has come to the limits."""
        save = checkpoint.saver(STARTS, self.export)
        one = self.left[k].advance(limits, save, callback)
        checkpoint.stop_if(one.is_late)
        return self.with_one(k, one)

    def in_turn(self, advance):
        """The standing after ``advance(standing, k)`` of all left in turn; when time is
        up those are dropped that had not begun.
        """
        standing, skipped = self, []
        for k, one in enumerate(self.left):
            if not standing.is_late:
                standing = advance(standing, k)
            elif not one.n_outer:
                skipped.append(one)
        left = [one for one in standing.left if one not in skipped]
        return standing.dropping(left, [one.ended(SKIPPED) for one in skipped])

    def joined(self, field):
        """The standing before the first round of another race on the same level, of
        those left and the contestants of a field.
        """
        entered = len(self.left) + len(self.ended)
        new = [
            dataclasses.replace(one, number=k) for k, one in enumerate(field, entered)
        ]
        return dataclasses.replace(self, round=1, n_met=0, left=[*self.left, *new])

    def dropping(self, left, ended):
        """The standing with these left, and these dropped."""
        ended = [(one.number, one.candidate()) for one in ended]
        return dataclasses.replace(self, left=left, ended=self.ended + ended)

    @property
    def is_late(self):
        """Whether time was up for one that is left."""
        return any(one.is_late for one in self.left)

    def with_one(self, k, one):
        """The standing with another in this place."""
        left = [*self.left[:k], one, *self.left[k + 1 :]]
        return dataclasses.replace(self, left=left)


def candidates_from_starts(
    linearization, schedule, starts, report, deadline=NEVER, profiles=None
):
    """A contestant for every start, as far as there is time, or OutOfTime; `profiles`
    are `shared_profiles` of the problem.
    """
    problem, n_threads = linearization.problem, linearization.n_threads
    profiles, made = profiles or shared_profiles(problem, n_threads, deadline), []
    for k, start in enumerate(starts, start=1):
        label = str(start)
        report(ProgressEvent("start", f"start {k} of {len(starts)}: {label}", k))

        def set_state(fork, start=start):
            # The state takes what it needs of the plan, and the buffer is free again.
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
    """The contestant on more points, among which `at` are those it had; or on the costs
    themselves of all points. If it is `alone` nobody else needs the room of its plan.
    """
    before, schedule = coarse.loop.linearization, Schedule(schedule.last, schedule.last)
    if is_factored(before.problem) and not is_factored(linearization.problem):
        return _on_costs(coarse, linearization, schedule, at, alone)
    return Contestant.at_start(
        coarse.label,
        linearization,
        schedule,
        lambda fork: fork.start_from(before, *at),
        (coarse.loop.potentials, *at),
    )


def _on_costs(coarse, linearization, schedule, at, alone):
    """The contestant on the costs whose eigenvectors it had, with its next plan."""
    one = coarse.advance(dataclasses.replace(NEXT, max_outer=coarse.n_outer + 1))
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


def hurried(schedule):
    """The schedule so steep that it is over before candidates are compared."""
    factor = (schedule.last / schedule.first) ** (1.0 / ANNEALING_STEPS)
    return dataclasses.replace(schedule, factor=min(factor, schedule.factor))


def restored_candidates(saved):
    """Candidates of a tree."""
    kinds = str, int, float, float, int, float, str
    return [
        Candidate(*(kind(x) for kind, x in zip(kinds, one, strict=True)))
        for one in saved
    ]
