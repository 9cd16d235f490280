"""Fast entropic Gromov-Wasserstein alignment on CPUs.

Start with `align` (two embedding spaces in, correspondences out), or with
`gromov_wasserstein` where you have costs of your own.
"""

from ._config import show_config
from ._version import __version__
from .align import AlignmentResult, align
from .geometry import DenseCost, PointCloud, cosine_similarity
from .gromov import gromov_wasserstein
from .result import ConvergenceWarning, GWResult, OuterStep, SinkhornResult
from .retrieval import Neighbors, nearest_neighbors
from .sinkhorn import sinkhorn

__all__ = [
    "AlignmentResult",
    "ConvergenceWarning",
    "DenseCost",
    "GWResult",
    "Neighbors",
    "OuterStep",
    "PointCloud",
    "SinkhornResult",
    "__version__",
    "align",
    "cosine_similarity",
    "gromov_wasserstein",
    "nearest_neighbors",
    "show_config",
    "sinkhorn",
]
