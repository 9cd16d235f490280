"""What is returned where there was no time for a single iteration."""

import numpy as np

from ..quadratic.information import mass_entropy
from ..results.coupling import ArrayCoupling, FactoredCoupling
from ..results.result import GWResult
from ..results.status import Status
from ..utils.precision import SINGLE
from .product_plan import product_objective


def unsolved(problem, options):
    """The product plan as a `GWResult`, whose `n_outer` is 0."""
    gw_cost, linear = product_objective(problem, options.method, options.placement)
    epsilon = options.epsilon
    last = epsilon.value
    if last is None:
        cost = gw_cost - problem.rule.penalty(*problem.rule.product())
        last = epsilon.relative * cost / (problem.mass * problem.rule.entropy_weight)
    rule, mass = problem.rule, problem.mass
    rows, cols = rule.product()
    entropy = mass_entropy(rows) + mass_entropy(cols) + mass * np.log(mass)
    return GWResult(
        coupling=_coupling(problem, options),
        potentials=tuple(np.zeros(size) for size in problem.shape),
        gw_cost=gw_cost,
        linear_cost=linear,
        reg_cost=rule.regularized(gw_cost, last, entropy, rows, cols),
        **rule.asked(),
        mass=mass,
        penalty=rule.penalty(rows, cols),
        epsilon=last,
        marginal_error=0.0,
        n_outer=0,
        n_inner=0,
        status=Status.TIME_LIMIT,
        advice=Status.TIME_LIMIT.advice,
        history=(),
        seconds=0.0,
    )


def _coupling(problem, options):
    """The product plan: as factors, which take no time, where float32 will do."""
    rows, cols = problem.rule.product()
    cols, threads = cols / problem.mass, options.threads(problem)
    if options.precision is not SINGLE:
        return ArrayCoupling(np.multiply.outer(rows, cols), threads)
    left, right = (np.zeros((size, 1), dtype=np.float32) for size in problem.shape)
    with np.errstate(divide="ignore"):
        f, g = np.log(rows), np.log(cols)
    return FactoredCoupling(left, right, f, g, 1.0, threads)
