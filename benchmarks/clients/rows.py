"""Rows of programs: their functions with either solver, timed and judged."""

import functools
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

from ..common import runner

# Seconds after which calls take no more turns.
BUDGET = 30
# Seconds in the functions of a program that gwfast takes the place of, since they were last taken.
_in_solver = [0.0]


class Program(NamedTuple):
    """A program: a name, the packages to install (none where its calls are written out here), the
    number of lines of a user's change, and a function of the rounds that yields rows.
    """

    name: str
    install: str
    lines: int
    rows: Callable


def timed(function):
    """Return a function whose time counts as the solver's."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            _in_solver[0] += time.perf_counter() - began

    return wrapper


def compared(problem, theirs, ours, objective, quality, score, rounds):
    """Return the cells of a row, and the ratios of all seconds and of the solvers' seconds.

    `theirs` and `ours` take turns; all that they do is the solver's if they call nothing `timed`.
    `objective` and `score`, whose name is `quality`, map what they return to a number.
    """
    in_solver = [], []

    def run(call, seconds):
        _in_solver[0] = 0.0
        result = call()
        seconds.append(_in_solver[0])
        return result

    calls = [functools.partial(run, *pair) for pair in zip((theirs, ours), in_solver, strict=True)]
    seconds, found = runner.in_turns(calls, rounds, BUDGET)
    solvers = [
        part[-len(taken) :] if any(part) else taken
        for part, taken in zip(in_solver, seconds, strict=True)
    ]
    ratios = [median(pair[0]) / median(pair[1]) for pair in (seconds, solvers)]
    cells = [problem, *map(runner.shown, seconds), *(f"{ratio:.2f}" for ratio in ratios)]
    cells += [f"{float(objective(result)):.6g}" for result in found]
    return [*cells, quality, *(f"{float(score(result)):.4g}" for result in found)], ratios


def quadratic(plan, C1, C2):
    """Return the sum of ``(C1[i, k] - C2[j, l])^2 plan[i, j] plan[k, l]`` in float64, of a
    plan with any marginals and costs that need not be symmetric.
    """
    plan, C1, C2 = (np.asarray(x, dtype=np.float64) for x in (plan, C1, C2))
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    return p @ C1**2 @ p + q @ C2**2 @ q - 2 * np.vdot(C1 @ plan @ C2.T, plan)


def entropy(plan):
    positive = plan[plan > 0]
    return -np.vdot(positive, np.log(positive))


def coupling(plan):
    """Return a plan with uniform masses, made of a plan that nearly has them: too much is
    scaled down, and what is missing is spread (Altschuler et al., NeurIPS 2017).

    Otherwise mass that a solver leaves out would count in its favor.
    """
    n, m = plan.shape
    plan = plan * np.minimum(1, 1 / n / plan.sum(axis=1, keepdims=True))
    plan *= np.minimum(1, 1 / m / plan.sum(axis=0))
    rows, columns = 1 / n - plan.sum(axis=1), 1 / m - plan.sum(axis=0)
    return plan + np.outer(rows, columns) / max(rows.sum(), 1e-300)
