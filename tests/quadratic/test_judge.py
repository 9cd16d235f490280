"""When a descent ends, how it goes on, and the confidence of a search: pure functions, called with
lists of numbers.
"""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from gwfast.quadratic.judge import (
    MOST_DAMPED,
    PRODUCT_TOL,
    UNJUDGED,
    WINDOW,
    Limits,
    Step,
    Verdict,
    verdict_on,
)
from gwfast.quadratic.methods import PGD
from gwfast.results.status import Ending
from gwfast.results.tables import Candidate
from gwfast.solvers.search.confidence import CLOUDS, DISTANCES, LEVEL, Evidence, confidence_of
from gwfast.utils.precision import DOUBLE, SINGLE

FLOOR = 1e-3
LIMITS = Limits(max_outer=1000, max_inner=100, tol=1e-5, marginal_tol=1e-5)
FACTS = dict(precision=SINGLE, method=PGD, change_is_rounded=True, n_kept=6)
FACTS |= dict(inner_limit=200, inner_fraction=0.01, tightens=False, is_small=False)


def step(change=0.1, gw_cost=1.0, **others):
    fields = dict(gw_before=1.0, epsilon=0.1, frobenius_change=change, n_inner=5)
    fields |= dict(error=0.0, marginal_error=0.0)
    return Step(gw_cost=gw_cost, change=change, **{**fields, **others})


def at(**others):
    """The facts that a linearization gives to the judge."""
    return SimpleNamespace(**FACTS | others)


def judged(steps, facts=None, limits=LIMITS, **others):
    """The verdicts on all steps, one after the other."""
    verdict, verdicts = Verdict(), []
    for k in range(len(steps)):
        verdict = verdict_on(steps[: k + 1], facts or at(), limits, verdict, **others)
        verdicts.append(verdict)
    return verdicts


def noise(size):
    return [size * (1.0 if k % 2 else 0.8) for k in range(WINDOW)]


SMALL, TIGHT = dict(change=1e-6), dict(change=1e-6, error=1e-2, marginal_error=1e-2)
ENDINGS = [
    ([SMALL], {}, Ending.CONVERGED),
    ([SMALL | dict(gw_before=math.nan)], {}, Ending.CONVERGED),
    ([SMALL | dict(gw_before=1.1)], {}, None),
    ([SMALL | dict(gw_cost=0.0, gw_before=1e-9)], {}, Ending.CONVERGED),  # rounding
    ([SMALL], dict(final=False), None),  # epsilon still falls
    # The plan stands without its marginals.
    ([TIGHT | dict(n_inner=100, thorough=True)], {}, Ending.MAX_INNER),
    ([TIGHT | dict(n_inner=5, thorough=True)], {}, Ending.PRECISION),
    ([TIGHT | dict(n_inner=100)], {}, None),
    # Rounding may grow: a small change is confirmed.
    ([SMALL | dict(floor=0.5e-3)], {}, Ending.CONVERGED),
    ([SMALL | dict(floor=2e-3)], {}, None),
    ([SMALL | dict(floor=2e-3)] * 2, {}, Ending.CONVERGED),
    # Rounding is as large as the plan.
    ([SMALL | dict(floor=2.0, deviates=True)] * 2, {}, Ending.PRECISION),
    ([SMALL | dict(floor=2.0, deviates=False)] * 2, {}, Ending.CONVERGED),
    ([], dict(ended=Ending.STOPPED), Ending.STOPPED),
    ([], dict(ended=Ending.TIME_LIMIT), Ending.TIME_LIMIT),
    ([SMALL], dict(ended=Ending.TIME_LIMIT), Ending.CONVERGED),
    ([dict(mass=1e-6)] * WINDOW, {}, Ending.LOST_MASS),
    ([dict(mass=1e-6)] * (WINDOW - 1), {}, None),
    ([dict(mass=0.1), *[dict(mass=1e-6)] * (WINDOW - 1)], {}, None),
]


@pytest.mark.parametrize("steps, options, ending", ENDINGS)
def test_a_descent_ends_as_its_last_steps_say(steps, options, ending):
    assert judged([step(), *(step(**fields) for fields in steps)], **options)[-1].status == ending


def test_what_explains_a_change_of_the_objective_and_what_is_confirmed():
    moves = judged([step(), step(1e-6, gw_before=1.1)])[-1]
    known = judged([step(), step(1e-6, gw_before=1.1, error=0.2, marginal_error=0.2)])[-1]
    assert known.settled and not moves.settled and known.status is None
    # Steps after acceleration or of approximations are confirmed.
    extrapolated = judged([step(), step(1e-6, extrapolated=True)])[-1]
    assert (
        extrapolated.confirms
        and extrapolated.status is None
        and not (extrapolated.sharpens or extrapolated.accelerates)
    )
    rough = judged([step(), step(1e-6, exact=False)])[-1]
    assert rough.confirms and rough.sharpens and rough.status is None
    begun = Verdict(product_tol=2.0)
    assert verdict_on([step(1e-6, exact=False)], at(), LIMITS, begun).product_tol == 1.0
    assert verdict_on([step(1e-6, exact=False)], at(n_kept=1), LIMITS, begun).product_tol == 2.0
    corrected = verdict_on([step(1e-6, corrected=True)], at(), LIMITS, Verdict())
    assert corrected.product_tol == PRODUCT_TOL


def test_inner_solutions_are_rough_while_the_plan_moves_but_for_the_last():
    limits = dataclasses.replace(LIMITS, max_outer=2)
    first, last = judged([step(), step()], limits=limits)
    assert first.status is None and last.status == Ending.MAX_OUTER
    assert Verdict().is_thorough(1, limits) and not Verdict().is_thorough(0, limits)
    rough, exact = (Verdict().inner_goal(at(), LIMITS, 0.5, thorough) for thorough in (False, True))
    assert rough == (0.005, 100) and exact == (1e-5, 100)
    assert Verdict().inner_goal(at(), LIMITS, 0.5, True, least_error=1e-3)[0] == 1e-3
    # Marginals that still settle need more iterations.
    assert verdict_on([step(0.1, error=0.2)], at(), LIMITS, Verdict()).inner.limit == 400
    assert verdict_on([step(0.1, 1.2)], at(), LIMITS, Verdict()).inner.fraction == 0.005


@pytest.mark.parametrize("damps", [True, False])
def test_cycles_are_damped_or_end_low(damps):
    """Plans of two objectives, each nearer to the plan before the last than to the last."""
    steps = [step(0.1, 1.0 + 0.1 * (k % 2), thorough=True, returned=True) for k in range(600)]
    verdicts = judged(steps, limits=dataclasses.replace(LIMITS, damps=damps))
    halved = [k for k, one in enumerate(verdicts) if one.cycle.damping > 0]
    assert bool(halved) is damps
    if damps:
        assert halved[0] in (WINDOW, WINDOW + 1)
        assert verdicts[-1].cycle.damping == 1.0 - 2.0**-MOST_DAMPED
        assert not verdicts[halved[0]].accelerates
    ended = next(k for k, one in enumerate(verdicts) if one.status == Ending.CYCLE)
    assert steps[ended].gw_cost == 1.0


@pytest.mark.parametrize("returned, shrinks", [(False, 1.0), (True, 0.97)])
def test_noise_and_settling_plans_are_no_cycles(returned, shrinks):
    steps = [step(0.1 * shrinks**k, returned=returned) for k in range(60)]
    assert not any(one.cycle.n_cycles for one in judged(steps))


def test_an_unjudged_descent_ends_at_its_limit_and_moments_of_rounding_alone_have_settled():
    limits = Limits(max_outer=5, max_inner=100, tol=1e-2, marginal_tol=1e-2, stopping=UNJUDGED)
    verdicts = judged([step(1e-3)] * 5, limits=limits)
    assert [one.status for one in verdicts] == [None] * 4 + [Ending.MAX_OUTER]
    steps = [step(0.5, is_noise=True)] * (WINDOW + 1)
    assert judged(steps, at(change_is_rounded=False, precision=DOUBLE))[-1].settled


def tried(start, kind, optimum, value, fate="lost", draw=0):
    return Candidate(start, 50, 0.1, value, 9, 0.1, fate, kind, optimum, value, draw=draw)


SEARCH = [
    tried("profile 0.02", "profile", 0, 1.0, "won"),
    tried("profile 0.05", "profile", 0, 1.0),
    tried("random 0", "random", 0, 1.0),
    tried("product", "product", 1, 1.04),
    tried("escape 0", "restart", 0, 1.0),
    tried("escape 1", "restart", 2, 1.2),
]


def test_evidence_is_counted_and_raises_confidence_and_doubts_lower_it():
    found = Evidence.of(SEARCH, Ending.CONVERGED)
    assert found == pytest.approx((2, 1, 0.4, 0, 1 / 3, True, 0, 0))
    known = confidence_of(SEARCH, Ending.CONVERGED)
    for start, kind in (("random 1", "random"), ("escape 2", "restart")):
        same = tried(start, kind, 0, 1.0, draw=1)
        assert confidence_of([*SEARCH, same], Ending.CONVERGED) > known
    for other in (tried("random 1", "random", 3, 1.01), tried("escape 2", "restart", 3, 1.3)):
        assert confidence_of([*SEARCH, other], Ending.CONVERGED) < known
    assert confidence_of(SEARCH, Ending.MAX_OUTER) < known


@pytest.mark.parametrize("kind", [CLOUDS, DISTANCES])
def test_a_clustering_that_leads_to_a_lone_winner_makes_a_search_sure(kind):
    lone = [tried("clusters 0, 0", "clusters", 0, 1.0, "won"), tried("random 0", "random", 1, 1.03)]
    met = [*lone, tried("clusters 1, 0", "clusters", 0, 1.0, draw=1)]
    back = [*lone, *(tried(f"escape {k}", "restart", 0, 1.0) for k in range(2))]
    assert Evidence.of(lone, Ending.CONVERGED).clusterings == 0
    assert Evidence.of(met, Ending.CONVERGED).clusterings == 1
    chances = [confidence_of(rows, Ending.CONVERGED, kind) for rows in (lone, back, met)]
    assert chances[0] < LEVEL <= chances[2] and chances == sorted(chances)
