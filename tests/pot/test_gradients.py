"""Gradients of losses and plans equal finite differences, and POT's gradients if it has them."""

import functools

import numpy as np
import pytest
from helpers.pot_calls import call, converted, ours
from helpers.pot_names import BALANCED, BAPG, EXACT, PARTIAL, SEMIRELAXED
from helpers.pot_rows import MASSES, TIGHT_COOT, matrices
from helpers.pot_spaces import spaces
from helpers.tensors import check_gradients, tensors

from gwfast import pot

torch = pytest.importorskip("torch")

NAMES = "C1", "C2", "M", "p", "q", "alpha"
TIGHT = dict(epsilon=0.05, max_iter=5000, tol=1e-13, stopThr=1e-14, numItermax=10**5)
PROXIMAL = dict(epsilon=0.02, max_iter=10**5, tol=1e-13)
EXACTLY = dict(max_iter=10**4, tol_rel=0.0, tol_abs=0.0)
PARTLY = dict(m=0.6, numItermax=10**4, tol=0.0)


def data(fused, symmetric=True, total=1.0):
    cost_x, cost_y, cost, p, q, _ = spaces(7, 6, symmetric=symmetric)
    made = dict(C1=cost_x, C2=cost_y, p=total * p, q=total * q)
    return made | (dict(M=cost, alpha=0.6) if fused else {})


def with_entropy(C1, C2, p, q, M=None, alpha=0.5, *, loss_fun):
    loss = {"square_loss": "L2", "kl_loss": "KL"}[loss_fun]
    options = dict(loss=loss, reg=0.05, max_iter=5000, tol=1e-13)
    return pot.solve_gromov(C1, C2, M, p, q, alpha=alpha, **options).value


@pytest.mark.parametrize("kind", ["value", "with entropy", "plan"])
@pytest.mark.parametrize("name", BALANCED)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("loss", ["square_loss", "kl_loss"])
def test_gradients_with_entropy(kind, name, symmetric, loss):
    def of_plan(**given):
        return (ours(name)(**given, **TIGHT, loss_fun=loss) ** 2).sum()

    of_value = functools.partial(ours(f"{name}2"), **TIGHT, loss_fun=loss)
    of_all = functools.partial(with_entropy, loss_fun=loss)
    value = {"value": of_value, "with entropy": of_all, "plan": of_plan}[kind]
    check_gradients(value, data("fused" in name, symmetric, total=1.0 if symmetric else 2.5))


# Proximal steps end at a plan without entropy.
@pytest.mark.parametrize("fused", [0, 1])
@pytest.mark.parametrize(
    "names, options, without",
    [
        (EXACT[0:2], EXACTLY, ()),
        (EXACT[2:4], EXACTLY, ("q",)),
        (EXACT[4:6], PARTLY, ("p", "q")),
        (BALANCED, TIGHT | PROXIMAL | {"solver": "PPA"}, ("p", "q")),
        (SEMIRELAXED, PROXIMAL, ("q",)),
    ],
)
def test_gradients_without_entropy(names, fused, options, without):
    given = data(bool(fused), total=1 + 1.5 * fused)
    if "semirelaxed" in names[0]:
        del given["q"]
    check_gradients(functools.partial(ours(f"{names[fused]}2"), **options), given, without)


@pytest.mark.parametrize("epsilon", [0, (0.3, 0.2), (0, 0.2)])
def test_gradients_of_co_optimal_transport(epsilon):
    options = TIGHT_COOT | {"tol_bcd": 1e-13, "nits_bcd": 2000, "log": False}
    options |= {"epsilon": epsilon, "alpha": (0.5, 2)}
    given = {name: x for name, x in matrices().items() if name not in TIGHT_COOT}
    P, Q, log = pot.co_optimal_transport(**given, **options | {"log": True})
    start = {"pi_sample": P, "pi_feature": Q, **log}

    def loss(**arrays):
        """Return the loss from where the search has ended: differences are of one valley."""
        begun = converted(start, torch.tensor) if torch.is_tensor(arrays["X"]) else start
        return 2 * pot.co_optimal_transport2(**arrays, **options, warmstart=begun)

    check_gradients(loss, given, masses=MASSES)


def test_a_tie_has_no_gradients():
    """All turns of a square are equally good, and the product plan is between them."""
    square = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    square = torch.tensor(np.minimum(square, 4 - square).astype(float), requires_grad=True)
    plan = pot.entropic_gromov_wasserstein(square, square.detach(), **TIGHT | dict(max_iter=0))
    with pytest.raises(ValueError, match="strict minimum"):
        plan.trace().backward()


@pytest.mark.parametrize("name", EXACT[:4])
@pytest.mark.parametrize("loss_fun", ["square_loss", "kl_loss"])
def test_gradients_are_pots(name, loss_fun):
    gromov = pytest.importorskip("ot", reason="POT is not installed").gromov
    given, names, found = data("fused" in name), NAMES, []
    if "semirelaxed" in name:
        del given["q"]
        names = "C1", "C2", "M", "alpha"  # POT has none in `p`
    for module in (gromov, pot):
        asking = tensors(given, names)
        (3.0 * getattr(module, f"{name}2")(**asking, loss_fun=loss_fun)).backward()
        found.append([x.grad for x in asking.values() if x.requires_grad])
    for theirs, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_flow_through_plans_and_losses(dtype):
    given = tensors(data(True), NAMES, dtype)
    plan, log = pot.entropic_fused_gromov_wasserstein(**given, **TIGHT, log=True)
    (plan.square().sum() + log["fgw_dist"]).backward()
    for x in given.values():
        assert x.grad.dtype == x.dtype and x.grad.shape == x.shape
        assert torch.isfinite(x.grad).all() and x.grad.abs().sum() > 0
    # A plan without entropy has no gradients, but its loss has.
    plan, log = pot.gromov_wasserstein(**tensors(data(False), ["C1"]), log=True)
    assert not plan.requires_grad and log["gw_dist"].requires_grad


def test_gradients_of_terms_are_of_the_plan_alone():
    given = tensors(data(False))
    terms = pot.init_matrix(*given.values())
    plan = torch.outer(given["p"], given["q"]).requires_grad_()
    pot.gwloss(*terms, plan).backward()
    right = 2 * pot.tensor_product(*terms, plan) - terms[0]
    np.testing.assert_allclose(plan.grad.numpy(), right.detach().numpy(), rtol=1e-12)
    with pytest.raises(TypeError, match="C1 asks for gradients"):
        pot.init_matrix(*tensors(data(False), ["C1"]).values())


@pytest.mark.parametrize(
    "name, argument, options",
    [
        (EXACT[0], "G0", {}),
        (EXACT[2], "G0", {}),
        (EXACT[4], "p", {}),
        (BALANCED[0], "C1", {"solver": "PPA"}),
        (BALANCED[0], "epsilon", {}),
        *((names[0], "C1", {}) for names in (BAPG, PARTIAL, SEMIRELAXED)),
    ],
)
def test_gradients_that_there_are_not(name, argument, options):
    given = tensors(call(name), [argument])
    with pytest.raises(TypeError, match=f"{argument} asks for gradients"):
        ours(name)(**given, **options)
