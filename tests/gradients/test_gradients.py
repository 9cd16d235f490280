"""Gradients of losses are what finite differences say, of torch and JAX alike."""

import functools

import numpy as np
import pytest
from helpers.problems import distances, masses
from helpers.settings import settings

import gwfast
from gwfast.gradients import gromov_wasserstein_loss

N, M, STEP = 7, 6, 1e-5
MASSES = "p", "q"
TIGHT = dict(dtype="float64", tol=1e-12, marginal_tol=1e-11, max_iter=20_000)
METHODS = dict(epsilon=0.03), dict(epsilon=0), dict(epsilon=0.03, method="ppa")


def data(fused=True, symmetric=True):
    rng = np.random.default_rng(1)  # of which none goes in a cycle
    made = {}
    for name, n in (("x", N), ("y", M)):
        cost, noise = distances(rng.random((n, 3))) + 0.1, rng.random((n, n))
        made[name] = cost if symmetric else cost + 0.2 * noise
    made |= dict(p=masses(N, rng), q=masses(M, rng))
    return made | (dict(linear_cost=rng.random((N, M)), alpha=0.6) if fused else {})


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with jax.enable_x64(True):
        yield jax


def tensors(torch, given, names):
    return {
        name: torch.tensor(x, dtype=torch.float64, requires_grad=name in names)
        for name, x in given.items()
    }


def check(torch, given, names, **options):
    """Compare gradients with differences along random directions, where the plan has
    moved only as far as that leads.
    """
    results, made = [], tensors(torch, given, names)
    solved = functools.partial(gromov_wasserstein_loss, **settings(**TIGHT, **options))
    loss = solved(**made, on_result=results.append)
    assert results[0].status in ("converged", "uncertain")
    (3.0 * loss).backward()
    rng = np.random.default_rng(1)
    for name in names:
        along = rng.standard_normal(np.shape(given[name]))
        if name in ("x", "y") and (given[name] == given[name].T).all():
            along = along + along.T
        if name in MASSES:
            along = 0.1 * (along - along.mean())
        ends = [
            solved(**given | {name: given[name] + step * along}, init=results[0].plan)
            for step in (STEP, -STEP)
        ]
        difference = 3.0 * (ends[0] - ends[1]) / (2 * STEP)
        found = (made[name].grad.numpy() * along).sum()
        assert found == pytest.approx(difference, rel=1e-4), name


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("options", METHODS, ids=str)
@pytest.mark.parametrize("marginals", ["balanced", "semirelaxed", "partial"])
@pytest.mark.parametrize(("fused", "symmetric"), [(False, True), (True, True), (True, False)])
def test_gradients(torch, marginals, options, loss, fused, symmetric):
    given, without = data(fused, symmetric), {"partial": MASSES}.get(marginals, ())
    if marginals == "semirelaxed":
        del given["q"]
    names = [name for name in given if name not in without]
    marginals = gwfast.Partial(0.8) if marginals == "partial" else marginals
    check(torch, given, names, marginals=marginals, loss=loss, **options)


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("rho", [0.3, (0.4, 0.2), (0.3, np.inf)])
def test_gradients_where_marginals_have_a_price(torch, loss, rho):
    given = data()
    given["q"] *= 1.3
    names = [name for name in given if name != "q" or np.isfinite(np.max(rho))]
    check(torch, given, names, marginals=gwfast.Unbalanced(rho), epsilon=0.05, loss=loss)


@pytest.mark.parametrize("epsilon", [0.05, 0])
def test_the_loss_is_what_is_minimized(torch, epsilon):
    given, results = data(), []
    options = settings(epsilon=epsilon, **TIGHT)
    result = gwfast.gromov_wasserstein(**given, **options)
    made = tensors(torch, given, ())
    loss = gromov_wasserstein_loss(**made, **options, on_result=results.append)
    assert loss.shape == () and loss.dtype == torch.float64
    assert loss.item() == result.reg_cost and not loss.requires_grad
    np.testing.assert_array_equal(results[0].plan, result.plan)
    # Of arrays of NumPy it is a number; what does not move may be anything.
    assert gromov_wasserstein_loss(**given, **options) == result.reg_cost
    others = given | {"x": made["x"].requires_grad_(), "p": [*given["p"]]}
    others |= {"y": given["y"].tolist(), "alpha": np.float64(0.6)}
    again = gromov_wasserstein_loss(**others, **options)
    assert again.item() == pytest.approx(result.reg_cost) and again.requires_grad


def test_alpha_in_an_array_of_one_entry_and_partial_plans_of_all_mass(torch):
    given, found = data(), []
    for shape, options in (((), {}), ((1,), dict(marginals=gwfast.Partial(1.0)))):
        made = tensors(torch, given | {"alpha": np.full(shape, 0.6)}, ["alpha", "p"])
        gromov_wasserstein_loss(**made, **options, epsilon=0.05).backward()
        assert made["alpha"].grad.shape == shape
        found.append((made["alpha"].grad.item(), made["p"].grad.numpy()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    np.testing.assert_allclose(*(p for _, p in found), rtol=1e-6)


def test_tensors_of_float32(torch):
    given = tensors(torch, data(), ["x"])
    given = {name: x.detach().float() for name, x in given.items()}
    given["x"].requires_grad_()
    loss = gromov_wasserstein_loss(**given, epsilon=0)
    with torch.no_grad():
        given["x"][:] = 0.0  # the gradients are of the values before
    loss.backward()
    assert loss.dtype == given["x"].grad.dtype == torch.float32
    assert given["x"].grad.abs().max() > 0.01


def test_points_without_mass_have_no_part(torch):
    given = data()
    for name in MASSES:
        given[name][0] = 0.0
        given[name] /= given[name].sum()
    for options in METHODS:
        made = tensors(torch, given, given)
        gromov_wasserstein_loss(**made, **settings(**options, **TIGHT)).backward()
        for name, one in made.items():
            assert torch.isfinite(one.grad).all(), name
            assert name in ("alpha", "q") or (one.grad[0] == 0).all(), name


def test_there_are_no_second_gradients(torch):
    given = tensors(torch, data(), ["x"])
    loss = gromov_wasserstein_loss(**given, epsilon=0.05)
    (found,) = torch.autograd.grad(loss, given["x"], create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        found.sum().backward()


REFUSED = [
    ("p", dict(marginals=gwfast.Partial(0.5))),
    ("q", dict(marginals=gwfast.Partial(0.5))),
    ("q", dict(marginals=gwfast.Unbalanced((1.0, np.inf)))),
]


@pytest.mark.parametrize(("name", "options"), REFUSED)
def test_masses_that_have_no_gradients(torch, name, options):
    given = tensors(torch, data(), [name])
    with pytest.raises(TypeError, match=f"{name} asks for gradients"):
        gromov_wasserstein_loss(**given, **options)


def test_bad_arguments(torch):
    given = tensors(torch, data(), ["x"])
    with pytest.raises(ValueError, match="method must be 'pgd' or 'ppa', got 'bapg'"):
        gromov_wasserstein_loss(**given, options=gwfast.SolverOptions(method="bapg"))
    with pytest.raises(TypeError, match="n_start"):
        gromov_wasserstein_loss(**given, n_start=3)
    with pytest.raises(TypeError, match="x must be in the memory of the CPU"):
        gromov_wasserstein_loss(torch.ones((3, 3), device="meta"), given["y"])


# --- JAX ------------------------------------------------------------------------------


def of_jax(jax, options):
    """The loss as a function of what `data` has, and these as arrays."""
    names = [*data()]

    def loss(*values):
        given = dict(zip(names, values, strict=True))
        return gromov_wasserstein_loss(**given, **options)

    return loss, [jax.numpy.asarray(x) for x in data().values()]


def expected(torch, options):
    """What torch has, which is compared with differences above."""
    given = tensors(torch, data(), [*data()])
    loss = gromov_wasserstein_loss(**given, **options)
    loss.backward()
    return loss.item(), [x.grad.numpy() for x in given.values()]


@pytest.mark.parametrize("options", METHODS, ids=str)
def test_jax_has_the_gradients_of_torch(jax, torch, options):
    loss, values = of_jax(jax, settings(**options | TIGHT))
    there = jax.value_and_grad(loss, argnums=tuple(range(len(values))))
    value, gradients = expected(torch, settings(**options | TIGHT))
    for function in (there, jax.jit(there)):
        ours, found = function(*values)
        assert ours == value
        for one, other in zip(found, gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_transformations_of_jax(jax):
    given, results = data(False), []
    x, y = given["x"], given["y"]

    def loss(scale, cost=x):
        given = scale * jax.numpy.asarray(cost), y
        return gromov_wasserstein_loss(*given, epsilon=0, on_result=results.append)

    slope = jax.grad(loss)
    each = [slope(scale) for scale in (0.5, 1.5)]
    np.testing.assert_allclose(jax.vmap(slope)(np.array([0.5, 1.5])), each)
    assert jax.jvp(loss, (0.5,), (2.0,))[1] == pytest.approx(2.0 * each[0])
    # The plan moves, which nobody differentiates.
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.grad(slope)(0.5)
    before = len(results)
    jax.block_until_ready(jax.jit(slope)(0.5))
    assert len(results) > before and results[-1].status in ("converged", "uncertain")
    # Whole numbers cannot move, and do not hinder what can.
    whole = jax.numpy.arange(9).reshape(3, 3)
    found = jax.grad(gromov_wasserstein_loss, argnums=1)(whole, x, epsilon=0)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("name", "options"), REFUSED)
def test_masses_that_have_no_gradients_in_jax(jax, name, options):
    loss, values = of_jax(jax, options)
    number = [*data()].index(name)
    with pytest.raises(TypeError, match=f"{name} asks for gradients"):
        jax.jit(jax.grad(loss, argnums=number))(*values)
    # Traced is not yet asked for.
    assert np.isfinite(jax.jit(jax.grad(loss))(*values)).all()


def test_arrays_of_jax_in_float32(jax):
    given = data(False)
    with jax.enable_x64(False):
        x = jax.numpy.asarray(given["x"])
        loss, found = jax.value_and_grad(gromov_wasserstein_loss)(x, given["y"])
    assert loss.dtype == found.dtype == np.float32


def test_tensors_of_two_libraries(jax, torch):
    given = data(False)
    x, y = jax.numpy.asarray(given["x"]), torch.tensor(given["y"])
    with pytest.raises(ValueError, match=r"x \(jax\), y \(torch\)"):
        gromov_wasserstein_loss(x, y)
