"""The linearization that suits a problem, where its kernels are kept, and what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ..problems.cross_cost import CrossCost
from ..problems.geometry import PointCloud
from ..problems.leading import SPAN
from ..problems.losses import LOSSES
from ..problems.low_rank import has_low_rank
from ..utils.blocks import SCRATCH_BYTES
from ..utils.deadline import NEVER, Deadline
from ..utils.precision import SINGLE, FloatPrecision
from ..utils.tuning import DEFAULT, Tuning
from .acceleration import DEPTH
from .dense import (
    SAMPLE_ROWS,
    DenseLinearization,
    accelerates,
    copies_costs,
    has_fixed_separable,
    n_kept,
)
from .factored import DRAWS, FactoredLinearization, clouds_of, is_sampled
from .low_rank import MEASURED, PACKED_BYTES, rank_for, suits
from .methods import PGD
from .neighbors import NeighborTier

if TYPE_CHECKING:
    from ..problems.quadratic import QuadraticProblem
    from .methods import Method
    from .state import Linearization

# See `gromov_wasserstein`.
TierName: TypeAlias = Literal["auto", "dense", "tiled", "neighbors"]
Tier: TypeAlias = TierName | NeighborTier
# The tier "auto" takes one of these, as "neighbors" is an approximation.
FULL_TIERS: tuple[TierName, ...] = get_args(TierName)[1:-1]
TIERS: tuple[TierName, ...] = get_args(TierName)[1:]


class Placement:
    """Keeps the kernels of some problems of point clouds elsewhere. `distributed` has one."""

    def takes(self, problem: QuadraticProblem) -> bool:
        """Return whether it keeps the kernels of this problem, which has factors."""
        raise NotImplementedError

    def linearize(self, problem: QuadraticProblem, n_threads: int, tier: Tier) -> Linearization:
        """Return the `Linearization` of a problem that it takes."""
        raise NotImplementedError

    def nbytes(self, shape: tuple[int, int]) -> int:
        """Return the bytes that a solve of that many points takes in this process."""
        raise NotImplementedError


def is_factored(problem: QuadraticProblem, method: Method = PGD) -> bool:
    """Return whether the linearized cost is a product, which need not be formed."""
    clouds = isinstance(problem.x, PointCloud) and isinstance(problem.y, PointCloud)
    factors = problem.between is None or isinstance(problem.between, CrossCost)
    return clouds and factors and LOSSES[problem.loss].keeps_factors and method is PGD


def is_placed(problem: QuadraticProblem, placement: Placement | None, method: Method = PGD) -> bool:
    """Return whether a `Placement`, if there is one, keeps the kernels of this problem."""
    if placement is None or not (problem.is_plain and is_factored(problem, method)):
        return False
    return placement.takes(problem)


def tiers(problem: QuadraticProblem, method: Method = PGD) -> tuple[TierName, ...]:
    """Return the ways of keeping the kernel in a solve of this problem."""
    return TIERS if is_factored(problem, method) else TIERS[:1]


def linearize(
    problem: QuadraticProblem,
    n_threads: int,
    tier: Tier = "dense",
    *,
    method: Method = PGD,
    precision: FloatPrecision = SINGLE,
    deadline: Deadline = NEVER,
    tuning: Tuning = DEFAULT,
    placement: Placement | None = None,
) -> Linearization:
    """Return the `Linearization` of a problem for one of its `tiers`. After the deadline OutOfTime
    may be raised, here and where states are made from plans.
    """
    if placement is not None and is_placed(problem, placement, method):
        return placement.linearize(problem, n_threads, tier)
    if is_factored(problem, method):
        return FactoredLinearization(problem, n_threads, tier, tuning)
    return DenseLinearization(
        problem, n_threads, method=method, precision=precision, deadline=deadline, tuning=tuning
    )


def work(problem: QuadraticProblem) -> int:
    """Return about the multiplications of an outer iteration, and of reading the kernel."""
    n, m = problem.shape
    read = 30  # multiplications that take about as long as all else that is done with an entry
    if is_factored(problem):
        between = problem.between.rank if problem.is_fused else 0
        return n * m * (clouds_of(problem)[1].rank + between + read)
    return n * m * (n + m + read)


def nbytes(
    problem: QuadraticProblem,
    tier: Tier,
    n_threads: int,
    *,
    method: Method = PGD,
    shape: tuple[int, int] | None = None,
    itemsize: int = 4,
    n_states: int = 1,
    placement: Placement | None = None,
) -> int:
    """Return an upper bound of the bytes that a solve of this shape takes with `n_states` descents
    that take turns, less the geometries and the 8 MB that an interpreter and its allocator keep.
    """
    shape = problem.shape if shape is None else shape
    if placement is not None and is_placed(problem, placement, method):
        return placement.nbytes(shape)
    if is_factored(problem, method):
        return factored_nbytes(problem, tier, n_threads, shape)
    size = _dense(problem, shape, 4, method, n_states)
    if itemsize > 4:
        # The plan of a solve in float32 begins another.
        size = max(size, _dense(problem, shape, 8, method, 1))
    if not LOSSES[problem.loss].keeps_factors:
        size += 4 * SCRATCH_BYTES  # of the float64 objective
    if has_low_rank(problem, shape):
        # Eigenvectors; other parts of the low-rank warm start are freed before.
        size += 4 * 8 * SPAN * sum(shape)
    return size


def _dense(
    problem: QuadraticProblem, shape: tuple[int, int], itemsize: int, method: Method, n_states: int
) -> int:
    """Return the bytes of matrices with this itemsize."""
    (n, m), larger = shape, max(shape)
    symmetric, followed = problem.x.symmetric and problem.y.symmetric, accelerates(problem, method)
    updates = suits(shape, symmetric, DEFAULT)
    # The kernel, the products of the start, of the state before and of the next; an asymmetric
    # cost has a second product and its scratch. Other states have products, and plans unless they
    # are accelerated.
    plans = 4 + 2 * (not symmetric) + problem.is_fused + method.alternating
    plans += (n_states - 1) * (2 - followed)
    plans += n_kept(shape, itemsize, updates, followed) if followed else 3
    size = plans * n * m + 6 * max(SAMPLE_ROWS.values()) * m
    if n * m * (n + m) <= 2 * DEFAULT.few_points**3:
        # Scratch of the compiled loop, and plan and cost of each of its descents.
        size += n * m * (12 + n_states)
    if copies_costs(problem, method, itemsize, shape):
        # The right factor is stored a second time, packed.
        squares = n * n + m * m
        size += (1 if symmetric else 2) * squares + m * m
        size += 0 if has_fixed_separable(problem, method) else squares
    for side in (problem.x, problem.y):
        if isinstance(side, PointCloud) or not side.matrix.flags.forc:
            size += larger**2  # a copy in C order
    size += min(larger * larger, PACKED_BYTES // itemsize + 64 * larger)
    if updates:
        size += (8 + DEPTH) * (rank_for(shape) + 2 * MEASURED) * (n + m)
    return itemsize * size


def factored_nbytes(
    problem: QuadraticProblem, tier: Tier, n_threads: int, shape: tuple[int, int]
) -> int:
    """Return the bytes of a solve of point clouds of that shape, less its factors."""
    n, m = shape
    between = problem.between.rank if problem.is_fused else 0
    r, s = (cloud.rank + between for cloud in clouds_of(problem))
    # Both features as the kernels read them, products with them in a step (float64 for a moment),
    # and column sums of chunks.
    shared = 4 * (3 * n * (r + s) + 3 * m * s) + 12 * 32 * m + 64 * (n + m)
    # Samples and neighbors: columns in several forms of compressed rows, weights and kernels.
    if is_sampled(shape, tier):
        shared += 24 * DRAWS * n
    if tier == "dense":
        return shared + 4 * n * m
    neighbors = NeighborTier.of(tier)
    kept = 40 * neighbors.k * (n + m) if neighbors else 0
    return shared + kept + n_threads * max(4 * 2**20, 4 * 64 * m)
