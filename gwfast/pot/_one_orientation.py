"""Conditional gradient as POT does it where costs are said to be symmetric and are not:
its gradient then has one orientation of the costs in place of the mean of both, and is
the gradient of no objective.
"""

import numpy as np

from ..problems.losses import LOSSES
from ..quadratic.certificate import LeastPlans
from ..quadratic.conditional_gradient import ExactSolution
from ..results.status import Status


def solve_one_orientation(problem, plan, limits, report):
    """The `ExactSolution` that POT ends at, from a plan, the product plan for None.

    Its objective is POT's too: that of the start, plus what the line search expects of
    every step, which for such costs is not what the last plan costs. ``report`` is
    called with the objective of every plan.
    """
    rule, half, linear = problem.rule, _half_gradient(problem), np.zeros(problem.shape)
    if plan is None:
        rows, cols = rule.product()
        plan = np.outer(rows, cols / rule.mass)
    else:
        plan = rule.mend(np.asarray(plan, dtype=np.float64))
    if problem.linear_cost is not None:
        linear += (1.0 - problem.alpha) * problem.linear_cost
    made, n_steps, status = half(plan), 0, Status.MAX_OUTER
    vertices = LeastPlans(rule)
    value = float(np.vdot(made + linear, plan))
    report(value)
    while n_steps < max(limits.max_outer, 1):
        vertex, potentials = vertices.solve(made + linear / 2)
        way = vertex - plan
        change = half(way)
        curved = float(np.vdot(change, way))
        slope = _slope(rule, made, plan, change, way) + float(np.vdot(linear, way))
        size = _length(curved, slope)
        step = size * (slope + size * curved)
        plan, made = plan + size * way, made + size * change
        value, n_steps = value + step, n_steps + 1
        report(value)
        if abs(step) < max(limits.min_change, limits.min_relative * abs(value)):
            status = Status.CONVERGED
            break
    return ExactSolution(
        problem=problem,
        plan=plan,
        potentials=potentials,
        gw_cost=value,
        gap=np.nan,
        status=status,
        trace=np.empty((0, 3)),
        seconds=np.nan,
    )


def _half_gradient(problem):
    """Half of POT's gradient, a linear function of a plan."""
    loss, costs = LOSSES[problem.loss], (problem.x.matrix, problem.y.matrix)
    x, y = (cost.astype(np.float64) for cost in costs)
    f1, f2 = problem.alpha * loss.f1(x), problem.alpha * loss.f2(y)
    h1, h2 = problem.alpha * loss.h1(x), loss.h2(y)

    def half(plan):
        rows, cols = plan.sum(axis=1), plan.sum(axis=0)
        return (f1 @ rows)[:, None] + f2 @ cols - h1 @ plan @ h2.T

    return half


def _slope(rule, made, plan, change, way):
    """What POT takes for the derivative on the way, which differs with the rule: of
    symmetric costs all of these are the same.
    """
    if rule.takes_mass:
        return 2 * float(np.vdot(made, way))
    if rule.takes_q:
        return 2 * float(np.vdot(change, plan))
    return float(np.vdot(made, way) + np.vdot(change, plan))


def _length(curved, slope):
    """Where ``slope x + curved x^2`` is least, from zero to one."""
    if curved > 0:
        return min(1.0, max(0.0, -slope / (2 * curved)))
    return 1.0 if curved + slope < 0 else 0.0
