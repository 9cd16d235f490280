"""Slices of tissue: spots with coordinates and expression, as AnnData or arrays.

The match of two slices is a fused problem of `gwfast.gromov_wasserstein`, as in PASTE. AnnData
objects are read without importing anndata.
"""

from .center import center_align
from .matching import pairwise_align
from .slices import stack_slices

__all__ = ["center_align", "pairwise_align", "stack_slices"]
