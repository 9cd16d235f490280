"""The functions of POT by family, arguments for them, and a spy on their solver."""

import dataclasses
import importlib
import warnings

import pytest
from helpers.pot_spaces import spaces

import gwfast.pot
from gwfast.pot import _solve, templates
from gwfast.pot.patching import HOMES

C1, C2, M, P, Q, G0 = spaces()
# Uneven masses and a start that is not their product.
GIVEN = {"C1": C1, "C2": C2, "M": M, "p": P, "q": Q, "G0": G0}
# Without them.
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
    homes = [pytest.importorskip(home) for home in HOMES]
    if name in LAYERS:
        pytest.importorskip("torch")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where torch_geometric is missing
            homes = [importlib.import_module("ot.gnn")]
    return next(getattr(home, name) for home in homes if hasattr(home, name))


def ours(name):
    return getattr(gwfast.pot, name)


def value(name):
    """What the log of that function calls the loss."""
    if name == "emd2":
        return "cost"
    if name.startswith("co_"):
        return "distance"
    if "unbalanced" in name:
        return "fugw_cost"
    kind = "sr" if "semirelaxed" in name else "partial_" if "partial" in name else ""
    return f"{kind}{'f' if 'fused' in name else ''}gw_dist"


def limit(name):
    """What that function calls the limit of outer iterations."""
    return "numItermax" if "partial" in name else "max_iter"


def call(name, given=GIVEN, *, entropy=0.1, mass=0.7, **options):
    """Arguments by their names, of which `given` has the arrays."""
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


class Spy:
    """The solver with entropy, which notes calls, and method, epsilon and limits of each."""

    def __init__(self, monkeypatch, **changes):
        self.calls, self.changes, self.answer = [], changes, _solve._answer
        monkeypatch.setattr(_solve, "_answer", self)

    def __call__(self, call, epsilon, problem, options, descent):
        self.calls.append((call, options.method.name, epsilon, options.limits))
        answer = self.answer(call, epsilon, problem, options, descent)
        return dataclasses.replace(answer, **self.changes)
