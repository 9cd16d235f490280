"""Solves with private settings: tests make the sizes small from which mechanisms pay, or turn a
mechanism off. Callers need no such settings, so that their record is inside the package.
"""

from helpers.settings import settings

from gwfast.solvers.gromov import solve
from gwfast.solvers.options import Settings
from gwfast.utils.deadline import NEVER
from gwfast.utils.tuning import Tuning


def solve_tuned(problem, *, deadline=NEVER, tol=1e-5, tuning=None, **options):
    """Solve a `QuadraticProblem` as `gromov_wasserstein` does, with some fields of the `Tuning`."""
    options = settings(**options)
    rare = options.pop("options", None)
    tuning = Tuning(**tuning or {})
    return solve(
        problem, Settings.of(rare, deadline, tol=tol, tuning=tuning, takes_zero=True, **options)
    )
