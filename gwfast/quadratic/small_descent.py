"""Descents of small problems in a compiled loop (kernels/_descent.pyx): calls from
Python for each iteration would take longer than all that it does. What that loop cannot
solve, the outer loop does.
"""

import itertools
import math

import numpy as np

from ..kernels._descent import FIELDS, MORE, OTHERWISE, RULES, SETTLED, Descent
from ..kernels._rows import Shifted
from ..linear.log_domain import Potentials
from ..linear.marginals import PartialPotentials
from ..linear.sinkhorn_solver import MARGIN, LinearSolution, in_units
from ..results.result import OuterStep
from ..results.status import Status
from .linearization import Update
from .methods import Stepped

# Multiplications of an iteration up to which the compiled loop, on one thread, pays. On
# two cores, with two threads for the outer loop, descents of graphs, shapes and clouds
# from the product plan took, with 150 points, .07 to .5 of the time, 200 .5 to .9, 250
# .6 to 1.4, 300 .8 to 1.1 (by proximal steps 1.5), 400 .7 to 1.3 and 500 1.2 to 3.
MOST_WORK = 2 * 256**3
# Entries of a float64 plan, iterations allowed, and the tolerance, from which on a descent begins
# in float32: with POT's tolerances graphs, clouds and cells of 20 points took 1.07 of the time
# without that, of 50 1.2, of 100 1.4; with 1e-5 they took as long.
MIN_ROUNDED_ENTRIES, MIN_ROUNDED_OUTER, MAX_ROUNDED_TOL = 400, 50, 1e-6
VALUE, CHANGE, ERROR, INNER = map(FIELDS.index, ("value", "change", "error", "n_inner"))


class SmallDescent:
    """The iterations of an outer loop, up to the first that the compiled loop cannot make.

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

    def take(self, n_before, limits, epsilons, potentials, single):
        """Iterate as far as the compiled loop can and the limits allow.

        Parameters
        ----------
        n_before : int
            Iterations of the loop so far.
        limits : Limits
        epsilons : Schedule
        potentials : Potentials or None
        single : bool
            Whether to make one iteration only.

        Returns
        -------
        tuple of list
            ``gw_cost, change, moved, error, n_inner`` of all iterations.
        Stepped or None
            The last one.
        Status or None
            Why the loop ends with it.
        """
        descent, at = self._descent, self._linearization
        if descent is None:
            self._first = n_before
        judged = limits_of(at, limits, epsilons, self._first)
        if judged is None:
            self.goes_on = False
            return (), None, None
        if descent is None:
            descent = self._descent = at.descent(judged, potentials, copies=True)
        done, most = descent.done, judged["max_outer"]
        ended = descent.descend(done + 1 if single else most, judged)
        self.goes_on = ended != OTHERWISE
        if descent.done == done:
            return (), None, None
        return *last_steps(descent, at, done), status_of(descent, ended, most)


def descend_together(descents, most, deadline, n_threads):
    """Make up to so many iterations of all, which is the last that is done with them;
    returns why each ended, MORE where time or iterations were up.
    """
    ended = dict.fromkeys(descents, MORE)
    left = descents
    while left and not deadline.passed():
        ended.update(zip(left, Descent.each(left, most, n_threads, last=True), strict=True))
        left = [one for one in left if ended[one] == MORE and one.done < most]
    return [ended[one] for one in descents]


def status_of(descent, ended, most):
    """Why the loop ends after the last iteration, of `most`; None where it goes on."""
    if ended == SETTLED:
        return Status.CONVERGED
    return Status.MAX_OUTER if descent.done >= most else None


def limits_of(at, limits, epsilons, first=0):
    """`descent_limits` for a `Schedule`; None where the compiled loop cannot judge by the rule."""
    epsilon, warm = (
        in_units(each, at.cost_scale, at.precision) for each in (epsilons.last, epsilons.at(first))
    )
    judged = limits.rule.in_kernel(limits, at, epsilon)
    if judged is None:
        return None
    made = descent_limits(at, epsilon, limits, judged, first)
    return dict(made, first_epsilon=warm, cooling=epsilons.factor)


def descent_limits(at, epsilon, limits, judged, first):
    """How the descent of a linearization is made (`gwf_descent_limits`) at one epsilon,
    divided by `cost_scale`, which the loop begins after its `first` iterations.
    """
    precision, method, rule = at.precision, at.method, at.problem.rule
    rho_x, rho_y = rule.rho or (np.inf, np.inf)
    return dict(
        epsilon=epsilon,
        first_epsilon=0.0,
        cooling=1.0,
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


def descent_of(at, limits, potentials=None, *, copies=False):
    """The `Descent` from the state of a linearization, within `limits_of`; in its own
    arrays, or in copies of them.
    """
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
    arrays = at.state, cost.buffer.array
    return Descent(
        *terms.bilinear.orientations,
        fused and fused.matrix,
        *(map(np.copy, arrays) if copies else arrays),
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
    many = many and limits["tol"] <= MAX_ROUNDED_TOL
    return plain and many and at.mechanisms.float32_start


def suits_descent(at):
    """Whether the compiled loop can make the iterations of a `Dense` linearization, and pays."""
    (n, m), allowed = at.problem.shape, at.mechanisms
    if n * m * (n + m) > MOST_WORK:
        return False
    if isinstance(at.terms.bilinear.matrices[0], Shifted):
        return False
    allowed = allowed.small_descents, allowed.rough_inner, allowed.over_relaxation
    return all(allowed) and at.cost.products.is_plain


def last_steps(descent, at, first=0):
    """What a descent has done from an iteration on: of all these ``gw_cost, change,
    moved, error, n_inner``, each a list, and the `Stepped` of the last one, whose plan
    becomes the state of its linearization.
    """
    at.take(descent)
    steps = descent.steps[first:].T
    gw_costs = (at.cost_scale * steps[VALUE]).tolist()
    change, moved, error = steps[CHANGE : ERROR + 1].tolist()
    shown = gw_costs, change, moved, error, steps[INNER].astype(int).tolist()
    return shown, _stepped(descent, at, *(one[-1] for one in shown))


def outer_steps(steps, epsilons, seconds, before=0):
    """An `OuterStep` of each iteration as `last_steps` shows them, after so many
    others, at one time.
    """
    gw_costs, changes, _, *others = steps
    numbers = range(before + 1, before + 1 + len(gw_costs))
    shown = gw_costs, [epsilons.at(k - 1) for k in numbers], changes, *others
    return list(map(OuterStep, numbers, *shown, itertools.repeat(seconds)))


def _stepped(descent, at, gw_cost, change, moved, error, n_inner):
    """What the last iteration has done."""
    rows, cols, rule = descent.rows.copy(), descent.cols.copy(), at.problem.rule
    _, product, linear = descent.steps[-1, :3].tolist()
    bilinear = at.cost_scale * (product - linear)
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
