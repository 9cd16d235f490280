"""The functions of POT by family, arguments for them, and a spy on their solver."""

import dataclasses

import pytest
from helpers.pot_spaces import spaces

from gwfast.pot import _problem

C1, C2, M, P, Q, G0 = spaces()
BALANCED = ("entropic_gromov_wasserstein", "entropic_fused_gromov_wasserstein")
BAPG = ("BAPG_gromov_wasserstein", "BAPG_fused_gromov_wasserstein")
SEMIRELAXED = (
    "entropic_semirelaxed_gromov_wasserstein",
    "entropic_semirelaxed_fused_gromov_wasserstein",
)
PARTIAL = (
    "entropic_partial_gromov_wasserstein",
    "entropic_partial_fused_gromov_wasserstein",
)
# Without entropy.
EXACT = tuple(
    f"{kind}{fused}gromov_wasserstein"
    for kind in ("", "semirelaxed_", "partial_")
    for fused in ("", "fused_")
)
EXACT_BARYCENTERS = ("gromov_barycenters", "fgw_barycenters")
ONES = BALANCED + BAPG + SEMIRELAXED + PARTIAL
# What each of them calls its value in the log.
KINDS = ("gw", "fgw", "gw", "fgw", "srgw", "srfgw", "partial_gw", "partial_fgw")
VALUES = {name: f"{kind}_dist" for name, kind in zip(ONES, KINDS, strict=True)}


def pots(name):
    """POT's function of that name."""
    ot = pytest.importorskip("ot")
    return getattr(ot.gromov, name, None) or getattr(ot, name)


def arguments(name, *, symmetric=True, given=True):
    """Arrays of a call, with marginals and a start where they are to be given."""
    c1, c2, m, p, q, g0 = spaces(symmetric=symmetric)
    arrays = (m, c1, c2) if "fused" in name else (c1, c2)
    options = {}
    if given:
        options |= {"p": p, "G0": g0}
        if name not in SEMIRELAXED:
            options["q"] = q
    if name in PARTIAL:
        # POT takes a second for twenty of them.
        options |= {"m": 0.7, "numItermax": 11}
        if given:
            options["G0"] = 0.7 * g0
    return arrays, options


def regularized(name, epsilon):
    return {"reg" if name in PARTIAL else "epsilon": epsilon}


class Spy:
    """The solver, which notes what it is asked."""

    def __init__(self, monkeypatch, **changes):
        self.calls, self.changes, self.solve = [], changes, _problem.solve
        monkeypatch.setattr(_problem, "solve", self)

    def __call__(self, *arrays, **options):
        self.calls.append((arrays, options))
        return dataclasses.replace(self.solve(*arrays, **options), **self.changes)
