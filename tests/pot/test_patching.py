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
from helpers.pot_calls import LAYERS, pots
from helpers.pot_spaces import spaces

import gwfast.pot
from gwfast.pot import patching

NAMES, twins = tuple(patching.FUNCTIONS), patching.twins

ot = pytest.importorskip("ot")
C1, C2, M, P, Q, _ = spaces()
# In a dict, where no one looks for functions to swap.
OWN = {name: pots(name) for name in NAMES if name not in LAYERS}


def attributes():
    """What every module of POT has by the names in question; `ot.partial` has some of
    its own, deprecated.
    """
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


def test_every_module_of_pot_is_swapped_and_restored():
    before = attributes()
    places = {
        ("ot", "solve_gromov"),
        ("ot.da", "cg"),
        ("ot.optim", "cg"),
        ("ot.solvers", "solve_gromov"),
        ("ot.solvers._gromov", "entropic_gromov_wasserstein2"),
        ("ot.gromov", "entropic_gromov_wasserstein"),
        ("ot.gromov._bregman", "entropic_gromov_wasserstein"),
        ("ot.gromov._partial", "entropic_partial_gromov_wasserstein"),
        ("ot.gromov._semirelaxed", "entropic_semirelaxed_gromov_wasserstein"),
    }
    assert places <= before.keys()
    with gwfast.pot.patched():
        during = attributes()
    assert during.keys() == before.keys() == attributes().keys()
    for place, function in during.items():
        assert before[place] is OWN[place[1]]
        assert function is getattr(twins, place[1])
        assert attributes()[place] is before[place]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_swapped_in_is_gwfasts(name):
    ours, twin = getattr(gwfast.pot, name), getattr(twins, name)
    # Or unpatching would take it from those who have imported it from gwfast.
    assert twin is not ours
    assert twin.__wrapped__ is ours
    assert twin.__name__ == name
    assert twin.__doc__ == ours.__doc__
    assert inspect.signature(twin) == inspect.signature(ours)
    assert typing.get_type_hints(twin) == typing.get_type_hints(ours)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert pickle.loads(pickle.dumps(twin)) is twin


def test_calls_through_pot_are_gwfasts():
    options = dict(epsilon=0.2, log=True)
    with gwfast.pot.patched():
        plan, log = ot.gromov.entropic_gromov_wasserstein(C1, C2, P, Q, **options)
    assert log["status"] == "converged"
    right, _ = gwfast.pot.entropic_gromov_wasserstein(C1, C2, P, Q, **options)
    np.testing.assert_array_equal(plan, right)
    _, log = ot.gromov.entropic_gromov_wasserstein(C1, C2, P, Q, **options)
    assert "status" not in log


def test_modules_that_imported_them_before_and_meanwhile(monkeypatch):
    name = "entropic_gromov_wasserstein"
    early, late, own = (types.ModuleType(f"{x}_comer") for x in ("e", "l", "o"))
    early.gw = OWN[name]
    own.gw = getattr(gwfast.pot, name)
    for module in (early, own):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    gwfast.pot.patch()
    assert early.gw is getattr(twins, name)
    exec(f"from ot.gromov import {name} as gw", vars(late))
    monkeypatch.setitem(sys.modules, late.__name__, late)
    assert late.gw is getattr(twins, name)
    gwfast.pot.unpatch()
    assert early.gw is late.gw is OWN[name]
    # Who asked for gwfast keeps it.
    assert own.gw is getattr(gwfast.pot, name)


def test_modules_that_import_lazily_are_left_alone(monkeypatch):
    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            raise AssertionError(f"{name} was looked up")

    for name, module in {"lazy": Lazy("lazy"), "none": None, "no": object()}.items():
        monkeypatch.setitem(sys.modules, name, module)
    with gwfast.pot.patched():
        pass


def swapped():
    return ot.solve_gromov is twins.solve_gromov


def test_twice_is_once():
    for change, is_swapped in (
        (gwfast.pot.unpatch, False),
        (gwfast.pot.patch, True),
        (gwfast.pot.patch, True),
        (gwfast.pot.unpatch, False),
        (gwfast.pot.unpatch, False),
    ):
        change()
        assert swapped() is is_swapped


def test_contexts_nest():
    with gwfast.pot.patched():
        with gwfast.pot.patched():
            assert swapped()
        assert swapped()
        gwfast.pot.unpatch()
        assert swapped()
        gwfast.pot.patch()
    assert swapped()
    with gwfast.pot.patched():
        pass
    assert swapped()
    gwfast.pot.unpatch()
    with pytest.raises(KeyError), gwfast.pot.patched():
        raise KeyError
    assert not swapped()


def test_threads():
    barrier = threading.Barrier(8)

    def swaps(_):
        barrier.wait()
        for _ in range(5):
            with gwfast.pot.patched():
                yield swapped()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda k: all(swaps(k)), range(8)))
    assert not swapped()


def test_without_pot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot.gromov", None)
    for swap in (gwfast.pot.patch, gwfast.pot.patched().__enter__):
        with pytest.raises(ImportError, match="pip install POT"):
            swap()
    gwfast.pot.unpatch()
    assert not patching.originals


@pytest.mark.parametrize(
    "name", ["entropic_gromov_wasserstein", "gromov_wasserstein", "gromov_wasserstein2"]
)
def test_keywords_that_pot_ignores_are_a_warning(name):
    """There only: called directly they are an error."""
    right = OWN[name](C1, C2, P, Q, numItermx=3)
    keywords = {"numItermx": 3, "reg": 2.0}
    with gwfast.pot.patched():
        message = rf"^{name}\(\) ignores numItermx, reg: "
        with pytest.warns(UserWarning, match=message) as caught:
            found = getattr(ot.gromov, name)(C1, C2, P, Q, **keywords)
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_allclose(found, right, atol=1e-6)
    with pytest.raises(TypeError, match=rf"^{name}\(\) got"):
        getattr(gwfast.pot, name)(C1, C2, P, Q, **keywords)


def test_keywords_that_pot_refuses_are_an_error():
    name = "entropic_partial_gromov_wasserstein"
    for function in (OWN[name], getattr(twins, name)):
        with gwfast.pot.patched(), pytest.raises(TypeError, match="numItermx"):
            function(C1, C2, P, Q, numItermx=3)


def test_gradients_of_barycenters_are_left_to_pot():
    torch = pytest.importorskip("torch")
    costs = [torch.from_numpy(x.copy()).requires_grad_() for x in (C1, C2)]
    with gwfast.pot.patched() as calls:
        found = ot.gromov.gromov_barycenters(5, costs, max_iter=2, random_state=0)
    # POT's loop takes its plans, which have no gradients, from here.
    assert found.requires_grad and calls.keys() == {"gromov_wasserstein"}
    found.sum().backward()
    assert float(abs(costs[1].grad).sum()) > 0


@pytest.mark.filterwarnings("ignore")  # POT's own, and of an alpha without M
@pytest.mark.parametrize(
    "options",
    [
        {"unbalanced": 1.0, "max_iter": 5},
        {"reg": 0.5, "M": M, "alpha": 0},
        # POT's own takes these plans from here.
        {"reg": 1.0, "unbalanced": 1.0},
        {"reg": 1.0, "unbalanced": 1.0, "M": M},
    ],
)
def test_solve_gromov_leaves_the_rest_to_pot(options):
    theirs = OWN["solve_gromov"](C1, C2, **options)
    with gwfast.pot.patched() as calls:
        found = ot.solve_gromov(C1, C2, **options)
    ours = options.get("reg") == 1.0
    assert calls == ({"fused_unbalanced_gromov_wasserstein": 1} if ours else {})
    np.testing.assert_allclose(found.plan, theirs.plan, rtol=1e-6 if ours else 0)
    assert found.value == pytest.approx(theirs.value, rel=1e-6 if ours else 0)
    with pytest.raises(NotImplementedError):
        gwfast.pot.solve_gromov(C1, C2, **options)


def test_solve_gromov_returns_pots_result():
    with gwfast.pot.patched():
        found = ot.solve_gromov(C1, C2, reg=0.2)
    assert type(found) is ot.utils.OTResult
    right = gwfast.pot.solve_gromov(C1, C2, reg=0.2)
    assert type(right) is gwfast.pot.OTResult
    np.testing.assert_array_equal(found.plan, right.plan)
    np.testing.assert_array_equal(found.marginal_a, right.marginal_a)
    assert (found.value, found.status) == (right.value, right.status)


def test_calls_served_are_counted():
    """Those that POT solves itself, and those called here directly, are not."""
    name = "entropic_gromov_wasserstein"
    with gwfast.pot.patched() as outer:
        assert repr(outer) == repr(gwfast.pot.report()) == "nothing"
        for _ in range(2):
            getattr(ot.gromov, name)(C1, C2, P, Q, epsilon=0.2)
        with gwfast.pot.patched() as inner:
            ot.gromov.gromov_wasserstein2(C1, C2, P, Q)
            # POT's, of a loss that is none of gwfast's, but for its linear problems.
            f, df = (lambda G: (G**2).sum()), (lambda G: 2 * G)
            ot.optim.cg(P, Q, M, 1.0, f, df, numItermax=3)
            gwfast.pot.gromov_wasserstein(C1, C2, P, Q)
            with pytest.raises(ValueError, match="C1"):
                ot.gromov.gromov_wasserstein([[np.nan]], C2)
    assert inner == {"gromov_wasserstein2": 1, "emd": 3}
    assert outer == gwfast.pot.report() == inner | {name: 2}
    assert repr(outer) == f"emd 3, {name} 2, gromov_wasserstein2 1"
    # They are of the last swap.
    gwfast.pot.patch()
    assert gwfast.pot.report() == {}
    gwfast.pot.unpatch()


@pytest.mark.parametrize("version", ["0.9.0", "0.9.70", "1.0"])
def test_versions_that_were_not_compared_are_a_warning(version, monkeypatch):
    monkeypatch.setattr(ot, "__version__", version)
    message = rf"compared with POT 0\.9\.7, not with POT {version}:"
    with pytest.warns(UserWarning, match=message) as caught:
        gwfast.pot.patch()
    gwfast.pot.patch()  # no second word
    gwfast.pot.unpatch()
    with pytest.warns(UserWarning, match=message) as also, gwfast.pot.patched():
        pass
    assert {warning.filename for warning in [*caught, *also]} == {__file__}
    # Where it is an error POT stays as it is.
    for swap in (gwfast.pot.patch, gwfast.pot.patched().__enter__):
        with pytest.raises(UserWarning, match=message):
            swap()
        assert not swapped()
    monkeypatch.undo()
    with gwfast.pot.patched():
        pass
    assert not swapped()
