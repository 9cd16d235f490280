"""Ending and advice of a solve."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels._kernels import mass_entropy
from ...problems.cross_cost import CrossCost
from ...problems.geometry import Geometry, PointCloud
from ...problems.quadratic import QuadraticProblem
from ...quadratic import certificate
from ...quadratic.descend import Descent
from ...quadratic.judge import Limits
from ...quadratic.methods import PGD, Method
from ...quadratic.state import Linearization
from ...results.result import ConvergenceWarning, GWResult
from ...results.status import Ending, Status
from ...results.tables import Candidates
from ...utils.callers import outside
from ...utils.progress import log
from ...utils.types import Float64Array
from ..product_plan import warn_of_scales
from .confidence import LEVEL, TIE, confidence_of, kind_of
from .isomorphism import symmetry, twins
from .seeds import AnyStart, Seeds

SEEDS = "a few known pairs (init=Seeds(...))"


def conclude(
    descent: Descent,
    rival: float,
    limits: Limits,
    starts: Sequence[AnyStart] | None = None,
    **more: Any,
) -> GWResult:
    """Return the `GWResult` of a descent within these limits, from the `starts` of the caller,
    None if a search chose. The nearest plan with little in common is above by a part of `rival`.
    `more` are fields to set.
    """
    ending, advice = _diagnose(descent, rival, starts)
    if ending in (Ending.CONVERGED, Ending.TIE, Ending.RIVAL):
        ending, advice = _looked_at(descent, limits.tol, ending, advice)
    # On noisy rotations of 30,000 points this moves the objective by 1 %, and no match.
    if descent.truncated_mass > 0.01:
        outside_of = (
            f"up to {descent.truncated_mass:.2g} of the mass is outside of the neighbors "
            "that are kept; try SolverOptions with a larger n_neighbors or tier='tiled', or an "
            f"epsilon smaller than {descent.epsilon:.3g}"
        )
        if ending in (Ending.CONVERGED, Ending.TIE):
            ending, advice = Ending.TRUNCATED, ""
        advice = "; ".join(filter(None, [advice, outside_of]))
    last = descent.history[-20:]
    n_cut = sum(step.n_inner >= limits.max_inner for step in last)
    if ending == Ending.MAX_OUTER and 2 * n_cut >= len(last):
        advice += "; linear problems ended at max_inner, so first a larger epsilon, or "
        advice += "SolverOptions with a larger max_inner or marginal_tol"
    return descent.result(ending=ending, advice=advice, **more)


def _looked_at(descent: Descent, tol: float, ending: Ending, advice: str) -> tuple[Ending, str]:
    """Return ending and advice, after a look in float64 at the plan of proximal steps and at a
    partial plan: at sharp steps the error of the marginals may hide that they move on, and entries
    that have vanished do not come back.
    """
    linearization, problem = descent.linearization, descent.problem
    method = linearization.method
    # A look at more entries takes long beside the solve.
    if not (method.proximal or problem.rule.takes_mass) or math.prod(problem.shape) > 65_536:
        return ending, advice
    costs = certificate.Costs.of(problem, shifts=not method.alternating)
    separable = costs.separable(problem.p, problem.q) if method.alternating else None
    rows = descent.coupling.toarray().astype(np.float64).__getitem__
    plan = certificate.Linearized(problem, costs, rows, separable)
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        if method.proximal and not method.alternating:
            gap = certificate.relative_gap(plan)
            if not gap <= certificate.MOST_GAP:
                return Ending.UNCERTAIN, (
                    f"the objective falls by {gap:.1%} towards another plan, whose entries have "
                    "vanished in the first steps; try a larger epsilon, or another start"
                )
        terms, potentials = (costs, method, descent.epsilon), descent.potentials[:2]
        distance, bound = certificate.after_a_step(
            plan, *terms, linearization.precision.dtype, tol, potentials, 200
        )
    if not distance.worst <= bound:
        return Ending.PRECISION, Ending.PRECISION.advice
    return ending, advice


def remarked(
    problem: QuadraticProblem,
    result: GWResult,
    starts: Sequence[AnyStart] | None = None,
    winner: int = 0,
) -> GWResult:
    """Add remarks to a result: whether it comes from the `starts` of a caller alone, how many known
    pairs of the start that won, ``starts[winner]``, the plan keeps, and points that cannot be told
    apart. A plan that loses most known pairs is "uncertain", and so is the plan of a search
    (`starts` are None) if a symmetry makes another plan as good.
    """
    ending, remarks = result.ending, []
    says_more = result.status not in (Status.STOPPED, Status.TIME_LIMIT, Status.DEGENERATE)
    is_settled = result.status in (Status.CONVERGED, Status.UNCERTAIN)
    if is_settled and result.method == "cg" and all_tie(problem):
        ending = Ending.EQUAL_COSTS
        return dataclasses.replace(result, ending=ending, advice=ending.advice)
    if starts is not None:
        if says_more:
            count = "one start" if len(starts) == 1 else f"{len(starts)} starts"
            remarks.append(f"{count}, not searched")
        start = starts[winner]
        if isinstance(start, Seeds):
            kept, n_points, n_pairs = start.kept_by(result.coupling)
            what = f"known pair{'s' * (n_pairs > 1)}"
            if n_points < n_pairs:
                what = "points with known pairs"
            remarks.append(f"keeps {kept} of {n_points} {what}")
            if 2 * kept < n_points and ending == Ending.CONVERGED:
                ending = Ending.UNCERTAIN
                remarks.append('these may be wrong; try init="auto", or other pairs')
    if is_settled:
        searched = starts is None or [start.kind for start in starts] == ["exact"]
        order = symmetry(problem, result.coupling) if searched else None
        if order is not None:
            remarks.append(_of_symmetry(*order))
            if ending == Ending.CONVERGED:
                ending = Ending.TIE
    if says_more:
        remarks += _of_twins(problem)
    if not remarks:
        return result
    advice = ending.advice if ending == Ending.TIE != result.ending else result.advice
    advice = "; ".join(filter(None, [advice, *remarks]))
    return dataclasses.replace(result, ending=ending, advice=advice, remarks=tuple(remarks))


def _of_twins(problem: QuadraticProblem) -> list[str]:
    """Return a list of one remark on points that cannot be told apart, or of none."""
    groups: list[str] = []
    linear = problem.between
    if isinstance(linear, CrossCost):
        return groups
    for name, geometry, masses, costs in (
        ("x", problem.x, problem.p, linear),
        ("y", problem.y, problem.q, None if linear is None else linear.T),
    ):
        classes = sorted(twins(geometry, masses, costs), key=len, reverse=True)
        if classes:
            more = f" (and {len(classes) - 1} more groups)" if len(classes) > 1 else ""
            groups.append(f"points {_listed(classes[0])} of {name}{more}")
    if not groups:
        return groups
    return [f"{', and '.join(groups)} cannot be told apart: they are interchangeable"]


def _of_symmetry(name: str, order: np.ndarray) -> str:
    """Return the remark on a symmetry of the side of this name."""
    points = np.flatnonzero(order != np.arange(len(order))).tolist()
    pairs = [f"{k} to {order[k]}" for k in points[:3]]
    return (
        f"{name} is its own mirror image: a symmetry moves {len(points)} points that cannot be "
        f"told apart, {', '.join(pairs)}{' and so on' * (len(points) > 3)}"
    )


def _listed(points: Sequence[int]) -> str:
    """Return the first numbers of points as a text."""
    if len(points) > 4:
        return f"{', '.join(map(str, points[:3]))} and {len(points) - 3} more"
    return f"{', '.join(map(str, points[:-1]))} and {points[-1]}"


def doubted(
    problem: QuadraticProblem, result: GWResult, search_time: float | None = None
) -> GWResult:
    """Return the result of a search with its `confidence`, "uncertain" if that is low. There is
    none if all plans are as good.
    """
    is_exact = result.method == "cg"
    ties = all_tie(problem) if is_exact else result.ending == Ending.EQUAL_COSTS
    if ties:
        return result
    tried = result.candidates
    chance = confidence_of(tried, result.ending, kind_of(problem, is_exact))
    candidates = Candidates(tried, chance, tried.rivals, tried.product)
    result = dataclasses.replace(result, candidates=candidates)
    if not chance < LEVEL or result.ending not in (Ending.CONVERGED, Ending.TIE):
        return result
    longer = "SolverOptions(search_time=...)"
    if search_time is not None:
        longer = "SolverOptions with a larger search_time"
    remedies = f"{longer}, {SEEDS}, or more points"
    advice = f"{Ending.UNCERTAIN.advice}; try {remedies}"
    return dataclasses.replace(result, ending=Ending.UNCERTAIN, advice=advice)


def warn_of(result: GWResult, limits: Limits) -> None:
    """Log the end of a solve, and warn unless it converged or was stopped."""
    ended = f"Gromov-Wasserstein ended as {str(result.status)!r} after {result.n_iter} outer"
    log.info(
        "%s iterations in %.2f s: gw_cost %.6g, marginal error %.1e",
        *(ended, result.seconds, result.gw_cost, result.marginal_error),
    )
    warn_of_scales([result])
    if result.status in (Status.CONVERGED, Status.STOPPED):
        return
    change = result.history[-1].change if result.history else 1.0
    at_last = f"change {change:.1e} (tol {limits.tol:.1e})"
    if result.method == "cg":
        size = abs(result.gw_cost) or 1.0
        at_last = f"a gap of {result.gap / size:.1e} of the objective (tol {limits.tol:.1e})"
    ended += " iterations"
    if result.status != Status.UNCERTAIN:  # which is within tolerance
        error = f"{result.marginal_error:.1e} (marginal_tol {limits.marginal_tol:.1e})"
        ended += f" with {at_last} and marginal error {error}"
    warnings.warn(f"{ended}: {result.advice}", ConvergenceWarning, stacklevel=outside())


def _diagnose(
    descent: Descent, rival: float, starts: Sequence[AnyStart] | None
) -> tuple[Ending, str]:
    """Return status and advice."""
    linearization, status, rule = descent.linearization, descent.status, descent.problem.rule
    problem, epsilon = linearization.problem, descent.epsilon
    assert status is not None  # the descent has ended
    if status in (Ending.STOPPED, Ending.TIME_LIMIT):
        return status, status.advice
    if rule.is_relaxed:
        mass = float(descent.marginals[0].sum())
        if status == Ending.LOST_MASS or not mass > rule.plan_mass(np.zeros(1)):
            why = "the plan has lost all its mass: at this rho no match is worth its cost"
            return Ending.LOST_MASS, f"{why}; try a larger rho"
        advice = status.advice
        if status in (Ending.CYCLE, Ending.MAX_OUTER):
            remedy = "plans that go back and forth need a larger rho or epsilon"
            advice = f"{advice.partition(';')[0]}; {remedy}"
        return status, advice
    if status == Ending.CONVERGED and all_tie(problem):
        return Ending.EQUAL_COSTS, Ending.EQUAL_COSTS.advice
    if not problem.is_balanced:
        # Points may have no mass here, and steps may go in cycles.
        cycles = status == Ending.MAX_OUTER and linearization.method is PGD
        smaller = "; or SolverOptions(method='ppa'), whose steps are smaller" if cycles else ""
        return status, status.advice + smaller
    status, advice = missed_rows(linearization, descent.marginals[0], status)
    if advice != status.advice:
        return status, advice
    least = min((share for share, _ in descent.kept), key=lambda share: share - (share != share))
    if not least >= 0.01:  # true for NaN
        remedy = f"try a larger epsilon than {epsilon:.3g}, or SolverOptions(max_inner=...)"
        return Ending.LOST_MASS, f"a point keeps {least:.1g} of its mass; {remedy}"
    at_rest = status in (Ending.CONVERGED, Ending.PRECISION, Ending.MAX_INNER)
    # If all costs of a side are equal, or it is a point, no plan can match anything.
    most = min(mass_entropy(problem.p), mass_entropy(problem.q))
    different = most > 0 and not (problem.x.is_constant or problem.y.is_constant)
    # At 2 % of the largest mutual information a plan matches nothing.
    if at_rest and different and descent.information[0] < 0.02 * most:
        fraction = epsilon / (linearization.product_cost or linearization.cost_scale)
        remedy = (
            f"try {' or '.join(_untried(linearization.method, starts))}, or costs without outliers"
        )
        if fraction > 0.03:
            remedy = "try a smaller epsilon"
        sizes = _size(problem.x, problem.p), _size(problem.y, problem.q)
        if not 10.0 * min(sizes) > max(sizes):  # no plan makes such costs alike
            remedy = (
                "costs of the two sides differ by orders of magnitude, with standard deviations "
                f"of {sizes[0]:.3g} and {sizes[1]:.3g}: first bring them to the same scale "
                f"(PointCloud.scaled_by, or matrices over their means); then {remedy}"
            )
        return Ending.NEAR_PRODUCT, (
            "the plan hardly differs from the product plan and matches nothing, at an epsilon of "
            f"{epsilon:.3g}, {100 * fraction:.3g} % of the mean linearized cost (1 to 3 % is "
            f"usual); {remedy}"
        )
    if status == Ending.CONVERGED and rival <= TIE:
        status = Ending.TIE
    # A straight lineage and its reverse differ by 1 to 4 %.
    elif status == Ending.CONVERGED and rival <= 0.05:
        within = f"two plans with little in common are within {max(rival, 0.01):.0%}"
        return Ending.RIVAL, f"{within}; {Ending.RIVAL.advice}"
    return status, status.advice


def _untried(method: Method, starts: Sequence[AnyStart] | None) -> list[str]:
    """Return starts to try after the `starts` of the caller; None if a search chose."""
    untried = []
    if starts is not None:
        searches = 'init="auto"', "SolverOptions(method='pgd'), which searches"
        untried.append(searches[method is not PGD])
    has_pairs = any(isinstance(start, Seeds) for start in starts or ())
    return [*untried, "other known pairs" if has_pairs else SEEDS]


def all_tie(problem: QuadraticProblem) -> bool:
    """Return whether all plans of the same mass have the same objective, up to rounding."""
    linear = problem.between if problem.is_fused else np.zeros(1)
    n_points = min(np.count_nonzero(problem.p), np.count_nonzero(problem.q))
    if isinstance(linear, CrossCost) or np.ptp(linear) > 0 or n_points == 1:
        return False
    x, y = problem.x.is_constant, problem.y.is_constant
    if problem.loss == "square":
        of_x, of_y = (_extent(side) for side in (problem.x, problem.y))
        # Rounding of costs of one side is more than the other side adds to an objective.
        rounding = 1e-13
        x |= of_x <= rounding * of_y
        y |= of_y <= rounding * of_x
    # Without fixed marginals masses of the columns are free, or of both sides.
    return x or y if problem.is_balanced else y and (x or problem.marginals == "semirelaxed")


def _extent(geometry: Geometry) -> float:
    """Return the range of costs given as a matrix, and of a cloud about the largest cost."""
    if isinstance(geometry, PointCloud):
        return geometry.scale * float(np.square(geometry.features).max())
    low, high = geometry.extremes
    return high - low


def missed_rows(
    linearization: Linearization, rows: Float64Array, status: Ending
) -> tuple[Ending, str]:
    """Return status and advice if a plan of alternating projections is far from the masses of its
    rows; else the status as it is, and its advice.
    """
    misplaced = float(np.abs(rows - linearization.problem.p).sum()) / 2
    if not (linearization.method.alternating and misplaced > 0.5):
        return status, status.advice
    if status != Ending.MAX_OUTER:
        status = Ending.MISSED_ROWS
    return status, f"{misplaced:.0%} of the mass is in other rows than p says; {status.advice}"


def _size(geometry: Geometry, masses: Float64Array) -> float:
    """Return the standard deviation of the costs between points of these masses."""
    if isinstance(geometry, PointCloud) and geometry.has_factors:
        center, scale = masses @ geometry.features.astype(np.float64), geometry.scale
        mean = float(center @ geometry.signature @ center)
        square = float(masses @ geometry.square_times(masses))
    else:
        costs, scale = geometry.to_dense(), 1.0
        mean, square = (float(masses @ one) for one in costs.moments(0.0, masses))
    return scale * max(square - mean**2, 0.0) ** 0.5
