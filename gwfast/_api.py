"""The public names; `gwfast` has them all, and the names that `gwfast.__init__` adds."""

from .alignment.align import align
from .alignment.aligned import Alignment
from .alignment.maps import procrustes
from .alignment.retrieval import nearest_neighbors
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
    "Alignment",
    "ConvergenceWarning",
    "CrossCost",
    "Epsilon",
    "GWResult",
    "GraphCost",
    "Partial",
    "PointCloud",
    "QuadraticProblem",
    "Seeds",
    "SolverOptions",
    "Unbalanced",
    "align",
    "cosine_similarity",
    "gromov_wasserstein",
    "gromov_wasserstein_batch",
    "nearest_neighbors",
    "pairwise_gromov_wasserstein",
    "procrustes",
    "show_config",
    "sinkhorn",
    "tune_epsilon",
    "verify",
]
