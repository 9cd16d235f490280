"""The checked options of the public functions."""

import dataclasses
from collections.abc import Callable

from numpy.typing import ArrayLike

from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import EpsilonLike, as_epsilon
from ..quadratic.factory import Tier, is_placed
from ..quadratic.methods import PGD, Method
from ..quadratic.placement import Placement, in_force
from ..quadratic.stopping import Limits
from ..results.result import LiveStep
from ..utils.mechanisms import ALL, Mechanisms
from ..utils.precision import DOUBLE, SINGLE, Dtype, as_precision
from ..utils.types import MemoryLimit, PathLike, Progress
from ..utils.validation import as_count, as_positive
from .checkpoint import Checkpoint, as_checkpoint
from .starts import MakesPlan, Product, Start, as_start

Callback = Callable[[LiveStep], object]
# A name, a plan or a start.
InitLike = str | ArrayLike | MakesPlan


@dataclasses.dataclass(frozen=True)
class SolveOptions:
    """How to solve a problem; see `gromov_wasserstein`.

    What depends on the problem is checked by the solve: `init`, `method` (a name until then),
    `n_threads`, `memory_limit`, `tier` and the file `checkpoint` (a path until then). With the
    `order` "mass" the coarse levels of a race have the points with most mass, with "given" the
    first points. `n_starts` is the number of random starts, None for one that suits the size, and
    `search_time` the seconds that are looked on; `balanced` is a start from the balanced problem,
    if it is solved already. `takes_zero` allows for an epsilon of 0. `placement` is the
    `Placement` in force when the options are made.
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
    balanced: Start | None = None
    takes_zero: bool = False
    checkpoint: PathLike | Checkpoint | None = None
    callback: Callback | None = None
    progress: Progress = False
    mechanisms: Mechanisms = ALL
    placement: Placement | None = dataclasses.field(default_factory=in_force)

    def __post_init__(self):
        object.__setattr__(self, "seed", as_count(self.seed, "seed", least=0))
        if self.callback is not None and not callable(self.callback):
            came = type(self.callback).__name__
            raise TypeError(f"callback must be callable or None, got {came}")
        epsilon = as_epsilon(self.epsilon, zero=self.takes_zero)
        object.__setattr__(self, "epsilon", epsilon)
        if self.n_starts is not None:
            n_starts = as_count(self.n_starts, "n_starts", least=0)
            object.__setattr__(self, "n_starts", n_starts)
        if self.search_time is not None:
            seconds = as_positive(self.search_time, "search_time")
            object.__setattr__(self, "search_time", seconds)
        object.__setattr__(self, "checkpoint", as_checkpoint(self.checkpoint))
        if self.precision is SINGLE and self.is_exact:
            raise ValueError("dtype must be None or 'float64' with epsilon=0")

    @property
    def is_exact(self):
        """Whether there is no regularization."""
        return self.epsilon.is_zero

    @property
    def precision(self):
        if self.dtype is None:
            return DOUBLE if self.is_exact else SINGLE
        return as_precision(self.dtype)

    def start_of(self, problem):
        """The start, checked; None for a race of the default starts."""
        init = self.init
        if isinstance(init, str) and init == "auto":
            if self.method in (PGD, PGD.name):
                return None
            init = Product.name
        kind = dict(also=("auto",), dtype=self.precision.dtype)
        return as_start(init, problem, self.seed, **kind)

    def is_placed(self, problem):
        """Whether the `placement` keeps the kernels of the problem."""
        method = self.method if isinstance(self.method, Method) else PGD
        return is_placed(problem, self.placement, method)

    def threads(self, problem):
        """How many threads the problem is worth."""
        work = problem.shape[0] * problem.shape[1]
        return resolve_n_threads(self.n_threads, work=work)
