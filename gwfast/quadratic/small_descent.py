"""Descents of small problems in a compiled loop (kernels/_descent.pyx): calls from Python for each
iteration would take longer than all that it does. What that loop cannot solve, the outer loop does.
"""

import math

import numpy as np

from ..kernels._descent import FIELDS, MORE, OTHERWISE, RULES, SETTLED, Descent
from ..linear import log_domain, newton, rules, sinkhorn_solver
from ..linear.log_domain import Potentials
from ..linear.sinkhorn_solver import MARGIN, in_units
from ..results.status import Status
from . import acceleration, judge, methods, state

# Multiplications of an iteration up to which the compiled loop, on one thread, pays: of 150 points
# descents took .07 to .5 of the time of the outer loop on two threads, of 250 .6 to 1.4.
FEW_POINTS = 256
MOST_WORK = 2 * FEW_POINTS**3
VALUE, CHANGE, ERROR, INNER = map(FIELDS.index, ("value", "change", "error", "n_inner"))
# Numbers of csrc/gwfast.h's GWF_LIMITS that all descents share; their modules give the reasons.
SHARED = dict(
    slice=1e9,  # multiplications of a call, some tenths of a second: Ctrl-C waits as long
    most_stands=2,  # times that an accelerated descent may stand still
    loss_rounding=state.LOSS_ROUNDING,
    max_tightening=judge.MAX_TIGHTENING,
    stalled_after=judge.STALLED_AFTER,
    clearly_less=judge.CLEARLY_LESS,
    look_every=sinkhorn_solver.LOOK_EVERY,
    stalled_rate=sinkhorn_solver.STALLED_RATE,
    most_omega=sinkhorn_solver.MAX_OMEGA,
    level_ratio=log_domain.RATIO,
    level_iterations=log_domain.LEVEL_ITERATIONS,
    level_settled=log_domain.SETTLED,
    most_kernels=sinkhorn_solver.MOST_KERNELS,
    all_moves=rules.ALL_MOVES,
    vanished=rules.VANISHED,
    kept_mass=sinkhorn_solver.KEPT_MASS,
    most_priced=methods.MAX_RATIO,
    farthest=newton.FARTHEST,
    newton_below=newton.NEAR,
    newton_leaves=newton.LEAVES,
    newton_price=newton.PRICE,
    newton_price_of_point=newton.PRICE_OF_POINT,
    depth=acceleration.DEPTH,
    turn_floor=acceleration.FLOOR,
    singular=acceleration.SINGULAR,
    max_change=acceleration.MAX_CHANGE,
    clear=acceleration.CLEAR,
    max_foretold=acceleration.MAX_FORETOLD,
    max_growth=acceleration.MAX_GROWTH,
    first_reach=acceleration.FIRST_REACH,
    max_reach=acceleration.MAX_REACH,
    shrinks=acceleration.SHRINKS,
)


class SmallDescent:
    """The iterations of a descent from a `State`, up to the first that the compiled loop cannot
    make; `goes_on` says whether the next one may be one of these.
    """

    def __init__(self, linearization, start):
        self._linearization, self._start, self._descent = linearization, start, None
        self._first, self.goes_on = 0, linearization.is_small

    def take(self, n_before, limits, epsilons):
        """Iterate as far as the compiled loop can and the limits allow, from `n_before` on.

        Returns ``gw_cost, change, moved, error, n_inner`` of all iterations, each a list; the last
        `State`, or None; and the `Status` if the descent ends with it.
        """
        descent, at = self._descent, self._linearization
        if descent is None:
            self._first = n_before
        judged = limits_of(at, self._start, limits, epsilons, self._first)
        if judged is None:
            self.goes_on = False
            return (), None, None
        if descent is None:
            descent = self._descent = descent_of(at, self._start, judged)
        done, most = descent.done, limits.max_outer - self._first
        ended = descent.descend(most, judged)
        self.goes_on = ended != OTHERWISE
        if descent.done == done:
            return (), None, None
        return *last_steps(descent, at, done), status_of(descent, ended, most)


def descend_together(descents, most, deadline, n_threads):
    """Make up to `most` iterations of each descent; return why each ended, MORE at a limit."""
    ended, left = dict.fromkeys(descents, MORE), descents
    while left and not deadline.passed():
        ended.update(zip(left, Descent.each(left, most, n_threads), strict=True))
        left = [one for one in left if ended[one] == MORE and one.done < most]
    return [ended[one] for one in descents]


def status_of(descent, ended, most):
    """Why the loop ends after the last iteration, of `most`; None if it goes on."""
    if ended == SETTLED:
        return Status.CONVERGED
    return Status.MAX_OUTER if descent.done >= most else None


def limits_of(at, start, limits, epsilons, first=0):
    """`descent_limits` for a `Schedule`; None if the compiled loop cannot judge by the rule."""
    epsilon, warm = (
        in_units(each, at.cost_scale, at.precision) for each in (epsilons.last, epsilons.at(first))
    )
    magnitude = at.magnitude(start)
    judged = limits.rule.in_kernel(limits, at, magnitude, epsilon)
    if judged is None:
        return None
    made = descent_limits(at, magnitude, epsilon, limits, judged, first)
    return made | {"first_epsilon": warm, "cooling": epsilons.factor}


def descent_limits(at, magnitude, epsilon, limits, judged, first):
    """The limits of a descent at one epsilon, divided by `cost_scale`, of a loop that begins after
    its `first` iterations.
    """
    precision, method, rule = at.precision, at.method, at.problem.rule
    rho_x, rho_y = rule.rho or (np.inf, np.inf)
    return SHARED | dict(
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
        # Acceleration combines plans of one mass.
        accelerates=at.sample_stride > 0 and not rule.is_relaxed,
        peak=precision.peak,
        drift=math.exp(precision.drift),
        direct=precision.direct,
        standstill=precision.standstill,
        floor=precision.rounding / epsilon,
        stalled=precision.stalled,
        rounding=precision.cost_rounding * magnitude / at.cost_scale,
        marginal=limits.marginal_tol,
        rough=MARGIN * precision.rough,
        least_error=precision.inner_tol,
        max_inner=limits.max_inner,
        first_limit=at.inner_limit,
        max_outer=limits.max_outer - first,
        **judged,
    )


def descent_of(at, start, limits):
    """Return the `Descent` from a state of a linearization, within `limits_of`."""
    problem, unit, fused, potentials = at.problem, at.cost_scale, at.fused, start.potentials
    losses = None
    if not problem.is_balanced:
        losses = [(side.losses, at.alpha * side.loss_scale / unit) for side in at.sides]
    return Descent(
        at.bilinear.orientations[0],
        at.bilinear.orientations[1] if at.bilinear.orientations[1:] else None,
        fused and fused.matrix,
        start.plan.copy(),
        start.moments.matrix.copy(),
        problem.p,
        problem.q,
        *(cost / unit for cost in start.separable),
        potentials and (potentials.f, potentials.g),
        losses,
        shift=0.0 if fused is None else fused.separable / unit,
        stride=at.sample_stride,
        fraction=MARGIN * at.inner_fraction,
        limits=limits,
    )


def suits_descent(at):
    """Return whether the compiled loop can make the iterations of a linearization, and pays."""
    (n, m), allowed = at.problem.shape, at.mechanisms
    if n * m * (n + m) > MOST_WORK or not at.is_plain:
        return False
    return allowed.small_descents and allowed.newton


def last_steps(descent, at, first=0):
    """Return ``gw_cost, change, moved, error, n_inner`` of a descent from an iteration on, each a
    list, and the `State` after the last.
    """
    steps = descent.steps[first:].T
    gw_costs = (at.cost_scale * steps[VALUE]).tolist()
    change, moved, error = steps[CHANGE : ERROR + 1].tolist()
    potentials = Potentials(descent.f.copy(), descent.g.copy())
    product = None if descent.is_away else descent.cost.copy()
    sums = descent.rows.copy(), descent.cols.copy()
    last = at.state_from(descent.plan.copy(), product, *sums, potentials, gw_costs[-1])
    return (gw_costs, change, moved, error, steps[INNER].astype(int).tolist()), last
