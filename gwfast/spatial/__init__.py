"""Slices of tissue: spots with coordinates and expression, as AnnData or arrays.

A thin layer: which spot of one slice is above which of another is a fused problem of
`gwfast.gromov_wasserstein`, as PASTE has it. AnnData objects are taken as they are, and
nothing is imported to do so.
"""

from .center import CenterAlignment, center_align
from .matching import SliceAlignment, pairwise_align
from .motions import RigidMotion, stack_slices

__all__ = [
    "CenterAlignment",
    "RigidMotion",
    "SliceAlignment",
    "center_align",
    "pairwise_align",
    "stack_slices",
]
