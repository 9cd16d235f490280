"""The lowest of the optima that starts of several kinds lead to, and the confidence in it."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

from ..problems.epsilon import Epsilon
from ..problems.quadratic import QuadraticProblem
from ..results.result import GWResult
from ..results.status import Ending
from ..results.tables import Candidate, Candidates
from ..solvers.gromov import solve
from ..solvers.options import Settings
from ..solvers.search.confidence import LEVEL
from ..utils.precision import DOUBLE
from .motions import Motions


class End(NamedTuple):
    """The result that a start of some kind leads to."""

    start: str
    kind: str
    gw: GWResult


def race(
    problem: QuadraticProblem,
    motions: Motions,
    settings: Settings,
    searched: GWResult | None = None,
) -> GWResult:
    """Return the `GWResult` of the lowest optimum, with remarks that name a doubt.

    The starts are up to three motions, expression alone, and the result of a search before,
    `searched`, if there is one; else, in doubt, the product plan and a search, or plans of a
    partial problem in which distances weigh less.
    """
    began, ends, chance, doubt = time.perf_counter(), list[End](), math.nan, ""
    plans = motions.plans(3, settings.seed)

    def solved_from(init, task=problem, **changes):
        return solve(task, dataclasses.replace(settings, init=init, **changes))

    def starts() -> Iterator[End | None]:
        """Yield ends, and None where they may be enough."""
        if searched is not None:
            yield End("search", "search", searched)
        for number, plan in enumerate(plans, 1):
            yield End(f"motion {number}", "motion", solved_from(plan))
        expression = problem.replace(between=motions.costs, alpha=0.0)
        alone = solved_from("product", expression, epsilon=Epsilon(0.0), precision=DOUBLE)
        yield End("expression", "expression", solved_from(alone.plan))
        # With larger weights of distances partial problems need a loosened plan to be sure: at .3
        # four simulated tissues were "converged" without, 1 to 5 % above the loosened plan.
        if searched is not None or problem.is_balanced or problem.alpha <= 0.1:
            yield None
        if searched is not None:
            return
        if problem.is_balanced:
            yield End("product", "product", solved_from("product"))
            yield None
            yield End("search", "search", solved_from("auto"))
        else:
            # Where some spots must be wrong, distances mislead.
            best = min(ends, key=lambda end: end.gw.gw_cost)
            loose = solved_from(best.gw.plan, problem.replace(alpha=0.1 * problem.alpha))
            yield End("loosened", best.kind, solved_from(loose.plan))
        yield None

    for end in starts():
        if end is not None:
            ends.append(end)
        else:
            chance, doubt = _confidence(ends, motions, problem)
        if chance >= LEVEL or settings.limits.deadline.passed():
            break
    laid, mass = (plans[0].sum() if plans else 1.0), problem.rule.mass
    if not (doubt or problem.is_balanced) and laid < mass:
        doubt = (
            f"overlap={mass:.3g} forces spots to wrong places: {laid:.2f} can be laid upon spots"
        )
    ends.sort(key=lambda end: end.gw.gw_cost)
    gw, same = ends[0].gw, _bound(ends[0].gw)
    rows = []
    for number, end in enumerate(ends):
        is_same = end.gw.gw_cost <= same
        fate = f"same as {ends[0].start}" if is_same else "lost"
        optimum = 0 if is_same else number
        rows.append(row_of(end.start, end.gw, fate if number else "won", end.kind, optimum))
    if not chance >= LEVEL and gw.ending == Ending.CONVERGED:
        gw = dataclasses.replace(gw, ending=Ending.UNCERTAIN)
    return dataclasses.replace(
        gw,
        candidates=Candidates(rows, chance),
        seconds=time.perf_counter() - began,
        remarks=(doubt,) if doubt else (),
    )


def row_of(
    start: str, gw: GWResult, fate: str, kind: str = "search", optimum: int = -1
) -> Candidate:
    """Return the `Candidate` of a start."""
    figures = start, max(gw.coupling.shape), gw.epsilon, gw.gw_cost, gw.n_iter, gw.seconds
    return Candidate(*figures, fate, kind, optimum, gw.gw_cost)


def _confidence(ends, motions, problem):
    """Return the chance that no optimum is lower than the lowest, and the reason of a doubt."""
    best = min(ends, key=lambda end: end.gw.gw_cost)
    gw, kinds, gap = best.gw, {best.kind}, 1.0
    for end in ends:
        if motions.are_distinct(end.gw.coupling, gw.coupling):
            gap = min(gap, (end.gw.gw_cost - gw.gw_cost) / max(abs(gw.gw_cost), 1e-300))
        elif end.gw.gw_cost <= _bound(gw):
            kinds.add(end.kind)
    is_close = gap < 0.02  # so that plans of distinct motions leave doubt
    # A balanced plan has no choice.
    forced = not problem.is_balanced and motions.laid(gw.coupling) < problem.rule.mass
    # Log odds that no optimum is lower: for one kind of start, each further kind that led there
    # (two count), a gap, and a plan of more mass than its motion lays upon spots. Of 670 simulated
    # tissues, 249 full overlaps with two kinds and a gap had none lower by 1 %, 121 partial
    # overlaps none, 74 that asked for too much 3, and 73 without a gap 4.
    odds = 1.0 + 0.7 * min(len(kinds) - 1, 2) + 1.5 * (not is_close) - 1.5 * forced
    doubt = f"two plans with little in common are within {gap:.1%}" if is_close else ""
    return 1.0 / (1.0 + math.exp(-odds)), doubt


def _bound(gw):
    """Return the objective up to which plans of the motion of a result are the same optimum."""
    # Single spots are matched otherwise. With .001 every sixth right end of a partial problem stays
    # uncertain.
    return gw.gw_cost + 3e-3 * abs(gw.gw_cost)
