"""Rows of calls of POT's functions, and how their results are compared."""

import importlib
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from helpers.pot_names import EXACT, LAYERS
from helpers.pot_spaces import GIVEN

import gwfast.pot
from gwfast.pot import patching


def pots(name):
    """Return POT's function of that name."""
    homes = [pytest.importorskip(home) for home in patching.HOMES]
    if name in LAYERS:
        pytest.importorskip("torch")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a lack of torch_geometric
            homes = [importlib.import_module("ot.gnn")]
    return next(getattr(home, name) for home in homes if hasattr(home, name))


def ours(name):
    return getattr(gwfast.pot, name)


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


def loss_and_gradient(terms):
    """Return the functions of plans that loops like PASTE's hand to `cg`."""
    constC, hC1, hC2 = terms
    return (
        lambda G: gwfast.pot.gwloss(constC, hC1, hC2, G),
        lambda G: gwfast.pot.gwggrad(constC, hC1, hC2, G),
    )


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
                n = 1 if bound != close and isinstance(found[key], list) else None
                pair = (x[:n] if n else x for x in (found[key], theirs[key]))
                same(*pair, bound, but, lacks)
    elif isinstance(theirs, list | tuple):
        assert isinstance(found, list | tuple)
        if not any(isinstance(x, list | tuple) or np.ndim(x) for x in theirs):
            assert abs(len(found) - len(theirs)) <= 1
            shorter = min(len(found), len(theirs))
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
