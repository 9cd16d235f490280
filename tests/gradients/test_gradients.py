"""Gradients of losses in torch and JAX are compared with finite differences."""

import functools

import numpy as np
import pytest
from helpers.problems import distances, masses, settings
from helpers.tensors import check_gradients, tensors

import gwfast
from gwfast.gradients import gromov_wasserstein_loss

N, M = 7, 6
MASSES = "p", "q"
TIGHT = dict(dtype="float64", tol=1e-12, marginal_tol=1e-11, max_iter=20_000)
METHODS = dict(epsilon=0.03), dict(epsilon=0), dict(epsilon=0.03, method="ppa")
RULES = "balanced", "semirelaxed", gwfast.Partial(0.8)
PRICES = [gwfast.Unbalanced(rho) for rho in (0.3, (0.4, 0.2), (0.3, np.inf))]
# Masses that have no gradients.
REFUSED = [("p", RULES[2]), ("q", RULES[2]), ("q", PRICES[2])]


def data(fused=True, symmetric=True):
    rng = np.random.default_rng(1)  # No descent from these costs cycles.
    arrays = {}
    for name, n in (("x", N), ("y", M)):
        cost, noise = distances(rng.random((n, 3))) + 0.1, rng.random((n, n))
        arrays[name] = cost if symmetric else cost + 0.2 * noise
    arrays |= dict(p=masses(N, rng), q=masses(M, rng))
    return arrays | (dict(linear_cost=rng.random((N, M)), alpha=0.6) if fused else {})


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with jax.enable_x64(True):
        yield jax


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize(
    "marginals, options",
    [
        *[(rule, options) for rule in RULES for options in METHODS],
        *[(price, dict(epsilon=0.05)) for price in PRICES],
    ],
    ids=str,
)
@pytest.mark.parametrize(("fused", "symmetric"), [(False, True), (True, True), (True, False)])
def test_gradients_are_differences(torch, marginals, options, loss, fused, symmetric):
    """Along random directions, where the plan has moved only as far as that leads."""
    given, results = data(fused, symmetric), []
    if marginals == "semirelaxed":
        del given["q"]
    if marginals in PRICES:
        given["q"] *= 1.3
    without = [name for name in MASSES if (name, marginals) in REFUSED]
    options = settings(**TIGHT, **options, marginals=marginals, loss=loss)

    def thrice(**arrays):
        start = {"init": results[0].plan} if results else {}
        return 3.0 * gromov_wasserstein_loss(**arrays, **start, **options, on_result=results.append)

    check_gradients(thrice, given, without)
    assert results[0].status in ("converged", "uncertain")


@pytest.mark.parametrize("epsilon", [0.05, 0])
def test_the_loss_is_what_is_minimized(torch, epsilon):
    given, results = data(), []
    options = settings(epsilon=epsilon, **TIGHT)
    result, made = gwfast.gromov_wasserstein(**given, **options), tensors(given)
    loss = gromov_wasserstein_loss(**made, **options, on_result=results.append)
    assert loss.shape == () and loss.dtype == torch.float64
    assert loss.item() == result.reg_cost and not loss.requires_grad
    np.testing.assert_array_equal(results[0].plan, result.plan)
    # The loss of NumPy arrays is a number; arguments without gradients may be lists.
    assert gromov_wasserstein_loss(**given, **options) == result.reg_cost
    others = given | {"x": made["x"].requires_grad_(), "p": [*given["p"]]}
    others |= {"y": given["y"].tolist(), "alpha": np.float64(0.6)}
    again = gromov_wasserstein_loss(**others, **options)
    assert again.item() == pytest.approx(result.reg_cost) and again.requires_grad


def test_alpha_in_an_array_of_one_entry_and_partial_plans_of_all_mass(torch):
    given, found = data(), []
    for shape, options in (((), {}), ((1,), dict(marginals=gwfast.Partial(1.0)))):
        made = tensors(given | {"alpha": np.full(shape, 0.6)}, ["alpha", "p"])
        gromov_wasserstein_loss(**made, **options, epsilon=0.05).backward()
        assert made["alpha"].grad.shape == shape
        found.append([made["alpha"].grad.item(), *made["p"].grad.numpy()])
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_tensors_of_float32_and_tensors_that_are_refused(torch):
    given = {name: x.float() for name, x in tensors(data()).items()}
    given["x"].requires_grad_()
    loss = gromov_wasserstein_loss(**given, epsilon=0)
    with torch.no_grad():
        given["x"][:] = 0.0  # the gradients are of the values before
    (found,) = torch.autograd.grad(loss, given["x"], create_graph=True)
    assert loss.dtype == found.dtype == torch.float32 and found.abs().max() > 0.01
    with pytest.raises(RuntimeError, match="does not require grad"):
        found.sum().backward()
    ones = torch.ones((3, 3))
    with pytest.raises(TypeError, match=r"^x .* CPU"):
        gromov_wasserstein_loss(ones.to("meta"), ones)
    jax = pytest.importorskip("jax")
    with pytest.raises(ValueError, match=r"x \(jax\), y \(torch\)"):
        gromov_wasserstein_loss(jax.numpy.ones((3, 3)), ones)


@pytest.mark.parametrize("options", METHODS, ids=str)
def test_points_without_mass_have_no_part(torch, options):
    given = data()
    for name in MASSES:
        given[name] = np.append(0.0, given[name][1:] / given[name][1:].sum())
    made = tensors(given, given)
    gromov_wasserstein_loss(**made, **settings(**options, **TIGHT)).backward()
    for name, tensor in made.items():
        assert torch.isfinite(tensor.grad).all(), name
        assert name in ("alpha", "q") or (tensor.grad[0] == 0).all(), name


def loss_of_data(*values, **options):
    return gromov_wasserstein_loss(**dict(zip(data(), values, strict=True)), **options)


@pytest.mark.parametrize("options", METHODS, ids=str)
def test_jax_has_the_gradients_of_torch(jax, torch, options):
    options, given = settings(**options | TIGHT), tensors(data(), data())
    expected = gromov_wasserstein_loss(**given, **options)
    expected.backward()
    loss, values = (
        functools.partial(loss_of_data, **options),
        [*map(jax.numpy.asarray, data().values())],
    )
    there = jax.value_and_grad(loss, argnums=tuple(range(len(values))))
    for function in (there, jax.jit(there)):
        value, found = function(*values)
        assert value == expected.item()
        for ours, tensor in zip(found, given.values(), strict=True):
            np.testing.assert_allclose(ours, tensor.grad.numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("name", "marginals"), REFUSED)
def test_masses_that_have_no_gradients(jax, torch, name, marginals):
    with pytest.raises(TypeError, match=f"^{name} "):
        gromov_wasserstein_loss(**tensors(data(), [name]), marginals=marginals)
    loss = functools.partial(loss_of_data, marginals=marginals)
    values = [*map(jax.numpy.asarray, data().values())]
    with pytest.raises(TypeError, match=f"{name} asks"):
        jax.jit(jax.grad(loss, argnums=[*data()].index(name)))(*values)
    # Traced is not yet asked for.
    assert np.isfinite(jax.jit(jax.grad(loss))(*values)).all()


def test_transformations_of_jax(jax):
    (x, y, *_), results = data(False).values(), []

    def loss(scale):
        costs = scale * jax.numpy.asarray(x), y
        return gromov_wasserstein_loss(*costs, epsilon=0, on_result=results.append)

    slope = jax.grad(loss)
    each = [slope(scale) for scale in (0.5, 1.5)]
    np.testing.assert_allclose(jax.vmap(slope)(np.array([0.5, 1.5])), each)
    assert jax.jvp(loss, (0.5,), (2.0,))[1] == pytest.approx(2.0 * each[0])
    # The second derivative would need the derivative of the plan.
    with pytest.raises(ValueError, match="JVP"):
        jax.grad(slope)(0.5)
    before = len(results)
    jax.block_until_ready(jax.jit(slope)(0.5))
    assert len(results) > before and results[-1].status in ("converged", "uncertain")
    # Whole numbers cannot move, and do not hinder what can.
    whole = jax.numpy.arange(9).reshape(3, 3)
    found = jax.grad(gromov_wasserstein_loss, argnums=1)(whole, x, epsilon=0)
    assert np.isfinite(found).all()


def test_arrays_of_jax_in_float32(jax):
    x, y, *_ = data(False).values()
    with jax.enable_x64(False):
        loss, found = jax.value_and_grad(gromov_wasserstein_loss)(jax.numpy.asarray(x), y)
    assert loss.dtype == found.dtype == np.float32
