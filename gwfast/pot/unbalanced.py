"""Unbalanced (fused) Gromov-Wasserstein with entropy, called as in POT: a price on the
marginals in place of the marginals.
"""

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
from ..quadratic.judge import Limits
from ..quadratic.methods import PGD
from ..solvers.options import Settings
from ..solvers.search.advice import conclude
from ..solvers.search.driver import descend
from ..solvers.search.starts import PRODUCT, given
from ..utils.callers import outside
from ._solve import EXPECTED, MIN_TOL, warn_of
from .arrays import as_number
from .call import Call, Plan, valued
from .unified import LeftToPot

__all__ = ["fused_unbalanced_gromov_wasserstein", "fused_unbalanced_gromov_wasserstein2"]
# The least tolerance of linear problems that is asked of float64.
MIN_INNER_TOL = 1e-12


def fused_unbalanced_gromov_wasserstein(
    Cx: CostLike,
    Cy: CostLike,
    wx: ArrayLike | None = None,
    wy: ArrayLike | None = None,
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
    """Entropic fused unbalanced Gromov-Wasserstein plans, as
    `ot.gromov.fused_unbalanced_gromov_wasserstein` with a positive `epsilon`.

    Parameters
    ----------
    Cx, Cy : array-like of shape (ns, ns) and (nt, nt)
    wx, wy : array-like of shape (ns,) and (nt,), optional
        Masses of any totals; by default uniform.
    reg_marginals : float or pair of floats, default=10
        The `rho` of `gwfast.gromov_wasserstein`.
    epsilon : float
        That of `gwfast.gromov_wasserstein`, here without a factor of two. Problems with
        0, POT's default, have no entropy and are not solved here.
    divergence : {"kl", "l2"}, default="kl"
        Only "kl" is solved here.
    unbalanced_solver : str, default="mm"
        POT's "sinkhorn", "sinkhorn_log", "mm" and "lbfgsb" look for the same plan by
        different ways; here there is one.
    alpha : float, default=0
        Weight of ``<M, T>``, which is added to the quadratic term.
    M : array-like of shape (ns, nt), optional
    init_duals : optional
        Not used, as it moves no solution.
    init_pi : array-like of shape (ns, nt), optional
        Where to start, by default ``wx wy'``.
    max_iter, max_iter_ot : int
        Limits of iterations, each of which makes both plans, and of those that each
        of the two takes.
    tol, tol_ot : float
        Change of the first plan, in L1, and error of the linear problems to stop at.
    log, verbose : bool

    Returns
    -------
    pi_samp, pi_feat : arrays of shape (ns, nt)
        The plan, and the one that it was linearized at: the same where the solver has
        settled on one.
    log : dict
        If asked for: "error", "duals", "linear_cost", "fugw_cost", "backend" (None
        without POT) and "status".

    Raises
    ------
    NotImplementedError
        If the problem is none that gwfast solves; POT's functions leave these to POT
        while they are swapped.
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> plan, _ = pot.fused_unbalanced_gromov_wasserstein(
    ...     C1, C2, reg_marginals=5, epsilon=0.5
    ... )
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    _check_kind(epsilon, divergence, unbalanced_solver, reg_marginals)
    return _Call(locals()).result(log)


fused_unbalanced_gromov_wasserstein2 = valued(fused_unbalanced_gromov_wasserstein, "fugw_cost")


def _check_kind(epsilon, divergence, solver, reg_marginals):
    """Raise an error where a problem is none of gwfast's."""
    for name, came, choices in (
        ("divergence", divergence, ("kl", "l2")),
        ("unbalanced_solver", solver, ("sinkhorn", "sinkhorn_log", "mm", "lbfgsb")),
    ):
        if came not in choices:  # in the words of POT, and its type of error
            raise NotImplementedError(f"{name} must be one of {choices}, got {came!r}")
    if not np.all(np.asarray(epsilon) > 0):
        why = f"epsilon={epsilon}"
    elif divergence == "l2" and not solver.startswith("sinkhorn"):
        why = "divergence='l2'"
    elif np.any(np.asarray(reg_marginals) == 0):
        why = f"reg_marginals={reg_marginals}"
    else:
        return
    raise LeftToPot(
        f"{why} is none of gwfast's problems: it solves those with a positive "
        "epsilon and reg_marginals and divergence='kl'. While POT's functions are "
        "swapped (gwfast.pot.patch()), they leave others to POT"
    )


def _first(pair):
    """A number, or the first of a pair."""
    return pair[0] if isinstance(pair, list | tuple) else pair


class _Call:
    """One call: the problem, its two plans and what they cost."""

    def __init__(self, given):
        self._given = given
        M, alpha = given["M"], as_number(_first(given["alpha"]), "alpha", zero=True)
        if given["divergence"] == "l2":
            warnings.warn(
                "divergence is taken to be 'kl', the one of Sinkhorn's algorithm",
                stacklevel=outside(),
            )
        if M is None and alpha > 0:
            warnings.warn(f"alpha={alpha} without M counts as 0", stacklevel=outside())
        self._data = Call.of(
            *(given[name] for name in ("Cx", "Cy", "wx", "wy")),
            G0=given["init_pi"],
            M=M,
            marginals="unbalanced",
            names={"C1": "Cx", "C2": "Cy", "p": "wx", "q": "wy", "G0": "init_pi"},
        )
        self._data.refuse_gradients()
        self._alpha = 0.0 if M is None else alpha
        reg_marginals = given["reg_marginals"]
        if isinstance(reg_marginals, list | tuple) and len(reg_marginals) == 1:
            reg_marginals = reg_marginals[0]
        self._rho = Unbalanced(reg_marginals).prices
        self._epsilon = as_number(_first(given["epsilon"]), "epsilon")
        self._errors, self._n_seen, data = [], 0, self._data
        self._p, self._q = (x.astype(np.float64) for x in (data.p, data.q))
        start = np.outer(self._p, self._q) if data.G0 is None else data.G0
        self._plans = [start.astype(np.float64)]
        self._solve()

    def _solve(self):
        data = self._data
        # The weight of the quadratic term is one in POT, and here at most one.
        share = 1.0 / (1.0 + self._alpha)
        rho = tuple(share * one for one in self._rho)
        problem = QuadraticProblem.from_checked(
            DenseCost(data.x.matrix.astype(np.float64), "Cx"),
            DenseCost(data.y.matrix.astype(np.float64), "Cy"),
            UnbalancedRule.of(self._p, self._q, rho),
            linear_cost=None if self._alpha == 0 else data.M.astype(np.float64),
            alpha=share,
        )
        self._tol = data.number(self._given["tol"], "tol", zero=True)
        inner_tol = data.number(self._given["tol_ot"], "tol_ot", zero=True)
        limits = Limits(
            2 * data.limit(self._given["max_iter"], "max_iter"),
            data.limit(self._given["max_iter_ot"], "max_iter_ot"),
            MIN_TOL,
            max(inner_tol, MIN_INNER_TOL),
        )
        options = Settings(
            limits,
            Epsilon(share * self._epsilon),
            method=PGD,
            dtype="float64",
            tier="dense",
            callback=self._look,
        )
        self._n_threads = options.threads(problem)
        with single_threaded_blas():
            totals = self._p.sum(), self._q.sum()
            ours = data.G0 is None and np.allclose(totals, 1.0, rtol=1e-12, atol=0)
            start = PRODUCT if ours else given(self._plans[0])
            solution = descend(problem, start, options)
            if len(solution.history) > self._n_seen:
                self._keep(solution.coupling)
            # Of either plan, linearized at the other.
            at, state, plan = solution.linearization, solution.state, self._plans[-2]
            product = state.moments.array(at.precision.dtype, problem.shape)
            rows, columns = state.separable
            value = plan.sum(axis=1) @ rows + plan.sum(axis=0) @ columns
            value += at.cost_scale * float(np.vdot(plan, product))
            result = conclude(solution, False, limits)
        if self._alpha > 0:
            value -= (1.0 - share) / 2 * np.vdot(self._plans[-2], problem.linear_cost)
        self._quadratic = value / share
        self.status = result.status
        if result.ending not in EXPECTED:
            warn_of(result.ending, result.advice)

    def _look(self, step):
        """Keep the last plans; after every second, whether the first of two stays."""
        self._n_seen = step.iteration
        self._keep(step.coupling)
        if step.iteration % 2:
            return False
        pair = self._plans[-1], self._plans[-3]
        error, _ = _kernels.distance(*pair, self._n_threads)
        self._errors.append(error)
        if self._given["verbose"]:
            print(f"{len(self._errors):5d}|{error:8e}|")
        return error < self._tol

    def _keep(self, coupling):
        plan = coupling.toarray().astype(np.float64)
        self._plans = [*self._plans[-2:], plan]

    def result(self, log):
        """What POT returns."""
        arrays, (feat, samp) = self._data.arrays, self._plans[-2:]
        # As in POT, whose linear solver makes float64 of NumPy's float32.
        dtype = np.float64 if arrays.kind == "numpy" else arrays.dtype
        back = functools.partial(arrays.back, dtype=dtype)
        if not log:
            return back(samp), back(feat)
        linear, total = self._costs(samp, feat)
        entries = dict(
            error=list(map(back, self._errors)),
            duals=tuple(map(back, self._duals(samp))),
            linear_cost=back(linear),
            fugw_cost=back(total),
            backend=_backend(arrays.like),
            status=self.status,
        )
        return back(samp), back(feat), entries

    def _duals(self, plan):
        """Logarithms of the scalings of ``exp(-cost / epsilon) wx wy'``."""
        pairs = (plan.sum(axis=1), self._p), (plan.sum(axis=0), self._q)
        with np.errstate(divide="ignore", invalid="ignore"):
            return [
                np.nan_to_num(-rho / self._epsilon * np.log(sums / masses))
                for rho, (sums, masses) in zip(self._rho, pairs, strict=True)
            ]

    def _costs(self, samp, feat):
        """The quadratic term, and all of the objective, of two plans."""
        rows, cols = ([one.sum(axis=axis) for one in (samp, feat)] for axis in (1, 0))
        total = linear = self._quadratic
        if self._alpha > 0:
            total += self._alpha / 2 * np.vdot(samp + feat, self._data.M)
        for pair, masses, rho in (
            (rows, self._p, self._rho[0]),
            (cols, self._q, self._rho[1]),
            ([samp, feat], np.outer(self._p, self._q), self._epsilon),
        ):
            if rho < np.inf:
                total += rho * _between(*pair, masses)
        return float(linear), float(total)


def _between(a, b, masses):
    """``KL(a x b | m x m)``."""
    a, b, m = a.ravel(), b.ravel(), masses.ravel()
    given, of_a, of_b = m.sum(), a.sum(), b.sum()
    return (
        of_b * (relative_entropy(a, m) - of_a + given)
        + of_a * (relative_entropy(b, m) - of_b + given)
        + (of_a - given) * (of_b - given)
    )


def _backend(like):
    """POT's backend of these arrays, where POT has been imported."""
    if "ot.backend" not in sys.modules:
        return None
    return sys.modules["ot.backend"].get_backend(np.zeros(1) if like is None else like)
