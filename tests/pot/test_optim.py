"""`ot.optim.cg` on gwfast: Gromov-Wasserstein losses are, all else is POT's."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.pot_spaces import spaces

import gwfast.pot

ot = pytest.importorskip("ot")
OWN = ot.optim.cg
LOSSES = ["square_loss", "kl_loss"]


def terms(C1, C2, p, q, loss_fun="square_loss", symmetric=True):
    """A loss and its gradient, as in POT's and PASTE's loops."""
    constC, hC1, hC2 = ot.gromov.init_matrix(C1, C2, p, q, loss_fun)

    def f(G):
        return ot.gromov.gwloss(constC, hC1, hC2, G)

    def df(G):
        return ot.gromov.gwggrad(constC, hC1, hC2, G)

    if symmetric:
        return f, df
    turned = ot.gromov.init_matrix(C1.T, C2.T, p, q, loss_fun)

    def both(G):
        one = ot.gromov.gwggrad(constC, hC1, hC2, G)
        return (one + ot.gromov.gwggrad(*turned, G)) / 2

    return f, both


def exact_search(cost, G, deltaG, Mi, cost_G, df_G, **kwargs):
    """The best step of a quadratic objective, from its values."""
    half, end = cost(G + deltaG / 2), cost(G + deltaG)
    a, b = 2 * (cost_G + end - 2 * half), 4 * half - end - 3 * cost_G
    step = ot.optim.solve_1d_linesearch_quad(a, b)
    return step, 1, cost_G + (a * step + b) * step


@pairwise(
    sizes=[(12, 9), (9, 9), (30, 30), (3, 2), (2, 4)],
    loss_fun=LOSSES,
    symmetric=[True, False],
    alpha=[0.1, 0.7],
    given=[True, False],
)
def test_loops_around_it_get_the_fused_plan(sizes, loss_fun, symmetric, alpha, given):
    C1, C2, M, p, q, G0 = spaces(*sizes, symmetric=symmetric)
    f, df = terms(C1, C2, p, q, loss_fun, symmetric)
    call = (p, q, (1 - alpha) * M, alpha, f, df, G0 if given else None, exact_search)
    theirs, their_log = OWN(*call, log=True)
    with gwfast.pot.patched() as calls:
        plan, log = ot.optim.cg(*call, log=True)
        np.testing.assert_array_equal(ot.optim.cg(*call), plan)
    assert calls == {"cg": 2}
    right, right_log = gwfast.pot.fused_gromov_wasserstein(
        M, C1, C2, p, q, loss_fun, alpha=alpha, G0=call[6], log=True
    )
    np.testing.assert_allclose(plan, right, atol=1e-9)
    np.testing.assert_allclose(log["loss"], right_log["loss"], rtol=1e-9)
    for key in ("u", "v"):
        np.testing.assert_allclose(log[key], right_log[key], atol=1e-9)
    assert their_log.keys() <= log.keys()
    assert (log["warning"], log["result_code"]) == (None, their_log["result_code"])
    assert log["cost"] == pytest.approx(their_log["cost"], rel=1e-6)
    assert log["loss"][-1] <= their_log["loss"][-1] * (1 + 1e-9)
    assert type(log["loss"][-1]) is type(their_log["loss"][-1])
    assert plan.dtype == theirs.dtype


@pytest.mark.parametrize("reg", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("loss_fun", LOSSES)
def test_any_weight_is_taken(loss_fun, reg):
    C1, C2, M, p, q, G0 = spaces(12, 9)
    f, df = terms(C1, C2, p, q, loss_fun)
    for linear in (0, 0.0, M):
        _, their_log = OWN(p, q, linear, reg, f, df, G0, exact_search, log=True)
        plan, log = gwfast.pot.cg(p, q, linear, reg, f, df, G0, log=True)
        value = (linear * plan).sum() + reg * f(plan)
        assert log["loss"][-1] == pytest.approx(value, rel=1e-10)
        assert value == pytest.approx(their_log["loss"][-1], rel=1e-8)
        np.testing.assert_allclose(log["loss"], their_log["loss"][: len(log["loss"])], rtol=1e-8)


def test_costs_may_be_whole_numbers():
    rng = np.random.default_rng(0)
    orders = rng.permutation(9), rng.permutation(9)
    costs = [np.abs(np.subtract.outer(x, x)) for x in orders]
    p, G0 = np.full(9, 1 / 9), np.full((9, 9), 1 / 81)
    terms_of = ot.gromov.init_matrix(*costs, p, p)
    assert terms_of[1].dtype == np.int64
    f, df = (lambda G: ot.gromov.gwloss(*terms_of, G), lambda G: ot.gromov.gwggrad(*terms_of, G))
    plan = gwfast.pot.cg(p, p, 0, 1.0, f, df, G0)
    right = gwfast.pot.gromov_wasserstein(*costs, p, p, G0=G0)
    np.testing.assert_array_equal(plan, right)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_stay_tensors(dtype):
    torch = pytest.importorskip("torch")
    given = [torch.from_numpy(x.astype(dtype)) for x in spaces(12, 9)]
    C1, C2, M, p, q, G0 = given
    f, df = terms(C1, C2, p, q)
    with gwfast.pot.patched() as calls:
        for linear in (M, 0):
            plan, log = ot.optim.cg(p, q, linear, 0.5, f, df, G0, log=True)
            assert plan.dtype == log["loss"][-1].dtype == log["u"].dtype == M.dtype
    assert calls == {"cg": 2}
    # What asks for gradients is left to POT.
    traced = C1.clone().requires_grad_()
    for costs, linear in ((traced, M), (C1, M.clone().requires_grad_())):
        f, df = terms(costs, C2, p, q)
        with gwfast.pot.patched() as calls:
            ot.optim.cg(p, q, linear, 0.5, f, df, numItermax=2)
        assert "cg" not in calls


def others():
    """Losses that are none of gwfast's, with gradients that refer to costs."""
    C1, C2, M, p, q, _ = spaces(12, 9)
    f, df = terms(C1, C2, p, q)
    hC1, hC2 = C1, 2 * C2

    def referring(df):
        return lambda G: df(G) + 0 * (hC1[0, 0] + hC2[0, 0])

    made = {
        "squares": (lambda G: 0.5 * (G**2).sum(), lambda G: G),
        "entropy": (lambda G: (G * np.log(G)).sum(), lambda G: np.log(G) + 1),
        "Laplacian": (lambda G: (hC1 @ G @ C2 * G).sum(), lambda G: hC1 @ G @ hC2),
        "negative": (lambda G: -(hC1 @ G @ C2 * G).sum(), lambda G: -hC1 @ G @ hC2),
        "of other masses": terms(C1, C2, p[::-1].copy(), q),
        "one orientation": terms(*spaces(12, 9, symmetric=False)[:2], p, q),
        "shifted": (lambda G: f(G) + 1, df),
        "with a term": (lambda G: f(G) + (M * G).sum(), lambda G: df(G) + M),
        "of large entries": (
            lambda G: f(G) + np.maximum(G - 0.5, 0).sum(),
            lambda G: df(G) + (G > 0.5),
        ),
        "bent": (f, lambda G: df(G) + 1e-3 * G**2),
    }
    made = {name: (one, referring(other)) for name, (one, other) in made.items()}
    return made | {"of no closure": (made["squares"][0], np.positive)}


@pytest.mark.parametrize("name", others())
def test_other_losses_are_left_to_pot(name):
    _, _, M, p, q, _ = spaces(12, 9)
    f, df = others()[name]
    options = dict(numItermax=5, log=True)
    theirs, their_log = OWN(p, q, M, 0.5, f, df, **options)
    with gwfast.pot.patched() as calls:
        plan, log = ot.optim.cg(p, q, M, 0.5, f, df, **options)
    # Its linear problems are.
    assert calls.keys() == {"emd"}
    np.testing.assert_allclose(plan, theirs, atol=1e-12)
    assert log.keys() == their_log.keys()
    with pytest.raises(NotImplementedError, match="must be a Gromov-Wasserstein loss"):
        gwfast.pot.cg(p, q, M, 0.5, f, df)


def test_what_gwfast_does_not_solve_is_left_to_pot():
    C1, C2, M, p, q, _ = spaces(12, 9)
    f, df = terms(C1, C2, p, q)
    for other in (
        dict(G0=np.ones_like(M) / M.size),  # not with these marginals
        dict(reg=-1.0),
        dict(reg=0.0),
        dict(M=2.0),
    ):
        given = dict(a=p, b=q, M=M, reg=0.5, f=f, df=df, numItermax=3) | other
        with gwfast.pot.patched() as calls:
            plan = ot.optim.cg(**given)
        assert calls.keys() == {"emd"}
        np.testing.assert_allclose(plan, OWN(**given), atol=1e-12)


def test_callers_in_pot_are_as_before():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(15, 2)), rng.normal(size=(15, 2))

    def calls():
        for reg, alpha in (("pos", 0.5), ("disp", 0.5), ("pos", 1.0)):
            p, M = ot.unif(15), ot.dist(x, y)
            options = dict(reg=reg, alpha=alpha, numItermax=4)
            yield ot.da.emd_laplace(p, p, x, y, M, **options)
        yield ot.mapping.joint_OT_mapping_linear(x, y, numItermax=3)[0]
        yield ot.weak_optimal_transport(x, y)
        f, df = (lambda G: 0.5 * (G**2).sum()), (lambda G: G)
        yield ot.solve(ot.dist(x, y), reg=1.0, reg_type=(f, df)).plan

    before = list(calls())
    with gwfast.pot.patched() as served:
        found = list(calls())
    assert served.keys() == {"emd"}
    for one, other in zip(found, before, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_keywords_of_line_searches_are_a_warning_where_they_are_ignored():
    C1, C2, M, p, q, _ = spaces(12, 9)
    with gwfast.pot.patched():
        with pytest.warns(UserWarning, match=r"^cg\(\) ignores alpha_min: "):
            ot.optim.cg(p, q, M, 0.5, *terms(C1, C2, p, q), alpha_min=0.0)
        f, df = others()["squares"]
        ot.optim.cg(p, q, M, 0.5, f, df, alpha_min=0.0)  # POT heeds it
