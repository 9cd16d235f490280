"""The product plan as a result, and a comparison of results with it."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..kernels._kernels import mass_entropy
from ..problems.cross_cost import CrossCost
from ..problems.quadratic import QuadraticProblem
from ..quadratic.certificate import product_mean
from ..quadratic.methods import PGD
from ..results.coupling import ArrayCoupling, Coupling, FactoredCoupling
from ..results.result import GWResult
from ..results.status import Ending, Status
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.callers import outside
from ..utils.precision import SINGLE
from .options import SharedSettings


def unsolved(problem: QuadraticProblem, options: SharedSettings) -> GWResult:
    """Return the product plan as a `GWResult`, without history."""
    rule, mass, threads = problem.rule, problem.mass, options.threads(problem)
    (rows, cols), value, linear = rule.product(), product_mean(problem), 0.0
    if problem.is_fused:
        linear = _linear_term(problem) / mass
        value = problem.alpha * value + (1.0 - problem.alpha) * linear
    gw_cost, epsilon = value + rule.penalty(rows, cols), options.epsilon.value or 0.0
    if options.epsilon.relative is not None:
        cost = max(value - problem.lowest_linear_term(), 0.0)
        epsilon = options.epsilon.relative * cost / (mass * rule.entropy_weight)
    entropy = mass_entropy(rows) + mass_entropy(cols) + mass * np.log(mass)
    coupling: Coupling
    if options.precision is SINGLE:  # as factors the plan takes no time
        left, right = (np.zeros((size, 1), dtype=np.float32) for size in problem.shape)
        with np.errstate(divide="ignore"):
            f, g = np.log(rows), np.log(cols / mass)
        coupling = FactoredCoupling(left, right, f, g, 1.0, threads)
    else:
        coupling = ArrayCoupling(np.multiply.outer(rows, cols / mass), threads)
    return GWResult(
        coupling=coupling,
        potentials=(np.zeros(problem.shape[0]), np.zeros(problem.shape[1])),
        gw_cost=gw_cost,
        reg_cost=rule.regularized(gw_cost, epsilon, entropy, rows, cols),
        linear_cost=linear,
        epsilon=epsilon,
        marginal_error=0.0,
        ending=Ending.TIME_LIMIT,
        advice=Ending.UNSOLVED.advice,
        history=(),
        marginals=rule.asked(),
        method="cg" if options.is_exact else PGD.name,
        gap=np.inf if options.is_exact else np.nan,
        seconds=0.0,
    )


def no_worse_than_product(
    problem: QuadraticProblem, result: GWResult, options: SharedSettings
) -> GWResult:
    """Return the result, or the product plan if a limit ended a balanced solve at a plan
    with a larger objective. Ending, history and counts stay.
    """
    limited = result.status in (Status.MAX_ITER, Status.TIME_LIMIT)
    if not limited or not problem.is_balanced or not result.history:
        return result
    product = unsolved(problem, options)
    # Zero may be what rounding leaves of large terms.
    if result.gw_cost <= product.gw_cost or not product.gw_cost:
        return result
    return dataclasses.replace(
        result,
        coupling=product.coupling,
        potentials=product.potentials,
        gw_cost=product.gw_cost,
        reg_cost=product.reg_cost,
        linear_cost=product.linear_cost,
        epsilon=product.epsilon,
        marginal_error=0.0,
    )


def completed(
    problem: QuadraticProblem, result: GWResult, seconds: float, limit: float = math.inf
) -> GWResult:
    """Return the result with the seconds of the solve, the labels of the problem, the bytes that
    its plan may take as an array and, if it is fused, advice on the scales of both terms.
    """
    result = dataclasses.replace(result, labels=problem.labels, seconds=seconds)
    if limit < math.inf:
        result = dataclasses.replace(result, coupling=result.coupling.replace(limit=limit))
    if problem.is_fused:
        of_scales = [*_advice_on_scales(problem, result)]
        advice = "; ".join(filter(None, [*of_scales, result.advice]))
        scales = of_scales and result.ending == Ending.CONVERGED
        ending = Ending.SCALES if scales else result.ending
        result = dataclasses.replace(result, advice=advice, ending=ending)
    return result


def _advice_on_scales(problem: QuadraticProblem, result: GWResult) -> Iterator[str]:
    """Yield what is wrong with the scales of a fused problem and of its epsilon."""
    linear = (1.0 - problem.alpha) * _linear_term(problem, np.abs) / problem.mass
    quadratic = problem.alpha * max(product_mean(problem), 0.0)
    # A plan that keeps to the matches of no linear cost is blurred by an epsilon of 15 % of the
    # quadratic term: at 11 % of it 97 % of the matches were right, at 22 % 59 to 80 %.
    share = result.epsilon / quadratic if quadratic else 0.0
    if (1.0 - problem.alpha) * abs(result.linear_cost) <= 1e-3 * linear and share > 0.15:
        yield (
            f"the plan avoids linear_cost, and epsilon, {result.epsilon:.3g}, is {share:.0%} of "
            "the quadratic term, where 1 to 3 % is usual; try epsilon=0, or "
            f"epsilon={0.02 * quadratic:.2g}"
        )
    if linear > 0 and quadratic > 0 and not 1 / 30 <= quadratic / linear <= 30:
        ratio, names = quadratic / linear, ("quadratic", "linear")
        larger, smaller = names if ratio > 1 else names[::-1]
        yield (
            f"the {larger} term of the fused objective is {max(ratio, 1 / ratio):.3g} times the "
            f"{smaller} one at the product plan, weighted by alpha, and decides nearly alone; "
            f"linear_cost times {ratio:.3g} would make them equal"
        )


def _linear_term(
    problem: QuadraticProblem, of: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> float:
    """Return ``p' C q`` of the costs C between the spaces, or of a function of them."""
    between, costs, (p, q) = problem.between, problem.linear_rows, problem.rule.product()
    if isinstance(between, CrossCost) and (of is np.asarray or between.metric != "dot"):
        return between.mean(p, q)  # no cost is negative
    if costs is None:
        return 0.0
    blocks = row_blocks(*problem.shape, CACHED_BYTES)
    return sum(float(p[rows] @ of(costs(rows)) @ q) for rows in blocks)


def warn_of_scales(results: Iterable[GWResult]) -> None:
    """Warn once of results that converged, but whose scales may be wrong."""
    for result in results:
        if result.ending == Ending.SCALES:
            warnings.warn(result.advice, stacklevel=outside())
            return
