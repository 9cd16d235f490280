"""Whether a plan is what it should be: the conditions of optimality, in float64 and
plain NumPy, which share nothing with the loops that have found it.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from ..problems.quadratic import QuadraticProblem
from ..quadratic import reference
from ..quadratic.certificate import frank_wolfe_gap
from ..quadratic.frank_wolfe import ROUNDING
from ..quadratic.methods import PGD, MethodName, as_method
from ..quadratic.reference_plan import ReferencePlan, alternate
from ..results.coupling import ArrayCoupling, Coupling
from ..results.result import GWResult
from ..results.verification import Residual, Verification
from ..utils.blocks import row_blocks
from ..utils.labels import in_order
from ..utils.memory import as_memory_limit
from ..utils.precision import DOUBLE, SINGLE
from ..utils.types import Float64Array, MemoryLimit
from ..utils.validation import as_array, as_count, as_positive

# Rounding errors of a linearized cost, in units of its scale: products of matrices in
# float32 were off by up to four.
ROUNDINGS = 16


def verify(
    problem: QuadraticProblem,
    result: GWResult | Coupling | ArrayLike,
    *,
    epsilon: float | None = None,
    method: MethodName | None = None,
    tol: float = 1e-5,
    marginal_tol: float = 1e-5,
    max_iter: int = 1000,
    memory_limit: MemoryLimit = None,
) -> Verification:
    """Check a plan, from whichever solver, against the conditions of optimality.

    All conditions are computed anew in float64 from the plan and the costs. For two
    point clouds under the squared loss this is done in blocks of rows; for other costs
    it takes about ``24 (n^2 + m^2) + 40 n m`` bytes.

    Parameters
    ----------
    problem : QuadraticProblem
        What the plan is for.
    result : GWResult, Coupling or array-like of shape (n, m)
        Of a result, the objectives and the truncation that it reports are checked too;
        a result of a problem with other marginals (`p`, `q`, `marginals`) is an error.
    epsilon : float or None, default=None
        Regularization in units of cost, as in `gromov_wasserstein` (half of POT's).
        None is that of the result; a bare plan needs a number. 0 is the exact problem.
    method : {"pgd", "ppa", "bapg"} or None, default=None
        The method whose fixed point the plan should be; None is that of the result, or
        "pgd". With epsilon 0 only "pgd" is taken: there is one kind of stationary plan.
    tol, marginal_tol : float, default=1e-5
        The tolerances that the plan was solved to. With epsilon 0 `tol` bounds the gap,
        as a fraction of the objective. With ``method="bapg"`` `marginal_tol` bounds the
        error of the columns alone; for a partial plan it is a fraction of its mass.
    max_iter : int, default=1000
        Limit of the iterations from each start of the search for potentials; for the
        potentials of a result mostly none are needed.
    memory_limit : float, str or None, default=None
        As in `gromov_wasserstein`.

    Returns
    -------
    Verification
        Residuals and bounds; ``.holds`` says whether all are met, and it prints as a table.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value, or the problem is unbalanced;
        the message names it.
    MemoryError
        If the costs would not fit `memory_limit`, before anything is allocated.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> cost = 1 - np.eye(3)
    >>> plan = np.full((3, 3), 1 / 9)
    >>> problem = gwfast.QuadraticProblem(cost, cost)
    >>> gwfast.verify(problem, plan, epsilon=0.1).holds
    True
    """
    if not isinstance(problem, QuadraticProblem):
        came = type(problem).__name__
        raise TypeError(f"problem must be a QuadraticProblem, got {came}")
    problem = problem.refreshed()
    if problem.rule.is_relaxed:
        raise ValueError(
            f"problem must not have marginals={problem.marginals!r}, whose conditions "
            "of optimality are not checked yet"
        )
    given = _as_given(problem, result, epsilon, method)
    steps = PGD if given.is_exact else as_method(given.method, problem, SINGLE)
    limits = dict(
        tol=as_positive(tol, "tol"),
        marginal_tol=as_positive(marginal_tol, "marginal_tol"),
        max_iter=as_count(max_iter, "max_iter"),
    )
    limit, (n, m) = as_memory_limit(memory_limit), problem.shape
    size = reference.nbytes(problem, steps.alternating)
    if given.is_exact:
        size += 8 * 5 * n * m
    if size > limit:
        raise MemoryError(
            f"verifying a plan of {n} x {m} takes {size / 1e9:.3g} GB, and "
            f"memory_limit is {limit / 1e9:.3g} GB"
        )
    made = given.look()
    if made["not_finite"].holds:
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            made |= _optimality(problem, given, steps, made["entropy"], **limits)
    return Verification(shape=problem.shape, epsilon=given.epsilon, **made)


@dataclasses.dataclass(frozen=True, eq=False)
class _Given:
    """A plan, and what came with it."""

    coupling: Coupling
    epsilon: float
    method: str
    potentials: tuple[Float64Array, Float64Array] | None = None
    gw_cost: float | None = None
    reg_cost: float | None = None
    left_out: float = np.inf

    @property
    def is_exact(self):
        """Whether there is no regularization."""
        return self.epsilon == 0

    def rows(self, rows):
        """Some rows of the plan, in float64."""
        return self.coupling._rows(rows).astype(np.float64)

    @property
    def precision(self):
        return SINGLE if self.coupling.dtype.itemsize == 4 else DOUBLE

    def look(self):
        """What the entries alone say, and NaN for the rest."""
        n_bad, negative, entropy = 0, 0.0, 0.0
        for rows in row_blocks(*self.coupling.shape):
            block = self.rows(rows)
            n_bad += int((~np.isfinite(block)).sum())
            negative -= float(block[block < 0].sum())
            alive = block[block > 0]
            entropy -= float(alive @ np.log(alive))
        unknown = "rows", "cols", "mass", "marginals", "stationarity", "truncation"
        return dict.fromkeys(unknown, Residual(np.nan)) | dict(
            gw_cost=np.nan,
            linear_cost=np.nan,
            entropy=entropy,
            not_finite=Residual(n_bad, 0),
            negative=Residual(negative, 0.0),
            complementarity=None,
            objective=None,
            reg_objective=None,
        )


def _as_given(problem, result, epsilon, method):
    """What came, checked."""
    reported, coupling = {}, result
    if isinstance(result, GWResult):
        coupling = result.coupling
        names = "potentials", "gw_cost", "reg_cost", "left_out"
        reported = {name: getattr(result, name) for name in names}
        epsilon = result.epsilon if epsilon is None else epsilon
        if epsilon != 0 and result.method != "cg":
            method = method or result.method
    elif not isinstance(result, Coupling):
        of = "cost_x and cost_y"
        plan = as_array(in_order(result, "result", *problem.orders, of=of), "result")
        if plan.dtype not in (np.float32, np.float64):
            plan = plan.astype(np.float64)
        coupling = ArrayCoupling(plan, 1)
    if coupling.shape != problem.shape:
        raise ValueError(f"result must have shape {problem.shape}, got {coupling.shape}")
    if reported:
        _check_marginals(problem, result)
    if epsilon is None:
        raise ValueError("epsilon must be given for a plan that does not tell it")
    epsilon = as_positive(epsilon, "epsilon", zero=True)
    if epsilon == 0 and method not in (None, "pgd"):
        raise ValueError(f"method must be 'pgd' with epsilon=0, got {method!r}")
    return _Given(coupling, epsilon, method or "pgd", **reported)


def _check_marginals(problem, result):
    """Refuse a problem that has other marginals than the one that was solved."""
    if problem.marginals != result.marginals:
        raise ValueError(
            f"problem must have marginals={result.marginals!r}, as result was solved "
            f"with, got {problem.marginals!r}"
        )
    for name in "pq":
        solved = getattr(result, name)
        off = 0.0 if solved is None else np.abs(getattr(problem, name) - solved).sum()
        if off > 1e-5:  # the tolerance of marginals, by default
            raise ValueError(
                f"problem must have the {name} that result was solved with, got one "
                f"that differs by {off:.2g} of the mass"
            )


def _optimality(problem, given, method, entropy, *, tol, marginal_tol, max_iter):
    """The residuals of a finite plan."""
    costs = reference.costs_of(problem, method.alternating)
    least = float(np.finfo(given.coupling.dtype).tiny)
    at = reference.ReferenceLinearization(costs, given.rows, method.alternating, least)
    # Solvers without entropy take costs of point clouds as matrices of float32.
    clouds = given.is_exact and reference.stays_factored(problem, method.alternating)
    precision = SINGLE if clouds else given.precision
    gw_cost = reference.objective(problem, given.coupling, at.linear_cost)
    found = dict(
        **_marginals(problem, at, method, marginal_tol),
        **_objectives(at, given, gw_cost, entropy),
        gw_cost=gw_cost,
        linear_cost=at.linear_cost,
    )
    if given.is_exact:
        return found | dict(
            stationarity=_gap(at, tol, precision), truncation=Residual(0.0, given.left_out)
        )
    unit = at.cost_scale / given.epsilon
    rounding = given.precision.rounding * (1.0 + unit)
    # Of the costs here, sums of larger terms, whatever the plan was computed with.
    rounding += DOUBLE.rounding * at.magnitude / given.epsilon
    # The last step was within tolerance; the next one may be ten times as long. A bound
    # above a tenth of the plan says nothing.
    bound = min(10 * tol + ROUNDINGS * rounding, 0.1)
    left_out, complementarity = 0.0, None
    if method.alternating:
        distance = alternate(at, costs, given.epsilon)
    else:
        plan = ReferencePlan(at, given.epsilon, method.proximal)
        plan.search(given.potentials, max_iter, bound / 2)
        distance, left_out = plan.distance, plan.left_out
        if problem.rule.takes_mass:
            complementarity = Residual(plan.complementarity, bound)
    if given.left_out < np.inf:
        bound += given.left_out
    return found | dict(
        stationarity=Residual(distance, bound),
        complementarity=complementarity,
        truncation=Residual(left_out, given.left_out + bound),
    )


def _gap(at, tol, precision):
    """That of Frank and Wolfe, as a fraction of the objective."""
    # In float64 solvers end at `conditional_gradient.ROUNDING`, and this is ten times that.
    rounding = ROUNDINGS * SINGLE.rounding if precision is SINGLE else 10 * ROUNDING
    rounding *= at.magnitude
    # Where the objective is nothing but rounding, of that.
    unit = max(abs(at.gw_cost), rounding) or 1.0
    return Residual(frank_wolfe_gap(at) / unit, tol + rounding / unit)


def _marginals(problem, at, method, marginal_tol):
    """How far the sums are from what they should be."""
    rule, missed = problem.rule, []
    marginal_tol *= rule.mass
    for sums, masses in ((at.rows, rule.p), (at.cols, rule.q)):
        off = sums - masses
        over = np.maximum(off, 0.0) if rule.takes_mass else np.abs(off)
        missed.append(float(over.sum()))
    total = missed[1] if method.alternating else rule.error(at.rows, at.cols)
    bounds = [np.inf if method.alternating else marginal_tol, marginal_tol]
    if not rule.takes_q:
        bounds[1] = np.inf
    return dict(
        rows=Residual(missed[0], bounds[0]),
        cols=Residual(missed[1], bounds[1]),
        mass=Residual(abs(float(at.rows.sum()) - rule.mass), marginal_tol),
        marginals=Residual(total, marginal_tol),
    )


def _objectives(at, given, gw_cost, entropy):
    """How far the reported objectives are from those of the plan."""
    # Solvers compute the objective anew where it may be off by more.
    made, bound = {}, 2 * reference.MAX_ERROR * abs(gw_cost)
    bound += DOUBLE.cost_rounding * at.magnitude + at.confusion
    if given.gw_cost is not None:
        made["objective"] = Residual(abs(given.gw_cost - gw_cost), bound)
    if given.reg_cost is not None:
        weight = 2 * given.epsilon
        value = abs(given.reg_cost - (gw_cost - weight * entropy))
        bound += weight * 10 * SINGLE.cost_rounding * (1.0 + abs(entropy))
        made["reg_objective"] = Residual(value, bound)
    return made
