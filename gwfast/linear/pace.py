"""The pace of the Sinkhorn iterations of a linear problem: the number of iterations of the next
call of a kernel, and the action after them. All of it is arithmetic on numbers; the compiled loop
takes the same actions by the same functions (csrc/judge.h).
"""

import enum
import math
from typing import NamedTuple

from ..kernels import _judge

# Iterations between two looks at the scalings and at how fast the error falls. On 36 linear
# problems 4 took 14 % more iterations and 16 4 %; in float64 16 took 36 % more.
LOOK_EVERY = 8
# Factor of the error in an iteration above which the error stands still.
STALLED_RATE = 0.99
# Seconds of one call of a kernel, at most: deadlines and Ctrl-C are seen between calls only.
LONGEST_CALL = 0.2
# Kernels of one problem with free marginals, at most: its potentials may move beyond their numbers
# again and again.
MOST_KERNELS = 16
# Over-relaxation at most: best at a plain rate of .9994. An omega of two diverges.
MAX_OMEGA = 1.95
# Iterations left for the plan after a Newton step to have its columns.
AFTER_NEWTON = 3


class Action(enum.Enum):
    """The next step of the loop of a linear problem, numbered as in csrc/judge.h."""

    END = 0
    ITERATE = 1  # go on as before
    PLAIN = 2  # go on without over-relaxation, as only then the columns are exact
    PACE = 3  # go on with the over-relaxation that suits the last rate
    ABSORB = 4  # make the kernel anew around the potentials with the scalings in them
    NEWTON = 5  # take a Newton step


class Goal(NamedTuple):
    """Tolerance and limits of the iterations of a linear problem."""

    tol: float  # error at which iterations end
    max_iter: int
    min_iter: int  # from which on the error is trusted
    max_log_scaling: float  # largest logarithm of a scaling that is not absorbed
    stall_error: float  # error below which it may stand still
    max_kernels: float
    is_direct: bool  # whether one iteration solves the problem
    over_relaxes: bool  # whether over-relaxation is allowed


class Look(NamedTuple):
    """The numbers that some iterations have led to."""

    n_iter: int  # of all so far
    error: float
    seconds: float  # of an iteration
    seconds_left: float  # until the deadline
    max_log_scaling: float = 0.0  # known in each `LOOK_EVERY`-th iteration
    newton_price: float = math.inf  # of the next Newton step, in iterations


class Pace(NamedTuple):
    """The over-relaxation and the speed of iterations."""

    omega: float = 1.0  # over-relaxation
    error: float = math.inf  # at the last look
    seconds: float = 0.0  # of an iteration
    n_absorbed: int = 0  # times that scalings were absorbed

    def n_next(self, n_iter: int, max_iter: int) -> int:
        """Return the number of iterations of the next call of a kernel, after `n_iter`."""
        n_next = LOOK_EVERY - n_iter % LOOK_EVERY if n_iter else 1
        n_next = min(n_next, max_iter - n_iter)
        if self.omega != 1.0 and n_iter + n_next == max_iter:
            n_next -= 1  # the last iteration is plain
        if n_next * self.seconds > LONGEST_CALL:
            n_next = max(int(LONGEST_CALL / self.seconds), 1)
        return n_next


def is_look(n_iter: int) -> bool:
    """Return whether scalings and rate are looked at after that many iterations."""
    return n_iter == 1 or n_iter % LOOK_EVERY == 0


def next_action(look: Look, pace: Pace, goal: Goal) -> tuple[Action, Pace]:
    """Return the action after some iterations, and the pace of the next ones."""
    numbers = goal.tol, goal.max_iter, goal.min_iter, goal.stall_error, goal.is_direct
    has_drifted = look.max_log_scaling > goal.max_log_scaling
    number, omega, error = _judge.next_action(
        (*numbers, LOOK_EVERY, STALLED_RATE, AFTER_NEWTON, goal.over_relaxes, MAX_OMEGA),
        (*look[:4], has_drifted, look.newton_price, pace.omega, pace.error),
    )
    action, n_absorbed = Action(number), pace.n_absorbed
    if action is Action.ABSORB:
        n_absorbed += 1
        action = action if n_absorbed <= goal.max_kernels else Action.END
    return action, Pace(omega, error, look.seconds, n_absorbed)
