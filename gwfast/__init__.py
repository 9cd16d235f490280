"""Fast entropic Gromov-Wasserstein alignment on CPUs.

Start with `align` (two embedding spaces in, correspondences out), or with
`gromov_wasserstein` where you have costs of your own.
"""

from . import pot
from ._config import show_config
from ._version import __version__
from .align import AlignmentResult, align
from .batch import gromov_wasserstein_batch
from .coupling import Coupling
from .epsilon import Epsilon
from .estimator import GromovWassersteinAligner
from .geometry import DenseCost, PointCloud, cosine_similarity
from .gromov import gromov_wasserstein
from .initial import Profile, Seeds
from .multistart import multistart, tune_epsilon
from .problem import QuadraticProblem
from .procrustes import procrustes
from .refine import Refinement, RefineStep
from .result import Candidate, ConvergenceWarning, GWResult, OuterStep, SinkhornResult
from .retrieval import Neighbors, nearest_neighbors
from .sinkhorn import sinkhorn

__all__ = [
    "AlignmentResult",
    "Candidate",
    "ConvergenceWarning",
    "Coupling",
    "DenseCost",
    "Epsilon",
    "GWResult",
    "GromovWassersteinAligner",
    "Neighbors",
    "OuterStep",
    "PointCloud",
    "Profile",
    "QuadraticProblem",
    "RefineStep",
    "Refinement",
    "Seeds",
    "SinkhornResult",
    "__version__",
    "align",
    "cosine_similarity",
    "gromov_wasserstein",
    "gromov_wasserstein_batch",
    "multistart",
    "nearest_neighbors",
    "pot",
    "procrustes",
    "show_config",
    "sinkhorn",
    "tune_epsilon",
]
