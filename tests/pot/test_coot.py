"""Co-optimal transport of ``gwfast.pot`` is POT's."""

import numpy as np
import pytest
from helpers.problems import masses

from gwfast import ConvergenceWarning, pot
from gwfast.pot import coot as own

TIGHT = dict(nits_ot=10**5, tol_sinkhorn=1e-12, early_stopping_tol=0)
NAMES = own.ENVELOPED
# Rows and columns of both matrices: none as many as another, wide, of a single column.
SHAPES = [((13, 5), (9, 7)), ((4, 17), (6, 19)), ((12, 1), (7, 3)), ((1, 4), (3, 2))]


@pytest.fixture
def coot():
    pytest.importorskip("ot", reason="POT is not installed")
    return pytest.importorskip("ot.coot")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def problem(shapes=SHAPES[0], given=NAMES, seed=0):
    rng = np.random.default_rng(seed)
    (n, d), (m, e) = shapes
    made = dict(X=rng.normal(size=(n, d)), Y=1.2 * rng.normal(size=(m, e)))
    sizes = dict(wx_samp=n, wx_feat=d, wy_samp=m, wy_feat=e)
    made |= {name: masses(size, rng) for name, size in sizes.items()}
    made |= dict(M_samp=rng.random((n, m)), M_feat=rng.random((d, e)))
    return {name: x for name, x in made.items() if name in ("X", "Y", *given)}


def as_pair(x):
    return x if isinstance(x, tuple) else (x, x)


def objective(P, Q, given, epsilon=(0, 0), alpha=(0, 0)):
    """That of the paper, term by term."""
    X, Y = given["X"], given["Y"]
    squares = (X[:, None, :, None] - Y[None, :, None, :]) ** 2
    made = np.einsum("ijkl,ij,kl", squares, P, Q)
    for kind, plan, e, a in zip(("samp", "feat"), (P, Q), epsilon, alpha, strict=True):
        product = np.outer(*(plan.sum(axis=axis) for axis in (1, 0)))
        made += a * (given[f"M_{kind}"] * plan).sum() if a else 0.0
        made += e * (plan * np.log(plan / product)).sum() if e else 0.0
    return made


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("epsilon", [0, 0.3, (0.2, 0), (0, 0.4)])
@pytest.mark.parametrize("given", [(), NAMES[2:6], NAMES])
def test_plans_objectives_and_potentials_are_pots(coot, shapes, epsilon, given):
    alpha = (0.7, 1.5) if "M_samp" in given else 0
    arrays = problem(shapes, given)
    options = arrays | TIGHT | dict(epsilon=epsilon, alpha=alpha, log=True)
    *theirs, right = coot.co_optimal_transport(**options)
    *ours, log = pot.co_optimal_transport(**options)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    np.testing.assert_allclose(log["distances"], right["distances"], rtol=1e-9)
    assert {*log} == {*right} | {"status"}
    names = "duals_sample", "duals_feature"
    for name, plan in zip(names, ours, strict=True):
        sums, others = (np.add.outer(*one[name]) for one in (log, right))
        some = plan > 1e-9
        np.testing.assert_allclose(sums[some], others[some], rtol=1e-6, atol=1e-8)
    value, again = pot.co_optimal_transport2(**options)
    assert value == log["distances"][-1] == again["distances"][-1]
    assert value == pytest.approx(coot.co_optimal_transport2(**options)[0], rel=1e-9)
    assert isinstance(value, np.float64)
    made = objective(*ours, arrays, as_pair(epsilon), as_pair(alpha))
    assert value == pytest.approx(made, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0, 0.2])
def test_objectives_fall_and_marginals_are_met(epsilon):
    given = problem()
    given["wx_samp"][2] = given["wy_feat"][0] = 0.0
    for name in ("wx_samp", "wy_feat"):
        given[name] /= given[name].sum()
    P, Q, log = pot.co_optimal_transport(**given, epsilon=epsilon, log=True, **TIGHT)
    for plan, kind in ((P, "samp"), (Q, "feat")):
        np.testing.assert_allclose(plan.sum(axis=1), given[f"wx_{kind}"], atol=1e-10)
        np.testing.assert_allclose(plan.sum(axis=0), given[f"wy_{kind}"], atol=1e-10)
    assert len(log["distances"]) > 2
    assert (np.diff(log["distances"]) < 1e-9).all()
    assert log["status"] == "converged"
    assert np.isfinite(log["distances"]).all()


def test_copies_are_matched():
    rng = np.random.default_rng(3)
    X, rows, cols = rng.random((60, 11)), rng.permutation(60), rng.permutation(11)
    P, Q = pot.co_optimal_transport(X, X[rows][:, cols])
    np.testing.assert_array_equal(rows[P.argmax(axis=1)], np.arange(60))
    np.testing.assert_array_equal(cols[Q.argmax(axis=1)], np.arange(11))
    assert (P > 0).sum() == 60


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_scales_change_nothing(scale):
    given = problem(given=NAMES[:6])
    P, Q = pot.co_optimal_transport(**given, epsilon=0.2, **TIGHT)
    scaled = given | {name: scale * given[name] for name in ("X", "Y")}
    found = pot.co_optimal_transport(**scaled, epsilon=0.2 * scale**2, **TIGHT)
    for one, other in zip(found, (P, Q), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0, (0.3, 0.1)])
def test_totals_scale_plans(epsilon):
    given, options = problem(given=NAMES[:6]), dict(epsilon=epsilon, **TIGHT)
    P, Q = pot.co_optimal_transport(**given, **options)
    for name in ("wx_samp", "wy_samp"):
        given[name] = 3 * given[name]
    # The plan of features costs that much more.
    options["epsilon"] = epsilon and (epsilon[0], 3 * epsilon[1])
    more, same, log = pot.co_optimal_transport(**given, **options, log=True)
    np.testing.assert_allclose(more, 3 * P, atol=1e-9)
    np.testing.assert_allclose(same, Q, atol=1e-9)
    if epsilon:
        f, g = log["duals_sample"]
        X, Y = given["X"], given["Y"]
        cost = (X**2 @ Q.sum(1))[:, None] + Y**2 @ Q.sum(0) - 2 * X @ Q @ Y.T
        made = np.exp(np.add.outer(f, g) - cost / epsilon[0])
        np.testing.assert_allclose(made, more, rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0, 0.3])
def test_warm_starts_are_where_it_goes_on(coot, epsilon):
    given, options = problem(), dict(epsilon=epsilon, alpha=1, log=True, **TIGHT)
    given["wx_samp"][1] = 0.0
    given["wx_samp"] /= given["wx_samp"].sum()
    P, Q, log = pot.co_optimal_transport(**given, **options)
    start = dict(pi_sample=P, pi_feature=Q, **log)
    *found, again = pot.co_optimal_transport(**given, **options, warmstart=start)
    assert len(again["distances"]) < len(log["distances"])
    np.testing.assert_allclose(found[0], P, atol=1e-8)
    rng = np.random.default_rng(4)
    start = dict(pi_sample=rng.random(P.shape), pi_feature=rng.random(Q.shape))
    start |= dict(duals_sample=[rng.random(n) for n in P.shape])
    start |= dict(duals_feature=[rng.random(n) for n in Q.shape])
    given = problem()
    found = pot.co_optimal_transport(**given, **options, warmstart=start)
    right = coot.co_optimal_transport(**given, **options, warmstart=start)
    for one, other in zip(found[:2], right[:2], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_limits_and_what_is_printed_are_pots(coot, capsys):
    given = problem(given=())
    for limits in (dict(nits_bcd=2), dict(eval_bcd=3), dict(nits_bcd=4, eval_bcd=3)):
        options = given | limits | dict(verbose=True, log=True, epsilon=0.5)
        distances = pot.co_optimal_transport(**options)[2]["distances"]
        ours = capsys.readouterr().out
        right = coot.co_optimal_transport(**options)[2]["distances"]
        theirs = capsys.readouterr().out
        np.testing.assert_allclose(distances[: len(right)], right, rtol=1e-6)
        assert len(distances) <= len(right) + 1
        assert [line.split(":")[0] for line in ours.splitlines()] == [
            line.split(":")[0] for line in theirs.splitlines()
        ]
    P, Q, log = pot.co_optimal_transport(**given, nits_bcd=2, eval_bcd=7, log=True)
    # That of the plans that are returned.
    assert log["distances"][-1] == pytest.approx(objective(P, Q, given), rel=1e-9)
    assert log["status"] == "max_iter"


def test_a_plan_without_its_marginals_is_mended_with_a_warning():
    given = problem(given=NAMES[:6])
    with pytest.warns(ConvergenceWarning, match="Co-optimal transport ended as"):
        P, _ = pot.co_optimal_transport(**given, epsilon=0.02, nits_ot=2)
    np.testing.assert_allclose(P.sum(axis=1), given["wx_samp"], atol=1e-12)


@pytest.mark.parametrize(
    "bad, error, message",
    [
        (dict(epsilon=(1, 2, 3)), ValueError, "epsilon must be a pair, got 3"),
        (dict(epsilon=-1.0), ValueError, "epsilon must be non-negative"),
        (dict(epsilon=1e-30), ValueError, "epsilon must be at least"),
        (dict(alpha=[1]), ValueError, "alpha must be a pair, got 1"),
        (dict(method_sinkhorn="newton"), ValueError, "method_sinkhorn='newton'"),
        (dict(X=np.ones(3)), ValueError, "X must be a 2-D array"),
        (dict(Y=np.full((9, 7), np.nan)), ValueError, "Y must be finite"),
        (dict(X=np.full((13, 5), 1e200)), ValueError, "X must have its largest"),
        (dict(M_samp=np.ones((9, 13))), ValueError, r"M_samp must have shape \(13, 9"),
        (dict(wx_feat=np.ones(13)), ValueError, r"wx_feat must have shape \(5,\)"),
        (dict(wy_feat=np.ones(7)), ValueError, "wy_feat must have the same total as w"),
        (dict(nits_bcd=0), ValueError, "nits_bcd must be"),
        (dict(warmstart={"pi_sample": 1}), ValueError, "warmstart must have .* lacks"),
    ],
)
def test_errors_name_the_argument(bad, error, message):
    for function in (pot.co_optimal_transport, pot.co_optimal_transport2):
        with pytest.raises(error, match=message):
            function(**problem() | bad)


@pytest.mark.parametrize("epsilon", [0, (0.3, 0.2), (0, 0.2)])
def test_gradients_are_differences(torch, epsilon):
    given, options = problem(), dict(epsilon=epsilon, alpha=(0.5, 2), **TIGHT)
    options |= dict(tol_bcd=1e-13, nits_bcd=2000)

    def value(arrays, start):
        """From where the search has ended: differences are of one valley."""
        return pot.co_optimal_transport2(**arrays, **options, warmstart=start)

    tensors = {name: torch.tensor(x) for name, x in given.items()}
    starts = []
    for arrays in (given, tensors):
        P, Q, log = pot.co_optimal_transport(**arrays, **options, log=True)
        starts.append(dict(pi_sample=P, pi_feature=Q, **log))
    tensors = {name: x.requires_grad_() for name, x in tensors.items()}
    (2 * value(tensors, starts[1])).backward()
    rng, step = np.random.default_rng(1), 1e-6
    for name, x in given.items():
        along = rng.standard_normal(x.shape)
        along -= along.mean() if name.startswith("w") else 0.0
        ends = [value(given | {name: x + s * along}, starts[0]) for s in (step, -step)]
        found = (tensors[name].grad.numpy() * along).sum()
        assert found == pytest.approx((ends[0] - ends[1]) / step, rel=1e-4), name


def test_what_has_no_gradients_is_left_to_pot(coot, torch):
    given = {name: torch.tensor(x) for name, x in problem(given=()).items()}
    given["X"].requires_grad_()
    with pytest.raises(TypeError, match="X asks for gradients"):
        pot.co_optimal_transport(**given, epsilon=0.5)
    with pot.patched() as calls:
        plan, _ = coot.co_optimal_transport(**given, epsilon=0.5)
        assert plan.requires_grad
        assert not calls
        value = coot.co_optimal_transport2(**given, epsilon=0.5)
        assert value.requires_grad
    assert calls == {"co_optimal_transport2": 1}


def test_arrays_come_back_as_they_came(torch):
    for made in (np.float32, torch.float32):
        given = problem()
        if made is np.float32:
            given = {name: x.astype(made) for name, x in given.items()}
        else:
            given = {name: torch.tensor(x, dtype=made) for name, x in given.items()}
        P, Q, log = pot.co_optimal_transport(**given, epsilon=0.3, log=True)
        value = pot.co_optimal_transport2(**given, epsilon=0.3)
        for x in (P, Q, value, log["distances"][0], *log["duals_sample"]):
            assert x.dtype == made
        assert type(P) is type(given["X"])
        right, _ = pot.co_optimal_transport(**problem(), epsilon=0.3)
        np.testing.assert_allclose(np.asarray(P), right, atol=1e-4)


@pytest.mark.parametrize("size", [1 / 3, 1e3, 1e-3])
def test_values_are_not_negative(size):
    """Of equal matrices they are zero, but for rounding."""
    path = size * np.abs(np.subtract.outer(np.arange(11.0), np.arange(11.0)))
    assert pot.co_optimal_transport2(path, path) >= 0
    assert pot.BAPG_gromov_wasserstein2(path, path, epsilon=size**2) >= 0
