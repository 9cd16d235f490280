"""Status and advice of a solution."""

import dataclasses
import warnings

import numpy as np

from ..kernels._kernels import mass_entropy
from ..problems.cross_cost import CrossCost
from ..problems.geometry import PointCloud
from ..quadratic.methods import PGD
from ..results.result import ConvergenceWarning
from ..results.status import Status
from ..utils.callers import outside
from ..utils.progress import log
from .agreement import verdict
from .product_plan import warn_of_scales

# Mutual information of a plan (its Kullback-Leibler divergence from the product plan),
# as a fraction of the largest possible, below which the plan matches nothing.
MIN_INFORMATION = 0.02
# Epsilon, as a fraction of the mean linearized cost, up to which it is usual.
USUAL_EPSILON = 0.03
# Fraction of its mass below which a point has lost it.
MIN_MASS = 0.01
# Fraction of the mass in wrong rows from which on a plan of alternating projections,
# which meet only the marginal of the columns, has missed its rows.
MAX_MISSED = 0.5
# Ratio of the standard deviations of both sides' costs from which on different scales
# are the first reason for a plan that matches nothing: no plan makes such costs alike.
OTHER_SCALE = 10.0
# Fraction of the mass outside of the neighbors that are kept, at most, of a plan that
# is to be trusted. On noisy rotations of 30,000 points as much moves the objective by a
# hundredth, and no match.
MAX_LEFT_OUT = 0.01
SEEDS = "a few known pairs (init=Seeds(...), --seeds FILE)"
INNER_ADVICE = (
    "; linear problems ended at max_inner, so first a larger max_inner, epsilon or marginal_tol"
)


def conclude(solution, tie, limits, untried=(), **more):
    """The `GWResult` of a solution within these limits; the advice may name starts that
    are `untried`, and `more` are fields to set.
    """
    status, advice = _diagnose(solution, tie, untried)
    if solution.left_out > MAX_LEFT_OUT:
        outside = (
            f"up to {solution.left_out:.2g} of the mass is outside of the neighbors "
            "that are kept; try more of them (tier=NeighborTier(k=...)), an epsilon "
            f"smaller than {solution.epsilon:.3g}, or tier='tiled'"
        )
        if status in (Status.CONVERGED, Status.TIE):
            status, advice = Status.TRUNCATED, outside
        else:
            advice = "; ".join(filter(None, [advice, outside]))
    if status == Status.MAX_OUTER:
        last = solution.history[-20:]
        if 2 * sum(step.n_inner >= limits.max_inner for step in last) >= len(last):
            advice += INNER_ADVICE
    return solution.result(status=status, advice=advice, **more)


def other_starts(method):
    """What a solve from one start has not tried, for advice."""
    return ['init="auto"' if method is PGD else "method='pgd', which searches"]


def doubted(problem, result):
    """The result of a search with its `confidence`, and "uncertain" if that is low;
    problems that are not balanced have none.
    """
    if not problem.is_balanced or all_tie(problem):
        return result
    chance, low = verdict(result.candidates, result.status, exact=result.method == "cg")
    result = dataclasses.replace(result, confidence=chance)
    if not low or result.status not in (Status.CONVERGED, Status.TIE):
        return result
    status, searched = Status.UNCERTAIN, "" if np.isnan(chance) else "a search_time, "
    advice = f"{status.advice}; try {searched}{SEEDS}, or more points"
    return dataclasses.replace(result, status=status, advice=advice)


def warn_of(result, limits):
    """Log the end of a solve, and warn unless it converged or was stopped."""
    log.info(
        "Gromov-Wasserstein ended as %r after %d outer iterations in %.2f s: gw_cost"
        " %.6g, marginal error %.1e",
        result.status, result.n_outer, result.seconds, result.gw_cost,
        result.marginal_error,
    )  # fmt: skip
    warn_of_scales([result])
    if result.status in (Status.CONVERGED, Status.STOPPED):
        return
    change = result.history[-1].change if result.history else 1.0
    rest = f"change {change:.1e} (tol {limits.tol:.1e})"
    if result.method == "cg":
        size = abs(result.gw_cost) or 1.0
        rest = f"a gap of {result.gap / size:.1e} of the objective (tol {limits.tol:.1e})"
    warnings.warn(
        f"Gromov-Wasserstein ended as {result.status!r} after {result.n_outer} outer "
        f"iterations with {rest} and marginal error {result.marginal_error:.1e} "
        f"(marginal_tol {limits.marginal_tol:.1e}): {result.advice}",
        ConvergenceWarning,
        stacklevel=outside(),
    )


def _diagnose(solution, tie, untried):
    """Status and advice."""
    linearization, status = solution.linearization, solution.status
    problem, epsilon = linearization.problem, solution.epsilon
    if status in (Status.STOPPED, Status.TIME_LIMIT):
        return status, status.advice
    if problem.rule.is_relaxed:
        return _diagnose_unbalanced(solution, status)
    if status == Status.CONVERGED and all_tie(problem):
        return Status.TIE, (
            "all plans have the same objective, as all costs of a side are equal; costs "
            "that differ, or a linear_cost, decide"
        )
    if not problem.is_balanced:
        # Points may have no mass here, and steps may go in cycles.
        cycles = status == Status.MAX_OUTER and linearization.method is PGD
        smaller = "; or method='ppa', whose steps are smaller" if cycles else ""
        return status, status.advice + smaller
    status, advice = missed_rows(linearization, solution.marginals[0], status)
    if advice != status.advice:
        return status, advice
    for share, _ in solution.kept:
        if not share >= MIN_MASS:  # true for NaN
            return Status.LOST_MASS, (
                f"a point keeps {share:.1g} of its mass; try a larger epsilon than "
                f"{epsilon:.3g}, or a larger max_inner"
            )
    at_rest = status in (Status.CONVERGED, Status.PRECISION, Status.MAX_INNER)
    # If all costs of a side are equal, or it is a point, no plan can match anything.
    most = min(mass_entropy(problem.p), mass_entropy(problem.q))
    at_rest = at_rest and most > 0
    different = not (problem.x.is_constant or problem.y.is_constant)
    if at_rest and different and solution.information[0] < MIN_INFORMATION * most:
        advice = _near_product_advice(linearization, epsilon, untried)
        return Status.NEAR_PRODUCT, advice
    if status == Status.CONVERGED and tie:
        status = Status.TIE
    return status, status.advice


def all_tie(problem):
    """Return whether all plans of so much mass have the same objective."""
    linear = problem.linear_cost if problem.is_fused else np.zeros(1)
    n_points = min(np.count_nonzero(problem.p), np.count_nonzero(problem.q))
    if isinstance(linear, CrossCost) or np.ptp(linear) > 0 or n_points == 1:
        return False
    x, y = problem.x.is_constant, problem.y.is_constant
    if problem.is_balanced:
        return x or y
    # Masses of the columns are free, or of both sides.
    return y and (x or problem.marginals == "semirelaxed")


def _diagnose_unbalanced(solution, status):
    """Status and advice of a plan whose mass is free."""
    mass, rule = float(solution.marginals[0].sum()), solution.linearization.problem.rule
    if status == Status.LOST_MASS or not mass > rule.plan_mass(np.zeros(1)):
        return Status.LOST_MASS, (
            "the plan has lost all its mass: at this rho no match is worth its cost; "
            "try a larger rho"
        )
    if status in (Status.CYCLE, Status.MAX_OUTER):
        return status, (
            f"{status.advice.partition(';')[0]}; plans that go back and forth need a "
            "larger rho or epsilon"
        )
    return status, status.advice


def missed_rows(linearization, rows, status):
    """Status and advice if a plan of alternating projections is far from the masses of
    its rows; else the status as it is, and its advice.
    """
    problem = linearization.problem
    if not linearization.method.alternating:
        return status, status.advice
    missed = float(np.abs(rows - problem.p).sum()) / 2
    if not missed > MAX_MISSED:
        return status, status.advice
    if status != Status.MAX_OUTER:
        status = Status.MISSED_ROWS
    said = f"{missed:.0%} of the mass is in other rows than p says"
    return status, f"{said}; {status.advice}"


def _near_product_advice(linearization, epsilon, untried):
    problem = linearization.problem
    fraction = epsilon / (linearization.product_cost or linearization.cost_scale)
    advice = (
        "the plan hardly differs from the product plan and matches nothing, at an "
        f"epsilon of {epsilon:.3g}, {100 * fraction:.3g} % of the mean linearized cost "
        "(1 to 3 % is usual); "
    )
    spread_x, spread_y = _spread(problem.x, problem.p), _spread(problem.y, problem.q)
    if not OTHER_SCALE * min(spread_x, spread_y) > max(spread_x, spread_y):
        advice += (
            "costs of the two sides differ by orders of magnitude, with standard "
            f"deviations of {spread_x:.3g} and {spread_y:.3g}: first bring them to the "
            "same scale (matrices divided by their means, point clouds by "
            "PointCloud.scaled_by); then "
        )
    if fraction > USUAL_EPSILON:
        return advice + "try a smaller epsilon"
    starts = " or ".join([*untried, SEEDS])
    return advice + f"try {starts}, or costs without outliers"


def _spread(geometry, masses):
    """Standard deviation of the costs between points of these masses."""
    if isinstance(geometry, PointCloud):
        center, scale = geometry.mean(masses), geometry.scale
        mean = center @ geometry.signature @ center
        square = float(masses @ geometry.square_times(masses))
    else:
        scale = 1.0
        mean, square = (masses @ one for one in geometry.moments(0.0, masses))
    return scale * np.sqrt(max(square - float(mean) ** 2, 0.0))
