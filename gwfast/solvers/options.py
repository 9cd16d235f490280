"""The checked options of the public functions."""

import dataclasses
from collections.abc import Callable
from contextvars import ContextVar

from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import EpsilonLike, as_epsilon
from ..quadratic.judge import Limits
from ..quadratic.linearize import Placement, Tier
from ..quadratic.methods import PGD, Method
from ..results.result import LiveStep
from ..utils.mechanisms import ALL, Mechanisms
from ..utils.precision import DOUBLE, SINGLE, Dtype, as_precision
from ..utils.types import MemoryLimit, PathLike, Progress
from ..utils.validation import as_count, as_positive
from .checkpoint import Checkpoint, as_checkpoint
from .search.inits import InitLike, as_start, is_list_of_starts
from .search.starts import PRODUCT

Callback = Callable[[LiveStep], object]
# A public function reads the placement of the block around it, and passes it as an argument.
in_force: ContextVar[Placement | None] = ContextVar("placement", default=None)


@dataclasses.dataclass(frozen=True)
class SolveOptions:
    """How to solve a problem; see `gromov_wasserstein`.

    What depends on the problem is checked by the solve: `init`, `method` (a name until then),
    `n_threads`, `memory_limit`, `tier` and `checkpoint` (a path until then). With the `order`
    "mass" coarse levels have the points with most mass, with "given" the first points.
    `takes_zero` allows for an epsilon of 0.
    """

    limits: Limits
    epsilon: EpsilonLike = "auto"
    init: InitLike = "auto"
    method: str | Method = "pgd"
    dtype: Dtype | None = None
    order: str = "mass"
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
    mechanisms: Mechanisms = ALL
    placement: Placement | None = None

    def __post_init__(self):
        if self.callback is not None and not callable(self.callback):
            came = type(self.callback).__name__
            raise TypeError(f"callback must be callable or None, got {came}")
        checked = dict(
            seed=as_count(self.seed, "seed", least=0),
            epsilon=as_epsilon(self.epsilon, zero=self.takes_zero),
        )
        if self.n_starts is not None:
            checked["n_starts"] = as_count(self.n_starts, "n_starts", least=0)
        if self.search_time is not None:
            checked["search_time"] = as_positive(self.search_time, "search_time")
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
