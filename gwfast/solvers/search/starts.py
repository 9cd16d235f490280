"""Plans to start from. The problem is not convex: the optimum depends on where the descent begins.

A start has a function ``plan(problem, n_threads)``, which returns a plan of any mass, or None for
the product plan. Its marginals may be rough: the first iteration meets them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, DTypeLike

from ...kernels import _products
from ...kernels._products import Panels
from ...kernels._rows import aligned_empty
from ...linear.gibbs_kernel import StoredKernel
from ...linear.rules import Balanced
from ...linear.sinkhorn_solver import SinkhornSolver
from ...problems.geometry import Geometry, PointCloud
from ...problems.quadratic import QuadraticProblem
from ...results.coupling import Coupling
from ...utils.blocks import row_blocks
from ...utils.deadline import NEVER, Deadline
from ...utils.tuning import DEFAULT
from ...utils.types import Float32Array, Float64Array, FloatArray
from ...utils.validation import as_matrix

# Quantiles of a profile.
QUANTILES = 300


T = TypeVar("T")
# The plan that a start returns; None is the product plan.
StartPlan: TypeAlias = FloatArray | Coupling | None


class Origin(NamedTuple):
    """The start of a descent: its label, for people, and the `kind` and `draw` of `Candidate`."""

    label: str
    kind: str
    draw: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Start:
    """A start of this package: its label, the function `plan`, the `kind` and `draw` of
    `Candidate`, and a caller's plan.
    """

    label: str
    plan: Callable[[QuadraticProblem, int], StartPlan]
    kind: str
    matrix: StartPlan = None
    draw: int = 0

    def __str__(self) -> str:
        return self.label


PRODUCT = Start("product", lambda problem, n_threads: None, "product")


def given(plan: FloatArray | Coupling, label: str = "plan", kind: str = "plan") -> Start:
    """Return the start of a checked plan, an array or a `Coupling`."""
    return Start(label, lambda problem, n_threads: plan, kind, plan)


def random(seed: int) -> Start:
    """Return the start of independent exponential entries, scaled to the marginals."""

    def fill(cost: np.ndarray) -> None:
        np.random.default_rng(seed).standard_exponential(out=cost, dtype=np.float32)

    def plan(problem: QuadraticProblem, n_threads: int) -> FloatArray:
        return couple(problem, fill, 1.0, n_threads)

    return Start(f"random {seed}", plan, "random", draw=seed)


def random_starts(
    problem: QuadraticProblem, seed: int, count: int | None = None
) -> Iterable[Start]:
    """Return `count` random starts; None chooses their number by the size of the problem."""
    if count is None:
        # Entries that all plans have together, and the most plans, of clouds and of matrices.
        is_cloud = isinstance(problem.x, PointCloud)
        entries, most = (1_500_000, 48) if is_cloud else (500_000, 12)
        count = min(max(entries // (problem.shape[0] * problem.shape[1]), 1), most)
    return map(random, range(seed, seed + count))


def profile_starts(
    problem: QuadraticProblem, n_threads: int, deadline: Deadline = NEVER
) -> Iterator[Start]:
    """Yield starts that couple points whose costs to all others are distributed alike, for profiles
    of the costs and of their square roots, with two widths each.

    Row i of the costs, sorted, is a profile of point i that does not depend on the order of the
    others. The optimal coupling of the profiles of both sides by their Wasserstein distances solves
    Memoli's third lower bound of the Gromov-Wasserstein distance (Foundations of Computational
    Mathematics, 2011, section 6). Square roots of the similarity, ``(X X')^(1/2)``, weigh strong
    and weak directions more evenly (Artetxe, Labaka and Agirre, ACL 2018, section 3.2).
    """
    # Epsilons of the couplings: of 30 widths these led to the lowest optima.
    for root, widths in ((False, (0.02, 0.05)), (True, (0.1, 0.2))):
        compare = functools.partial(_comparable, problem, root, n_threads, deadline)
        profiles = functools.cache(compare)
        for width in widths:
            plan = functools.partial(
                _profile_plan, width=width, profiles=profiles, deadline=deadline
            )
            kind = "root profile" if root else "profile"
            yield Start(f"{kind} {width:g}", plan, kind)


def stored(plan: StartPlan) -> FloatArray | None:
    """Return the plan of a start as an array."""
    return plan.toarray() if isinstance(plan, Coupling) else plan


def _profile(problem: QuadraticProblem, n_threads: int) -> StartPlan:
    """Return the plan of the first of the profile starts."""
    return next(profile_starts(problem, n_threads)).plan(problem, n_threads)


PROFILE = Start("profile", _profile, "profile")


def distinct(ranked: Iterable[T], most: int, differ: Callable[[T, T], bool]) -> list[T]:
    """Return the first of ranked candidates that differ from all before, at most `most`."""
    kept: list[T] = []
    for candidate in ranked:
        if len(kept) < most and all(differ(candidate, earlier) for earlier in kept):
            kept.append(candidate)
    return kept


def is_similarity(costs: np.ndarray) -> bool:
    """Return whether larger costs (n, n) are between points that are nearer: points are most like
    themselves, or few pairs have anything in common, as links of a graph.
    """
    if np.trace(costs) / len(costs) > costs.mean():
        return True
    least = costs.min()
    return bool(np.median(costs) - least <= 1e-9 * (costs.max() - least))


def as_plan(plan: ArrayLike, shape: tuple[int, int], dtype: DTypeLike = np.float32) -> FloatArray:
    """Return a caller's plan, checked and scaled to mass one."""
    try:
        plan = as_matrix(plan, "init", shape=shape)
    except ValueError as error:
        if "must have shape" in str(error) and np.shape(plan)[1] == 2:
            error.args = (f"{error}; known pairs are Seeds(pairs)",)
        raise
    if plan.min() < 0:
        raise ValueError(f"init must not be negative, got {plan.min()}")
    total = plan.sum(dtype=np.float64)
    if not total > 0:
        raise ValueError("init must have mass, got a sum of 0")
    return np.ascontiguousarray(plan / total, dtype=dtype)


def _profile_plan(
    problem: QuadraticProblem,
    n_threads: int,
    *,
    width: float,
    profiles: Callable[[], tuple[Float32Array, Float32Array] | None],
    deadline: Deadline,
) -> FloatArray | None:
    """Return the coupling of the profiles of `_comparable`, which ``profiles()`` returns."""
    compared = profiles()
    if compared is None:
        return None
    left, panels = compared[0], Panels(compared[1], True, n_threads=n_threads)
    fill = functools.partial(_products.matmul, left, panels, n_threads=n_threads)
    return couple(problem, fill, width, n_threads, deadline)


def couple(
    problem: QuadraticProblem,
    fill: Callable[[np.ndarray], None],
    epsilon: float,
    n_threads: int,
    deadline: Deadline = NEVER,
) -> FloatArray:
    """Return the rough plan of a linear problem whose cost `fill` writes."""
    solver = SinkhornSolver(Balanced(problem.p, problem.q), n_threads)
    kernel = StoredKernel(aligned_empty(problem.shape), fill, n_threads)
    solution = solver.solve(kernel, epsilon, tol=1e-2, max_iter=100, deadline=deadline)
    return kernel.coupling(solution).toarray()


def _comparable(
    problem: QuadraticProblem, root: bool, n_threads: int, deadline: Deadline
) -> tuple[Float32Array, Float32Array] | None:
    """Return factors of the squared distances of profiles of both sides less a constant of each
    row, which moves no plan, in units of their mean; None if all are equal up to rounding.
    """
    p, q = problem.p, problem.q
    left = _profiles(problem.x, root, n_threads, deadline)
    right = _profiles(problem.y, root, n_threads, deadline)
    middle, size = p @ left, max(np.square(side).sum(axis=1).max() for side in (left, right))
    left -= middle
    right -= middle
    of_left, of_right = (np.square(side).sum(axis=1) for side in (left, right))
    mean = float(p @ of_left + q @ of_right - 2.0 * (p @ left) @ (q @ right))
    if mean <= 1e-12 * size:
        return None
    unit = np.sqrt(mean)
    left = np.column_stack([left * (-2.0 / unit), np.ones(len(left))])
    right = np.column_stack([right / unit, of_right / mean])
    return left.astype(np.float32), right.astype(np.float32)


def _profiles(geometry: Geometry, root: bool, n_threads: int, deadline: Deadline) -> Float64Array:
    """Return quantiles (n, QUANTILES) of the costs from every point to all others."""
    if root:
        values, vectors, scale = _eigenpairs(geometry, n_threads)
        # Eigenvalues that are rounding in float32 have roots that are not small.
        sizes = np.abs(values)
        values[sizes <= 4 * np.finfo(np.float32).eps * sizes.max()] = 0.0
        left = vectors * (np.sign(values) * np.sqrt(np.abs(values))).astype(np.float32)
        return np.sqrt(scale) * _row_quantiles(left, vectors, deadline)
    if isinstance(geometry, PointCloud):
        left = geometry.features @ geometry.signature.astype(np.float32)
        return geometry.scale * _row_quantiles(left, geometry.features, deadline)
    return _row_quantiles(geometry.matrix, None, deadline)


def _eigenpairs(geometry: Geometry, n_threads: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return eigenvalues and eigenvectors of costs that are centered along both axes, symmetric
    for once, and the unit of the values.
    """
    if isinstance(geometry, PointCloud):
        points = geometry.features - geometry.features.mean(axis=0, dtype=np.float64)
        basis, core = np.linalg.qr(points)
        values, vectors = np.linalg.eigh(core @ geometry.signature @ core.T)
        return values, (basis @ vectors).astype(np.float32), geometry.scale
    if geometry.symmetric and geometry.n >= DEFAULT.low_rank_from:
        return *geometry.leading_span(n_threads).centered(), 1.0
    matrix = geometry.matrix.astype(np.float32)
    matrix = (matrix + matrix.T) / 2
    mean = matrix.mean(axis=0, dtype=np.float64).astype(np.float32)
    matrix -= mean
    matrix -= (mean - mean.mean())[:, None]
    return *scipy.linalg.eigh(matrix, driver="evd", check_finite=False), 1.0


def _row_quantiles(left: np.ndarray, right: np.ndarray | None, deadline: Deadline) -> Float64Array:
    """Return quantiles of the rows of ``left @ right.T``, or of ``left``."""
    n = len(left)
    columns = np.linspace(0, n - 1, min(n, 8192)).astype(np.int64)
    right, k = None if right is None else right[columns].T, len(columns)
    # The method "hazen" of `numpy.quantile`, which is seven times as slow.
    between = np.clip((np.arange(QUANTILES) + 0.5) / QUANTILES * k - 0.5, 0, k - 1)
    low = np.minimum(between.astype(np.int64), max(k - 2, 0))
    high, fraction = np.minimum(low + 1, k - 1), between - low
    quantiles = np.empty((n, QUANTILES))
    for rows in row_blocks(n, k):
        deadline.check()
        values = left[rows][:, columns] if right is None else left[rows] @ right
        values.sort(axis=1)
        quantiles[rows] = values[:, low] * (1 - fraction) + values[:, high] * fraction
    return quantiles
