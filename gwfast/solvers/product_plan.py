"""The product plan as a result, and a comparison of results with it."""

import dataclasses
import math
import warnings

import numpy as np

from ..kernels._kernels import mass_entropy
from ..problems.cross_cost import CrossCost
from ..quadratic.certificate import product_mean
from ..quadratic.methods import PGD
from ..results.coupling import ArrayCoupling, FactoredCoupling
from ..results.result import GWResult
from ..results.status import Status
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.callers import outside
from ..utils.precision import SINGLE


def unsolved(problem, options):
    """Return the product plan as a `GWResult`, whose `n_outer` is 0."""
    rule, mass, threads = problem.rule, problem.mass, options.threads(problem)
    (rows, cols), value, linear = rule.product(), product_mean(problem), 0.0
    if problem.is_fused:
        linear = _linear_term(problem) / mass
        value = problem.alpha * value + (1.0 - problem.alpha) * linear
    gw_cost, epsilon = value + rule.penalty(rows, cols), options.epsilon.value
    if epsilon is None:
        epsilon = options.epsilon.relative * value / (mass * rule.entropy_weight)
    entropy = mass_entropy(rows) + mass_entropy(cols) + mass * np.log(mass)
    if options.precision is SINGLE:  # as factors the plan takes no time
        factors = [np.zeros((size, 1), dtype=np.float32) for size in problem.shape]
        with np.errstate(divide="ignore"):
            logs = np.log(rows), np.log(cols / mass)
        coupling = FactoredCoupling(*factors, *logs, 1.0, threads)
    else:
        coupling = ArrayCoupling(np.multiply.outer(rows, cols / mass), threads)
    return GWResult(
        coupling=coupling,
        potentials=tuple(np.zeros(size) for size in problem.shape),
        gw_cost=gw_cost,
        linear_cost=linear,
        reg_cost=rule.regularized(gw_cost, epsilon, entropy, rows, cols),
        **rule.asked(),
        mass=mass,
        penalty=rule.penalty(rows, cols),
        epsilon=epsilon,
        marginal_error=0.0,
        n_outer=0,
        n_inner=0,
        status=Status.TIME_LIMIT,
        advice=Status.TIME_LIMIT.advice,
        history=(),
        seconds=0.0,
        method="cg" if options.is_exact else PGD.name,
        gap=np.inf if options.is_exact else np.nan,
    )


def no_worse_than_product(problem, result, options):
    """Return the result, or the product plan if a limit ended a balanced solve at a plan
    with a larger objective. Status, history and counts stay.
    """
    limited = result.status in (Status.MAX_OUTER, Status.MAX_INNER, Status.TIME_LIMIT)
    if not limited or not problem.is_balanced or not result.n_outer:
        return result
    product = unsolved(problem, options)
    # Zero may be what rounding leaves of large terms.
    if result.gw_cost <= product.gw_cost or not product.gw_cost:
        return result
    names = "status advice n_outer n_inner history candidates method labels seconds term_ratio"
    return dataclasses.replace(product, **{name: getattr(result, name) for name in names.split()})


def completed(problem, result, seconds, limit=math.inf):
    """Return the result with the seconds of the solve, the labels of the problem, the bytes
    that its plan may take as an array and, if it is fused, its `GWResult.term_ratio`.
    """
    added = dict(labels=problem.labels, seconds=seconds)
    if limit < math.inf:
        added["coupling"] = result.coupling.with_limit(limit)
    if problem.is_fused:
        linear = (1.0 - problem.alpha) * _linear_term(problem, np.abs) / problem.mass
        quadratic = problem.alpha * max(product_mean(problem), 0.0)
        added["term_ratio"] = quadratic / linear if linear else math.inf
        # A plan that keeps to the matches of no linear cost is blurred by an epsilon of 15 % of
        # the quadratic term: at 11 % of it 97 % of the matches were right, at 22 % 59 to 80 %.
        share = result.epsilon / quadratic if quadratic else 0.0
        if (1.0 - problem.alpha) * abs(result.linear_cost) <= 1e-3 * linear and share > 0.15:
            advice = (
                f"the plan avoids linear_cost, and epsilon, {result.epsilon:.3g}, is "
                f"{share:.0%} of the quadratic term, where 1 to 3 % is usual; try "
                f"epsilon=0, or epsilon={0.02 * quadratic:.2g}"
            )
            added["advice"] = "; ".join(filter(None, [result.advice, advice]))
    return dataclasses.replace(result, **added)


def _linear_term(problem, of=np.asarray):
    """Return ``p' C q`` of the costs C between the spaces, or of a function of them."""
    between, (p, q) = problem.between, problem.rule.product()
    factored = isinstance(between, CrossCost)
    if factored and (of is np.asarray or between.metric != "dot"):  # then no cost is negative
        return between.mean(p, q)
    blocks = row_blocks(*between.shape, CACHED_BYTES)
    costs = (between.rows(rows) if factored else between[rows] for rows in blocks)
    return sum(float(p[rows] @ of(cost) @ q) for rows, cost in zip(blocks, costs, strict=True))


def warn_of_scales(results):
    """Warn once if a term of a fused problem hardly counts, of the extreme ratio, and once
    if an epsilon is large beside the quadratic term.
    """
    blurred = [one.advice for one in results if one.status == Status.CONVERGED and one.advice]
    if blurred:
        warnings.warn(blurred[0], stacklevel=outside())
    ratios = [one.term_ratio for one in results if 0 < one.term_ratio < math.inf]
    ratio = max(ratios, key=lambda one: abs(math.log(one)), default=1.0)
    if not 1 / 30 <= ratio <= 30:  # the smaller term hardly counts
        names = ("quadratic", "linear") if ratio > 1 else ("linear", "quadratic")
        warnings.warn(
            f"the {names[0]} term of the fused objective is {max(ratio, 1 / ratio):.3g} times the "
            f"{names[1]} one, at the product plan and weighted by alpha, and decides "
            f"nearly alone; linear_cost times {ratio:.3g} would make them equal",
            stacklevel=outside(),
        )
