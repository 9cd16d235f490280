"""A fast backend for users of POT: its entropic Gromov-Wasserstein functions, with its
names, arguments, conventions and answers.

``from gwfast import pot as gromov`` in place of ``from ot import gromov``; or `patch`,
to swap the functions of an installed POT for these. What differs is in DIFFERENCES.md,
beside this file.
"""

from .balanced import (
    entropic_fused_gromov_wasserstein,
    entropic_fused_gromov_wasserstein2,
    entropic_gromov_wasserstein,
    entropic_gromov_wasserstein2,
)
from .bapg import (
    BAPG_fused_gromov_wasserstein,
    BAPG_fused_gromov_wasserstein2,
    BAPG_gromov_wasserstein,
    BAPG_gromov_wasserstein2,
)
from .barycenters import entropic_fused_gromov_barycenters, entropic_gromov_barycenters
from .partial import (
    entropic_partial_fused_gromov_wasserstein,
    entropic_partial_fused_gromov_wasserstein2,
    entropic_partial_gromov_wasserstein,
    entropic_partial_gromov_wasserstein2,
)
from .patching import patch, patched, unpatch
from .semirelaxed import (
    entropic_semirelaxed_fused_gromov_wasserstein,
    entropic_semirelaxed_fused_gromov_wasserstein2,
    entropic_semirelaxed_gromov_wasserstein,
    entropic_semirelaxed_gromov_wasserstein2,
)
from .unified import OTResult, solve_gromov

__all__ = [
    "BAPG_fused_gromov_wasserstein",
    "BAPG_fused_gromov_wasserstein2",
    "BAPG_gromov_wasserstein",
    "BAPG_gromov_wasserstein2",
    "OTResult",
    "entropic_fused_gromov_barycenters",
    "entropic_fused_gromov_wasserstein",
    "entropic_fused_gromov_wasserstein2",
    "entropic_gromov_barycenters",
    "entropic_gromov_wasserstein",
    "entropic_gromov_wasserstein2",
    "entropic_partial_fused_gromov_wasserstein",
    "entropic_partial_fused_gromov_wasserstein2",
    "entropic_partial_gromov_wasserstein",
    "entropic_partial_gromov_wasserstein2",
    "entropic_semirelaxed_fused_gromov_wasserstein",
    "entropic_semirelaxed_fused_gromov_wasserstein2",
    "entropic_semirelaxed_gromov_wasserstein",
    "entropic_semirelaxed_gromov_wasserstein2",
    "patch",
    "patched",
    "solve_gromov",
    "unpatch",
]
