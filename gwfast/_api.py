"""The public names; `gwfast` has them all, and those that `gwfast.__init__` adds."""

from .alignment.align import AlignmentResult, align
from .alignment.procrustes import procrustes
from .alignment.refine import Refinement, RefineStep
from .alignment.retrieval import nearest_neighbors
from .alignment.spaces import AlignedSpaces, load_alignment
from .alignment.two_spaces import TwoSpaces
from .linear.marginals import Partial, Unbalanced
from .linear.sinkhorn import sinkhorn
from .problems.cross_cost import CrossCost
from .problems.epsilon import Epsilon
from .problems.geometry import PointCloud, cosine_similarity
from .problems.graphs import GraphCost
from .problems.quadratic import QuadraticProblem
from .results.result import ConvergenceWarning, GWResult
from .solvers.batch import gromov_wasserstein_batch
from .solvers.gromov import gromov_wasserstein
from .solvers.options import SolverOptions
from .solvers.pairwise import pairwise_gromov_wasserstein
from .solvers.search.seeds import Seeds
from .solvers.tuning import tune_epsilon
from .solvers.verification import verify
from .utils.config import show_config

__all__ = [
    "AlignedSpaces",
    "AlignmentResult",
    "ConvergenceWarning",
    "CrossCost",
    "Epsilon",
    "GWResult",
    "GraphCost",
    "Partial",
    "PointCloud",
    "QuadraticProblem",
    "RefineStep",
    "Refinement",
    "Seeds",
    "SolverOptions",
    "TwoSpaces",
    "Unbalanced",
    "align",
    "cosine_similarity",
    "gromov_wasserstein",
    "gromov_wasserstein_batch",
    "load_alignment",
    "nearest_neighbors",
    "pairwise_gromov_wasserstein",
    "procrustes",
    "show_config",
    "sinkhorn",
    "tune_epsilon",
    "verify",
]
