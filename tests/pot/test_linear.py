"""`ot.emd`, `ot.emd2` and `ot.sinkhorn` on gwfast against POT."""

import numpy as np
import pytest
from helpers.marks import pairwise

import gwfast.pot
from gwfast import ConvergenceWarning

ot = pytest.importorskip("ot")
EMD, EMD2, SINKHORN = ot.emd, ot.emd2, ot.sinkhorn


def problem(n=9, m=12, *, empty=False):
    """Masses, some of them zero if asked, and costs without ties."""
    rng = np.random.default_rng([n, m])
    a, b, M = rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, m), rng.random((n, m))
    if empty and min(n, m) > 2:
        a[:2], b[1] = 0, 0
    return a / a.sum(), b / b.sum(), M - 0.3


@pairwise(
    sizes=[(9, 12), (1, 4), (5, 1), (2, 3), (40, 40)],
    empty=[False, True],
    total=[1.0, 3.0],
    center_dual=[True, False],
)
def test_exact_plans_are_pots(sizes, empty, total, center_dual):
    a, b, M = problem(*sizes, empty=empty)
    a, b = total * a, total * b
    theirs, their_log = EMD(a, b, M, log=True, center_dual=center_dual)
    with gwfast.pot.patched() as calls:
        plan, log = ot.emd(a, b, M, log=True, center_dual=center_dual)
        cost, log2 = ot.emd2(a, b, M, return_matrix=True, center_dual=center_dual)
        np.testing.assert_array_equal(ot.lp.emd(a, b, M), plan)
        assert ot.lp.emd2(a, b, M) == cost
    assert calls == {"emd": 2, "emd2": 2}
    np.testing.assert_allclose(plan, theirs, atol=1e-14)
    np.testing.assert_array_equal(log2["G"], plan)
    assert cost == log["cost"] == log2["cost"] == pytest.approx(their_log["cost"])
    assert type(cost) is type(EMD2(a, b, M))
    assert {key: type(x) for key, x in log.items()} == {
        key: type(x) for key, x in their_log.items()
    }
    assert log["result_code"] == their_log["result_code"]
    # Potentials that no cost is below, and that the cost is the worth of.
    assert (log["u"][:, None] + log["v"] <= M + 1e-12).all()
    assert a @ log["u"] + b @ log["v"] == pytest.approx(cost)
    if center_dual:
        assert a @ log["u"] == pytest.approx(b @ log["v"])


@pairwise(
    sizes=[(9, 12), (1, 4), (5, 1), (2, 3), (40, 40)],
    reg=[1.0, 0.1, 0.02],
    total=[1.0, 3.0],
    empty=[False, True],
    method=["sinkhorn", "sinkhorn_log"],
)
@pytest.mark.filterwarnings("ignore:divide by zero")  # POT's, of no mass
def test_entropic_plans_are_pots(sizes, reg, total, empty, method):
    a, b, M = problem(*sizes, empty=empty)
    a, b = total * a, total * b
    # The scalings of POT's other method end at once where there is no mass.
    pots_way = "sinkhorn_log" if empty else method
    options = dict(stopThr=1e-11, numItermax=10_000, log=True)
    theirs, their_log = SINKHORN(a, b, M, reg, pots_way, **options)
    with gwfast.pot.patched() as calls:
        plan, log = ot.bregman.sinkhorn(a, b, M, reg, method, **options)
        np.testing.assert_array_equal(ot.sinkhorn(a, b, M, reg, method, 10_000, 1e-11), plan)
    assert calls == {"sinkhorn": 2}
    np.testing.assert_allclose(plan, theirs, atol=1e-9)
    assert their_log.keys() <= log.keys()
    assert log["err"][-1] <= 1e-11
    np.testing.assert_allclose(
        plan, np.exp(log["log_u"][:, None] + log["log_v"] - M / reg), atol=1e-12
    )
    np.testing.assert_array_equal(log["u"], np.exp(log["log_u"]))


def test_small_weights_give_a_plan_where_pot_gives_none():
    a, b, M = problem(30, 30)
    plan = gwfast.pot.sinkhorn(a, b, M, 5e-4, numItermax=100_000)
    np.testing.assert_allclose(plan.sum(axis=1), a, atol=1e-8)
    np.testing.assert_allclose(plan.sum(axis=0), b, atol=1e-8)
    assert (plan * M).sum() == pytest.approx(EMD2(a, b, M), abs=1e-3)


def test_a_limit_that_is_reached_is_a_warning():
    a, b, M = problem(30, 30)
    with gwfast.pot.patched():
        with pytest.warns(ConvergenceWarning, match="numItermax") as caught:
            ot.sinkhorn(a, b, M, 0.01, numItermax=3)
        ot.sinkhorn(a, b, M, 0.01, numItermax=3, warn=False)
    assert [one.filename for one in caught] == [__file__]


def test_masses_are_uniform_by_default():
    _, _, M = problem(6, 8)
    uniform = np.full(6, 1 / 6), np.full(8, 1 / 8)
    for none in ([], np.array([])):
        np.testing.assert_array_equal(gwfast.pot.emd(none, none, M), gwfast.pot.emd(*uniform, M))
        np.testing.assert_array_equal(
            gwfast.pot.sinkhorn(none, none, M, 0.5), gwfast.pot.sinkhorn(*uniform, M, 0.5)
        )


@pytest.mark.filterwarnings("ignore::UserWarning")  # POT's
def test_other_problems_are_left_to_pot():
    a, b, M = problem()
    several = np.stack([b, b[::-1]], axis=1)
    start = np.zeros(9), np.zeros(12)
    # What is forbidden by its price, and such as no numbers are left for.
    prices = [np.where(M < 0.3, M, price) for price in (1e9, np.finfo(float).max)]
    own = dict(emd2=EMD2, sinkhorn=SINKHORN)
    for name, other in (
        ("emd2", dict(b=several)),
        *(("emd2", dict(M=price)) for price in prices),
        ("sinkhorn", dict(b=several)),
        ("sinkhorn", dict(method="sinkhorn_stabilized")),
        ("sinkhorn", dict(warmstart=start)),
        ("sinkhorn", dict(verbose=True)),
        ("sinkhorn", dict(stopThr=0.0, numItermax=5)),
    ):
        given = dict(a=a, b=b, M=M) | ({"reg": 0.5} if name == "sinkhorn" else {})
        with gwfast.pot.patched() as calls:
            found = getattr(ot, name)(**given | other)
        assert not calls
        np.testing.assert_array_equal(found, own[name](**given | other))
        with pytest.raises(NotImplementedError):
            getattr(gwfast.pot, name)(**given | other)
    for off in (1.0, 1e-5):
        with gwfast.pot.patched(), pytest.raises(AssertionError, match="same sum"):
            ot.emd(a, (1 + off) * b, M)


def test_costs_of_nothing_and_large_ones_are_solved():
    for M in (np.zeros((4, 4)), 1.0 - np.eye(4), 1e9 * (1.0 - np.eye(4))):
        assert gwfast.pot.emd2([], [], M) == 0


def test_gradients_are_pots():
    torch = pytest.importorskip("torch")
    a, b, M = map(torch.from_numpy, problem())
    M.requires_grad_()
    with gwfast.pot.patched() as calls:
        for cost in (ot.emd2(a, b, M), (M * ot.sinkhorn(a, b, M, 0.5)).sum()):
            cost.backward()
            assert float(abs(M.grad).sum()) > 0
    assert not calls
