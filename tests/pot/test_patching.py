"""`gwfast.pot.patch`: an installed POT runs on gwfast, and is itself again after."""

import inspect
import pickle
import sys
import threading
import types
import typing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.pot_calls import loss_and_gradient, pots, same
from helpers.pot_names import LAYERS
from helpers.pot_rows import UNBALANCED, unbalanced
from helpers.pot_spaces import batch, spaces

import gwfast.pot
from gwfast.pot import patching

ot = pytest.importorskip("ot", reason="POT is not installed")
twins = patching.twins
C1, C2, M, P, Q, _ = spaces()
# In a dict, where no one looks for functions to swap.
OWN = {name: pots(name) for name in patching.FUNCTIONS if name not in LAYERS}


def attributes():
    """Return the functions in question of each module of POT, but the deprecated `ot.partial`."""
    return {
        (module.__name__, key): value
        for module in list(sys.modules.values())
        if isinstance(module, types.ModuleType) and module.__name__.partition(".")[0] == "ot"
        for key, value in vars(module).items()
        if key in OWN and module.__name__.partition(".partial")[0] == module.__name__
    }


@pytest.fixture(autouse=True)
def restored():
    before = attributes()
    yield
    gwfast.pot.unpatch()
    assert attributes() == before


def swapped():
    return ot.solve_gromov is twins.solve_gromov


def test_every_module_of_pot_is_swapped_and_restored():
    before = attributes()
    own = "entropic_gromov_wasserstein"
    places = {("ot", "solve_gromov"), ("ot.da", "cg"), ("ot.solvers._gromov", f"{own}2")}
    assert places | {("ot.gromov", own), ("ot.gromov._bregman", own)} <= before.keys()
    with gwfast.pot.patched():
        during = attributes()
    assert during == {place: getattr(twins, place[1]) for place in before}
    assert attributes() == before == {place: OWN[place[1]] for place in before}


def test_twins_are_described_as_the_functions_that_they_call():
    for name in patching.FUNCTIONS:
        own, twin = getattr(gwfast.pot, name), getattr(twins, name)
        # Or unpatching would take it from programs that have imported it from gwfast.
        assert twin is not own and twin.__wrapped__ is own
        assert (own.__name__, twin.__name__, twin.__doc__) == (name, name, own.__doc__)
        assert inspect.signature(twin) == inspect.signature(own)
        # Python 3.10 makes a hint optional if the default is None, which a twin does not have.
        assert twin.__annotations__ == own.__annotations__
        assert typing.get_type_hints(twin).keys() == typing.get_type_hints(own).keys()
        assert all(pickle.loads(pickle.dumps(x)) is x for x in (own, twin))


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise AssertionError(f"{name} was looked up")


def test_modules_that_imported_functions_before_and_meanwhile(monkeypatch):
    name = "entropic_gromov_wasserstein"
    early, late, own = (Lazy(name) for name in ("early", "late", "own"))
    early.gw, own.gw = OWN[name], getattr(gwfast.pot, name)
    for key, module in {"early": early, "own": own, "none": None, "no": object()}.items():
        monkeypatch.setitem(sys.modules, key, module)
    gwfast.pot.patch()
    assert early.gw is getattr(twins, name)
    exec(f"from ot.gromov import {name} as gw", vars(late))
    monkeypatch.setitem(sys.modules, "late", late)
    gwfast.pot.unpatch()
    assert early.gw is late.gw is OWN[name]
    # A program that asked for gwfast keeps it.
    assert own.gw is getattr(gwfast.pot, name)


def test_twice_is_once_and_contexts_nest():
    for change, is_swapped in (("unpatch", 0), ("patch", 1), ("patch", 1), ("unpatch", 0)):
        getattr(gwfast.pot, change)()
        assert swapped() == is_swapped
    with gwfast.pot.patched():
        with gwfast.pot.patched():
            gwfast.pot.unpatch()
        assert swapped()
        gwfast.pot.patch()
    assert swapped()
    gwfast.pot.unpatch()
    with pytest.raises(KeyError), gwfast.pot.patched():
        raise KeyError
    assert not swapped()


def test_threads_swap_together():
    barrier = threading.Barrier(4)

    def swaps(_):
        barrier.wait()
        for _ in range(3):
            with gwfast.pot.patched():
                yield swapped()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda k: all(swaps(k)), range(4)))
    assert not swapped()


def test_without_pot_nothing_is_swapped(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot.gromov", None)
    for swap in (gwfast.pot.patch, gwfast.pot.patched().__enter__):
        with pytest.raises(ImportError, match="pip install POT"):
            swap()
    gwfast.pot.unpatch()
    assert not patching.originals


@pytest.mark.parametrize("version", ["0.9.0", "0.9.70"])
def test_versions_that_were_not_compared_are_a_warning(version, monkeypatch):
    monkeypatch.setattr(ot, "__version__", version)
    with pytest.warns(UserWarning, match=rf"0\.9\.7, .* {version}:") as caught:
        gwfast.pot.patch()
        gwfast.pot.patch()  # no second word
    assert [warning.filename for warning in caught] == [__file__]
    gwfast.pot.unpatch()
    # If it is an error POT stays as it is.
    for swap in (gwfast.pot.patch, gwfast.pot.patched().__enter__):
        with pytest.raises(UserWarning, match=version):
            swap()
        assert not swapped()


def test_calls_served_are_counted():
    """Calls that POT solves, and direct calls of gwfast, are not."""
    name, options = "entropic_gromov_wasserstein", dict(epsilon=0.2, log=True)
    right = getattr(gwfast.pot, name)(C1, C2, P, Q, **options)
    with gwfast.pot.patched() as outer:
        assert repr(outer) == repr(gwfast.pot.report()) == "nothing"
        for _ in range(2):
            same(getattr(ot.gromov, name)(C1, C2, P, Q, **options), right, 0)
        with gwfast.pot.patched() as inner:
            ot.gromov.gromov_wasserstein2(C1, C2, P, Q)
            gwfast.pot.gromov_wasserstein(C1, C2, P, Q)
            with pytest.raises(ValueError, match="C1"):
                ot.gromov.gromov_wasserstein([[np.nan]], C2)
    assert inner == {"gromov_wasserstein2": 1}
    assert outer == gwfast.pot.report() == inner | {name: 2}
    assert repr(outer) == f"{name} 2, gromov_wasserstein2 1"
    # Counts are of the last swap.
    gwfast.pot.patch()
    assert gwfast.pot.report() == {}


@pytest.mark.parametrize("name", ["solve_gromov", "solve_gromov_batch"])
def test_results_are_of_pots_class_while_it_is_swapped(name):
    arguments = batch() if "batch" in name else {"Ca": C1, "Cb": C2, "reg": 0.2}
    right = getattr(gwfast.pot, name)(**arguments)
    with gwfast.pot.patched():
        found = pots(name)(**arguments)
    assert (type(found), type(right)) == (ot.utils.OTResult, gwfast.pot.OTResult)
    same(right, found, 0)
    assert found.status == right.status


@pytest.mark.parametrize(
    "name", ["entropic_gromov_wasserstein", "gromov_wasserstein", "gromov_wasserstein2"]
)
def test_keywords_that_pot_ignores_are_a_warning(name):
    right = OWN[name](C1, C2, P, Q, numItermx=3)
    with gwfast.pot.patched():
        with pytest.warns(UserWarning, match=rf"^{name}\(\) .*numItermx, reg") as caught:
            found = getattr(ot.gromov, name)(C1, C2, P, Q, numItermx=3, reg=2.0)
        # POT heeds what gwfast does not know.
        ot.optim.cg(P, Q, M, 0.5, *losses_of_others()[0], alpha_min=0.0)
        # And checks masses itself.
        with pytest.raises(AssertionError, match="same sum"):
            ot.emd(P, (1 + 1e-5) * Q, M)
    assert [warning.filename for warning in caught] == [__file__]
    same(found, right, 1e-6)


def losses_of_others():
    """Return other losses, with gradients that refer to costs but for the first."""
    f, df = loss_and_gradient(gwfast.pot.init_matrix(C1, C2, P, Q))
    hC1, hC2 = C1, 2 * C2

    def referring(gradient):
        return lambda G: gradient(G) + 0 * (hC1[0, 0] + hC2[0, 0])

    def too_large(G):
        return np.maximum(G - 0.5, 0).sum()

    return [
        (lambda G: 0.5 * (G**2).sum(), np.positive),
        (lambda G: 0.5 * (G**2).sum(), referring(np.positive)),
        (lambda G: -(hC1 @ G @ C2 * G).sum(), referring(lambda G: -hC1 @ G @ hC2)),
        (lambda G: f(G) + 1, df),
        (f, referring(lambda G: df(G) + 1e-3 * G**2)),
        (lambda G: f(G) + too_large(G), referring(lambda G: df(G) + (G > 0.5))),
        loss_and_gradient(gwfast.pot.init_matrix(C1, C2, P[::-1].copy(), Q)),
        # One orientation of asymmetric costs.
        loss_and_gradient(gwfast.pot.init_matrix(*spaces(symmetric=False)[:2], P, Q)),
    ]


def left_to_pot():
    """Yield calls that gwfast does not solve, and the functions that POT calls for them."""
    linear = {"a": P, "b": Q, "M": M}
    several = {"b": np.stack([Q, Q[::-1]], axis=1)}
    for other in (several, {"M": np.where(M < 0.6, M, 1e300)}):
        yield "emd2", linear | other, set()
    start = {"warmstart": (np.zeros(12), np.zeros(9))}
    ended, stabilized = {"stopThr": 0.0, "numItermax": 5}, {"method": "sinkhorn_stabilized"}
    for other in (several, stabilized, start, {"verbose": True}, ended):
        yield "sinkhorn", linear | {"reg": 0.5} | other, set()
    f, df = loss_and_gradient(gwfast.pot.init_matrix(C1, C2, P, Q))
    loop = linear | {"reg": 0.5, "f": f, "df": df, "numItermax": 3}
    for f, df in losses_of_others():
        yield "cg", loop | {"f": f, "df": df}, {"emd"}
    for other in ({"G0": np.ones_like(M) / M.size}, {"reg": -1.0}, {"reg": 0.0}, {"M": 2.0}):
        yield "cg", loop | other, {"emd"}
    pair = {"Ca": C1, "Cb": C2}
    yield "solve_gromov", pair | {"unbalanced": 1.0, "max_iter": 2}, set()
    yield "solve_gromov", pair | {"reg": 0.5, "M": M, "alpha": 0}, set()
    yield "solve_gromov", pair | {"reg": 1.0, "unbalanced": 1.0, "M": M}, {UNBALANCED}
    plain = batch(2, fused=False, starts=False) | {"max_iter_inner": 9}
    vectors = plain | {name: plain[name][..., None] ** [1, 2] for name in ("Ca", "Cb")}
    yield "solve_gromov_batch", vectors, set()
    yield "solve_gromov_batch", vectors | {"loss": "kl", "logits": False}, set()
    yield "solve_gromov_batch", batch(2) | {"alpha": 0.0, "max_iter_inner": 9}, set()
    options = {"epsilon": 0, "unbalanced_solver": "mm", "max_iter": 2, "log": False}
    yield UNBALANCED, unbalanced(3, 2, **options), set()


@pytest.mark.filterwarnings("ignore")  # POT's own
@pytest.mark.parametrize("name, arguments, served", list(left_to_pot()))
def test_other_problems_are_left_to_pot(name, arguments, served):
    theirs = OWN[name](**arguments)
    with gwfast.pot.patched() as calls:
        found = pots(name)(**arguments)
    assert calls.keys() == served
    same(found, theirs, 1e-6 if name == "solve_gromov" else 1e-12, lacks=("log", "potentials"))
    with pytest.raises(NotImplementedError):
        getattr(gwfast.pot, name)(**arguments)


def test_gradients_that_gwfast_lacks_are_left_to_pot():
    torch = pytest.importorskip("torch")
    costs = [torch.from_numpy(x.copy()).requires_grad_() for x in (C1, C2)]
    p, q, cost = map(torch.from_numpy, (P, Q, M.copy()))
    cost.requires_grad_()
    with gwfast.pot.patched() as calls:
        found = ot.gromov.gromov_barycenters(5, costs, max_iter=2, random_state=0)
        ot.gromov.entropic_gromov_wasserstein(*costs, max_iter=2, solver="PPA")
        (ot.emd2(p, q, cost) + (cost * ot.sinkhorn(p, q, cost, 0.5)).sum()).backward()
        for x, linear in ((costs[0], cost.detach()), (costs[0].detach(), cost)):
            terms = gwfast.pot.init_matrix(costs[0].detach(), costs[1].detach(), p, q)
            f, df = loss_and_gradient((terms[0], x, terms[2]))
            ot.optim.cg(p, q, linear, 0.5, f, df, numItermax=2)
    # POT's loops take plans and linear problems, which have no gradients, from here.
    assert calls.keys() <= {"gromov_wasserstein", "emd"}
    found.sum().backward()
    assert float(abs(costs[1].grad).sum()) > 0 and float(abs(cost.grad).sum()) > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_conditional_gradient_of_tensors(dtype):
    torch = pytest.importorskip("torch")
    cost_x, cost_y, cost, p, q = (torch.from_numpy(x.astype(dtype)) for x in (C1, C2, M, P, Q))
    f, df = loss_and_gradient(gwfast.pot.init_matrix(cost_x, cost_y, p, q))
    plan, log = gwfast.pot.cg(p, q, cost, 0.5, f, df, log=True)
    assert plan.dtype == log["loss"][-1].dtype == log["u"].dtype == cost.dtype
    cost.requires_grad_()
    with gwfast.pot.patched() as calls:
        value = ot.gromov.fused_gromov_wasserstein2(cost, cost_x, cost_y)
    value.backward()
    assert calls == {"fused_gromov_wasserstein2": 1} and cost.grad.dtype == cost.dtype
