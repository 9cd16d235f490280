"""What comes of a program with either solver, and how it is measured."""

import functools
import time
from dataclasses import dataclass

import numpy as np

from ..pot.timings import in_turns

# Seconds after which calls take no more turns.
BUDGET = 30


class Stopwatch:
    """Seconds in the functions that are `timed`, since they were last taken."""

    def __init__(self):
        self._seconds = 0.0

    def timed(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._seconds += time.perf_counter() - began

        return wrapper

    def take(self):
        seconds, self._seconds = self._seconds, 0.0
        return seconds


# Of what a program calls that gwfast takes the place of.
SOLVER = Stopwatch()


@dataclass(frozen=True)
class Row:
    """One problem: seconds of each turn, and those in the solver; the program's own
    objective, and its measure of quality by its name; pairs are theirs and ours.
    """

    problem: str
    theirs_s: list[float]
    ours_s: list[float]
    theirs_solver_s: list[float]
    ours_solver_s: list[float]
    objectives: tuple[float, float]
    quality: str
    qualities: tuple[float, float]


def compared(problem, theirs, ours, objective, quality, score, repeats):
    """A row of two functions that return plans, or what else both judges take.

    Parameters
    ----------
    problem, quality : str
    theirs, ours : callable
        Without arguments; they take turns. All that they do is the solver's where they
        call nothing that `SOLVER` times.
    objective, score : callable
        From what these return to a number.
    repeats : int
        Turns that count; fewer of calls that take long.
    """
    of_solver = [], []

    def run(call, some):
        SOLVER.take()
        made = call()
        some.append(SOLVER.take())
        return made

    pairs = zip((theirs, ours), of_solver, strict=True)
    calls = [functools.partial(run, *pair) for pair in pairs]
    seconds, found = in_turns(calls, turns=repeats, budget=BUDGET)
    of_solver = [
        some[-len(times) :] if any(some) else times
        for some, times in zip(of_solver, seconds, strict=True)
    ]
    objectives, scores = (tuple(float(judge(one)) for one in found) for judge in (objective, score))
    return Row(problem, *seconds, *of_solver, objectives, quality, scores)


def quadratic(plan, C1, C2):
    """The sum of ``(C1[i, k] - C2[j, l])^2 plan[i, j] plan[k, l]`` in float64, of a
    plan with any marginals and costs that need not be symmetric.
    """
    plan, C1, C2 = (np.asarray(one, dtype=np.float64) for one in (plan, C1, C2))
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    constant = p @ np.square(C1) @ p + q @ np.square(C2) @ q
    return constant - 2 * np.vdot(C1 @ plan @ C2.T, plan)


def fused(plan, M, C1, C2, alpha):
    """``(1 - alpha) <M, plan>`` and alpha times what is `quadratic`."""
    plan = np.asarray(plan, dtype=np.float64)
    return (1 - alpha) * np.vdot(M, plan) + alpha * quadratic(plan, C1, C2)


def coupling(plan):
    """A plan whose masses are uniform, made of one whose masses nearly are: too much is
    scaled down, and what is missing spread (Altschuler et al., NeurIPS 2017).

    Solvers that stop early would be judged by what they have left out.
    """
    n, m = plan.shape
    plan = plan * np.minimum(1, 1 / n / plan.sum(axis=1, keepdims=True))
    plan *= np.minimum(1, 1 / m / plan.sum(axis=0))
    rows, columns = 1 / n - plan.sum(axis=1), 1 / m - plan.sum(axis=0)
    return plan + np.outer(rows, columns) / max(rows.sum(), 1e-300)
