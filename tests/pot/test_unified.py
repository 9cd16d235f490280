"""`gwfast.pot.solve_gromov` against POT's."""

import numpy as np
import pytest
from helpers.pot_calls import C1, C2, G0, SEMIRELAXED, M, P, Q, Spy, pots

import gwfast.pot

# value_linear and value_quad are those of POT but where said.
CASES = {
    "balanced": {},
    "balanced PPA": {"method": "PPA", "max_iter": 6, "reg": 0.5},
    "balanced KL": {"loss": "KL"},
    "balanced fused": {"M": M, "alpha": 0.3},
    "balanced alpha 1": {"M": M, "alpha": 1},
    "semirelaxed": {"unbalanced_type": "semirelaxed"},
    "partial": {"unbalanced_type": "partial", "unbalanced": 0.6, "max_iter": 11},
}


@pytest.mark.parametrize("case", CASES)
def test_solve_gromov_agrees_with_pot(case):
    options = {"a": P, "b": Q, "reg": 0.1} | CASES[case]
    theirs = pots("solve_gromov")(C1, C2, **options)
    ours = gwfast.pot.solve_gromov(C1, C2, **options)
    np.testing.assert_allclose(ours.plan, theirs.plan, atol=1e-6)
    for name in ("value", "value_linear", "value_quad"):
        theirs_, ours_ = getattr(theirs, name), getattr(ours, name)
        if theirs_ is None:
            assert ours_ is None
        else:
            assert ours_ == pytest.approx(theirs_, rel=1e-5, abs=1e-8)
    assert ours.potentials is ours.potential_a is ours.potential_b is None
    assert theirs.log.keys() <= ours.log.keys()
    for side in range(2):
        np.testing.assert_allclose(
            ours.marginals[side], theirs.marginals[side], atol=1e-6
        )
    assert ours.status == ours.log["status"]
    assert f"value={ours.value}," in repr(ours)


@pytest.mark.parametrize("kind", ["semirelaxed", "partial"])
def test_solve_gromov_fused(kind):
    """POT leaves reg, or the costs between spaces, out."""
    options = {"unbalanced": 0.6} if kind == "partial" else {}
    found = gwfast.pot.solve_gromov(
        C1, C2, M, P, Q, reg=0.2, alpha=0.4, unbalanced_type=kind, **options
    )
    if kind == "partial":
        plan = gwfast.pot.entropic_partial_fused_gromov_wasserstein(
            M, C1, C2, P, Q, 0.2, 0.6, alpha=0.4
        )
    else:
        plan = pots(SEMIRELAXED[1])(M, C1, C2, P, epsilon=0.2, alpha=0.4)
    np.testing.assert_allclose(found.plan, plan, atol=1e-6)
    entropy = -(plan * np.log(plan)).sum()
    loss = found.value_linear + found.value_quad
    assert found.value == pytest.approx(loss - 0.2 * entropy)
    assert found.value_linear == pytest.approx(0.6 * (M * plan).sum(), rel=1e-5)


def test_solve_gromov_honours_the_tolerance(monkeypatch):
    spy = Spy(monkeypatch)
    gwfast.pot.solve_gromov(C1, C2, reg=0.1, tol=1e-3, max_iter=77)
    gwfast.pot.solve_gromov(C1, C2, reg=0.1)
    asked = [(options["tol"], options["max_iter"]) for _, options in spy.calls]
    assert asked == [(1e-3, 77), (1e-9, 1000)]


def test_solve_gromov_refuses():
    solve = gwfast.pot.solve_gromov
    with pytest.raises(NotImplementedError, match="unbalanced_type='KL'"):
        solve(C1, C2, reg=0.1, unbalanced=1.0)
    with pytest.raises(NotImplementedError, match="alpha=0 with reg"):
        solve(C1, C2, M, reg=0.1, alpha=0)
    with pytest.raises(NotImplementedError, match="unbalanced_type must be one of"):
        solve(C1, C2, reg=0.1, unbalanced=1, unbalanced_type="cryptic")
    with pytest.raises(NotImplementedError, match="reg_type must be"):
        solve(C1, C2, reg=0.1, reg_type="cryptic")
    with pytest.raises(NotImplementedError, match="loss must be one of"):
        solve(C1, C2, reg=0.1, loss="weird")
    with pytest.raises(ValueError, match="unbalanced must not be above"):
        solve(C1, C2, reg=0.1, unbalanced=1.5, unbalanced_type="partial")
    with pytest.raises(ValueError, match="Ca must be square"):
        solve(C1[1:], C2, reg=0.1)
    with pytest.raises(ValueError, match="b must have the same total as a"):
        solve(C1, C2, a=P, b=3 * Q, reg=0.1)
    with pytest.raises(ValueError, match="reg must be positive"):
        solve(C1, C2, reg=-0.1)
    with pytest.raises(ValueError, match="plan_init must have shape"):
        solve(C1, C2, reg=0.1, plan_init=G0.T)
    with pytest.raises(ValueError, match="method='EMD'"):
        solve(C1, C2, reg=0.1, method="EMD")
    with pytest.warns(UserWarning, match="all mass is matched") as caught:
        found = solve(C1, C2, reg=0.1, unbalanced_type="partial")
    assert caught[0].filename == __file__
    assert found.plan.sum() == pytest.approx(1)


EXACT = {
    "balanced": {},
    "balanced zero": {"reg": 0},
    "balanced KL": {"loss": "KL"},
    "balanced fused": {"M": M, "alpha": 0.3},
    "balanced alpha 1": {"M": M, "alpha": 1},
    "balanced linear": {"M": M, "alpha": 0},
    "start": {"plan_init": G0},
    "semirelaxed": {"unbalanced_type": "semirelaxed"},
    "semirelaxed fused": {"unbalanced_type": "semirelaxed", "M": M},
    "semirelaxed alpha 1": {"unbalanced_type": "semirelaxed", "M": M, "alpha": 1},
    "partial": {"unbalanced_type": "partial", "unbalanced": 0.6},
    "partial fused": {"unbalanced_type": "partial", "unbalanced": 0.6, "M": M},
    "partial alpha 1": {
        "unbalanced_type": "partial",
        "unbalanced": 0.6,
        "M": M,
        "alpha": 1,
    },
}


@pytest.mark.parametrize("case", EXACT)
def test_without_entropy_agrees_with_pot(case):
    options = {"a": P, "b": Q} | EXACT[case]
    theirs = pots("solve_gromov")(C1, C2, **options)
    ours = gwfast.pot.solve_gromov(C1, C2, **options)
    np.testing.assert_allclose(ours.plan, theirs.plan, atol=1e-9)
    # For alpha=0 POT takes its solver of linear problems, which says 0 of the others.
    for name in ("value", "value_linear", "value_quad"):
        theirs_, ours_ = getattr(theirs, name), getattr(ours, name)
        assert (ours_ is None) == (theirs_ is None)
        assert ours_ is None or ours_ == pytest.approx(theirs_, rel=1e-9, abs=1e-12)
    if not (EXACT[case].keys() & {"alpha"} and EXACT[case]["alpha"] == 0):
        for ours_, theirs_ in (
            (ours.potential_a, theirs.potential_a),
            (ours.potential_b, theirs.potential_b),
        ):
            assert (ours_ is None) == (theirs_ is None)
            assert ours_ is None or ours_.shape == theirs_.shape
    assert ours.status == "converged"
