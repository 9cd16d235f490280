"""What is returned where there was no time for a single iteration."""

import numpy as np

from ..problems.losses import LOSSES
from ..quadratic.factory import is_factored, linearize
from ..quadratic.information import mass_entropy
from ..results.coupling import ArrayCoupling, FactoredCoupling
from ..results.result import GWResult
from ..results.status import Status
from ..utils.blocks import row_blocks
from ..utils.precision import SINGLE


def unsolved(problem, options):
    """The product plan as a `GWResult`, whose `n_outer` is 0."""
    gw_cost, linear = _objective(problem, options.method)
    epsilon = options.epsilon
    last = epsilon.value
    if last is None:
        last = epsilon.relative * gw_cost / problem.mass
    entropies = mass_entropy(problem.p) + mass_entropy(problem.q) - np.log(problem.mass)
    return GWResult(
        coupling=_coupling(problem, options),
        potentials=tuple(np.zeros(size) for size in problem.shape),
        gw_cost=gw_cost,
        linear_cost=linear,
        reg_cost=gw_cost - 2 * last * problem.mass * entropies,
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
    p, q, mass = problem.p, problem.q, problem.mass
    threads = options.threads(problem)
    if options.precision is not SINGLE:
        return ArrayCoupling(np.multiply.outer(mass * p, q), threads)
    left, right = (np.zeros((size, 1), dtype=np.float32) for size in problem.shape)
    with np.errstate(divide="ignore"):
        f, g = np.log(mass * p), np.log(q)
    return FactoredCoupling(left, right, f, g, 1.0, threads)


def _objective(problem, method):
    """Of the product plan, and its linear term: by sums over the costs of each side,
    where a linearization makes products of matrices.
    """
    if is_factored(problem, method):
        return linearize(problem, 1, "tiled", method=method).start(), 0.0
    loss, (p, q), linear = LOSSES[problem.loss], (problem.p, problem.q), 0.0
    x, y = problem.x.to_dense().matrix, problem.y.to_dense().matrix
    loss.check(x, "cost_x")
    loss.check(y, "cost_y")
    value = _mean(x, p, loss.f1) + _mean(y, q, loss.f2)
    value -= _mean(x, p, loss.h1) * _mean(y, q, loss.h2)
    value *= problem.mass**2
    if problem.linear_cost is None:
        return float(value), 0.0
    linear = float(problem.mass * (p @ problem.linear_cost @ q))
    return float(problem.alpha * value + (1.0 - problem.alpha) * linear), linear


def _mean(cost, masses, function):
    """``masses' function(cost) masses``."""
    total = 0.0
    for rows in row_blocks(*cost.shape):
        total += masses[rows] @ function(cost[rows].astype(np.float64)) @ masses
    return total
