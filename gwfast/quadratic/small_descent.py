"""Descents of small problems in a compiled loop (kernels/_descent.pyx): calls from
Python for each iteration would take longer than all that it does. What that loop cannot
solve, the outer loop does.
"""

import math

import numpy as np

from ..kernels._descent import OTHERWISE, RULES, SETTLED, Descent
from ..linear.log_domain import Potentials
from ..linear.marginals import PartialPotentials
from ..linear.sinkhorn_solver import MARGIN, LinearSolution
from ..results.status import Status
from .linearization import Update
from .methods import Stepped

# Entries of a float64 plan, and iterations allowed, from which on a descent begins in
# float32. Graphs, clouds and cells of 20 to 100 points took .76 of the time by that, of
# 10 points as long.
MIN_ROUNDED_ENTRIES, MIN_ROUNDED_OUTER = 400, 50


class SmallDescent:
    """The iterations of an outer loop, up to the first that the compiled loop cannot
    make.

    Parameters
    ----------
    linearization : Linearization
        With its state set; only a small `Dense` one has such a descent.

    Attributes
    ----------
    goes_on : bool
        Whether the next iteration may be one of these.
    """

    def __init__(self, linearization):
        self._linearization, self._descent = linearization, None
        self._first = 0
        self.goes_on = linearization.is_small

    def take(self, n_before, limits, epsilon, potentials, single):
        """Iterate as far as the compiled loop can and the limits allow.

        Parameters
        ----------
        n_before : int
            Iterations of the loop so far.
        limits : Limits
        epsilon : float
            Of all these iterations, divided by `cost_scale`.
        potentials : Potentials or None
        single : bool
            Whether to make one iteration only.

        Returns
        -------
        list of tuple
            Of each iteration ``gw_cost, change, moved, error, n_inner``.
        Stepped or None
            The last one.
        Status or None
            Why the loop ends with it.
        """
        descent, at = self._descent, self._linearization
        judged = limits.rule.in_kernel(limits, at, epsilon)
        if judged is None:
            self.goes_on = False
            return [], None, None
        if descent is None:
            self._first = n_before
        judged = descent_limits(at, epsilon, limits, judged, self._first)
        if descent is None:
            descent = self._descent = _descent_of(at, potentials, judged)
        done, limit = descent.done, judged["max_outer"]
        status = descent.descend(done + 1 if single else limit, judged)
        self.goes_on = status != OTHERWISE
        if descent.done == done:
            return [], None, None
        at.take(descent)
        ended = Status.CONVERGED if status == SETTLED else None
        if ended is None and descent.done >= limit:
            ended = Status.MAX_OUTER
        mass = None if at.problem.rule.is_relaxed else at.problem.mass
        steps = _shown(descent.steps[done:].tolist(), at.terms, mass)
        return steps, _stepped(descent, at, *steps[-1]), ended


def descent_limits(at, epsilon, limits, judged, first):
    """How the descent of a linearization is made (`gwf_descent_limits`), which the loop
    begins after its `first` iterations.
    """
    precision, method, rule = at.precision, at.method, at.problem.rule
    rho_x, rho_y = rule.rho or (np.inf, np.inf)
    return dict(
        epsilon=epsilon,
        mass=rule.mass,
        rho_x=rho_x / at.cost_scale,
        rho_y=rho_y / at.cost_scale,
        rule=RULES[rule.name],
        proximal=method.proximal,
        alternating=method.alternating,
        marginal_terms=method.marginal_terms,
        # Of plans whose mass changes more would have to be combined.
        accelerates=at.sample_stride > 0 and not rule.is_relaxed,
        peak=precision.peak,
        drift=math.exp(precision.drift),
        direct=precision.direct,
        standstill=precision.standstill,
        floor=precision.rounding / epsilon,
        stalled=precision.stalled,
        rounding=precision.cost_rounding * at.magnitude / at.cost_scale,
        marginal=limits.marginal_tol,
        rough=MARGIN * precision.rough,
        least_error=precision.inner_tol,
        max_inner=limits.max_inner,
        first_limit=at.inner_limit,
        max_outer=limits.max_outer - first,
        **judged,
    )


def _descent_of(at, potentials, limits):
    """The `Descent` from the state of a linearization."""
    terms, cost, problem, losses = at.terms, at.cost, at.problem, None
    unit, fused = terms.cost_scale, terms.fused
    if not problem.is_balanced:
        losses = terms.losses(at.precision.dtype)
    if isinstance(potentials, PartialPotentials):
        logs = potentials.log_u, potentials.log_v
        potentials = potentials.f, potentials.g, *logs
    elif potentials is not None:
        potentials = potentials.f, potentials.g
    cost.ensure(limits["epsilon"])
    return Descent(
        *terms.bilinear.orientations,
        fused and fused.matrix,
        at.state.copy(),
        cost.buffer.array.copy(),
        problem.p,
        problem.q,
        cost.row_cost / unit,
        cost.col_cost / unit,
        potentials,
        losses,
        shift=0.0 if fused is None else fused.separable / unit,
        stride=at.sample_stride,
        fraction=MARGIN * at.inner_fraction,
        rounded=_begins_rounded(at, limits),
        limits=limits,
    )


def _begins_rounded(at, limits):
    """Whether a descent of float64 begins in float32."""
    plain = at.problem.is_balanced and not (at.method.proximal or at.method.alternating)
    many = math.prod(at.problem.shape) >= MIN_ROUNDED_ENTRIES
    many = many and limits["max_outer"] >= MIN_ROUNDED_OUTER
    return plain and many and at.mechanisms.float32_start


def _shown(steps, terms, mass):
    """Of each step ``gw_cost, change, moved, error, n_inner``; `mass` is that of all
    plans, None where it changes.
    """
    unit, shown = terms.cost_scale, []
    for separable, product, linear, value, change, moved, error, n_inner in steps:
        gw_cost = unit * value
        if mass is not None:
            gw_cost = terms.total(unit * separable, unit * product, unit * linear, mass)
        shown.append((gw_cost, change, moved, error, int(n_inner)))
    return shown


def _stepped(descent, at, gw_cost, change, moved, error, n_inner):
    """What the last iteration has done."""
    rows, cols, rule = descent.rows.copy(), descent.cols.copy(), at.problem.rule
    _, product, linear = descent.steps[-1, :3].tolist()
    bilinear = at.terms.cost_scale * (product - linear)
    update = Update(gw_cost, change, rows, cols, moved, bilinear=bilinear)
    potentials = descent.f.copy(), descent.g.copy()
    if rule.takes_mass:
        logs = descent.log_u.copy(), descent.log_v.copy()
        potentials = PartialPotentials(*potentials, *logs)
    else:
        potentials = Potentials(*potentials)
    fitted = error
    if at.method.alternating:
        fitted = float(np.abs(cols - rule.q).sum())
    solution = LinearSolution(potentials, None, n_inner, error)
    fitted /= rule.plan_mass(rows)
    return Stepped(None, solution, update, n_inner, fitted, error, 0.0)
