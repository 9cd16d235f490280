"""The rare settings of the public functions, and the checked settings of a solve."""

from __future__ import annotations

import dataclasses
import math
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike

from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import Epsilon, EpsilonLike, as_epsilon
from ..problems.quadratic import QuadraticProblem
from ..quadratic.judge import Limits
from ..quadratic.linearize import Placement, Tier, TierName
from ..quadratic.methods import METHODS, PGD, Method, MethodName
from ..quadratic.neighbors import NeighborTier
from ..results.records import Callback
from ..results.result import GWResult
from ..utils.deadline import Deadline
from ..utils.precision import DOUBLE, SINGLE, Dtype, FloatPrecision, as_precision
from ..utils.progress import ProgressListener
from ..utils.tuning import DEFAULT, Tuning
from ..utils.types import MemoryLimit, PathLike, Progress
from ..utils.validation import as_count, as_positive, one_of
from .checkpoint import Checkpoint, as_checkpoint
from .search.seeds import Seeds
from .search.starts import Start

# The starts that a caller may pass as `init`: a name, a plan, seeds, or the result of a solve.
OneInit: TypeAlias = str | ArrayLike | Seeds | GWResult
InitLike: TypeAlias = OneInit | list[OneInit]
# A public function reads the placement of the block around it, and passes it as an argument.
in_force: ContextVar[Placement | None] = ContextVar("placement", default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """Settings of a solver that few callers need.

    Parameters
    ----------
    method : {"pgd", "ppa", "bapg"}, default="pgd"
        "pgd": projected gradient descent (Peyre, Cuturi and Solomon, ICML 2016). "ppa": the
        proximal point algorithm (Xu et al., ICML 2019), where epsilon is a step size and the
        objective has no entropy. "bapg": Bregman alternating projections (Li et al., ICLR 2023),
        of whose plan only the columns meet their marginal.
    tier : {"auto", "dense", "tiled", "neighbors"}, default="auto"
        How the kernel of two point clouds is kept: in one buffer, or a few rows at a time; "auto"
        is the first that `memory_limit` allows. "neighbors", for hundreds of thousands of points,
        keeps few entries: an approximation, whose error `GWResult.left_out` bounds.
    n_neighbors : int or None, default=None
        Columns of each row, and rows of each column, that the tier "neighbors" keeps; None is 32.
    max_inner : int, default=10000
        Limit of the Sinkhorn iterations of an outer iteration; exact problems have none.
    marginal_tol : float, default=1e-5
        L1 error of the marginals at which a solver may stop; exact problems have none.
    n_starts : int or None, default=None
        Number of random starts of ``init="auto"``; None chooses it by the size.
    search_time : float or None, default=None
        Seconds for which ``init="auto"`` looks for a lower optimum; fewer if it has found nothing
        lower for half of them. None looks for 1.5 times as long as a solve takes, of point clouds
        five times.

    Examples
    --------
    >>> import gwfast
    >>> cost = [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    >>> options = gwfast.SolverOptions(method="ppa", marginal_tol=1e-6)
    >>> gwfast.gromov_wasserstein(cost, cost, options=options).method
    'ppa'
    """

    method: MethodName = "pgd"
    tier: TierName = "auto"
    n_neighbors: int | None = None
    max_inner: int = 10_000
    marginal_tol: float = 1e-5
    n_starts: int | None = None
    search_time: float | None = None

    def __post_init__(self) -> None:
        one_of(self.method, "method", tuple(METHODS))
        one_of(self.tier, "tier", ("auto", "dense", "tiled", "neighbors"))
        if self.n_neighbors is not None:
            as_count(self.n_neighbors, "n_neighbors")
            if self.tier != "neighbors":
                raise ValueError(
                    f"n_neighbors must be None unless tier='neighbors', got {self.n_neighbors}"
                )
        as_count(self.max_inner, "max_inner")
        as_positive(self.marginal_tol, "marginal_tol")
        if self.n_starts is not None:
            as_count(self.n_starts, "n_starts", least=0)
        if self.search_time is not None:
            as_positive(self.search_time, "search_time")
        for name, value in (("n_starts", self.n_starts), ("search_time", self.search_time)):
            if value is not None and self.method != "pgd":
                raise ValueError(f"{name} must be None unless method='pgd', got {value}")

    def refuse(self, *names: str) -> None:
        """Raise a ValueError if settings with these names have other values than the default."""
        for name in names:
            value, default = getattr(self, name), getattr(SolverOptions, name)
            if value != default:
                raise ValueError(f"options.{name} must be {default!r} here, got {value!r}")


def as_options(options: SolverOptions | None) -> SolverOptions:
    """Return the argument `options`, checked; None are the defaults."""
    if options is None:
        return SolverOptions()
    if not isinstance(options, SolverOptions):
        type_name = type(options).__name__
        raise TypeError(f"options must be a SolverOptions or None, got {type_name}")
    return options


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """Settings of a solve that do not depend on the problem.

    With the `order` "mass" coarse levels have the points with most mass, with "given" the first
    points, and on later levels points spread over all others.
    """

    limits: Limits
    epsilon: Epsilon
    precision: FloatPrecision = SINGLE
    order: Literal["mass", "given"] = "mass"
    n_threads: int | None = None
    seed: int = 0
    n_starts: int | None = None
    search_time: float | None = None
    callback: Callback | None = None
    progress: Progress | ProgressListener = False
    tuning: Tuning = DEFAULT
    placement: Placement | None = None

    @property
    def is_exact(self) -> bool:
        """Return whether there is no regularization."""
        return self.epsilon.is_zero

    def threads(self, problem: QuadraticProblem) -> int:
        """Return how many threads the problem is worth."""
        return resolve_n_threads(self.n_threads, work=problem.shape[0] * problem.shape[1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResolvedSettings(SharedSettings):
    """How to solve a given problem."""

    method: Method = PGD
    tier: Tier = "dense"
    memory_limit: float = math.inf
    checkpoint: Checkpoint | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(SharedSettings):
    """Settings that a caller has asked for; see `gromov_wasserstein` and `SolverOptions`. The solve
    checks `init`, `method`, `n_threads`, `memory_limit` and `tier`, which depend on the problem.
    """

    init: InitLike | Start = "auto"
    method: MethodName = "pgd"
    tier: Tier = "auto"
    memory_limit: MemoryLimit = None
    checkpoint: Path | None = None

    @classmethod
    def of(
        cls,
        options: SolverOptions | None,
        deadline: Deadline,
        *,
        tol: float,
        max_iter: int = 1000,
        epsilon: EpsilonLike = "auto",
        takes_zero: bool = False,
        dtype: Dtype | None = None,
        seed: int = 0,
        checkpoint: PathLike | None = None,
        callback: Callback | None = None,
        **others: Any,
    ) -> Settings:
        """Return the settings of a public function, from its `options` and other arguments;
        `takes_zero` allows for an epsilon of 0.
        """
        rare = as_options(options)
        tier: Tier = rare.tier
        if tier == "neighbors":
            tier = NeighborTier(as_count(rare.n_neighbors or 32, "n_neighbors"))
        limits = Limits(max_iter, rare.max_inner, tol, rare.marginal_tol, deadline=deadline)
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable or None, got {type(callback).__name__}")
        seed = as_count(seed, "seed", least=0, most=math.inf)
        regularization, path = as_epsilon(epsilon, zero=takes_zero), as_checkpoint(checkpoint)
        precision = DOUBLE if regularization.is_zero else SINGLE
        if dtype is not None:
            precision = as_precision(dtype)
        if precision is SINGLE and regularization.is_zero:
            raise ValueError("dtype must be None or 'float64' with epsilon=0")
        return cls(
            limits=limits,
            epsilon=regularization,
            precision=precision,
            method=rare.method,
            tier=tier,
            seed=seed,
            n_starts=rare.n_starts,
            search_time=rare.search_time,
            checkpoint=path,
            callback=callback,
            **others,
        )

    def resolved(self, **choices: Any) -> ResolvedSettings:
        """Return the settings with the choices for a problem."""
        kept = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(SharedSettings)
        }
        return ResolvedSettings(**(kept | choices))
