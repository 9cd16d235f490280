"""Plans to start from. The problem is not convex: the optimum depends on where the descent begins.

A start is an object with a method ``plan(problem, n_threads)``, which returns a plan of any mass,
or None for the product plan. Its marginals may be rough: the first iteration meets them.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...kernels import _products
from ...kernels._rows import Panels, aligned_empty
from ...linear.gibbs_kernel import StoredKernel
from ...linear.rules import Balanced
from ...linear.sinkhorn_solver import SinkhornSolver
from ...problems.geometry import LowRankCost, PointCloud
from ...problems.low_rank import MIN_POINTS
from ...problems.quadratic import QuadraticProblem
from ...results.coupling import Coupling
from ...utils.blocks import row_blocks
from ...utils.deadline import NEVER, Deadline
from ...utils.types import Float32Array
from ...utils.validation import as_matrix, as_positive

# Quantiles of a profile, and the most columns of the costs, spread evenly, that enter.
QUANTILES, MAX_COLUMNS = 300, 8192
# Epsilons of profiles by default, plain and of roots: of 30 widths these led to the lowest optima.
WIDTHS, ROOT_WIDTHS = (0.02, 0.05), (0.1, 0.2)
# Entries that random plans of matrices, and of clouds, have together; and the most plans.
RANDOM_ENTRIES, MAX_RANDOM = (500_000, 1_500_000), (12, 48)


class MakesPlan(Protocol):
    """An object that a caller may pass as a start."""

    def plan(self, problem: QuadraticProblem, n_threads: int, /) -> ArrayLike | Coupling | None:
        """Return a plan of any mass, or None for the product plan."""


@dataclasses.dataclass(frozen=True, eq=False)
class Start:
    """A start of this package: its label, ``make(problem, n_threads)``, and a caller's plan."""

    label: str
    make: Callable[..., Any]
    matrix: Any = None

    def plan(self, problem, n_threads):
        return self.make(problem, n_threads)

    def __str__(self):
        return self.label


PRODUCT = Start("product", lambda problem, n_threads: None)


def random(seed):
    """Return the start of independent exponential entries, scaled to the marginals."""
    rng = np.random.default_rng

    def make(problem, n_threads):
        def fill(cost):
            rng(seed).standard_exponential(out=cost, dtype=np.float32)

        return _couple(problem, fill, 1.0, n_threads)

    return Start(f"random {seed}", make)


def given(plan, label="plan"):
    """Return the start of a checked plan, an array or a `Coupling`."""
    return Start(label, lambda problem, n_threads: plan, plan)


@dataclasses.dataclass(frozen=True)
class Profile:
    """Couple points whose costs to all others are distributed alike.

    Row i of the costs, sorted, is a profile of point i that does not depend on the order of the
    others; profiles of both sides can be compared, by the Wasserstein distance of the two
    distributions. Their optimal coupling solves Memoli's third lower bound of the
    Gromov-Wasserstein distance (Foundations of Computational Mathematics, 2011, section 6).

    Parameters
    ----------
    width : float, default=0.02
        Epsilon of that coupling, as a share of the mean squared distance of profiles.
    root : bool, default=False
        Compare profiles of the square root of the similarity, ``(X X')^(1/2)``: it
        weighs strong and weak directions more evenly (Artetxe, Labaka and Agirre,
        ACL 2018, section 3.2). Of a matrix of costs, centered along both axes, the
        square roots of the absolute eigenvalues are taken (their signs kept).

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(
    ...     cost, cost[::-1, ::-1], init=gwfast.Profile(width=0.05)
    ... )
    >>> str(result.status)
    'converged'
    """

    width: float = WIDTHS[0]
    root: bool = False

    def __post_init__(self) -> None:
        if as_positive(self.width, "width") < 1e-4:  # float32 tells no more profiles apart
            raise ValueError(f"width must be at least 0.0001, got {self.width}")
        if not isinstance(self.root, bool):
            raise TypeError(f"root must be a bool, got {type(self.root).__name__}")

    def plan(
        self,
        problem: QuadraticProblem,
        n_threads: int,
        deadline: Deadline = NEVER,
        profiles: Callable[[bool], Any] | None = None,
    ) -> Float32Array | None:
        compared = (profiles or shared_profiles(problem, n_threads, deadline))(self.root)
        if compared is None:
            return None
        left, right, col_cost = compared
        panels = Panels(right, True, n_threads=n_threads)

        def fill(cost):
            # A constant of each row moves no plan.
            _products.matmul(-2.0 * left, panels, cost, n_threads=n_threads)
            np.add(cost, col_cost, out=cost)

        return _couple(problem, fill, self.width, n_threads, deadline)

    def __str__(self) -> str:
        return f"{'root ' * self.root}profile {self.width:g}"


def default_starts(problem, n_threads, seed, n_random=None, *, costs=None, deadline=NEVER):
    """Return the starts that race by default: profiles (of `costs`), the product plan, random."""
    is_cloud = isinstance(problem.x, PointCloud)
    if n_random is None:
        n_random = RANDOM_ENTRIES[is_cloud] // (problem.shape[0] * problem.shape[1])
        n_random = min(max(n_random, 1), MAX_RANDOM[is_cloud])
    profiles = shared_profiles(costs or problem, n_threads, deadline)
    every = [Profile(width) for width in WIDTHS] + [Profile(width, True) for width in ROOT_WIDTHS]

    def shared(one):
        return lambda problem, threads: one.plan(problem, threads, deadline, profiles)

    starts = [Start(str(one), shared(one)) for one in every]
    return [*starts, PRODUCT], (random(seed + k) for k in range(n_random))


def is_start(init):
    """Return whether `init` is an object with a method ``plan``."""
    return callable(getattr(init, "plan", None)) and not isinstance(init, type)


def as_plan(plan, name, shape, dtype=np.float32):
    """Return a caller's plan, checked and scaled to mass one."""
    try:
        plan = as_matrix(plan, name, shape=shape)
    except ValueError as error:
        if "must have shape" in str(error) and np.shape(plan)[1] == 2:
            error.args = (f"{error}; known pairs are Seeds(pairs)",)
        raise
    if plan.min() < 0:
        raise ValueError(f"{name} must not be negative, got {plan.min()}")
    total = plan.sum(dtype=np.float64)
    if not total > 0:
        raise ValueError(f"{name} must have mass, got a sum of 0")
    return np.ascontiguousarray(plan / total, dtype=dtype)


def start_plan(start, problem, n_threads):
    """Return the plan of a start, checked if its class is the caller's."""
    plan = start.plan(problem, n_threads)
    ours = type(start).__module__.startswith(__package__)
    if plan is None or ours or isinstance(plan, Coupling):
        return plan
    return as_plan(plan, f"the plan of {start}", problem.shape)


def shared_profiles(problem, n_threads, deadline=NEVER):
    """Return a function of `Profile.root` that makes the profiles of both sides once."""
    return functools.cache(lambda root: _comparable(problem, root, n_threads, deadline))


def _comparable(problem, root, n_threads, deadline):
    """Return profiles of both sides, centered and of mean squared distance one, and the squared
    lengths of the second; None if all profiles are equal up to rounding.
    """
    both = not (problem.x.symmetric and problem.y.symmetric)
    p, q = problem.p, problem.q
    left = profiles(problem.x, p, root, both, n_threads, deadline)
    right = profiles(problem.y, q, root, both, n_threads, deadline)
    middle, size = p @ left, max(_square_lengths(left).max(), _square_lengths(right).max())
    left -= middle
    right -= middle
    of_left, of_right = _square_lengths(left), _square_lengths(right)
    mean = float(p @ of_left + q @ of_right - 2.0 * (p @ left) @ (q @ right))
    if mean <= 1e-12 * size:
        return None
    left, right = ((side / np.sqrt(mean)).astype(np.float32) for side in (left, right))
    return left, right, (of_right / mean).astype(np.float32)


def _square_lengths(rows):
    return np.einsum("ij,ij->i", rows, rows)


def profiles(geometry, weights, root=False, both=False, n_threads=1, deadline=NEVER):
    """Return quantiles (n, QUANTILES) of the costs from every point to all others; with `both`
    beside quantiles of the costs to the point.
    """
    right, scale = None, 1.0
    if root:
        left, right, scale = _root_factors(geometry, n_threads)
    elif isinstance(geometry, PointCloud):
        left = geometry.features @ geometry.signature.astype(np.float32)
        right, scale = geometry.features, geometry.scale
    else:
        left = geometry.matrix
    quantiles = _row_quantiles(left, right, weights, deadline)
    if both:
        other = _row_quantiles(left.T, None, weights, deadline) if right is None else quantiles
        quantiles = np.hstack([quantiles, other])
    return quantiles * scale


def _root_factors(geometry, n_threads):
    """Return left and right factor, and the unit, of the square root of the costs."""
    if isinstance(geometry, LowRankCost):
        points = geometry.features - geometry.features.mean(axis=0, dtype=np.float64)
        basis, core = np.linalg.qr(points)
        values, vectors = np.linalg.eigh(core @ geometry.signature @ core.T)
        vectors, unit = basis @ vectors, np.sqrt(geometry.scale)
        return vectors * (np.sign(values) * np.sqrt(np.abs(values))), vectors, unit
    if isinstance(geometry, PointCloud):
        points = geometry.points.astype(np.float64)
        values, vectors = np.linalg.eigh(points.T @ points)
        # X (X'X)^(-1/2) X', without directions in which all points are zero.
        keep = values > 1e-10 * values[-1]
        factor = (points @ vectors[:, keep] / values[keep] ** 0.25).astype(np.float32)
        return factor, factor, np.sqrt(geometry.scale)
    if geometry.symmetric and geometry.n >= MIN_POINTS:
        values, vectors = geometry.leading_span(n_threads).centered()
    else:
        matrix = geometry.matrix.astype(np.float32)
        matrix = (matrix + matrix.T) / 2
        mean = matrix.mean(axis=0, dtype=np.float64).astype(np.float32)
        matrix -= mean
        matrix -= (mean - mean.mean())[:, None]
        values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    # Eigenvalues that are rounding in float32 have roots that are not small.
    sizes = np.abs(values)
    values[sizes <= 4 * np.finfo(np.float32).eps * sizes.max()] = 0.0
    return vectors * (np.sign(values) * np.sqrt(np.abs(values))), vectors, 1.0


def _row_quantiles(left, right, weights, deadline):
    """Return quantiles of the rows of ``left @ right.T`` with weighted columns."""
    n = len(left)
    columns = np.linspace(0, n - 1, min(n, MAX_COLUMNS)).astype(np.int64)
    weights = weights[columns] / weights[columns].sum()
    uniform = np.ptp(weights) <= 1e-9 / n
    right = None if right is None else right[columns].T
    levels, k = (np.arange(QUANTILES) + 0.5) / QUANTILES, len(columns)
    # Equal weights: the method "hazen" of `numpy.quantile`, which is seven times as slow.
    between = np.clip(levels * k - 0.5, 0, k - 1)
    low = np.minimum(between.astype(np.int64), max(k - 2, 0))
    high, fraction = np.minimum(low + 1, k - 1), between - low
    quantiles = np.empty((n, QUANTILES))
    for rows in row_blocks(n, k):
        deadline.check()
        values = left[rows][:, columns] if right is None else left[rows] @ right
        if uniform:
            values.sort(axis=1)
            quantiles[rows] = values[:, low] * (1 - fraction) + values[:, high] * fraction
            continue
        order = np.argsort(values, axis=1)
        values = np.take_along_axis(values, order, axis=1)
        middles = np.cumsum(weights[order], axis=1) - weights[order] / 2
        for i, at, value in zip(range(*rows.indices(n)), middles, values, strict=True):
            quantiles[i] = np.interp(levels, at, value)
    return quantiles


def _couple(problem, fill, epsilon, n_threads, deadline=NEVER):
    """Return the rough plan of a linear problem whose cost `fill` writes."""
    solver = SinkhornSolver(Balanced(problem.p, problem.q), n_threads)
    kernel = StoredKernel(aligned_empty(problem.shape), fill, n_threads)
    solution = solver.solve(kernel, epsilon, tol=1e-2, max_iter=100, deadline=deadline)
    return kernel.coupling(solution).toarray()
