"""Records that results have: outer iterations, and masses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ..utils.types import Float64Array
from .coupling import ArrayCoupling, Coupling


class OuterStep(NamedTuple):
    """One outer iteration, as kept in `GWResult.history` and passed to callbacks.

    Attributes
    ----------
    iteration : int
        Counted from 1.
    gw_cost, epsilon : float
        Objective for the given marginals, without entropy, with the rounding of the loop.
    change : float
        Relative change of the state: ``|A' - A|_F / |A'|_F`` of ``A = X' T Y`` for point clouds,
        ``|T' - T|_1`` over the mass for dense costs; if `epsilon` is 0, the part of the way to
        the vertex that the plan went.
    marginal_error, n_inner : float and int
        ``|T 1 - p|_1 + |T' 1 - q|_1`` of the step, before any damping, and the number of
        Sinkhorn iterations.
    seconds : float
        Since the solve began.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> cost = np.abs(np.subtract.outer(np.arange(9.0) ** 1.5, np.arange(9.0) ** 1.5))
    >>> gwfast.gromov_wasserstein(cost, cost).history[0].iteration
    1
    """

    iteration: int
    gw_cost: float
    epsilon: float
    change: float
    marginal_error: float
    n_inner: int
    seconds: float


class LiveStep(OuterStep):
    """An `OuterStep` as callbacks get it, while the solver waits for them; `moved` is the
    Frobenius norm of the change of the plan, for dense costs only, else NaN.
    """

    moved: float = np.nan
    _snapshot: Callable[[], Coupling] | None = None

    @classmethod
    def stops(cls, callback, step, snapshot, moved=np.nan):
        """Show a step to a callback; return True to end the solve."""
        live = cls(*step)
        live._snapshot, live.moved = snapshot, moved
        try:
            return bool(callback(live))
        finally:
            live._snapshot = None  # the solver goes on and overwrites the plan

    @property
    def coupling(self) -> Coupling:
        """The plan of this iteration, during the call only: copy the array that is to stay, which
        cannot be written to.
        """
        if self._snapshot is None:
            raise RuntimeError("the coupling of a step is there during the callback only")
        coupling = self._snapshot()
        if isinstance(coupling, ArrayCoupling):  # the solver's own array
            coupling.array = coupling.array.view()
            coupling.array.flags.writeable = False
        return coupling


Callback: TypeAlias = Callable[[LiveStep], object]


class Masses(NamedTuple):
    """The masses that a plan was asked to have.

    Attributes
    ----------
    name : {"balanced", "semirelaxed", "partial", "unbalanced"}
    p, q : (n,) and (m,) float64 ndarrays
    mass : float
        Mass of a plan that is balanced, semi-relaxed or partial; of the first plan if unbalanced.
    rho : tuple of two floats or None
        Prices of unbalanced plans.
    """

    name: str
    p: Float64Array
    q: Float64Array
    mass: float = 1.0
    rho: tuple[float, float] | None = None
