"""`gwfast.pot.solve_gromov` against POT's."""

import numpy as np
import pytest
from helpers.pot_calls import C1, C2, G0, SEMIRELAXED, M, P, Q, pots

import gwfast.pot

SEMI = {"unbalanced_type": "semirelaxed"}
PART = {"unbalanced_type": "partial", "unbalanced": 0.6}
ENTROPIC = {
    "balanced": {},
    "balanced PPA": {"method": "PPA", "max_iter": 6, "reg": 0.5},
    "balanced KL": {"loss": "KL"},
    "balanced fused": {"M": M, "alpha": 0.3},
    "balanced alpha 1": {"M": M, "alpha": 1},
    "semirelaxed": SEMI,
    "semirelaxed, whatever the method": SEMI | {"method": "any"},
    "partial": PART | {"max_iter": 11},
}
EXACT = {
    "balanced": {},
    "balanced zero": {"reg": 0},
    "balanced KL": {"loss": "KL"},
    "balanced fused": {"M": M, "alpha": 0.3},
    "balanced alpha 1": {"M": M, "alpha": 1},
    "balanced linear": {"M": M, "alpha": 0},
    "start": {"plan_init": G0},
    "semirelaxed": SEMI,
    "semirelaxed fused": SEMI | {"M": M},
    "semirelaxed alpha 1": SEMI | {"M": M, "alpha": 1},
    "partial": PART,
    "partial fused": PART | {"M": M},
    "partial alpha 1": PART | {"M": M, "alpha": 1},
}
CASES = {f"exact {name}": options for name, options in EXACT.items()}
CASES |= {name: {"reg": 0.1} | options for name, options in ENTROPIC.items()}


@pytest.mark.parametrize("case", CASES)
def test_solve_gromov_agrees_with_pot(case):
    options = {"a": P, "b": Q} | CASES[case]
    theirs = pots("solve_gromov")(C1, C2, **options)
    found = gwfast.pot.solve_gromov(C1, C2, **options)
    exact = "exact" in case
    atol, tolerance = (1e-9, (1e-9, 1e-12)) if exact else (1e-6, (1e-5, 1e-8))
    np.testing.assert_allclose(found.plan, theirs.plan, atol=atol)
    for side in range(2):
        marginal, right = found.marginals[side], theirs.marginals[side]
        np.testing.assert_allclose(marginal, right, atol=atol)
    # Of linear problems POT says 0 where there is nothing.
    for name in ("value", "value_linear", "value_quad"):
        one, other = getattr(found, name), getattr(theirs, name)
        assert (one is None) == (other is None)
        assert one is None or one == pytest.approx(other, *tolerance)
    for name in ("potential_a", "potential_b"):
        one, other = getattr(found, name), getattr(theirs, name)
        # For alpha=0 POT takes its solver of linear problems.
        if options.get("alpha") != 0:
            assert (one is None) == (other is None) == (found.potentials is None)
            assert one is None or one.shape == other.shape
    assert exact or theirs.log.keys() <= found.log.keys()
    assert found.status == found.log["status"]
    assert not exact or found.status == "converged"
    assert f"value={found.value}," in repr(found)


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


def test_solve_gromov_honours_the_tolerance():
    def errors(**options):
        return gwfast.pot.solve_gromov(C1, C2, reg=0.1, **options).log["err"]

    assert len(errors(tol=0.0, max_iter=11)) == 11
    rough, usual = errors(tol=1e-3), errors()
    assert len(rough) < len(usual) and rough[-1] <= 1e-3
    assert usual[-1] <= 1e-9


def test_solve_gromov_refuses():
    for error, message, options in (
        (NotImplementedError, "unbalanced must be None", {"unbalanced": 1.0}),
        (NotImplementedError, "alpha must be positive", {"M": M, "alpha": 0}),
        (
            NotImplementedError,
            "unbalanced_type must be one of",
            {"unbalanced": 1, "unbalanced_type": "cryptic"},
        ),
        (NotImplementedError, "reg_type must be", {"reg_type": "cryptic"}),
        (NotImplementedError, "loss must be one of", {"loss": "weird"}),
        (ValueError, "unbalanced must not be above", PART | {"unbalanced": 1.5}),
        (ValueError, "Ca must be square", {"Ca": C1[1:]}),
        (ValueError, "b must have the same total as a", {"a": P, "b": 3 * Q}),
        (ValueError, "reg must be positive", {"reg": -0.1}),
        (ValueError, "plan_init must have shape", {"plan_init": G0.T}),
        (ValueError, "plan_init='weird'", SEMI | {"plan_init": "weird"}),
        (ValueError, "Cb must have its largest magnitude", {"Cb": 1e80 * C2}),
        (ValueError, "method='EMD'", {"method": "EMD"}),
    ):
        with pytest.raises(error, match=message):
            gwfast.pot.solve_gromov(**{"Ca": C1, "Cb": C2, "reg": 0.1} | options)
    with pytest.warns(UserWarning, match="all mass is matched") as caught:
        found = gwfast.pot.solve_gromov(C1, C2, reg=0.1, unbalanced_type="partial")
    assert caught[0].filename == __file__
    assert found.plan.sum() == pytest.approx(1)
