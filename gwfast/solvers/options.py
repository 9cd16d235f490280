"""What the public functions are asked for beside the problem, checked."""

import dataclasses
from collections.abc import Callable
from typing import Literal

from numpy.typing import ArrayLike

from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import Epsilon, as_epsilon
from ..quadratic.methods import Method
from ..quadratic.stopping import Limits
from ..results.result import LiveStep
from ..utils.precision import SINGLE, FloatPrecision, as_precision
from ..utils.types import MemoryLimit, Progress
from ..utils.validation import as_callback, as_count
from .starts import MakesPlan

Callback = Callable[[LiveStep], object]
EpsilonLike = float | Literal["auto"] | Epsilon
# A name, a plan or a start.
InitLike = str | ArrayLike | MakesPlan


@dataclasses.dataclass(frozen=True)
class SolveOptions:
    """How to solve a problem; see `gromov_wasserstein`.

    Attributes
    ----------
    method : str or Method
        A `Method` once it has been checked against the problem.
    order : {"mass", "given"}
        Which points the first levels of a race have, see `race.search`.
    n_threads : int or None
        As asked for; `threads` is how many one problem is worth.
    memory_limit : float, str or None
    """

    limits: Limits
    epsilon: Epsilon
    init: InitLike = "auto"
    method: str | Method = "pgd"
    precision: FloatPrecision = SINGLE
    order: str = "mass"
    n_threads: int | None = None
    memory_limit: MemoryLimit = None
    tier: str = "auto"
    seed: int = 0
    callback: Callback | None = None
    progress: Progress = False

    @classmethod
    def checked(
        cls,
        max_outer,
        max_inner,
        tol,
        marginal_tol,
        *,
        epsilon="auto",
        dtype="float32",
        seed=0,
        callback=None,
        **others,
    ):
        """Those of a public function's arguments. What depends on the problem (its
        start, threads, tier and memory) is checked when that is solved.

        Raises
        ------
        TypeError, ValueError
            Naming the argument.
        """
        return cls(
            limits=Limits(max_outer, max_inner, tol, marginal_tol),
            seed=as_count(seed, "seed", least=0),
            callback=as_callback(callback),
            epsilon=as_epsilon(epsilon),
            precision=as_precision(dtype),
            **others,
        )

    def threads(self, problem):
        """How many threads the problem is worth."""
        work = problem.shape[0] * problem.shape[1]
        return resolve_n_threads(self.n_threads, work=work)
