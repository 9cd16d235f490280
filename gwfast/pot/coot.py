"""Co-optimal transport, called as in POT: plans of rows and of columns, each best for the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..kernels import _kernels
from ..kernels._rows import aligned_empty
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.gibbs_kernel import StoredKernel
from ..linear.log_domain import Potentials
from ..linear.rules import Balanced
from ..linear.sinkhorn_solver import SinkhornSolver, in_units
from ..problems.geometry import within_range
from ..quadratic.certificate import LinearProgram
from ..results.status import Ending
from ..utils.precision import DOUBLE
from ..utils.validation import as_matrix, as_vector
from ._solve import EXPECTED, MAX_MARGINAL_ERROR, rounded, warn_of
from .arrays import Arrays, NoGradients, as_limit, as_number, pots_choice
from .call import Masses, Plan, balanced, checked_masses
from .exact import NOTHING, with_one_mean
from .gradients import centered, traced
from .linear import least_plan, potentials_of
from .unbalanced import MIN_INNER_TOL

__all__ = ["co_optimal_transport", "co_optimal_transport2"]
# Arguments that the value has gradients in.
ENVELOPED = "X", "Y", "wx_samp", "wx_feat", "wy_samp", "wy_feat", "M_samp", "M_feat"
# Keys of a warm start.
STARTS = "pi_sample", "pi_feature", "duals_sample", "duals_feature"


class CoOptimal:
    """Both plans of a call, and the objectives on the way to them."""

    def __init__(
        self, data, epsilon, alpha, warmstart, nits_ot, tol_sinkhorn, method_sinkhorn, smooth=()
    ):
        pots_choice(method_sinkhorn, "method_sinkhorn", ("sinkhorn", "sinkhorn_log"))
        named = dict(zip(ENVELOPED, data, strict=True)) | _starts(warmstart)
        self.arrays = arrays = Arrays(named, traces=True)
        for name in arrays.asking.keys() - smooth:
            raise NoGradients(name)
        self._X, self._Y = X, Y = _matrix(arrays, "X"), _matrix(arrays, "Y")
        limits = as_limit(nits_ot, "nits_ot"), as_number(tol_sinkhorn, "tol_sinkhorn", zero=True)
        of_plans = _pair(epsilon, "epsilon"), _pair(alpha, "alpha"), STARTS[:2], STARTS[2:]
        shapes = zip(X.shape, Y.shape, strict=True)
        self.sides = [
            Block(arrays, *side, *limits)
            for side in zip(("samp", "feat"), shapes, *of_plans, strict=True)
        ]
        self._is_warm = warmstart is not None
        self.distances, self._ending = [], Ending.MAX_OUTER

    def solve(self, nits_bcd, tol_bcd, eval_bcd, early_stopping_tol, verbose):
        """Find the plans in turn, with a warning if they have not converged."""
        limit, every = as_limit(nits_bcd, "nits_bcd"), as_limit(eval_bcd, "eval_bcd")
        tol = as_number(tol_bcd, "tol_bcd", zero=True)
        least_change = as_number(early_stopping_tol, "early_stopping_tol", zero=True)
        (samp, feat), X, Y = self.sides, self._X, self._Y
        of_samp = (X**2 @ feat.p)[:, None] + Y**2 @ feat.q + samp.linear
        of_feat = (X.T**2 @ samp.p)[:, None] + Y.T**2 @ samp.q
        value = np.inf
        for k in range(limit):
            former, before = value, samp.plan
            if k or self._is_warm:
                product = X @ feat.plan @ Y.T
            else:  # of the product plan
                product = np.outer(X @ feat.p, Y @ feat.q / feat.total)
            samp.solve(of_samp - 2 * product)
            cost = of_feat - 2 * (X.T @ samp.plan @ Y)
            feat.solve(cost + feat.linear)
            if k % every and k + 1 < limit:
                continue
            value = max(float(np.vdot(cost, feat.plan)), 0.0)  # below zero by rounding
            value += float(samp.penalty() + feat.penalty())
            self.distances.append(value)
            if abs(samp.plan - before).sum() < tol or abs(value - former) < least_change:
                self._ending = Ending.CONVERGED
                break
            if verbose:
                print(f"CO-Optimal Transport cost at iteration {k + 1}: {value}")
        if samp.unconverged or feat.unconverged:
            self._ending = Ending.MAX_INNER
        if self._ending not in EXPECTED:
            warn_of(self._ending, "", "Co-optimal transport")

    def log(self):
        """Return POT's log, and the status."""
        back = self.arrays.back
        duals = (tuple(map(back, side.duals())) for side in self.sides)
        return dict(zip(STARTS[2:], duals, strict=True)) | {
            "distances": list(map(back, self.distances)),
            "status": self._ending.status,
        }

    def gradient(self, upstream):
        """Return the gradient of the last objective, times a number, by names."""
        (samp, feat), X, Y = self.sides, self._X, self._Y
        P, Q = samp.plan, feat.plan
        by_name = {
            "X": 2 * (np.outer(samp.p, feat.p) * X - P @ Y @ Q.T),
            "Y": 2 * (np.outer(samp.q, feat.q) * Y - P.T @ X @ Q),
        }
        for suffix, side in zip(("samp", "feat"), self.sides, strict=True):
            by_name[f"M_{suffix}"] = side.alpha * side.plan
            by_name[f"wx_{suffix}"], by_name[f"wy_{suffix}"] = side.slopes()
        return {name: upstream * x for name, x in by_name.items()}


class Block:
    """The plan of samples or of features, given the other; perhaps `unconverged`."""

    def __init__(self, arrays, suffix, shape, epsilon, alpha, start, duals, max_iter, tol):
        self.epsilon, self.alpha, self.unconverged = epsilon, alpha, False
        names = f"wx_{suffix}", f"wy_{suffix}"
        p, q = (
            checked_masses(arrays[name], name, size)
            for name, size in zip(names, shape, strict=True)
        )
        self.p, self.q, self.total = p, balanced(p, q, *names), float(p.sum())
        M = _matrix(arrays, f"M_{suffix}", shape)
        self.linear = np.zeros(shape) if M is None else alpha * M
        start = _matrix(arrays, start, shape)
        self.plan = np.outer(p, self.q / self.total) if start is None else start
        rule = Balanced(p / self.total, self.q / self.total)
        if not epsilon:
            self._program = LinearProgram(rule)
            return
        self._n_threads = resolve_n_threads(None, work=math.prod(shape))
        self._solver = SinkhornSolver(rule, self._n_threads, DOUBLE)
        self._room = aligned_empty(shape, np.float64)
        # gwfast's error is the sum of absolute errors: if evenly spread, that much larger.
        tol = max(tol * math.sqrt(min(shape)) / 2 / self.total, MIN_INNER_TOL)
        self._limits = dict(tol=tol, max_iter=max_iter)
        self._start, names = None, [f"{duals}[{k}]" for k in (0, 1)]
        if arrays[names[0]] is not None:
            # Points without mass have no potentials.
            duals = [np.where(np.isfinite(arrays[name]), arrays[name], 0.0) for name in names]
            f, g = map(as_vector, duals, names, shape)
            # Columns are taken to fit if rows do, so no row may: masses may have changed.
            self._start = Potentials(epsilon * (f + 1.0), epsilon * g)

    def solve(self, cost):
        """Find the plan for these costs."""
        if not self.epsilon:
            plan, _ = least_plan(self._program, cost)
            plan[plan < NOTHING] = 0.0
            self.plan = self.total * plan
            return
        # An error if the costs cannot be told apart.
        in_units(self.epsilon, float(abs(cost).max()) or 1.0, DOUBLE)
        kernel = StoredKernel(self._room, None, self._n_threads, cost=cost)
        with single_threaded_blas(max(cost.shape)):
            solution = self._solver.solve(kernel, self.epsilon, self._start, **self._limits)
            error = self._solver.rule.error(*kernel.scale(solution.scalings))
        self._start, self.unconverged = solution.potentials, not error <= self._limits["tol"]
        self.plan = self.total * self._room
        if not error <= MAX_MARGINAL_ERROR:
            self.plan = self.total * rounded(self._room, self._solver.p, self._solver.q)

    def _potentials(self):
        """Return the last potentials, in units of the cost."""
        if self.epsilon:
            return self._start.f, self._start.g
        return potentials_of(self._program, self.plan.shape)

    def penalty(self):
        """Return what the plan adds to the objective."""
        penalty = float(np.vdot(self.linear, self.plan))
        if self.epsilon:
            # Relative to the product of the masses, which are the sums of the plan.
            of_masses = _kernels.mass_entropy(self.p) + _kernels.mass_entropy(self.q)
            penalty += self.epsilon * (of_masses - _kernels.entropy(self.plan))
        return penalty

    def duals(self):
        """Return potentials (logarithms of scalings) with one mean, by mass, on both sides."""
        f, g = self._potentials()
        if self.epsilon:
            f, g = f / self.epsilon + np.log(self.total), g / self.epsilon
        return with_one_mean(f, g, self.p, self.q)

    def slopes(self):
        """Yield the gradients of the objective in the masses, up to constants."""
        for x, masses in zip(self._potentials(), (self.p, self.q), strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                x = x - self.epsilon * np.log(masses)
            yield centered(x)


def _matrix(arrays, name, shape=None):
    """Return the matrix of that name in float64, or None."""
    if arrays[name] is None:
        return None
    x = as_matrix(arrays[name], name, shape=shape).astype(np.float64)
    return within_range(x, name)


def _starts(warmstart):
    """Return arrays of a warm start by names."""
    if warmstart is None:
        return {}
    lacking = [name for name in STARTS if name not in warmstart]
    if lacking:
        raise ValueError(f"warmstart must have {', '.join(STARTS)}, lacks {lacking}")
    named = {name: warmstart[name] for name in STARTS[:2]}
    for name in STARTS[2:]:
        named |= {f"{name}[{k}]": x for k, x in enumerate(_two(warmstart[name], name))}
    return named


def _pair(x, name):
    """Return two numbers, from a number or a pair."""
    is_number = not hasattr(x, "__len__") or getattr(x, "ndim", 1) == 0
    return [as_number(x, name, zero=True) for x in ((x, x) if is_number else _two(x, name))]


def _two(x, name):
    """Return a pair."""
    if len(x) != 2:
        raise ValueError(f"{name} must be a pair, got {len(x)}")
    return x


def co_optimal_transport(
    X: ArrayLike,
    Y: ArrayLike,
    wx_samp: Masses = None,
    wx_feat: Masses = None,
    wy_samp: Masses = None,
    wy_feat: Masses = None,
    epsilon: float | tuple[float, float] = 0,
    alpha: float | tuple[float, float] = 0,
    M_samp: ArrayLike | None = None,
    M_feat: ArrayLike | None = None,
    warmstart: Mapping[str, Any] | None = None,
    nits_bcd: float = 100,
    tol_bcd: float = 1e-7,
    eval_bcd: float = 1,
    nits_ot: float = 500,
    tol_sinkhorn: float = 1e-7,
    method_sinkhorn: Literal["sinkhorn", "sinkhorn_log"] = "sinkhorn",
    early_stopping_tol: float = 1e-6,
    log: bool = False,
    verbose: bool = False,
) -> tuple[Plan, ...]:
    """Return co-optimal transport plans of samples (rows) and of features (columns), as `POT
    <https://pythonot.github.io/gen_modules/ot.coot.html#ot.coot.co_optimal_transport>`__.

    Parameters
    ----------
    X, Y, wx_samp, wx_feat, wy_samp, wy_feat : arrays (nx, dx), (ny, dy), (nx,), (dx,), (ny,), (dy,)
        Data, and masses of rows and columns, uniform by default.
    epsilon, alpha, M_samp, M_feat : float or pair of floats, and arrays (nx, ny) and (dx, dy)
        Weight of the entropy of each plan, and of ``<M_samp, P>`` and ``<M_feat, Q>``; default 0.
    warmstart : dict, optional
        "pi_sample" and "pi_feature", and as in the log "duals_sample" and "duals_feature".
    nits_bcd, eval_bcd, tol_bcd, early_stopping_tol, log, verbose
        Limit of iterations, how many there are between two looks at the objective, and the change
        of the plan of samples (L1), or of the objective, at which iterations stop.
    nits_ot, tol_sinkhorn, method_sinkhorn
        Limit of Sinkhorn iterations of each plan, and error of the marginals (Euclidean norm) at
        which they stop, by one algorithm; problems without entropy are always solved.

    Returns
    -------
    pi_samp, pi_feat, log : arrays of shape (nx, ny) and (dx, dy), and if asked for a dict
        Plans that miss their marginals are mended, with a ConvergenceWarning. The log has
        "duals_sample" and "duals_feature", pairs of potentials, with entropy logarithms of
        scalings; "distances", the objectives; and "status".

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> X = np.array([[0.0, 2, 9], [1, 5, 4], [7, 3, 3], [8, 8, 1]])
    >>> [plan.argmax(axis=1) for plan in gwfast.pot.co_optimal_transport(X, X[::-1, [1, 2, 0]])]
    [array([3, 2, 1, 0]), array([2, 0, 1])]
    """
    data = X, Y, wx_samp, wx_feat, wy_samp, wy_feat, M_samp, M_feat
    solution = CoOptimal(data, epsilon, alpha, warmstart, nits_ot, tol_sinkhorn, method_sinkhorn)
    solution.solve(nits_bcd, tol_bcd, eval_bcd, early_stopping_tol, verbose)
    plans = tuple(solution.arrays.back(side.plan) for side in solution.sides)
    return (*plans, solution.log()) if log else plans


def co_optimal_transport2(
    X: ArrayLike,
    Y: ArrayLike,
    wx_samp: Masses = None,
    wx_feat: Masses = None,
    wy_samp: Masses = None,
    wy_feat: Masses = None,
    epsilon: float | tuple[float, float] = 0,
    alpha: float | tuple[float, float] = 0,
    M_samp: ArrayLike | None = None,
    M_feat: ArrayLike | None = None,
    warmstart: Mapping[str, Any] | None = None,
    log: bool = False,
    verbose: bool = False,
    early_stopping_tol: float = 1e-6,
    nits_bcd: float = 100,
    tol_bcd: float = 1e-7,
    eval_bcd: float = 1,
    nits_ot: float = 500,
    tol_sinkhorn: float = 1e-7,
    method_sinkhorn: Literal["sinkhorn", "sinkhorn_log"] = "sinkhorn",
) -> float | Any:
    """Return the co-optimal transport loss, entropy included, and if asked for the log of
    `co_optimal_transport`, as `POT
    <https://pythonot.github.io/gen_modules/ot.coot.html#ot.coot.co_optimal_transport2>`__,
    with gradients in the data, masses and costs. For parameters see `co_optimal_transport`.

    Returns
    -------
    distance : scalar
    """
    data = X, Y, wx_samp, wx_feat, wy_samp, wy_feat, M_samp, M_feat
    solution = CoOptimal(
        data, epsilon, alpha, warmstart, nits_ot, tol_sinkhorn, method_sinkhorn, ENVELOPED
    )
    solution.solve(nits_bcd, tol_bcd, eval_bcd, early_stopping_tol, verbose)
    value = traced(solution.arrays.back(solution.distances[-1]), solution.arrays, solution.gradient)
    return (value, solution.log()) if log else value
