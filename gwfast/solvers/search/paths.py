"""A start from lengths of paths: similarities that vanish from few steps on, such as links, heat
kernels or contacts, tell nothing of points that are far apart, and their objective has many optima.
Lengths of the shortest paths by way of similar points do, and the best plan for these is a start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from scipy.sparse.csgraph import shortest_path

from ...problems.dense_cost import DenseCost
from ...problems.epsilon import EpsilonLike
from ...problems.quadratic import QuadraticProblem
from ...results.coupling import Coupling
from ...utils.types import Float64Array, FloatArray
from .starts import Start, is_similarity

# Solves a problem with an epsilon.
Solve: TypeAlias = Callable[[QuadraticProblem, EpsilonLike], Coupling]
# Similarities below this fraction of the largest one are rounding.
LEAST = 1e-9


def similarities(problem: QuadraticProblem) -> list[Float64Array] | None:
    """Return the costs (n, n) and (m, m) of both sides if they are similarities, or None."""
    costs = [side.to_dense().matrix.astype(np.float64) for side in (problem.x, problem.y)]
    if all(is_similarity(cost) and (cost > -LEAST * cost.max()).all() for cost in costs):
        return costs
    return None


def between(problem: QuadraticProblem, costs: Iterable[np.ndarray]) -> QuadraticProblem:
    """Return the problem with other costs (n, n) and (m, m) of both sides."""
    x, y = (DenseCost.from_checked(cost, "cost", symmetric=True) for cost in costs)
    return problem.replace(x=x, y=y)


def path_starts(problem: QuadraticProblem, solve: Solve) -> list[Start]:
    """Return starts from the costs of paths, if there are some: the plan ``solve(costs, epsilon)``,
    and a sharper one.
    """
    costs = similarities(problem)
    if costs is None:
        return []
    lengths = between(problem, map(_lengths, costs))
    # Between links of trees the sharper plan leads lower, between contacts higher.
    return [
        Start(f"paths {epsilon}", functools.partial(_plan, lengths, solve, epsilon), "paths")
        for epsilon in ("auto", "0.5%")
    ]


def _plan(
    costs: QuadraticProblem, solve: Solve, epsilon: str, problem: QuadraticProblem, n_threads: int
) -> FloatArray:
    return solve(costs, epsilon).toarray()


def _lengths(similarity: np.ndarray) -> np.ndarray:
    """Return lengths of paths (n, n), with steps as long as the logarithm of the similarity says
    and one more: more steps are longer.
    """
    largest = similarity.max()
    linked = similarity > LEAST * largest
    steps = np.where(linked, 1.0 - np.log(np.where(linked, similarity, 1.0) / largest), 0.0)
    np.fill_diagonal(steps, 0.0)
    lengths = shortest_path(steps, method="D", directed=False)
    unlinked = ~np.isfinite(lengths)
    lengths[unlinked] = lengths[~unlinked].max() + 1.0
    return lengths
