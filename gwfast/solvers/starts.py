"""Plans to start from. The problem is not convex: which optimum is found depends on
where the descent begins.

A start is a small class with one method, ``plan(problem, n_threads)``, which returns a
float32 plan, or None for the product plan. Its marginals may be rough: the first
iteration of a descent meets them. Starts of this package are subclasses of `Start`; a
start with a `name` may be asked for by its name.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..kernels import _products
from ..kernels._rows import Panels, aligned_empty
from ..linear.gibbs_kernel import Buffer, StoredKernel
from ..linear.sinkhorn_solver import SinkhornSolver
from ..problems.geometry import LowRankCost, PointCloud
from ..problems.low_rank import MIN_POINTS
from ..problems.quadratic import QuadraticProblem
from ..quadratic.frank_wolfe import ExactLimits
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER, Deadline
from ..utils.labels import in_order
from ..utils.types import Float32Array
from ..utils.validation import as_matrix, as_positive, one_of
from .annealing import lowest
from .isomorphism import isomorphisms

# Marginal error (L1) and Sinkhorn iterations at which the coupling of a start ends.
START_TOL, START_ITERATIONS = 1e-2, 100
# Quantiles of a profile, and the most columns of the costs, spread evenly, that enter.
QUANTILES, MAX_COLUMNS = 300, 8192
# Epsilons of the coupling of profiles, as shares of their mean squared distance: the
# usual one, a wider one that one hard pair of languages needs, and the least at which
# float32 tells profiles apart.
WIDTH, WIDE, MIN_WIDTH = 0.02, 0.05, 1e-4
# Epsilons of profiles of roots. On Spanish and English with noise (1000 words) 0.2
# leads to the lowest optimum at up to six times the noise of 0.02; on Japanese and
# English 0.1 does, but not 0.2.
ROOT_WIDTHS = 0.1, 0.2
# Entries that the plans of random starts have together, and their largest number, for
# matrices of costs and for point clouds. Small graphs have many optima; in the same time
# escapes find more of them than random starts.
RANDOM_ENTRIES, MAX_RANDOM = (500_000, 1_500_000), (12, 48)
# Entries of a plan up to which starts without entropy race, too.
MOST_EXACT = 10_000


class MakesPlan(Protocol):
    """What a caller may pass as a start."""

    def plan(self, problem: QuadraticProblem, n_threads: int, /) -> ArrayLike | None:
        """A plan of any mass, or None for the product plan."""


class Shared(NamedTuple):
    """What several starts of a problem share: its `shared_profiles`, a function that
    returns a float32 matrix (n, m) to make the plan in, and the deadline, after which
    OutOfTime may be raised.
    """

    profiles: Callable[[bool], Any] | None = None
    scratch: Callable[[], Float32Array] | None = None
    deadline: Deadline = NEVER


ALONE = Shared()


class Start:
    """A start of this package: its plans need no check, and its ``plan`` also takes a `Shared`."""

    name: ClassVar[str | None] = None
    is_random: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.name or "plan"


@dataclasses.dataclass(frozen=True)
class Product(Start):
    """The product plan ``p q'``."""

    name = "product"

    def plan(self, problem, n_threads, shared=ALONE):
        return None


@dataclasses.dataclass(frozen=True)
class Random(Start):
    """Independent exponential entries, scaled to the marginals."""

    seed: int = 0
    name, is_random = "random", True

    def plan(self, problem, n_threads, shared=ALONE):
        rng = np.random.default_rng(self.seed)

        def fill(cost):
            rng.standard_exponential(out=cost, dtype=np.float32)

        return _couple(problem, fill, 1.0, n_threads, shared)

    def __str__(self):
        return f"random {self.seed}"


@dataclasses.dataclass(frozen=True)
class Exact(Start):
    """The best plan without regularization that the search of small problems finds (annealing.py).

    Parameters
    ----------
    seed : int, default=0
    n_random : int or None, default=None
        None chooses it, as `annealing.lowest` does.
    """

    seed: int = 0
    n_random: int | None = None
    name, is_random = "exact", True

    def plan(self, problem, n_threads, shared=ALONE):
        limits = ExactLimits(deadline=shared.deadline)
        shared.deadline.check()
        found = lowest(problem, n_threads, limits, self.seed, self.n_random)
        return found.solution.plan.astype(np.float32)

    def __str__(self):
        return "exact"


@dataclasses.dataclass(frozen=True)
class Given(Start):
    """A plan of the caller's, see `as_start`, or one that is called otherwise."""

    matrix: NDArray
    label: str = "plan"

    def plan(self, problem, n_threads, shared=ALONE):
        return self.matrix

    def __str__(self):
        return self.label


class Once(Start):
    """A start whose plan, for one problem, is made once and kept."""

    def __init__(self, start, problem, n_threads):
        self._start, self._given = start, (problem, n_threads)

    def plan(self, problem, n_threads, shared=ALONE):
        return self._plan

    @functools.cached_property
    def _plan(self):
        return start_plan(self._start, *self._given)

    def __str__(self):
        return str(self._start)


@dataclasses.dataclass(frozen=True)
class Profile(Start):
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

    width: float = WIDTH
    root: bool = False
    name = "profile"

    def __post_init__(self) -> None:
        if as_positive(self.width, "width") < MIN_WIDTH:
            raise ValueError(f"width must be at least {MIN_WIDTH}, got {self.width}")
        if not isinstance(self.root, bool):
            raise TypeError(f"root must be a bool, got {type(self.root).__name__}")

    def plan(
        self, problem: QuadraticProblem, n_threads: int, shared: Shared = ALONE
    ) -> Float32Array | None:
        given = problem, n_threads, shared.deadline
        profiles_of = shared.profiles or shared_profiles(*given)
        made = profiles_of(self.root)
        if made is None:
            return None
        left, right, col_cost = made
        panels = Panels(right, True, n_threads=n_threads)

        def fill(cost):
            # A constant of each row moves no plan.
            _products.matmul(-2.0 * left, panels, cost, n_threads=n_threads)
            np.add(cost, col_cost, out=cost)

        return _couple(problem, fill, self.width, n_threads, shared)

    def __str__(self) -> str:
        return f"{'root ' * self.root}profile {self.width:g}"


def named_starts():
    """Classes of starts by the names that a caller may use."""
    return {start.name: start for start in Start.__subclasses__() if start.name}


def default_starts(shape, seed, n_random=None, *, is_cloud=False):
    """The starts that race by default for a problem of this shape."""
    if n_random is None:
        n_random = RANDOM_ENTRIES[is_cloud] // (shape[0] * shape[1])
        n_random = min(max(n_random, 1), MAX_RANDOM[is_cloud])
    usual = [
        Profile(),
        Profile(WIDE),
        *(Profile(width, root=True) for width in ROOT_WIDTHS),
        Product(),
        *[Exact(seed)] * (shape[0] * shape[1] <= MOST_EXACT),
    ]
    return Starts(usual, seed, n_random)


def known_starts(problem, seed):
    """The starts that race where a small space is the other in another order, two such
    orders of which may have an optimum each; else none.
    """
    if problem.shape[0] * problem.shape[1] > MOST_EXACT or not problem.is_plain:
        return []
    orders = [
        Given(plan.astype(np.float32), f"isomorphism {number}")
        for number, plan in zip("12", isomorphisms(problem), strict=False)
    ]
    return orders and Starts([*orders, Product()], seed, 0)


@dataclasses.dataclass(frozen=True)
class Starts(Sequence):
    """Starts, and after them so many random ones, made when they are indexed: with a
    time limit there may be any number.
    """

    usual: list
    seed: int
    n_random: int

    def __len__(self):
        return min(len(self.usual) + self.n_random, sys.maxsize)

    def __getitem__(self, k):
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if k >= len(self):
            raise IndexError(k)
        number = k - len(self.usual)
        return self.usual[k] if number < 0 else Random(self.seed + number)


def fresh_starts(shape):
    """The starts that enter on the second level, as the few points of the first may
    have other optima: two where they are cheap.
    """
    return [Profile(WIDE), Profile(WIDTH)][: 2 if max(shape) <= 3500 else 1]


def is_start(init):
    """Whether `init` is an object with a method ``plan``."""
    return callable(getattr(init, "plan", None)) and not isinstance(init, type)


def as_start(init, problem, seed=0, *, name="init", also=(), dtype=np.float32):
    """The start of a name, of a start or of a plan, which gets that `dtype`; `also` are
    further names that messages list.
    """
    if is_start(init):
        return init
    if isinstance(init, str):
        names = named_starts()
        start = names[one_of(init, name, (*names, *also))]
        return start(seed) if start.is_random else start()
    if init is None or hasattr(init, "plan"):
        came = type(init).__name__
        if isinstance(init, type):
            came = f"the class {init.__name__}"
        raise TypeError(
            f"{name} must be the name of a start, a start or a plan (an array), got {came}"
        )
    init = in_order(init, name, *problem.orders, of="cost_x and cost_y")
    return Given(as_plan(init, name, problem.shape, dtype))


def as_plan(plan, name, shape, dtype=np.float32):
    """A caller's plan, checked and scaled to mass one."""
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


def start_plan(start, problem, n_threads, shared=ALONE):
    """The plan of a start, checked if its class is the caller's; None is the product plan."""
    if type(start) in Start.__subclasses__():
        return start.plan(problem, n_threads, shared)
    plan = start.plan(problem, n_threads)
    if plan is None:
        return None
    return as_plan(plan, f"the plan of {start}", problem.shape)


def shared_profiles(problem, n_threads, deadline=NEVER):
    """A function of `Profile.root` that returns the profiles of both sides, and keeps
    them for all starts that share the function.
    """
    return functools.cache(lambda root: _comparable(problem, root, n_threads, deadline))


def _comparable(problem, root, n_threads, deadline):
    """Profiles (n, k) and (m, k) of both sides, less the mean of the first and in units
    of the root of their mean squared distance, and the squared lengths (m,) of the
    second, in float32; None where all profiles are the same up to rounding.
    """
    p, q = problem.p, problem.q
    asymmetric = not (problem.x.symmetric and problem.y.symmetric)
    left = profiles(problem.x, p, root, asymmetric, n_threads, deadline)
    right = profiles(problem.y, q, root, asymmetric, n_threads, deadline)
    size = max(_square_lengths(left).max(), _square_lengths(right).max())
    middle = p @ left
    # In place, as profiles of many points are large.
    left -= middle
    right -= middle
    squares = _square_lengths(left), _square_lengths(right)
    mean = float(p @ squares[0] + q @ squares[1])
    mean -= 2.0 * float((p @ left) @ (q @ right))
    if mean <= 1e-12 * size:
        return None
    left /= np.sqrt(mean)
    right /= np.sqrt(mean)
    return tuple(one.astype(np.float32) for one in (left, right, squares[1] / mean))


def _square_lengths(rows):
    made = np.empty(len(rows))
    for some in row_blocks(*rows.shape):
        (rows[some] ** 2).sum(axis=1, out=made[some])
    return made


def profiles(geometry, weights, root=False, both=False, n_threads=1, deadline=NEVER):
    """Quantiles (n, QUANTILES) of the costs from every point to all others; with `both`
    beside the quantiles of the costs to the point.
    """
    # Factors of the costs in units of the scale; a matrix is its own left factor.
    left, right, scale = None, None, 1.0
    if root:
        left, right, scale = _root_factors(geometry, n_threads)
    elif isinstance(geometry, PointCloud):
        left = geometry.features @ geometry.signature.astype(np.float32)
        right, scale = geometry.features, geometry.scale
    else:
        left = geometry.matrix
    made = _row_quantiles(left, right, weights, deadline)
    if both:
        other = made
        if right is None:
            other = _row_quantiles(left.T, None, weights, deadline)
        made = np.hstack([made, other])
    made *= scale
    return made


def _root_factors(geometry, n_threads):
    """Left and right factor of the square root of the costs, see `Profile`, in units of
    a scale, and the scale.
    """
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
        basis = points @ vectors[:, keep]
        factor = (basis / values[keep] ** 0.25).astype(np.float32)
        return factor, factor, np.sqrt(geometry.scale)
    if geometry.symmetric and geometry.n >= MIN_POINTS:
        # The other eigenvectors hardly matter to the costs, if more to their roots: of
        # 76 races (graphs of 700 to 2000 words, with noise, and cells) 68 end at the
        # objective of a race with all eigenvectors, six lower, two higher (1 and 8 %).
        values, vectors = geometry.leading_span(n_threads).centered()
    else:
        values, vectors = _centered_eigh(geometry)
    # Eigenvalues that are rounding in float32 have roots that are not small.
    sizes = np.abs(values)
    values[sizes <= 4 * np.finfo(np.float32).eps * sizes.max()] = 0.0
    roots = np.sign(values) * np.sqrt(np.abs(values))
    return vectors * roots, vectors, 1.0


def _centered_eigh(geometry):
    """Eigenvalues and eigenvectors of costs centered along both axes, in float32, the
    precision of profiles, which takes half the time of float64.
    """
    matrix, centered = geometry.matrix, np.empty((geometry.n, geometry.n), np.float32)
    mean = matrix.mean(axis=0, dtype=np.float64)
    if not geometry.symmetric:
        mean = (mean + matrix.mean(axis=1, dtype=np.float64)) / 2
    mean -= mean.mean() / 2
    for rows in row_blocks(*matrix.shape):
        some = matrix[rows] - mean
        if not geometry.symmetric:
            some = (some + (matrix[:, rows].T - mean)) / 2
        centered[rows] = some - mean[rows, None]
    size = float(np.abs(centered).max()) or 1.0
    centered /= size
    # In the order that LAPACK overwrites.
    kind = dict(driver="evd", overwrite_a=True, check_finite=False)
    values, vectors = scipy.linalg.eigh(centered.T, **kind)
    return values * size, vectors


def _row_quantiles(left, right, weights, deadline):
    """Quantiles of the rows of ``left @ right.T`` with weighted columns."""
    n = len(left)
    columns = np.arange(n)
    if n > MAX_COLUMNS:
        columns = np.linspace(0, n - 1, MAX_COLUMNS).astype(np.int64)
    weights = weights[columns] / weights[columns].sum()
    uniform = np.ptp(weights) <= 1e-9 / n
    right = None if right is None else right[columns].T
    levels, k = (np.arange(QUANTILES) + 0.5) / QUANTILES, len(columns)
    # Under equal weights a level lies between the ordered values `low` and `high` of a
    # row, as in the method "hazen" of `numpy.quantile`, which is seven times as slow.
    between = np.clip(levels * k - 0.5, 0, k - 1)
    low = np.minimum(between.astype(np.int64), max(k - 2, 0))
    high, fraction = np.minimum(low + 1, k - 1), between - low
    made = np.empty((n, QUANTILES))
    for rows in row_blocks(n, k):
        deadline.check()
        values = left[rows][:, columns] if right is None else left[rows] @ right
        if uniform:
            values.sort(axis=1)
            made[rows] = values[:, low] * (1 - fraction) + values[:, high] * fraction
            continue
        order = np.argsort(values, axis=1)
        values = np.take_along_axis(values, order, axis=1)
        middles = np.cumsum(weights[order], axis=1) - weights[order] / 2
        for i, at, value in zip(range(*rows.indices(n)), middles, values, strict=True):
            made[i] = np.interp(levels, at, value)
    return made


def _couple(problem, fill, epsilon, n_threads, shared):
    """The plan of a linear problem whose cost `fill` writes."""
    out = shared.scratch() if shared.scratch else aligned_empty(problem.shape)
    solver = SinkhornSolver(problem.p, problem.q, n_threads)
    kernel = StoredKernel(Buffer(out), fill, n_threads)
    limits = dict(tol=START_TOL, max_iter=START_ITERATIONS, deadline=shared.deadline)
    return kernel.coupling(solver.solve(kernel, epsilon, **limits)).toarray()
