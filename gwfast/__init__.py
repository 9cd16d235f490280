"""Fast entropic Gromov-Wasserstein alignment on CPUs.

Start with `align` (two embedding spaces in, correspondences out), or with
`gromov_wasserstein` where you have costs of your own.
"""

from typing import TYPE_CHECKING

from . import pot
from ._version import __version__
from .alignment.align import AlignmentResult, align
from .alignment.procrustes import procrustes
from .alignment.refine import Refinement, RefineStep
from .alignment.retrieval import nearest_neighbors
from .alignment.spaces import AlignedSpaces, load_alignment
from .alignment.two_spaces import TwoSpaces
from .linear.sinkhorn import sinkhorn
from .problems.epsilon import Epsilon
from .problems.factors import LowRankCost
from .problems.geometry import DenseCost, PointCloud, cosine_similarity
from .problems.graphs import GraphCost
from .problems.quadratic import QuadraticProblem
from .results.coupling import Coupling
from .results.neighbors import Neighbors
from .results.pairwise import PairwiseResult
from .results.result import (
    Candidate,
    ConvergenceWarning,
    GWResult,
    LabelTransfer,
    OuterStep,
    SinkhornResult,
)
from .results.verification import Residual, Verification
from .solvers.batch import gromov_wasserstein_batch
from .solvers.gromov import gromov_wasserstein
from .solvers.multistart import multistart, tune_epsilon
from .solvers.pairwise import pairwise_gromov_wasserstein
from .solvers.seeds import Seeds
from .solvers.self_learning import SelfLearning
from .solvers.starts import Profile
from .solvers.verification import verify
from .utils.config import show_config

__all__ = [
    "AlignedSpaces",
    "AlignmentResult",
    "Candidate",
    "ConvergenceWarning",
    "Coupling",
    "DenseCost",
    "Epsilon",
    "GWResult",
    "GraphCost",
    "GromovWassersteinAligner",
    "LabelTransfer",
    "LowRankCost",
    "Neighbors",
    "OuterStep",
    "PairwiseResult",
    "PointCloud",
    "Profile",
    "QuadraticProblem",
    "RefineStep",
    "Refinement",
    "Residual",
    "Seeds",
    "SelfLearning",
    "SinkhornResult",
    "TwoSpaces",
    "Verification",
    "__version__",
    "align",
    "cosine_similarity",
    "gromov_wasserstein",
    "gromov_wasserstein_batch",
    "load_alignment",
    "multistart",
    "nearest_neighbors",
    "pairwise_gromov_wasserstein",
    "pot",
    "procrustes",
    "show_config",
    "sinkhorn",
    "tune_epsilon",
    "verify",
]

if TYPE_CHECKING:
    from .alignment.estimator import GromovWassersteinAligner
else:

    def __getattr__(name):
        if name == "GromovWassersteinAligner":  # scikit-learn takes a second to import
            from .alignment.estimator import GromovWassersteinAligner

            return globals().setdefault(name, GromovWassersteinAligner)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
