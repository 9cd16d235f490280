"""Unbalanced (fused) Gromov-Wasserstein with entropy, called as in POT."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..kernels import _kernels
from ..kernels.threads import single_threaded_blas
from ..linear.marginals import Unbalanced
from ..linear.rules import UnbalancedRule, relative_entropy
from ..problems.epsilon import Epsilon
from ..problems.geometry import DenseCost
from ..problems.graphs import CostLike
from ..problems.quadratic import QuadraticProblem
from ..quadratic.certificate import Costs
from ..quadratic.judge import Limits
from ..solvers.options import ResolvedSettings
from ..solvers.search.advice import conclude
from ..solvers.search.driver import descend
from ..solvers.search.starts import PRODUCT, given
from ..utils.callers import outside
from ..utils.precision import DOUBLE
from ._solve import EXPECTED, MIN_TOL, warn_of
from .arrays import as_limit, as_number
from .call import Call, Masses, Plan, valued
from .unified import LeftToPot

__all__ = ["fused_unbalanced_gromov_wasserstein", "fused_unbalanced_gromov_wasserstein2"]
# The least tolerance of linear problems that is asked of float64.
MIN_INNER_TOL = 1e-12


def _check(epsilon, divergence, solver, reg_marginals):
    """Raise an error if a problem is not solved here."""
    for name, x, choices in (
        ("divergence", divergence, ("kl", "l2")),
        ("unbalanced_solver", solver, ("sinkhorn", "sinkhorn_log", "mm", "lbfgsb")),
    ):
        if x not in choices:  # in the words of POT, and its type of error
            raise NotImplementedError(f"{name} must be one of {choices}, got {x!r}")
    if not np.all(np.asarray(epsilon) > 0):
        raise LeftToPot(f"epsilon must be positive, got {epsilon}")
    if divergence == "l2" and not solver.startswith("sinkhorn"):
        raise LeftToPot("divergence must be 'kl', got 'l2'")
    if np.any(np.asarray(reg_marginals) == 0):
        raise LeftToPot(f"reg_marginals must be positive, got {reg_marginals}")


def _first(pair):
    """Return a number, or the first of a pair."""
    return pair[0] if isinstance(pair, list | tuple) else pair


class _Descent:
    """The descent of a call: its last plans, and the change of every second plan, as in POT."""

    def __init__(self, call, prices, epsilon, alpha, tol, max_iter, tol_ot, max_iter_ot, verbose):
        self.call, self.prices, self.epsilon, self.alpha = call, prices, epsilon, alpha
        self._verbose, self._tol = verbose, as_number(tol, "tol", zero=True)
        self.p, self.q = call.p.astype(np.float64), call.q.astype(np.float64)
        start = np.outer(self.p, self.q) if call.G0 is None else call.G0
        self._plans, self.errors, self._n_seen = [start.astype(np.float64)], [], 0
        self.costs = [
            DenseCost.from_checked(side.matrix.astype(np.float64), name)
            for side, name in ((call.x, "Cx"), (call.y, "Cy"))
        ]
        # The weight of the quadratic term is one in POT, and here at most one.
        share = 1.0 / (1.0 + alpha)
        rule = UnbalancedRule.priced(self.p, self.q, tuple(share * price for price in prices))
        M = None if alpha == 0 else call.M.astype(np.float64)
        problem = QuadraticProblem.from_checked(*self.costs, rule, linear_cost=M, alpha=share)
        max_inner = as_limit(max_iter_ot, "max_iter_ot")
        inner_tol = max(as_number(tol_ot, "tol_ot", zero=True), MIN_INNER_TOL)
        limits = Limits(2 * as_limit(max_iter, "max_iter"), max_inner, MIN_TOL, inner_tol)
        options = ResolvedSettings(
            limits=limits, epsilon=Epsilon(share * epsilon), precision=DOUBLE, callback=self._look
        )
        self._n_threads = options.threads(problem)
        has_sum_one = np.allclose((self.p.sum(), self.q.sum()), 1.0, rtol=1e-12, atol=0)
        is_product = call.G0 is None and has_sum_one
        with single_threaded_blas():
            solution = descend(problem, PRODUCT if is_product else given(self._plans[0]), options)
            if len(solution.history) > self._n_seen:
                self._keep(solution.coupling)
            result = conclude(solution, False, limits)
        self.status = result.status
        if result.ending not in EXPECTED:
            warn_of(result.ending, result.advice)

    def _look(self, step):
        """Keep the last plans; after every second, return whether the first of two stays."""
        self._n_seen = step.iteration
        self._keep(step.coupling)
        if step.iteration % 2:
            return False
        error, _ = _kernels.distance(self._plans[-1], self._plans[-3], self._n_threads)
        self.errors.append(error)
        if self._verbose:
            print(f"{len(self.errors):5d}|{error:8e}|")
        return error < self._tol

    def _keep(self, coupling):
        self._plans = [*self._plans[-2:], coupling.toarray().astype(np.float64)]

    def result(self, log):
        """Return what POT does."""
        arrays, (feat, samp) = self.call.arrays, self._plans[-2:]
        # As in POT, whose linear solver makes float64 of NumPy's float32.
        dtype = np.float64 if arrays.library == "numpy" else arrays.dtype
        back = functools.partial(arrays.back, dtype=dtype)
        if not log:
            return back(samp), back(feat)
        quadratic = float(np.vdot(feat, Costs(*self.costs, self.call.loss).cost(samp)))
        entries = dict(
            error=list(map(back, self.errors)),
            duals=tuple(map(back, self._duals(samp))),
            linear_cost=back(quadratic),
            fugw_cost=back(quadratic + self._penalty(samp, feat)),
            backend=_backend(arrays.like),
            status=self.status,
        )
        return back(samp), back(feat), entries

    def _duals(self, plan):
        """Return logarithms of the scalings of ``exp(-cost / epsilon) wx wy'``."""
        pairs = (plan.sum(axis=1), self.p), (plan.sum(axis=0), self.q)
        with np.errstate(divide="ignore", invalid="ignore"):
            return [
                np.nan_to_num(-price / self.epsilon * np.log(sums / masses))
                for price, (sums, masses) in zip(self.prices, pairs, strict=True)
            ]

    def _penalty(self, samp, feat):
        """Return all of the objective of two plans but its quadratic term."""
        total = 0.0 if self.alpha == 0 else self.alpha / 2 * np.vdot(samp + feat, self.call.M)
        rows, cols = ([plan.sum(axis=axis) for plan in (samp, feat)] for axis in (1, 0))
        terms = (rows, self.p, self.prices[0]), (cols, self.q, self.prices[1])
        for pair, masses, price in (*terms, ((samp, feat), np.outer(self.p, self.q), self.epsilon)):
            if price < np.inf:
                total += price * _divergence(*pair, masses)
        return float(total)


def _divergence(a, b, masses):
    """Return ``KL(a x b | m x m)``."""
    a, b, m = a.ravel(), b.ravel(), masses.ravel()
    of_m, of_a, of_b = m.sum(), a.sum(), b.sum()
    return (
        of_b * (relative_entropy(a, m) - of_a + of_m)
        + of_a * (relative_entropy(b, m) - of_b + of_m)
        + (of_a - of_m) * (of_b - of_m)
    )


def _backend(like):
    """Return POT's backend of these arrays, if POT has been imported."""
    if "ot.backend" not in sys.modules:
        return None
    return sys.modules["ot.backend"].get_backend(np.zeros(1) if like is None else like)


def fused_unbalanced_gromov_wasserstein(
    Cx: CostLike,
    Cy: CostLike,
    wx: Masses = None,
    wy: Masses = None,
    reg_marginals: float | tuple[float, float] = 10,
    epsilon: float = 0,
    divergence: Literal["kl", "l2"] = "kl",
    unbalanced_solver: str = "mm",
    alpha: float = 0,
    M: ArrayLike | None = None,
    init_duals: Any | None = None,
    init_pi: ArrayLike | None = None,
    max_iter: float = 100,
    tol: float = 1e-7,
    max_iter_ot: float = 500,
    tol_ot: float = 1e-7,
    log: bool = False,
    verbose: bool = False,
) -> tuple[Plan, ...]:
    """Return entropic fused unbalanced Gromov-Wasserstein plans, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.fused_unbalanced_gromov_wasserstein>`__.
    Problems without entropy, or with another divergence than "kl", are a NotImplementedError, and
    left to POT while its function is swapped.

    Parameters
    ----------
    Cx, Cy, wx, wy : array-like of shape (ns, ns), (nt, nt), (ns,) and (nt,)
        Costs, and masses of any totals, uniform by default.
    reg_marginals, epsilon : float or pair of floats, and float
        `rho` and `epsilon` of `gwfast.gromov_wasserstein`, here without a factor of two.
    divergence, unbalanced_solver, log, verbose
        There is one algorithm for POT's solvers "sinkhorn", "sinkhorn_log", "mm" and "lbfgsb".
    alpha, M : float, default=0, and array-like of shape (ns, nt), optional
        Weight of ``<M, T>``, which is added to the quadratic term.
    init_pi, init_duals : array-like of shape (ns, nt), optional
        Where to start, by default ``wx wy'``; duals are without effect.
    max_iter, max_iter_ot, tol, tol_ot : int, default=100 and 500, and float, default=1e-7
        Limits of iterations that make both plans, and of the iterations for each plan; and the
        change of the first plan, in L1, and the error of the linear problems to stop at.

    Returns
    -------
    pi_samp, pi_feat, log : arrays of shape (ns, nt), and if asked for a dict
        The plan, and the plan that it was linearized at: the same once the solver has settled. The
        log has "error", "duals", "linear_cost", "fugw_cost", "backend" (or None) and "status".

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> C = np.array([[0.0, 2, 9], [2, 0, 5], [9, 5, 0]])
    >>> gwfast.pot.fused_unbalanced_gromov_wasserstein(C, C[::-1, ::-1], epsilon=1)[0].argmax(1)
    array([2, 1, 0])
    """
    _check(epsilon, divergence, unbalanced_solver, reg_marginals)
    weight = as_number(_first(alpha), "alpha", zero=True)
    if divergence == "l2":
        message = "divergence is taken to be 'kl', the divergence of Sinkhorn's algorithm"
        warnings.warn(message, stacklevel=outside())
    if M is None and weight > 0:
        warnings.warn(f"alpha={weight} without M counts as 0", stacklevel=outside())
    names = {"C1": "Cx", "C2": "Cy", "p": "wx", "q": "wy", "G0": "init_pi"}
    call = Call.of(Cx, Cy, wx, wy, G0=init_pi, M=M, marginals="unbalanced", names=names)
    call.refuse_gradients()
    if isinstance(reg_marginals, list | tuple) and len(reg_marginals) == 1:
        reg_marginals = reg_marginals[0]
    prices, reg = Unbalanced(reg_marginals).prices, as_number(_first(epsilon), "epsilon")
    alpha = 0.0 if M is None else weight
    limits = tol, max_iter, tol_ot, max_iter_ot
    return _Descent(call, prices, reg, alpha, *limits, verbose).result(log)


fused_unbalanced_gromov_wasserstein2 = valued(fused_unbalanced_gromov_wasserstein, "fugw_cost")
