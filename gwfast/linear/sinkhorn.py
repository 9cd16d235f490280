"""Entropic optimal transport, for costs of one's own."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..kernels import _kernels
from ..kernels._rows import aligned_empty
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..results.result import ConvergenceWarning, SinkhornResult
from ..results.status import Status
from ..utils.blocks import row_blocks
from ..utils.callers import outside
from ..utils.deadline import NEVER, Deadline
from ..utils.labels import in_order, labels_of
from ..utils.pot_names import LINEAR, knows_pot_names
from ..utils.precision import DOUBLE, SINGLE, FloatPrecision
from ..utils.tuning import DEFAULT
from ..utils.types import Float64Array, FloatArray
from ..utils.validation import as_count, as_matrix, as_positive
from .gibbs_kernel import StoredKernel
from .rules import as_rule, neutral
from .sinkhorn_solver import SinkhornSolver, in_units

if TYPE_CHECKING:
    from .rules import Balanced


@knows_pot_names(LINEAR)
def sinkhorn(
    cost: ArrayLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    *,
    epsilon: float,
    tol: float = 1e-5,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    n_threads: int | None = None,
) -> SinkhornResult:
    """Entropic optimal transport between `p` and `q`.

    Solves ``min <T, cost> - epsilon * H(T)`` over plans ``T >= 0`` with marginals `p`
    and `q`, where ``H(T) = -sum T log T`` (Cuturi, NeurIPS 2013).

    Parameters
    ----------
    cost : array-like of shape (n, m)
    p, q : array-like of shape (n,) and (m,) or None, default=None
        Masses of rows and columns, non-negative with sum one; None is uniform. Masses below 1e-30
        of the largest count as zero.
    epsilon : float
        Regularization, in units of cost.
    tol : float, default=1e-5
        Largest ``|T 1 - p|_1 + |T' 1 - q|_1``. Float32 reaches about 1e-6.
    max_iter : int, default=10000
        Limit of Sinkhorn iterations.
    time_limit : float or None, default=None
        Seconds after which the plan at hand, whose column sums are right, is returned.
    n_threads : int or None, default=None
        None is one thread a core, or fewer if the problem is too small for them.

    Returns
    -------
    SinkhornResult

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations, or the time, did not reach `tol`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> result = gwfast.sinkhorn(1 - np.eye(3), epsilon=0.1)
    >>> str(result.status)
    'converged'
    >>> result.plan.sum(axis=0).round(3)
    array([0.333, 0.333, 0.333], dtype=float32)
    """
    began, deadline = time.perf_counter(), Deadline.after(time_limit)
    p = in_order(p, "p", labels_of(cost), of="cost")
    q = in_order(q, "q", labels_of(cost, 1), of="cost")
    given = as_matrix(cost, "cost")
    n, m = given.shape
    rule = as_rule("balanced", p, q, (n, m))
    costs = neutral(given, rule.p, rule.q)
    epsilon = as_positive(epsilon, "epsilon")
    tol, max_iter = as_positive(tol, "tol"), as_count(max_iter, "max_iter")
    n_threads = resolve_n_threads(n_threads, work=n * m)

    # Few points have Newton's steps in float64 alone, which takes no longer there.
    precision = SINGLE if max(n, m) >= DEFAULT.iterated_from else DOUBLE
    plan, potentials, marginals, n_iter, late = entropic_plan(
        costs, rule, epsilon, n_threads, precision, tol=tol, max_iter=max_iter, deadline=deadline
    )
    plan = plan.astype(np.float32, copy=False)
    error = rule.error(*marginals)
    status = Status.CONVERGED
    if not error <= tol:
        status = Status.TIME_LIMIT if late else Status.STALLED
        status = Status.MAX_ITER if n_iter >= max_iter else status
        limit = status if status == Status.TIME_LIMIT else "max_iter"
        warnings.warn(
            f"sinkhorn stopped ({status}) after {n_iter} iterations with marginal error "
            f"{error:.1e} (tol {tol:.1e}); raise {limit}, tol or epsilon",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    # Summed in float64.
    blocks = ((plan[rows].astype(np.float64), costs[rows]) for rows in row_blocks(n, m))
    transport_cost = sum(float(np.vdot(*pair)) for pair in blocks)
    entropy = _kernels.entropy(plan, n_threads)
    return SinkhornResult(
        plan=plan,
        potentials=potentials,
        cost=transport_cost,
        reg_cost=transport_cost - epsilon * entropy,
        epsilon=epsilon,
        marginal_error=error,
        n_iter=n_iter,
        status=status,
        seconds=time.perf_counter() - began,
    )


def entropic_plan(
    cost: FloatArray,
    rule: Balanced,
    epsilon: float,
    n_threads: int,
    precision: FloatPrecision = SINGLE,
    *,
    tol: float,
    max_iter: int,
    deadline: Deadline = NEVER,
) -> tuple[
    FloatArray, tuple[Float64Array, Float64Array], tuple[Float64Array, Float64Array], int, bool
]:
    """Return the plan of `sinkhorn` in that precision, its potentials in units of the cost, its
    marginals, the number of iterations, and whether the deadline has passed.
    """
    # A constant in the cost changes no plan, and a unit of its own keeps any cost within float32.
    low, high = float(cost.min()) / 2, float(cost.max()) / 2
    middle, scale = low + high, high - low or 1.0
    plan = aligned_empty(cost.shape, precision.dtype)

    def fill(out: FloatArray) -> None:
        for rows in row_blocks(*cost.shape):
            out[rows] = (cost[rows].astype(np.float64) - middle) / scale

    kernel = StoredKernel(plan, fill, n_threads)
    with single_threaded_blas(max(cost.shape)):
        solver = SinkhornSolver(rule, n_threads, precision)
        unit_epsilon, began = in_units(epsilon, scale, precision), time.perf_counter()
        kernel.cost()
        # The steps after the iterations read plan and cost about as often.
        deadline = deadline.sooner(time.perf_counter() - began)
        solution = solver.solve(kernel, unit_epsilon, tol=tol, max_iter=max_iter, deadline=deadline)
        late = deadline.passed()
        marginals = kernel.scale(solution.scalings)
    f, g = scale * solution.potentials.f + middle, scale * solution.potentials.g
    return plan, (f, g), marginals, solution.n_iter, late
