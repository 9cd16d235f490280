"""The rare settings of the public functions, and the checked settings of a solve."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal

from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import EpsilonLike, as_epsilon
from ..quadratic.judge import Limits
from ..quadratic.linearize import Placement, Tier, TierName
from ..quadratic.methods import METHODS, PGD, Method, MethodName
from ..quadratic.neighbors import NeighborTier
from ..results.records import LiveStep
from ..utils.deadline import Deadline
from ..utils.precision import DOUBLE, SINGLE, Dtype, as_precision
from ..utils.tuning import DEFAULT, Tuning
from ..utils.types import MemoryLimit, PathLike, Progress
from ..utils.validation import as_count, as_positive, one_of
from .checkpoint import Checkpoint, as_checkpoint
from .search.inits import InitLike, as_start, is_list_of_starts
from .search.starts import PRODUCT

Callback = Callable[[LiveStep], object]
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
        came = type(options).__name__
        raise TypeError(f"options must be a SolverOptions or None, got {came}")
    return options


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to solve a problem; see `gromov_wasserstein` and `SolverOptions`.

    What depends on the problem is checked by the solve: `init`, `method` (a name until then),
    `n_threads`, `memory_limit`, `tier` and `checkpoint` (a path until then). With the `order`
    "mass" coarse levels have the points with most mass, with "given" the first points, and on later
    levels points spread over all others. `takes_zero` allows for an epsilon of 0.
    """

    limits: Limits
    epsilon: EpsilonLike = "auto"
    init: InitLike = "auto"
    method: str | Method = "pgd"
    dtype: Dtype | None = None
    order: Literal["mass", "given"] = "mass"
    n_threads: int | None = None
    memory_limit: MemoryLimit = None
    tier: Tier = "auto"
    seed: int = 0
    n_starts: int | None = None
    search_time: float | None = None
    takes_zero: bool = False
    checkpoint: PathLike | Checkpoint | None = None
    callback: Callback | None = None
    progress: Progress = False
    tuning: Tuning = DEFAULT
    placement: Placement | None = None

    @classmethod
    def of(
        cls, options: SolverOptions | None, deadline: Deadline, *, tol: float,
        max_iter: int = 1000, **others: Any,
    ) -> Settings:  # fmt: skip
        """Return the settings of a public function, from its `options` and other arguments."""
        rare = as_options(options)
        tier: Tier = rare.tier
        if tier == "neighbors":
            tier = NeighborTier(as_count(rare.n_neighbors or 32, "n_neighbors"))
        return cls(
            Limits(max_iter, rare.max_inner, tol, rare.marginal_tol, deadline=deadline),
            method=rare.method,
            tier=tier,
            n_starts=rare.n_starts,
            search_time=rare.search_time,
            **others,
        )

    def __post_init__(self):
        if self.callback is not None and not callable(self.callback):
            came = type(self.callback).__name__
            raise TypeError(f"callback must be callable or None, got {came}")
        checked = dict(
            seed=as_count(self.seed, "seed", least=0, most=math.inf),
            epsilon=as_epsilon(self.epsilon, zero=self.takes_zero),
        )
        if not isinstance(self.checkpoint, Checkpoint):
            checked["checkpoint"] = as_checkpoint(self.checkpoint)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.precision is SINGLE and self.is_exact:
            raise ValueError("dtype must be None or 'float64' with epsilon=0")

    @property
    def is_exact(self):
        """Return whether there is no regularization."""
        return self.epsilon.is_zero

    @property
    def precision(self):
        if self.dtype is None:
            return DOUBLE if self.is_exact else SINGLE
        return as_precision(self.dtype)

    def starts_of(self, problem):
        """Return the starts, checked; None for a race of the default starts."""
        init, dtype = self.init, self.precision.dtype
        if isinstance(init, str) and init == "auto":
            return None if self.method in (PGD, PGD.name) else [PRODUCT]
        if not is_list_of_starts(init):
            return [as_start(init, problem, self.seed, also=("auto",), dtype=dtype)]
        if not len(init):
            raise ValueError("init must not be an empty list")
        starts = enumerate(init, self.seed)
        return [as_start(start, problem, seed, dtype=dtype) for seed, start in starts]

    def threads(self, problem):
        """Return how many threads the problem is worth."""
        return resolve_n_threads(self.n_threads, work=problem.shape[0] * problem.shape[1])
