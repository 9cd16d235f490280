"""Starts along axes: two clouds are matched by their independent components, then by points.

Independent components of word vectors are much alike in all languages (Yamagiwa, Oyama and
Shimodaira, EMNLP 2023), and skewness tells the sign of each. No map of a space changes them, so d
axes are matched with d axes by how pairs of axes occur together, which takes milliseconds. A tenth
of right axes is enough for a descent on a few hundred points to find most of the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...problems.geometry import PointCloud
from ...problems.quadratic import QuadraticProblem
from ...utils.deadline import NEVER, Deadline
from ...utils.types import Float32Array, Float64Array, FloatArray
from .starts import Start, couple, distinct

TINY = 1e-30


def axis_starts(
    problem: QuadraticProblem,
    few: QuadraticProblem,
    rows: Sequence[np.ndarray],
    epsilon: float,
    seeds: Sequence[int],
    most: int,
    deadline: Deadline = NEVER,
) -> list[Start]:
    """Return different starts of two clouds, the lowest objective first, at most `most`; none if
    a side has too few points or axes. ``few`` is the problem on `rows` of either side, on which all
    matches of axes descend, and each of the `seeds` is one more estimate of all components.
    """
    if not (isinstance(problem.x, PointCloud) and isinstance(problem.y, PointCloud)):
        return []
    for geometry in (problem.x, problem.y):
        epsilon = epsilon / geometry.scale
    descents = []
    for seed in seeds:
        deadline.check()
        rng = np.random.default_rng(seed)
        x, y = (_side(*one, rng) for one in ((problem.x, problem.p), (problem.y, problem.q)))
        if x is None or y is None:
            return []
        few_x, few_y, statistics = x[rows[0]], y[rows[1]], [_statistics(side) for side in (x, y)]
        unary = np.square(_quantiles(x)[:, None] - _quantiles(y)).mean(axis=2)
        for (*_, weight), left, right in zip(STATISTICS, *statistics, strict=True):
            # The lowest optimum of axes does not always lead to the lowest optimum of words.
            for pairs in matched(left, right, weight * unary, rng)[:4]:
                deadline.check()
                scores = few_x[:, pairs[0]] @ few_y[:, pairs[1]].T
                # The inverse temperature is in units of the standard deviation of the scores.
                scores *= np.float32(1.1 / np.sqrt(len(pairs[0])))
                # Few points need sharp plans.
                descents.append(_descended(few, scores, 0.5 * epsilon))
    descents.sort(key=lambda one: one[0])
    few_clouds = _clouds(few)
    product = np.outer(few.p @ few_clouds[0].features, few.q @ few_clouds[1].features)

    def differ(contraction: np.ndarray, other: np.ndarray) -> bool:
        size = np.linalg.norm(contraction - product)
        return bool(np.linalg.norm(contraction - other) > 0.3 * size)

    kept = distinct((x for _, x in descents if np.isfinite(x).all()), most, differ)
    return [
        Start(f"axes {seeds[0]}, {rank}", functools.partial(_coupled, one, epsilon), "axes")
        for rank, one in enumerate(kept)
    ]


def _side(
    geometry: PointCloud, masses: Float64Array, rng: np.random.Generator
) -> Float32Array | None:
    """Return the components (n, k) of a cloud's points, or None, see `components`."""
    points = geometry.points if geometry.population is None else geometry.population
    weights = masses if len(points) == len(masses) else np.full(len(points), 1.0 / len(points))
    return components(points, weights, rng, geometry.n)


def components(
    points: np.ndarray, weights: np.ndarray, rng: np.random.Generator, n: int | None = None
) -> Float32Array | None:
    """Return independent components (n, k) of the first `n` points, float32, of unit variance and
    positive skewness; None if there are too few points for two.

    FastICA with symmetric decorrelation and the contrast log cosh (Hyvärinen, IEEE Transactions on
    Neural Networks, 1999), of the leading directions of the points.
    """
    size = max(min(len(points), 6000), n or 0)
    points, weights = points[:size], weights[:size] / weights[:size].sum()
    centered = (points - weights @ points).astype(np.float32)
    values, vectors = np.linalg.eigh(((centered.T * weights) @ centered).astype(np.float64))
    # An axis takes eight points.
    count = min(64, np.count_nonzero(weights) // 8, len(values))
    leading = np.arange(len(values)) >= len(values) - count
    leading &= values > 1e-6 * values[-1]
    if np.count_nonzero(leading) < 2:
        return None
    white = centered @ (vectors[:, leading] / np.sqrt(values[leading])).astype(np.float32)
    masses = weights.astype(np.float32)
    rotation = _orthogonal(rng.standard_normal((white.shape[1],) * 2)).astype(np.float32)
    for _ in range(150):  # 25 to 60 reach a rotation of .1 %
        slopes = np.tanh(white @ rotation.T)
        curvature = 1.0 - masses @ np.square(slopes)
        new = _orthogonal((slopes.T * masses) @ white - curvature[:, None] * rotation)
        rotated = np.abs(np.abs(np.einsum("ij,ij->i", new, rotation)) - 1.0).max()
        rotation = new
        if rotated < 1e-3:
            break
    sources = white @ rotation.T
    sources *= np.where(masses @ sources**3 < 0, np.float32(-1.0), np.float32(1.0))
    return sources[:n]


def _orthogonal(matrix: np.ndarray) -> np.ndarray:
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right


# --- Axes with axes -------------------------------------------------------------------


def _moments(s: np.ndarray) -> tuple[np.ndarray, ...]:
    """Moments of third and fourth order, and how often two components are large at once."""
    n, squares, large = len(s), s**2, (s > 2).astype(s.dtype)
    fourth = np.log1p(np.maximum(squares.T @ squares / n - 1.0, -0.9))
    share, both = large.mean(axis=0), large.T @ large / n
    return (
        fourth,
        np.cbrt(squares.T @ s / n),
        np.log((both + 1e-4) / (np.outer(share, share) + 1e-4)),
    )


def _upper(s: np.ndarray) -> tuple[np.ndarray, ...]:
    """Correlations of how far components exceed half a standard deviation, which saturate."""
    return (np.corrcoef(np.tanh(np.maximum(s - 0.5, 0.0) / 2.0), rowvar=False),)


def _soft(s: np.ndarray) -> tuple[np.ndarray, ...]:
    """Correlations of the positive parts of components, smoothed."""
    return (np.corrcoef(np.logaddexp(0.0, 2.0 * s), rowvar=False),)


# How pairs of axes occur together, and the weight of the distribution of each axis. On languages
# entries of `_upper` and `_soft` correlate by .55 to .7 between axes that match, of moments by .3
# to .5; the moments lead to other optima.
STATISTICS = (_upper, 0.3), (_soft, 0.3), (_moments, 1.0)


def _statistics(sources: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Yield matrices (k, k), centered, of norm one and with a diagonal of zeros, for each of the
    `STATISTICS`.
    """
    for statistic, _ in STATISTICS:
        matrices = []
        for matrix in statistic(sources.astype(np.float64)):
            off_diagonal = ~np.eye(len(matrix), dtype=bool)
            matrix = np.where(off_diagonal, matrix - matrix[off_diagonal].mean(), 0.0)
            matrices.append(matrix / max(np.linalg.norm(matrix), TINY))
        yield matrices


def _quantiles(sources: np.ndarray) -> np.ndarray:
    index = np.linspace(0, len(sources) - 1, 100).astype(np.int64)
    return np.sort(sources, axis=0)[index].T


def matched(
    left: Sequence[np.ndarray],
    right: Sequence[np.ndarray],
    unary: np.ndarray,
    rng: np.random.Generator,
) -> list[tuple[np.ndarray, ...]]:
    """Return matches of axes, two index arrays each, the best first: local optima of the sum of
    ``<A P B', P>`` over pairs of matrices less ``<unary, P>``, by conditional gradients (Vogelstein
    et al., PLOS ONE 2015) from the even plan and from random plans. `unary` is scaled to mean
    ``1 / k``.
    """
    shape = unary.shape
    unary = unary / max(unary.mean() * min(shape), TINY)
    matches = {}
    for start in range(20):
        plan = np.full(shape, 1.0 / max(shape))
        if start:
            noise = rng.standard_exponential(shape)
            for _ in range(30):
                noise /= noise.sum(axis=1, keepdims=True)
                noise /= noise.sum(axis=0)
            plan += rng.uniform(0.0, 0.6) * (noise * shape[1] / max(shape) - plan)
        for _ in range(40):
            gradient = -unary
            for a, b in zip(left, right, strict=True):
                gradient = gradient + a @ plan @ b.T + a.T @ plan @ b
            step = _permutation(gradient) - plan
            slope, bend = np.vdot(gradient, step), _gain(left, right, step)
            if slope < 1e-9:
                break
            plan = plan + (1.0 if bend >= 0 else min(1.0, -slope / (2.0 * bend))) * step
        match = _permutation(plan)
        matches[match.tobytes()] = _gain(left, right, match) - np.vdot(unary, match), match
    ranked = sorted(matches.values(), key=lambda one: -one[0])
    return [np.nonzero(match) for _, match in ranked]


def _permutation(gains: np.ndarray) -> np.ndarray:
    match = np.zeros(gains.shape)
    match[linear_sum_assignment(gains, maximize=True)] = 1.0
    return match


def _gain(left: Sequence[np.ndarray], right: Sequence[np.ndarray], plan: np.ndarray) -> float:
    return sum(np.vdot(a @ plan @ b.T, plan) for a, b in zip(left, right, strict=True))


# --- Points with points ---------------------------------------------------------------


def _clouds(problem: QuadraticProblem) -> tuple[PointCloud, PointCloud]:
    """Return both sides of a problem of two clouds."""
    x, y = problem.x, problem.y
    assert isinstance(x, PointCloud) and isinstance(y, PointCloud)
    return x, y


def _descended(
    problem: QuadraticProblem, scores: np.ndarray, epsilon: float
) -> tuple[float, np.ndarray]:
    """Return objective and contraction ``X' T Y`` of the features after some iterations from the
    plan of these scores.
    """
    x, y = _clouds(problem)
    p, q = problem.p.astype(np.float32), problem.q.astype(np.float32)
    left, right = (one.features @ one.signature.astype(np.float32) for one in (x, y))
    n_iterations = 10
    for number in range(n_iterations + 1):
        scores -= scores.max(axis=1, keepdims=True)
        # A column that no row prefers keeps its mass.
        np.exp(np.maximum(scores, -60.0, out=scores), out=scores)
        v = np.ones_like(q)
        for _ in range(5):
            u = p / np.maximum(scores @ v, TINY)
            v = q / np.maximum(u @ scores, TINY)
        product = (u[:, None] * x.features).T @ scores
        contraction = product @ (v[:, None] * y.features)
        exponents = left @ contraction @ right.T
        if number == n_iterations:
            break
        scores = exponents * np.float32(2.0 / epsilon)
    scores *= u[:, None]
    scores *= v
    entropy = -np.vdot(scores, np.log(np.maximum(scores, TINY)))
    return float(-np.vdot(exponents, scores) - epsilon * entropy), contraction


def _coupled(
    contraction: np.ndarray, epsilon: float, problem: QuadraticProblem, n_threads: int
) -> FloatArray:
    """Return the plan that answers a contraction, on any points of the same clouds."""
    x, y = (one.features @ one.signature.astype(np.float32) for one in _clouds(problem))
    left = x @ (contraction * np.float32(-2.0 / epsilon))

    def fill(cost: np.ndarray) -> None:
        np.matmul(left, y.T, out=cost)

    return couple(problem, fill, 1.0, n_threads)
