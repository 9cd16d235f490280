"""The linearization that suits a problem."""

from typing import Literal, TypeAlias, get_args

from ..problems.cross_cost import CrossCost
from ..problems.geometry import PointCloud
from ..problems.losses import LOSSES
from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from ..utils.precision import SINGLE
from . import dense, factored
from .dense import Dense
from .factored import Factored
from .factored_free import FreeFactored
from .methods import PGD
from .stores import NeighborTier

# See `solvers.levels`.
TierName: TypeAlias = Literal["auto", "dense", "tiled", "neighbors"]
Tier: TypeAlias = TierName | NeighborTier
# The tier "auto" takes one of these, as "neighbors" is an approximation.
WHOLE_TIERS: tuple[TierName, ...] = get_args(TierName)[1:-1]
TIERS: tuple[TierName, ...] = get_args(TierName)[1:]
# Multiplications that take about as long as all else that is done with an entry.
READ = 30


def is_factored(problem, method=PGD):
    """Whether the linearized cost is a product, which need not be formed."""
    clouds = isinstance(problem.x, PointCloud) and isinstance(problem.y, PointCloud)
    factors = problem.between is None or isinstance(problem.between, CrossCost)
    factors = clouds and factors and LOSSES[problem.loss].keeps_factors
    return factors and method is PGD


def is_placed(problem, placement, method=PGD):
    """Whether a `Placement`, if there is one, keeps the kernels of this problem."""
    if placement is None or not (problem.is_plain and is_factored(problem, method)):
        return False
    return placement.takes(problem)


def tiers(problem, method=PGD):
    """Ways of keeping the kernel in a solve of this problem."""
    return TIERS if is_factored(problem, method) else TIERS[:1]


def linearize(
    problem,
    n_threads,
    tier="dense",
    *,
    method=PGD,
    precision=SINGLE,
    deadline=NEVER,
    mechanisms=ALL,
    placement=None,
):
    """A `Linearization` of a problem, its state yet to be set.

    Parameters
    ----------
    problem : QuadraticProblem
    n_threads : int
    tier : {"dense", "tiled", "neighbors"} or NeighborTier, default="dense"
        One of `tiers`.
    method : Method, default=PGD
    precision : Precision, default=SINGLE
    deadline : Deadline, default=NEVER
        After it OutOfTime may be raised, here and where the state is set: on many
        points either takes seconds.
    mechanisms : Mechanisms, default=ALL
        Those that it may use; a `Placement` uses all.
    placement : Placement or None, default=None
        What keeps the kernels of problems that it takes.

    Returns
    -------
    Linearization
    """
    if is_placed(problem, placement, method):
        return placement.linearize(problem, n_threads, tier)
    if is_factored(problem, method):
        kind = Factored if problem.is_balanced else FreeFactored
        return kind(problem, n_threads, tier, mechanisms=mechanisms)
    kind = dict(precision=precision, mechanisms=mechanisms)
    return Dense(problem, n_threads, method=method, deadline=deadline, **kind)


def work(problem, *, method=PGD, itemsize=4):
    """What an outer iteration of this problem takes, to compare it with others: about
    its multiplications, and reading the kernel.
    """
    n, m = problem.shape
    if is_factored(problem, method):
        between = problem.between.rank if problem.is_fused else 0
        return n * m * (problem.y.rank + between + READ)
    return n * m * (n + m + READ) * itemsize / SINGLE.itemsize


def nbytes(
    problem, tier, n_threads, *, method=PGD, shape=None, itemsize=4, n_states=1, placement=None
):
    """Bytes that a solve in this tier takes beside the geometries.

    Parameters
    ----------
    problem : QuadraticProblem
    tier : {"dense", "tiled", "neighbors"} or NeighborTier
    n_threads : int
    method : Method, default=PGD
    shape : tuple of float or None, default=None
        What it would take with that many points; None is as many as there are.
    itemsize : int, default=4
        Of the precision.
    n_states : int, default=1
        Solves that take turns.
    placement : Placement or None, default=None
        As in `linearize`.

    Returns
    -------
    float
        An upper bound, up to what an interpreter and its allocator keep (8 MB).
    """
    shape = problem.shape if shape is None else shape
    if is_placed(problem, placement, method):
        return placement.nbytes(shape)
    if is_factored(problem, method):
        return factored.nbytes(problem, tier, n_threads, shape)
    return dense.nbytes(problem, shape, itemsize, method, n_states)
