"""The product plan: the result where there is no time for an iteration, its objective,
and whether both terms of a fused problem are of one scale there.
"""

import dataclasses
import math
import warnings

import numpy as np

from ..kernels._kernels import mass_entropy
from ..problems.cross_cost import CrossCost
from ..problems.losses import LOSSES
from ..quadratic.factory import is_factored, linearize
from ..quadratic.methods import PGD
from ..results.coupling import ArrayCoupling, FactoredCoupling
from ..results.result import GWResult
from ..results.status import Status
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.callers import outside
from ..utils.precision import SINGLE

# Ratio of the terms of a fused objective from which on there is a warning. On 100 points of the
# plane with three noisy features 90 % of the matches are right at a ratio of 6 and 84 % at 0.6,
# but 61 % at 61 and 34 % at 1/160, where the smaller term hardly counts.
MAX_RATIO = 30.0
# How a solve may end long before its plan is a solution.
LIMITED = Status.MAX_OUTER, Status.MAX_INNER, Status.TIME_LIMIT
# Share of the quadratic term at the product plan from which on an epsilon blurs the matches
# that a linear cost allows, and share of the linear term below which a plan keeps to these
# matches. Of 60 and 100 points in two to four kinds, with a cost between kinds, 97 % of the
# matches are right at an epsilon of 11 % of the quadratic term, and 59 to 80 % at 22 %.
MAX_EPSILON, FORBIDDEN = 0.15, 1e-3


def unsolved(problem, options):
    """The product plan as a `GWResult`, whose `n_outer` is 0."""
    method = PGD if options.is_exact else options.method
    gw_cost, linear = _objective(problem, method, options.placement)
    rule, mass = problem.rule, problem.mass
    rows, cols = rule.product()
    penalty, epsilon = rule.penalty(rows, cols), options.epsilon.value
    if epsilon is None:
        size = (gw_cost - penalty) / (mass * rule.entropy_weight)
        epsilon = options.epsilon.relative * size
    entropy = mass_entropy(rows) + mass_entropy(cols) + mass * np.log(mass)
    threads, right = options.threads(problem), cols / mass
    if options.precision is SINGLE:
        # As factors the plan takes no time.
        factors = (np.zeros((size, 1), dtype=np.float32) for size in problem.shape)
        with np.errstate(divide="ignore"):
            potentials = np.log(rows), np.log(right)
        coupling = FactoredCoupling(*factors, *potentials, 1.0, threads)
    else:
        coupling = ArrayCoupling(np.multiply.outer(rows, right), threads)
    return GWResult(
        coupling=coupling,
        potentials=tuple(np.zeros(size) for size in problem.shape),
        gw_cost=gw_cost,
        linear_cost=linear,
        reg_cost=rule.regularized(gw_cost, epsilon, entropy, rows, cols),
        **rule.asked(),
        mass=mass,
        penalty=penalty,
        epsilon=epsilon,
        marginal_error=0.0,
        n_outer=0,
        n_inner=0,
        status=Status.TIME_LIMIT,
        advice=Status.TIME_LIMIT.advice,
        history=(),
        seconds=0.0,
        **(dict(method="cg", gap=np.inf) if options.is_exact else {}),
    )


def no_worse_than_product(problem, result, options):
    """Return the result, or the product plan if a limit ended a balanced solve at a plan
    with a larger objective. Status, history and counts stay.
    """
    if result.status not in LIMITED or not problem.is_balanced or not result.n_outer:
        return result
    product = unsolved(problem, options)
    # Zero may be what rounding leaves of large terms.
    if result.gw_cost <= product.gw_cost or not product.gw_cost:
        return result
    names = "status advice n_outer n_inner history candidates method labels seconds"
    done = {name: getattr(result, name) for name in [*names.split(), "term_ratio"]}
    return dataclasses.replace(product, **done)


def completed(problem, result, seconds, limit=math.inf):
    """The result with the seconds of the solve, the labels of the problem, the bytes
    that its plan may take as an array and, if it is fused, its `GWResult.term_ratio`.
    """
    added = dict(labels=problem.labels, seconds=seconds)
    if limit < math.inf:
        added["coupling"] = result.coupling.with_limit(limit)
    if problem.is_fused:
        p, q = problem.rule.product()
        size = _mean_size(problem.between, p, q)
        linear = (1.0 - problem.alpha) * size / problem.mass
        quadratic = problem.alpha * max(quadratic_mean(problem), 0.0)
        added["term_ratio"] = quadratic / linear if linear else math.inf
        avoided = (1.0 - problem.alpha) * abs(result.linear_cost) <= FORBIDDEN * linear
        share = result.epsilon / quadratic if quadratic else 0.0
        if avoided and share > MAX_EPSILON:
            advice = (
                f"the plan avoids linear_cost, and epsilon, {result.epsilon:.3g}, is "
                f"{share:.0%} of the quadratic term, where 1 to 3 % is usual; try "
                f"epsilon=0, or epsilon={0.02 * quadratic:.2g}"
            )
            added["advice"] = "; ".join(filter(None, [result.advice, advice]))
    return dataclasses.replace(result, **added)


def _mean_size(between, p, q):
    """``p' |C| q`` of costs between the spaces."""
    factored, size = isinstance(between, CrossCost), 0.0
    if factored and between.metric != "dot":  # no cost is negative
        return between.mean(p, q)
    for rows in row_blocks(*between.shape, CACHED_BYTES):
        cost = between.rows(rows) if factored else between[rows]
        size += float(p[rows] @ np.abs(cost) @ q)
    return size


def warn_of_scales(results):
    """Warn once if a term of a fused problem hardly counts, of the extreme ratio, and once
    if an epsilon is large beside the quadratic term.
    """
    blurred = [one.advice for one in results if one.status == Status.CONVERGED and one.advice]
    if blurred:
        warnings.warn(blurred[0], stacklevel=outside())
    ratios = [one.term_ratio for one in results if 0 < one.term_ratio < math.inf]
    ratio = max(ratios, key=lambda one: abs(math.log(one)), default=1.0)
    if 1 / MAX_RATIO <= ratio <= MAX_RATIO:
        return
    names, times = ("quadratic", "linear"), ratio
    if ratio < 1:
        names, times = names[::-1], 1 / ratio
    warnings.warn(
        f"the {names[0]} term of the fused objective is {times:.3g} times the "
        f"{names[1]} one, at the product plan and weighted by alpha, and decides "
        f"nearly alone; linear_cost times {ratio:.3g} would make them equal",
        stacklevel=outside(),
    )


def _objective(problem, method, placement):
    """The objective and its linear term, by sums over the costs of each side, where a
    linearization makes matrix products.
    """
    if problem.is_plain and is_factored(problem, method):
        kind = dict(method=method, placement=placement)
        return linearize(problem, 1, "tiled", **kind).start(), 0.0
    p, q = problem.rule.product()
    value, penalty = quadratic_mean(problem), problem.rule.penalty(p, q)
    if not problem.is_fused:
        return value + penalty, 0.0
    between = problem.between
    mean = between.mean(p, q) if isinstance(between, CrossCost) else p @ between @ q
    linear = float(mean) / problem.mass
    return problem.alpha * value + (1.0 - problem.alpha) * linear + penalty, linear


def quadratic_mean(problem):
    """The quadratic term of the objective of the product plan, without `alpha`."""
    plain = problem.replace(between=None)
    if is_factored(plain):
        return linearize(plain, 1, "tiled").start()
    loss, (p, q) = LOSSES[problem.loss], problem.rule.product()
    x, y = problem.x.to_dense(), problem.y.to_dense()
    loss.check(x.matrix, "cost_x")
    loss.check(y.matrix, "cost_y")
    own_x, of_x = _means(x, p, loss.f1, loss.h1, loss)
    own_y, of_y = _means(y, q, loss.f2, loss.h2, loss)
    own, common = own_x + own_y, of_x * of_y / problem.mass**2
    value = float(own - common)
    # If all costs are equal, what is left is rounding.
    return value if abs(value) > 1e-13 * abs(common) else 0.0


def _means(side, masses, f, h, loss):
    """``masses' f(C) masses`` and ``masses' h(C) masses`` of the costs of a side."""
    if loss.keeps_factors:  # f is the square, and h is linear
        first, second = side.moments(0.0, masses)
        return masses @ second, h(masses @ first)
    made = [0.0, 0.0]
    for rows in row_blocks(side.n, side.n):
        cost = side.matrix[rows].astype(np.float64)
        for k, function in enumerate((f, h)):
            made[k] += masses[rows] @ function(cost) @ masses
    return made
