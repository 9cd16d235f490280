"""Gradients of losses and plans equal finite differences, and POT's gradients if it has them."""

import functools

import numpy as np
import pytest
from helpers.problems import masses

from gwfast import pot

N, M, STEP = 7, 6, 1e-5
NAMES = "C1", "C2", "M", "p", "q", "alpha"
TIGHT = dict(epsilon=0.05, max_iter=5000, tol=1e-13, stopThr=1e-14, numItermax=10**5)
PROXIMAL = dict(epsilon=0.02, max_iter=10**5, tol=1e-13)
EXACT = dict(max_iter=10**4, tol_rel=0.0, tol_abs=0.0)
PARTIAL = dict(m=0.6, numItermax=10**4, tol=0.0)


def costs(n, rng, symmetric):
    points = rng.random((n, 3))
    cost = np.linalg.norm(points[:, None] - points, axis=2) + 0.1
    return cost if symmetric else cost + 0.2 * rng.random((n, n))


def data(fused, symmetric=True, total=1.0):
    rng = np.random.default_rng(0)
    made = dict(C1=costs(N, rng, symmetric), C2=costs(M, rng, symmetric))
    made |= dict(p=total * masses(N, rng), q=total * masses(M, rng))
    return made | (dict(M=rng.random((N, M)), alpha=0.6) if fused else {})


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def check(torch, value, given, without=()):
    """Compare the gradients of a function of arrays with differences along random directions."""
    rng = np.random.default_rng(1)
    names = [name for name in NAMES if name in given and name not in without]
    tensors = {name: torch.tensor(x, requires_grad=name in names) for name, x in given.items()}
    value(**tensors).backward()
    for name in names:
        along = rng.standard_normal(np.shape(given[name]))
        if name in ("C1", "C2") and np.array_equal(given[name], given[name].T):
            along = along + along.T
        if name in ("p", "q"):
            along = 0.1 * (along - along.mean())
        ends = [value(**given | {name: given[name] + step * along}) for step in (STEP, -STEP)]
        difference = float(ends[0] - ends[1]) / (2 * STEP)
        found = float((tensors[name].grad.numpy() * along).sum())
        assert found == pytest.approx(difference, rel=1e-4), name


def with_entropy(C1, C2, p, q, M=None, alpha=0.5, *, loss_fun):
    loss = {"square_loss": "L2", "kl_loss": "KL"}[loss_fun]
    options = dict(loss=loss, reg=0.05, max_iter=5000, tol=1e-13)
    return pot.solve_gromov(C1, C2, M, p, q, alpha=alpha, **options).value


@pytest.mark.parametrize("kind", ["value", "with entropy", "plan"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("loss", ["square_loss", "kl_loss"])
def test_gradients_with_entropy(torch, kind, fused, symmetric, loss):
    name = f"entropic_{'fused_' if fused else ''}gromov_wasserstein"

    def of_plan(**given):
        return (getattr(pot, name)(**given, **TIGHT, loss_fun=loss) ** 2).sum()

    value = {
        "value": functools.partial(getattr(pot, f"{name}2"), **TIGHT, loss_fun=loss),
        "with entropy": functools.partial(with_entropy, loss_fun=loss),
        "plan": of_plan,
    }[kind]
    check(torch, value, data(fused, symmetric))


# Proximal steps end at a plan without entropy.
@pytest.mark.parametrize("fused", ["", "fused_"])
@pytest.mark.parametrize(
    "kind, options, without",
    [
        ("", EXACT, ()),
        ("semirelaxed_", EXACT, ("q",)),
        ("partial_", PARTIAL, ("p", "q")),
        ("entropic_", TIGHT | PROXIMAL | {"solver": "PPA"}, ("p", "q")),
        ("entropic_semirelaxed_", PROXIMAL, ("q",)),
    ],
)
def test_gradients_without_entropy(torch, kind, fused, options, without):
    given = data(bool(fused))
    if "semirelaxed" in kind:
        del given["q"]
    function = getattr(pot, f"{kind}{fused}gromov_wasserstein2")
    check(torch, functools.partial(function, **options), given, without)


@pytest.mark.parametrize("name, options", [("", EXACT), ("entropic_", TIGHT)])
def test_gradients_with_masses_of_any_total(torch, name, options):
    function = getattr(pot, f"{name}fused_gromov_wasserstein2")
    check(torch, functools.partial(function, **options), data(True, total=2.5))


def test_points_without_mass_have_no_part(torch):
    given = data(True)
    for name in "pq":
        given[name][0] = 0.0
        given[name] /= given[name].sum()
    given = {name: torch.tensor(x, requires_grad=True) for name, x in given.items()}
    pot.entropic_fused_gromov_wasserstein2(**given, **TIGHT).backward()
    for name in ("C1", "C2", "M"):
        assert torch.isfinite(given[name].grad).all()
        assert (given[name].grad[0] == 0).all()


def test_a_tie_has_no_gradients(torch):
    """All turns of a square are equally good, and the product plan is between them."""
    square = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    square = torch.tensor(np.minimum(square, 4 - square).astype(float), requires_grad=True)
    plan = pot.entropic_gromov_wasserstein(square, square.detach(), **TIGHT | dict(max_iter=0))
    with pytest.raises(ValueError, match="strict minimum"):
        plan.trace().backward()


CALLS = {
    "gromov_wasserstein2": (False, "C1 C2 p q"),
    "fused_gromov_wasserstein2": (True, "M C1 C2 p q alpha"),
    "semirelaxed_gromov_wasserstein2": (False, "C1 C2"),
    "semirelaxed_fused_gromov_wasserstein2": (True, "M C1 C2 alpha"),
}


def tensors(torch, fused, names, dtype="float64"):
    given = {name: torch.tensor(x, dtype=getattr(torch, dtype)) for name, x in data(fused).items()}
    for name in names.split():
        given[name].requires_grad_()
    return given


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("loss_fun", ["square_loss", "kl_loss"])
def test_gradients_are_pots(torch, name, loss_fun):
    gromov = pytest.importorskip("ot", reason="POT is not installed").gromov
    fused, names = CALLS[name]
    found = []
    for module in (gromov, pot):
        given = tensors(torch, fused, names)
        if "semirelaxed" in name:
            del given["q"]
        (3.0 * getattr(module, name)(**given, loss_fun=loss_fun)).backward()
        found.append([given[key].grad for key in names.split()])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_flow_through_plans_and_losses(torch, dtype):
    given = tensors(torch, True, "M C1 C2 p q alpha", dtype)
    plan, log = pot.entropic_fused_gromov_wasserstein(**given, **TIGHT, log=True)
    (plan.square().sum() + log["fgw_dist"]).backward()
    for x in given.values():
        assert x.grad.dtype == x.dtype and x.grad.shape == x.shape
        assert torch.isfinite(x.grad).all() and x.grad.abs().sum() > 0


def test_results_ask_for_gradients_only_if_arguments_do(torch):
    given = tensors(torch, False, "C1")
    with torch.no_grad():
        plan, log = pot.gromov_wasserstein(**given, log=True)
    assert not (plan.requires_grad or log["gw_dist"].requires_grad)
    # A plan without entropy has none, but its loss has.
    plan, log = pot.gromov_wasserstein(**given, log=True)
    assert not plan.requires_grad and log["gw_dist"].requires_grad


def test_gradients_of_terms_are_of_the_plan_alone(torch):
    given = tensors(torch, False, "")
    terms = pot.init_matrix(*given.values())
    plan = torch.outer(given["p"], given["q"]).requires_grad_()
    pot.gwloss(*terms, plan).backward()
    right = 2 * pot.tensor_product(*terms, plan) - terms[0]
    np.testing.assert_allclose(plan.grad.numpy(), right.detach().numpy(), rtol=1e-12)
    with pytest.raises(TypeError, match="C1 asks for gradients"):
        pot.init_matrix(*tensors(torch, False, "C1").values())


@pytest.mark.parametrize(
    ("function", "options", "name"),
    [
        (pot.gromov_wasserstein2, dict(G0="p q"), "G0"),
        (pot.semirelaxed_gromov_wasserstein2, dict(G0="p q"), "G0"),
        (pot.partial_gromov_wasserstein2, dict(p="p"), "p"),
        (pot.entropic_gromov_wasserstein, dict(solver="PPA"), "C1"),
        (pot.entropic_gromov_wasserstein, dict(epsilon="epsilon"), "epsilon"),
        (pot.BAPG_gromov_wasserstein, {}, "C1"),
        (pot.entropic_partial_gromov_wasserstein, {}, "C1"),
        (pot.entropic_semirelaxed_gromov_wasserstein, {}, "C1"),
    ],
)
def test_gradients_that_there_are_not(torch, function, options, name):
    given = tensors(torch, False, "C1")
    own = dict(C1=given["C1"], C2=given["C2"])
    made = {
        "p q": torch.outer(given["p"], given["q"]).requires_grad_(),
        "p": given["p"].clone().requires_grad_(),
        "epsilon": torch.tensor(0.1, requires_grad=True, dtype=torch.float64),
    }
    own |= {key: made.get(x, x) for key, x in options.items()}
    if "G0" in options:
        own |= dict(p=given["p"]) | ({} if "semi" in function.__name__ else dict(q=given["q"]))
    with pytest.raises(TypeError, match=f"{name} asks for gradients"):
        function(**own)
