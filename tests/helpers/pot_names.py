"""The functions of POT by family, and names of their entries and arguments."""

from gwfast.pot import templates

FUSED_TOO = ("gromov_wasserstein", "fused_gromov_wasserstein")
BALANCED = tuple(f"entropic_{name}" for name in FUSED_TOO)
BAPG = tuple(f"BAPG_{name}" for name in FUSED_TOO)
SEMIRELAXED = tuple(f"entropic_semirelaxed_{name}" for name in FUSED_TOO)
PARTIAL = tuple(f"entropic_partial_{name}" for name in FUSED_TOO)
ENTROPIC = BALANCED + BAPG + SEMIRELAXED + PARTIAL
EXACT = tuple(f"{kind}{name}" for kind in ("", "semirelaxed_", "partial_") for name in FUSED_TOO)
DICTIONARIES = tuple(
    f"{name}_{kind}" for kind in ("linear_unmixing", "dictionary_learning") for name in FUSED_TOO
)
EXACT_BARYCENTERS = ("gromov_barycenters", "fgw_barycenters")
SEMIRELAXED_BARYCENTERS = tuple(f"semirelaxed_{name}" for name in EXACT_BARYCENTERS)
LAYERS = tuple(templates.__all__)


def value(name):
    """Return the name of the loss in the log of a function of a plan."""
    kind = "sr" if "semirelaxed" in name else "partial_" if "partial" in name else ""
    return f"{kind}{'f' if 'fused' in name else ''}gw_dist"


def limit(name):
    """Return the name of the limit of outer iterations of a function."""
    return "numItermax" if "partial" in name else "max_iter"
