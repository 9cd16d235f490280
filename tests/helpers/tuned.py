"""Solves with private settings: tests make the sizes small from which mechanisms pay, or turn a
mechanism off. Callers need no such settings, so that their record is inside the package.
"""

import math

from helpers.problems import settings

from gwfast.solvers.gromov import solve
from gwfast.solvers.options import Settings
from gwfast.utils.deadline import NEVER, Deadline
from gwfast.utils.tuning import Tuning


def solve_tuned(problem, *, deadline=NEVER, tol=1e-5, tuning=None, **options):
    """Solve a `QuadraticProblem` as `gromov_wasserstein` does, with some fields of the `Tuning`."""
    options = settings(**options)
    rare = options.pop("options", None)
    tuning = Tuning(**tuning or {})
    return solve(
        problem, Settings.of(rare, deadline, tol=tol, tuning=tuning, takes_zero=True, **options)
    )


class AfterLooks(Deadline):
    """A deadline that has passed after a number of looks."""

    def __init__(self, looks):
        self.looks = looks

    @property
    def at(self):
        self.looks -= 1
        return math.inf if self.looks >= 0 else -math.inf
