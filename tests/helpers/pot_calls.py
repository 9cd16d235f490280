"""The functions of POT by family, rows of calls of them, and how results are compared."""

import dataclasses
import importlib
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from helpers.pot_spaces import spaces

import gwfast.pot
from gwfast.pot import _solve, patching, templates
from gwfast.results.status import Ending

C1, C2, M, P, Q, G0 = spaces()
# Uneven masses and a start that is not their product.
GIVEN = {"C1": C1, "C2": C2, "M": M, "p": P, "q": Q, "G0": G0}
# Without masses and start.
PLAIN = {"C1": C1, "C2": C2, "M": M}
BALANCED = ("entropic_gromov_wasserstein", "entropic_fused_gromov_wasserstein")
BAPG = ("BAPG_gromov_wasserstein", "BAPG_fused_gromov_wasserstein")
SEMIRELAXED = (
    "entropic_semirelaxed_gromov_wasserstein",
    "entropic_semirelaxed_fused_gromov_wasserstein",
)
PARTIAL = ("entropic_partial_gromov_wasserstein", "entropic_partial_fused_gromov_wasserstein")
ENTROPIC = BALANCED + BAPG + SEMIRELAXED + PARTIAL
EXACT = tuple(
    f"{kind}{fused}gromov_wasserstein"
    for kind in ("", "semirelaxed_", "partial_")
    for fused in ("", "fused_")
)
DICTIONARIES = tuple(
    f"{fused}gromov_wasserstein_{kind}"
    for kind in ("linear_unmixing", "dictionary_learning")
    for fused in ("", "fused_")
)
EXACT_BARYCENTERS = ("gromov_barycenters", "fgw_barycenters")
SEMIRELAXED_BARYCENTERS = tuple(f"semirelaxed_{name}" for name in EXACT_BARYCENTERS)


LAYERS = tuple(templates.__all__)


def pots(name):
    """POT's function of that name."""
    homes = [pytest.importorskip(home) for home in patching.HOMES]
    if name in LAYERS:
        pytest.importorskip("torch")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where torch_geometric is missing
            homes = [importlib.import_module("ot.gnn")]
    return next(getattr(home, name) for home in homes if hasattr(home, name))


def ours(name):
    return getattr(gwfast.pot, name)


def value(name):
    """Return the name of the loss in the log of a function."""
    if name == "emd2":
        return "cost"
    if name.startswith("co_"):
        return "distance"
    if "unbalanced" in name:
        return "fugw_cost"
    kind = "sr" if "semirelaxed" in name else "partial_" if "partial" in name else ""
    return f"{kind}{'f' if 'fused' in name else ''}gw_dist"


def limit(name):
    """Return the name of the limit of outer iterations of a function."""
    return "numItermax" if "partial" in name else "max_iter"


def call(name, given=GIVEN, *, entropy=0.1, mass=0.7, **options):
    """Return arguments by their names; `given` has the arrays."""
    lacks = () if "fused" in name else ("M",)
    lacks += ("q",) if "semirelaxed" in name else ()
    made = {key: x for key, x in given.items() if key not in lacks}
    if name not in EXACT:
        made["reg" if "partial" in name else "epsilon"] = entropy
    if "partial" in name:
        made["m"] = mass
        if "G0" in made:
            made["G0"] = mass / made["p"].sum() * made["G0"]
    return made | options


def batch(size=4, n=7, m=5, *, fused=True, starts=True, symmetric=True):
    """Return arguments of three steps of several problems, with linear problems that end exact."""
    cases = [spaces(n, m, seed, symmetric=symmetric) for seed in range(size)]
    names = ["Ca", "Cb", "M", "a", "b", "T_init"]
    arrays = {name: np.array(x) for name, x in zip(names, zip(*cases, strict=True), strict=True)}
    if not starts:
        del arrays["T_init"]
    if not fused:
        del arrays["M"]
    options = {"reg": 0.1, "max_iter": 3, "tol": 0.0, "max_iter_inner": 1000, "tol_inner": 1e-10}
    return arrays | options | ({"alpha": 0.7} if fused else {})


class Row(NamedTuple):
    """A call of a function that POT has, too."""

    name: str
    arguments: dict
    close: float  # how far any number may be from POT's, over the largest of its array
    but: dict  # other bounds, by the names of entries; None is any number
    lacks: tuple  # entries of POT's log that are not in the log here

    def __str__(self):
        simple = {key: x for key, x in self.arguments.items() if np.isscalar(x) and key != "log"}
        return "-".join([self.name, *(f"{key}={x}" for key, x in simple.items())])


def row(name, *, close=1e-9, but=(), lacks=(), **arguments):
    return Row(name, arguments, close, dict(but), tuple(lacks))


def converted(x, convert):
    """Return arguments with `convert` of the arrays of floats in them."""
    if isinstance(x, dict):
        return {key: converted(part, convert) for key, part in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(converted(part, convert) for part in x)
    return convert(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def frozen(x):
    """Return a read-only copy of an array."""
    x = x.copy()
    x.flags.writeable = False
    return x


def is_number(x):
    return not isinstance(x, list | tuple) and np.ndim(x) == 0


def same(found, theirs, close=1e-9, but=(), lacks=()):
    """Assert that results are POT's: entries, shapes, dtypes and numbers.

    A log has all that POT's has but what it `lacks`. Lists of numbers may be an iteration shorter
    or longer; if their bound in `but` is not `close`, only their first number counts.
    """
    if hasattr(theirs, "plan"):  # an OTResult
        names = {"plan", "value", "value_linear", "value_quad", "potentials", "log"} - {*lacks}
        found, theirs = ({name: getattr(x, name) for name in names} for x in (found, theirs))
    if isinstance(theirs, dict):
        assert theirs.keys() - found.keys() == {*lacks} & theirs.keys()
        for key in theirs.keys() - {*lacks}:
            bound = dict(but).get(key, close)
            if bound is not None:
                numbers = [
                    x[:1] if bound != close and isinstance(x, list) else x
                    for x in (found[key], theirs[key])
                ]
                same(*numbers, bound, but, lacks)
    elif isinstance(theirs, list | tuple):
        assert isinstance(found, list | tuple)
        shorter = min(len(found), len(theirs))
        if all(map(is_number, theirs)):
            assert abs(len(found) - len(theirs)) <= 1
            found, theirs = found[:shorter], theirs[:shorter]
        for one, other in zip(found, theirs, strict=True):
            same(one, other, close, but, lacks)
    elif theirs is None or isinstance(theirs, str | int):
        assert found == theirs
    else:
        found, theirs = np.asarray(found), np.asarray(theirs)
        assert (found.dtype, found.shape) == (theirs.dtype, theirs.shape)
        largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)
        np.testing.assert_allclose(found, theirs, rtol=0, atol=close * largest + 1e-15)


class Spy:
    """The solver with entropy, which notes calls, and method, epsilon and limits of each; fields
    of its answers may be changed.
    """

    MAX_INNER, CYCLE = Ending.MAX_INNER, Ending.CYCLE

    def __init__(self, monkeypatch, **changes):
        self.calls, self.changes, self.answer = [], changes, _solve._answer
        monkeypatch.setattr(_solve, "_answer", self)

    def __call__(self, call, epsilon, problem, options, descent):
        self.calls.append((call, options.method.name, epsilon, options.limits))
        answer = self.answer(call, epsilon, problem, options, descent)
        return dataclasses.replace(answer, **self.changes)
