"""Ending and advice of a solve."""

import dataclasses
import warnings

import numpy as np

from ...kernels._kernels import mass_entropy
from ...problems.cross_cost import CrossCost
from ...problems.geometry import PointCloud
from ...quadratic.methods import PGD
from ...results.result import ConvergenceWarning
from ...results.status import Ending
from ...results.tables import Candidates
from ...utils.callers import outside
from ...utils.progress import log
from ..product_plan import warn_of_scales
from .confidence import LEVEL, confidence_of

SEEDS = "a few known pairs (init=Seeds(...))"


def conclude(descent, tie, limits, untried=(), **more):
    """Return the `GWResult` of a descent within these limits; the advice may name starts that are
    `untried`, and `more` are fields to set.
    """
    ending, advice = _diagnose(descent, tie, untried)
    # On noisy rotations of 30,000 points this moves the objective by 1 %, and no match.
    if descent.left_out > 0.01:
        outside_of = (
            f"up to {descent.left_out:.2g} of the mass is outside of the neighbors "
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


def other_starts(method):
    """Return what a solve from one start has not tried, for advice."""
    return ['init="auto"' if method is PGD else "SolverOptions(method='pgd'), which searches"]


def doubted(problem, result):
    """Return the result of a search with its `confidence`, "uncertain" if that is low; problems
    that are not balanced have none.
    """
    if not problem.is_balanced or all_tie(problem):
        return result
    chance = confidence_of(result.candidates, result.ending, exact=result.method == "cg")
    result = dataclasses.replace(result, candidates=Candidates(result.candidates, chance))
    if chance >= LEVEL or result.ending not in (Ending.CONVERGED, Ending.TIE):
        return result
    remedies = f"SolverOptions(search_time=...), {SEEDS}, or more points"
    advice = f"{Ending.UNCERTAIN.advice}; try {remedies}"
    return dataclasses.replace(result, ending=Ending.UNCERTAIN, advice=advice)


def warn_of(result, limits):
    """Log the end of a solve, and warn unless it converged or was stopped."""
    ended = f"Gromov-Wasserstein ended as {str(result.status)!r} after {result.n_iter} outer"
    log.info(
        "%s iterations in %.2f s: gw_cost %.6g, marginal error %.1e",
        *(ended, result.seconds, result.gw_cost, result.marginal_error),
    )
    warn_of_scales([result])
    if result.ending in (Ending.CONVERGED, Ending.STOPPED):
        return
    change = result.history[-1].change if result.history else 1.0
    rest = f"change {change:.1e} (tol {limits.tol:.1e})"
    if result.method == "cg":
        size = abs(result.gw_cost) or 1.0
        rest = f"a gap of {result.gap / size:.1e} of the objective (tol {limits.tol:.1e})"
    warnings.warn(
        f"{ended} iterations with {rest} and marginal error {result.marginal_error:.1e} "
        f"(marginal_tol {limits.marginal_tol:.1e}): {result.advice}",
        ConvergenceWarning,
        stacklevel=outside(),
    )


def _diagnose(descent, tie, untried):
    """Return status and advice."""
    at, status, rule = descent.linearization, descent.status, descent.problem.rule
    problem, epsilon = at.problem, descent.epsilon
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
        why = "all plans have the same objective, as all costs of a side are equal"
        return Ending.TIE, f"{why}; costs that differ, or a linear_cost, decide"
    if not problem.is_balanced:
        # Points may have no mass here, and steps may go in cycles.
        cycles = status == Ending.MAX_OUTER and at.method is PGD
        smaller = "; or SolverOptions(method='ppa'), whose steps are smaller" if cycles else ""
        return status, status.advice + smaller
    status, advice = missed_rows(at, descent.marginals[0], status)
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
        fraction = epsilon / (at.product_cost or at.cost_scale)
        remedy = f"try {' or '.join([*untried, SEEDS])}, or costs without outliers"
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
    if status == Ending.CONVERGED and tie:
        status = Ending.TIE
    return status, status.advice


def all_tie(problem):
    """Return whether all plans of the same mass have the same objective."""
    linear = problem.between if problem.is_fused else np.zeros(1)
    n_points = min(np.count_nonzero(problem.p), np.count_nonzero(problem.q))
    if isinstance(linear, CrossCost) or np.ptp(linear) > 0 or n_points == 1:
        return False
    x, y = problem.x.is_constant, problem.y.is_constant
    # Without fixed marginals masses of the columns are free, or of both sides.
    return x or y if problem.is_balanced else y and (x or problem.marginals == "semirelaxed")


def missed_rows(linearization, rows, status):
    """Return status and advice if a plan of alternating projections is far from the masses of its
    rows; else the status as it is, and its advice.
    """
    missed = float(np.abs(rows - linearization.problem.p).sum()) / 2
    if not (linearization.method.alternating and missed > 0.5):
        return status, status.advice
    if status != Ending.MAX_OUTER:
        status = Ending.MISSED_ROWS
    return status, f"{missed:.0%} of the mass is in other rows than p says; {status.advice}"


def _size(geometry, masses):
    """Return the standard deviation of the costs between points of these masses."""
    if isinstance(geometry, PointCloud) and geometry.has_factors:
        center, scale = masses @ geometry.features.astype(np.float64), geometry.scale
        mean = float(center @ geometry.signature @ center)
        square = float(masses @ geometry.square_times(masses))
    else:
        costs, scale = geometry.to_dense(), 1.0
        mean, square = (masses @ one for one in costs.moments(0.0, masses))
    return scale * max(square - mean**2, 0.0) ** 0.5
