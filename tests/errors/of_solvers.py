"""Refusals of the solvers."""

import numpy as np

import gwfast

COST = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])


def solve(x=COST, y=COST, *masses, **options):
    return gwfast.gromov_wasserstein(x, y, *masses, **options)


ROWS = [
    (lambda: solve(epsilon=-1.0), "epsilon", -1.0),
    (lambda: solve(tol="small"), "tol", "str", TypeError),
]
