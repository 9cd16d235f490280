"""The functions of POT by family, arguments for them, and a spy on their solver."""

import dataclasses

import pytest
from helpers.pot_spaces import spaces

from gwfast.pot import _solve

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
VALUES = dict(
    zip(
        ONES,
        (
            "gw_dist",
            "fgw_dist",
            "gw_dist",
            "fgw_dist",
            "srgw_dist",
            "srfgw_dist",
            "partial_gw_dist",
            "partial_fgw_dist",
        ),
        strict=True,
    )
)


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
    """The solver, which notes the problems and the options that it is given."""

    def __init__(self, monkeypatch, **changes):
        self.calls, self.changes, self.solved = [], changes, _solve.solved
        monkeypatch.setattr(_solve, "solved", self)

    def __call__(self, problem, **options):
        self.calls.append((problem, options))
        return dataclasses.replace(self.solved(problem, **options), **self.changes)
