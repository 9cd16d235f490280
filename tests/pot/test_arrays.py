"""Arrays of other libraries, in and out of `gwfast.pot`."""

import inspect
import sys

import numpy as np
import pytest
from helpers.pot_calls import (
    C1,
    C2,
    DICTIONARIES,
    ENTROPIC,
    EXACT,
    GIVEN,
    LAYERS,
    M,
    P,
    Q,
    call,
    limit,
    ours,
    pots,
)

import gwfast.pot
from gwfast.pot import patching

EPSILON = 0.2
# Keys of logs that have no array, or numbers of NumPy in any case, as in POT.
WORDS = ("niter", "status", "warning", "result_code", "backend", "loss_batches", "loss_epochs")


class Foreign:
    """An array of another library, as the array API standard describes them."""

    kind = 1  # DLPack's number of the CPU

    def __init__(self, x, device="cpu:7"):
        self.x, self.device = np.asarray(x), device

    ndim = property(lambda self: self.x.ndim)
    shape = property(lambda self: self.x.shape)
    dtype = property(lambda self: self.x.dtype)

    def __dlpack__(self, **options):
        assert self.kind == 1
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self.kind, 0)

    def __array_namespace__(self):
        return ForeignLibrary


class ForeignLibrary:
    @staticmethod
    def asarray(x, device=None):
        assert device is not None
        return Foreign(x, device)


class OnDevice(Foreign):
    """An array that nobody but a GPU can read."""

    kind = 2

    def __array__(self, *_args, **_options):
        raise AssertionError("copied from the device")


class Old(Foreign):
    """A library from before the standard said how to make an array on a device."""

    class OldLibrary:
        @staticmethod
        def asarray(x):
            return Old(x)

    def __array_namespace__(self):
        return self.OldLibrary


class Convertible:
    """What only NumPy's own protocol reads, such as a data frame."""

    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return np.array(self.x, dtype=dtype)


def expected(dtype=np.float64):
    return gwfast.pot.entropic_gromov_wasserstein2(
        *(x.astype(dtype) for x in (C1, C2, P, Q)), epsilon=EPSILON, log=True
    )


@pytest.mark.parametrize("kind", [Foreign, Old])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_a_library_come_back_as_such(kind, dtype):
    arrays = [kind(x.astype(dtype)) for x in (C1, C2, P, Q)]
    value, log = gwfast.pot.entropic_gromov_wasserstein2(*arrays, epsilon=EPSILON, log=True)
    right, right_log = expected(dtype)
    for found, other in [
        (value, right),
        (log["gw_dist"], right),
        (log["T"], right_log["T"]),
        *zip(log["err"], right_log["err"], strict=True),
    ]:
        assert type(found) is kind
        assert found.dtype == dtype
        assert found.device == "cpu:7"
        np.testing.assert_array_equal(found.x, other)


@pytest.mark.parametrize("wrong", ["C1", "C2", "p", "q", "G0", "M"])
def test_arrays_on_a_device(wrong):
    arrays = {name: Foreign(x) for name, x in GIVEN.items()}
    arrays[wrong] = OnDevice(GIVEN[wrong], "cuda:0")
    with pytest.raises(TypeError, match=rf"{wrong} must be in the memory.*cuda:0"):
        gwfast.pot.entropic_fused_gromov_wasserstein(**arrays)


def test_what_only_numpy_reads_comes_back_as_numpy():
    plan = gwfast.pot.entropic_gromov_wasserstein(
        Convertible(C1), C2, Convertible(P), Q, epsilon=EPSILON
    )
    assert type(plan) is np.ndarray
    np.testing.assert_array_equal(plan, expected()[1]["T"])


def test_lists_go_with_the_others():
    solve = gwfast.pot.entropic_gromov_wasserstein
    lists = C2.tolist(), P.tolist(), tuple(Q)
    plan = solve(Foreign(C1), *lists, epsilon=EPSILON)
    assert type(plan) is Foreign
    np.testing.assert_array_equal(plan.x, expected()[1]["T"])
    assert solve(C1.astype(np.float32), *lists).dtype == np.float32


def test_libraries_do_not_mix():
    with pytest.raises(ValueError, match=r"C1 \(numpy\), C2 \(.*\)"):
        gwfast.pot.entropic_gromov_wasserstein(C1, Foreign(C2))


def test_dtypes():
    solve = gwfast.pot.entropic_gromov_wasserstein
    single = [x.astype(np.float32) for x in (C1, C2, P)]
    assert solve(*single, Q, epsilon=EPSILON).dtype == np.float64
    whole = [np.rint(5 * x).astype(np.int64) for x in (C1, C2)]
    plan = solve(*whole, epsilon=1.0)
    assert plan.dtype == np.float64
    right = solve(*(x.astype(np.float64) for x in whole), epsilon=1.0)
    np.testing.assert_array_equal(plan, right)
    flipped = [x.astype(x.dtype.newbyteorder()) for x in (C1, C2, P, Q)]
    plan = solve(*flipped, epsilon=EPSILON)
    np.testing.assert_array_equal(plan, expected()[1]["T"])


@pytest.mark.parametrize("name", ENTROPIC + EXACT)
def test_float32_stays_and_lists_are_float64(name):
    options = call(name, entropy=0.3) | {limit(name): 30}
    arrays = {key: x for key, x in options.items() if isinstance(x, np.ndarray)}
    right = ours(name)(**options)
    single = ours(name)(**options | {k: x.astype("f4") for k, x in arrays.items()})
    assert (right.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(single, right, atol=1e-6)
    listed = ours(name)(**options | {k: x.tolist() for k, x in arrays.items()})
    np.testing.assert_array_equal(listed, right)


def test_sparse_and_masked_arrays():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="M must be a dense array"):
        gwfast.pot.fused_gromov_wasserstein(scipy_sparse.csr_matrix(M), C1, C2)
    with pytest.raises(TypeError, match="C2 must be a plain array"):
        gwfast.pot.entropic_gromov_wasserstein(C1, np.ma.masked_array(C2))


def test_a_tracer_of_jax(monkeypatch):
    class Tracer(Foreign):
        pass

    class Jax:
        class core:
            pass

    Jax.core.Tracer = Tracer
    monkeypatch.setitem(sys.modules, "jax", Jax)
    with pytest.raises(TypeError, match=r"C2 asks for gradients.*stop_gradient"):
        gwfast.pot.entropic_gromov_wasserstein(Foreign(C1), Tracer(C2))


@pytest.mark.filterwarnings("ignore")  # of few iterations
@pytest.mark.parametrize("name", ENTROPIC + EXACT)
def test_values_are_of_pots_type(name):
    """Of NumPy arrays: a 0-d array where POT has one, and its dtype."""
    for dtype in (np.float32, np.float64):
        arrays = {key: x.astype(dtype) for key, x in GIVEN.items() if key != "G0"}
        options = call(name, arrays, entropy=0.3) | {limit(name): 3}
        found, expected = (of(f"{name}2")(**options) for of in (ours, pots))
        assert type(found) is type(expected)
        assert (found.dtype, np.ndim(found)) == (expected.dtype, np.ndim(expected))


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", [*patching.FUNCTIONS])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_everywhere(torch, name, dtype):
    """Every array and every number of what comes back is a tensor of that dtype."""
    dtype = getattr(torch, dtype)
    arrays = {"M": M, "C1": C1, "C2": C2, "p": P, "q": Q}
    tensors = {key: torch.from_numpy(x).to(dtype) for key, x in arrays.items()}
    m, c1, c2, p, q = tensors.values()
    one = name.removesuffix("2")
    if "barycenters" in name:
        options = {"N": 6, "Cs": [c1, c2], "ps": [p, q], "tol": 1e-3, "max_iter": 2}
        options |= {"log": True, "random_state": 0}
        if "f" in name.partition("gromov")[0]:
            options["Ys"] = [m[:, :2], m[:9, :2]]
        if "entropic" in name:
            options["epsilon"] = 0.3
    elif name in DICTIONARIES:
        options = {"p": p, "C": c1, "Cdict": torch.stack([c2, c2 / 2])}
        options |= {"Ydict": torch.stack([m.T[:, :2]] * 2), "Y": m[:, :2]}
        options |= {"Cs": [c1, c2], "ps": [p, q], "D": 2, "nt": len(q), "q": q}
        options |= {"Ys": [m[:, :2], m[:9, :2]], "epochs": 2, "alpha": 0.4}
        known = inspect.signature(ours(name)).parameters
        options = {key: x for key, x in options.items() if key in known}
    elif name in LAYERS:
        options = {"G_features": m, "tplt_features": m[None, :9]}
        options |= {"G_edges": np.zeros((2, 0), int), "tplt_adjacencies": c1[None, :9, :9]}
        options["tplt_weights"] = torch.ones_like(c1[:1, :9]) / 9
        known = inspect.signature(ours(name)).parameters
        options = {key: x for key, x in options.items() if key in known}
    elif name.startswith("co_"):
        options = {"X": c1, "Y": m, "wx_samp": p, "epsilon": (0.3, 0), "log": True}
    elif name == "solve_gromov_batch":
        options = {"Ca": c1[None], "Cb": c2[None], "M": m[None], "alpha": 0.5}
    elif name in ("emd", "emd2", "sinkhorn"):
        options = {"a": p, "b": q, "M": m, "log": True}
        options |= {"reg": 0.3} if name == "sinkhorn" else {}
    elif name == "cg":
        terms = gwfast.pot.init_matrix(c1, c2, p, q)
        options = {"a": p, "b": q, "M": m, "reg": 0.5, "log": True}
        options["f"] = lambda G: gwfast.pot.gwloss(*terms, G)
        options["df"] = lambda G: gwfast.pot.gwggrad(*terms, G)
    elif name == "solve_gromov":
        options = {"Ca": c1, "Cb": c2, "M": m, "a": p, "b": q, "reg": 0.3, "tol": 1e-4}
    elif "unbalanced" in name:
        options = {"Cx": c1, "Cy": c2, "wx": p, "wy": q, "M": m, "alpha": 1.0}
        options |= {"log": True, "epsilon": 0.3}
    else:
        tol = "tol_rel" if one in EXACT and "partial" not in one else "tol"
        options = call(one, tensors, entropy=0.3, log=True) | {tol: 1e-4}
    found = ours(name)(**options)
    if "solve" in name:
        found = [found.plan, found.value, found.value_linear, found.value_quad]

    def check(x):
        if isinstance(x, list | tuple):
            for part in x:
                check(part)
        elif isinstance(x, dict):
            check([part for key, part in x.items() if key not in WORDS])
        else:
            assert isinstance(x, torch.Tensor)
            assert x.dtype == dtype
            assert torch.isfinite(x).all()

    check(found)


def test_torch_is_not_copied(torch):
    plan = gwfast.pot.entropic_gromov_wasserstein(
        torch.from_numpy(C1), torch.from_numpy(C2), epsilon=torch.tensor(EPSILON)
    )
    assert plan.shape == (12, 9)
    plan.numpy()[:] = 3.0
    assert (plan == 3).all()


def test_torch_without_gradients(torch):
    c1, c2 = torch.from_numpy(C1), torch.from_numpy(C2.copy()).requires_grad_()
    solve = gwfast.pot.entropic_gromov_wasserstein
    with torch.no_grad():
        plan = solve(c1, c2, epsilon=EPSILON)
    assert not plan.requires_grad
    np.testing.assert_array_equal(plan.numpy(), solve(c1, c2.detach(), epsilon=EPSILON).numpy())


def test_torch_of_other_kinds(torch):
    solve = gwfast.pot.entropic_gromov_wasserstein
    c1, c2 = torch.from_numpy(C1), torch.from_numpy(C2)
    for wrong, message in (
        (c1.to(torch.bfloat16), "C1 must be"),
        (c1.to(torch.float16), "C1 must be"),
        (c1.to_sparse(), "C1 must"),
        (c1.to("meta"), "C1 must be in the memory of the CPU"),
    ):
        with pytest.raises(TypeError, match=message):
            solve(wrong, c2)
    with pytest.raises(ValueError, match=r"C1 \(torch\), C2 \(numpy\)"):
        solve(c1, C2)
    np.testing.assert_array_equal(
        solve(c1.T, c2, epsilon=EPSILON), solve(C1.T, C2, epsilon=EPSILON)
    )
