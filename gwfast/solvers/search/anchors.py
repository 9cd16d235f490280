"""Starts from two anchors: two pairs of points that agree with one another place all other points
by their costs to both.

Where one space is a part of the other, distributions of costs to all points mislead, but costs to
the nearest points are the same. Pairs of points whose nearest costs are alike are candidates; two
of them are a pair of anchors if the costs between them agree. The pairs of anchors that place most
points best become starts, after more anchors among the points that they place.
"""

from __future__ import annotations

import functools

import numpy as np

from ...problems.quadratic import QuadraticProblem
from ...utils.deadline import NEVER, Deadline
from ...utils.types import Float32Array
from .starts import Start, distinct, is_similarity


def anchor_starts(problem: QuadraticProblem, deadline: Deadline = NEVER) -> list[Start]:
    """Return different starts of symmetric costs, the best first, at most three."""
    (n, m), linear = problem.shape, np.zeros((1, 1))
    # Costs are copied in float64.
    if not 4 <= min(n, m) <= max(n, m) <= 2500 or problem.alpha == 0:
        return []
    costs = [side.to_dense().matrix.astype(np.float64) for side in (problem.x, problem.y)]
    if all(map(is_similarity, costs)):
        costs = [-cost for cost in costs]
    if problem.is_fused:
        weight = (1.0 - problem.alpha) / (2.0 * problem.alpha)
        linear = weight * np.asarray(problem.linear_cost, dtype=np.float64)
    share = 0.8  # other points may lack a match
    if problem.rule.takes_mass:
        share *= problem.mass / min(problem.p.sum(), problem.q.sum())
    if n > m:
        costs, linear = costs[::-1], np.transpose(linear)
    plans = _placed(costs[0], costs[1], linear, share, deadline)
    return [
        Start(f"anchors {rank}", functools.partial(_as_plan, plan.T if n > m else plan), "anchors")
        for rank, plan in enumerate(plans)
    ]


def _as_plan(plan: np.ndarray, problem: QuadraticProblem, n_threads: int) -> Float32Array:
    """Return the plan with the mass of each row."""
    masses = problem.p[:, None] / plan.sum(axis=1, keepdims=True)
    return (plan * masses).astype(np.float32)


def _placed(
    x: np.ndarray, y: np.ndarray, linear: np.ndarray, share: float, deadline: Deadline
) -> list[np.ndarray]:
    """Return densities (n, m) of matches, by the costs (n, n) and (m, m) of both sides, n <= m."""
    (near_x, unit_x), (near_y, unit_y) = _nearest(x), _nearest(y)
    unit = max(unit_x, unit_y)
    if not unit > 0:
        return []
    rows, cols = np.divmod(_candidates(near_x, near_y), len(y))
    first, second = np.triu_indices(len(rows), 1)
    lengths = x[rows[first], rows[second]]  # compared in units of a typical nearest cost
    agree = np.abs(lengths - y[cols[first], cols[second]]) <= 0.3 * unit
    agree &= (rows[first] != rows[second]) & (cols[first] != cols[second])
    agree &= lengths - np.diag(x)[rows[first]] >= 1.5 * unit
    # The first pairs are compared on some rows, and the best of them are refined.
    first, second = first[agree][:256], second[agree][:256]
    if not len(first):
        return []
    seen = np.linspace(0, len(x) - 1, min(len(x), 64)).astype(np.intp)
    distances = np.square(x[np.ix_(seen, rows)].T[:, :, None] - y[:, cols].T[:, None, :])
    of_rows = np.broadcast_to(linear, (len(x), linear.shape[1]))[seen]
    scores = np.empty(len(first))
    for k, (i, j) in enumerate(zip(first, second, strict=True)):
        deadline.check()
        scores[k] = _trimmed(((distances[i] + distances[j]) / 2 + of_rows).min(axis=1), share)
    refined = []
    for k in np.argsort(scores, kind="stable")[:12]:
        deadline.check()
        pair = [first[k], second[k]]
        refined.append(_refined(x, y, linear, rows[pair], cols[pair], share))
    refined.sort(key=lambda placed: placed[0])
    kept = distinct(refined, 3, lambda placed, other: (placed[1] != other[1]).mean() > 0.5)
    widths = [max(score, (unit / 4) ** 2) for score, *_ in kept]
    return [
        np.exp(-0.5 * cost / width) + 1e-30 for (*_, cost), width in zip(kept, widths, strict=True)
    ]


def _nearest(cost: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the sorted costs to other points, and the typical least one less the diagonal."""
    n = len(cost)
    others = cost[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    others.sort(axis=1)
    return others, float(np.median(others[:, 0] - np.diag(cost)))


def _candidates(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the numbers of pairs of points whose nearest costs (n, n - 1), (m, m - 1) agree best,
    in turn for several numbers of these.
    """
    n, m, n_candidates, by_number = len(x), len(y), 64, []
    # On 32 planted parts of 60 points 3 nearest costs alone led to 27 of the optima; where most
    # costs tie, as in graphs, few nearest costs tell nothing.
    for k in sorted({min(k, max(n // 3, 3)) for k in (3, 6, 24)}):
        left, right = x[:, :k], y[:, :k]
        distances = np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1)
        distances = (distances - 2.0 * left @ right.T).ravel()
        closest = np.argpartition(distances, min(n_candidates, n * m - 1))[:n_candidates]
        by_number.append(closest[np.argsort(distances[closest], kind="stable")])
    in_turn = np.stack(by_number, axis=1).ravel()
    return in_turn[np.sort(np.unique(in_turn, return_index=True)[1])[:n_candidates]]


def _refined(
    x: np.ndarray,
    y: np.ndarray,
    linear: np.ndarray,
    rows: np.ndarray,
    cols: np.ndarray,
    share: float,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the score of anchors, where they place the points (n,), and the costs (n, m) of
    placements, after more anchors twice.
    """
    for turn in range(3):
        distances = np.square(x[:, rows].T[:, :, None] - y[:, cols].T[:, None, :])
        cost = distances.mean(axis=0) + linear
        best = cost.argmin(axis=1)
        least = cost[np.arange(len(x)), best]
        mutual = np.flatnonzero(cost.argmin(axis=0)[best] == np.arange(len(x)))
        if turn == 2 or len(mutual) < 3:
            break
        good = mutual[np.argsort(least[mutual], kind="stable")][: max(2 * len(mutual) // 3, 3)]
        chosen, near = [good[0]], x[good, good[0]]
        for _ in range(min(8, len(good)) - 1):  # far from one another
            chosen.append(good[near.argmax()])
            near = np.minimum(near, x[good, chosen[-1]])
        rows, cols = np.array(chosen), best[chosen]
    return _trimmed(least, share), best, cost


def _trimmed(values: np.ndarray, share: float) -> float:
    """Return the mean of the least values, a share of all."""
    count = max(int(share * len(values)), 1)
    return float(np.partition(values, count - 1)[:count].mean())
