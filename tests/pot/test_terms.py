"""The terms of losses that programs with loops of their own call, against POT's."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.pot_calls import C1, C2, G0, M, P, Q, pots
from helpers.pot_spaces import spaces

import gwfast.pot
from gwfast.pot import arrays, terms

LOSS_FUNS = ["square_loss", "kl_loss"]
OF_PLANS = ("tensor_product", "gwloss", "gwggrad")
ROUNDING = {np.float32: 1e-5, np.float64: 1e-12}


def same(found, theirs, rtol):
    """Whether arrays, or tuples of them, are of one type, dtype and numbers."""
    if isinstance(theirs, tuple):
        assert len(found) == len(theirs)
        for one, other in zip(found, theirs, strict=True):
            same(one, other, rtol)
        return
    assert type(found) is type(theirs)
    assert (found.dtype, found.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(found, theirs, rtol=rtol, atol=rtol * abs(theirs).max())


@pairwise(
    loss_fun=LOSS_FUNS,
    symmetric=[True, False],
    dtype=[np.float32, np.float64],
    sizes=[(1, 1), (1, 4), (5, 2), (12, 9), (33, 64)],
)
def test_agree_with_pot(loss_fun, symmetric, dtype, sizes):
    n, m = sizes
    case = [x.astype(dtype) for x in spaces(33, 64, symmetric=symmetric)]
    cost_x, cost_y, p, q = case[0][:n, :n], case[1][:m, :m], case[3][:n], case[4][:m]
    plan = case[5][:n, :m]
    given, rtol = (cost_x, cost_y, p, q, loss_fun), ROUNDING[dtype]
    made = gwfast.pot.init_matrix(*given)
    same(made, pots("init_matrix")(*given), rtol)
    for name in OF_PLANS:
        found = getattr(gwfast.pot, name)(*made, plan)
        same(found, pots(name)(*made, plan), rtol)
    given = cost_x, cost_y, p, loss_fun
    found = gwfast.pot.init_matrix_semirelaxed(*given)
    same(found, pots("init_matrix_semirelaxed")(*given), rtol)
    *found, fC2t = found
    found[0] = found[0] + q @ fC2t
    same(tuple(found), made, rtol)


@pytest.mark.parametrize("loss_fun", LOSS_FUNS)
def test_are_the_sums_that_they_stand_for(loss_fun):
    """Over all four indices, without the terms."""
    cost_x, cost_y, _, p, q, plan = spaces(5, 4, symmetric=False)
    x, y = cost_x[:, None, :, None], cost_y[None, :, None, :]
    costs = (x - y) ** 2 if loss_fun == "square_loss" else x * np.log(x / y) - x + y
    made = gwfast.pot.init_matrix(cost_x, cost_y, p, q, loss_fun)
    expected = np.einsum("ijkl,kl", costs, plan)
    np.testing.assert_allclose(gwfast.pot.tensor_product(*made, plan), expected)
    assert gwfast.pot.gwloss(*made, plan) == pytest.approx((expected * plan).sum())


def test_take_what_pot_takes():
    made, theirs = (init(C1, C2, P, Q) for init in (gwfast.pot.init_matrix, pots("init_matrix")))
    # Marginals as a column and a row, as PASTE2 has them; lists; a backend.
    for p, q in ((P[:, None], Q[None]), (P.tolist(), Q.tolist())):
        same(gwfast.pot.init_matrix(C1, C2, p, q, nx=object()), theirs, 1e-12)
    grad = pots("gwggrad")(*theirs, G0)
    same(gwfast.pot.gwggrad(*(x.tolist() for x in (*made, G0))), grad, 1e-12)
    same(gwfast.pot.gwggrad(*made, G0, object()), grad, 1e-12)
    np.testing.assert_array_equal(made[1], C1)
    # Costs in float32 and masses in float64, as Pamona has them.
    made = gwfast.pot.init_matrix(C1.astype(np.float32), C2.astype(np.float32), P, Q)
    assert {x.dtype for x in made} == {np.dtype(np.float64)}
    same(gwfast.pot.gwggrad(*made, G0), grad, 1e-6)


@pytest.mark.parametrize("loss_fun", LOSS_FUNS)
def test_integers_are_float64(loss_fun):
    hops = abs(np.subtract.outer(range(20), range(20))).astype(np.int8)
    right = gwfast.pot.init_matrix(hops * 1.0, hops * 1.0, *2 * [np.ones(20)], loss_fun)
    made = gwfast.pot.init_matrix(hops, hops, *2 * [np.ones(20, dtype=int)], loss_fun)
    same(made, right, 0)
    plan = np.eye(20, dtype=bool)
    same(gwfast.pot.gwloss(*made, plan), gwfast.pot.gwloss(*made, plan * 1.0), 0)


def test_input_is_left_as_it_is():
    frozen = [x.copy() for x in (C1, C2, P, Q, G0)]
    for x in frozen:
        x.flags.writeable = False
    made = gwfast.pot.init_matrix(*frozen[:4])
    for x in made:
        x.flags.writeable = False
    for name in OF_PLANS:
        getattr(gwfast.pot, name)(*made, frozen[-1])


def test_errors_name_the_argument():
    init, semi = gwfast.pot.init_matrix, gwfast.pot.init_matrix_semirelaxed
    for call, message in (
        (lambda: init(C1[:, 1:], C2, P, Q), "C1 must be square"),
        (lambda: init(C1, C2, P, P), r"q must have shape \(9,\), got \(12,\)"),
        (lambda: semi(C1, np.full((2, 2), np.nan), P), "C2 must be finite"),
        (lambda: init(C1, -C2, P, Q, "kl_loss"), "C2 must not be negative"),
        (lambda: init(C1, C2, P, Q, "l1"), "Unknown loss_fun='l1'"),
        (lambda: gwfast.pot.gwloss(M, C1, C2, M.T), r"T must .*, got .*\(9, 12\)$"),
        (lambda: gwfast.pot.gwggrad(M.T, C1, C2, M), "constC.* must have shapes"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="T must hold real numbers"):
        gwfast.pot.gwggrad(M, C1, C2, [["a"]])


def conditional_gradient(ot, of, p, q):
    """PASTE's loop, on the functions of a module."""
    made = of.init_matrix(C1, C2, p, q)
    f = lambda G: of.gwloss(*made, G)  # noqa: E731
    df = lambda G: of.gwggrad(*made, G)  # noqa: E731
    return ot.optim.cg(p, q, 0.5 * M, 0.5, f, df)


def test_loops_of_others_run_on_them():
    ot = pytest.importorskip("ot")
    found, before = (conditional_gradient(ot, of, P, Q) for of in (gwfast.pot, ot.gromov))
    np.testing.assert_allclose(found, before, atol=1e-12)


class OnDevice:
    """An array that is on a device."""

    dtype = np.dtype(np.float64)

    def __dlpack__(self):
        raise AssertionError("was copied")

    def __dlpack_device__(self):
        return (2, 0)


@pytest.mark.parametrize("name", terms.__all__)
def test_arrays_on_a_device_are_an_error(name):
    there = [OnDevice()] * (3 if "semirelaxed" in name else 4)
    with pytest.raises(TypeError, match=r"must be in the memory of the CPU.* cuda"):
        getattr(gwfast.pot, name)(*there)


@pytest.mark.parametrize("loss_fun", LOSS_FUNS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_stay_tensors(loss_fun, dtype):
    torch = pytest.importorskip("torch")
    case = [x.astype(dtype) for x in (C1, C2, P, Q, G0)]
    tensors, rtol = [*map(torch.from_numpy, case)], ROUNDING[dtype]
    right = gwfast.pot.init_matrix(*case[:4], loss_fun)
    made = gwfast.pot.init_matrix(*tensors[:4], loss_fun)
    semi = gwfast.pot.init_matrix_semirelaxed(*tensors[:3], loss_fun)
    assert all(isinstance(x, torch.Tensor) for x in (*made, *semi))
    same(tuple(x.numpy() for x in made), right, rtol)
    for name in OF_PLANS:
        found = getattr(gwfast.pot, name)(*made, tensors[-1])
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(
            found.numpy(), getattr(gwfast.pot, name)(*right, case[-1]), rtol=10 * rtol
        )


def test_gradients_of_torch():
    """In a plan they are torch's; in costs there are none."""
    torch = pytest.importorskip("torch")
    tensors = [*map(torch.from_numpy, (C1, C2, P, Q))]
    plan = torch.from_numpy(G0.copy()).requires_grad_()
    terms = gwfast.pot.init_matrix(*tensors)
    gwfast.pot.gwloss(*terms, plan).backward()
    right = 2 * gwfast.pot.tensor_product(*terms, plan) - terms[0]
    np.testing.assert_allclose(plan.grad.numpy(), right.detach().numpy(), rtol=1e-12)
    tensors[0] = tensors[0].clone().requires_grad_()
    with pytest.raises(arrays.NoGradients, match="C1"):
        gwfast.pot.init_matrix(*tensors)
