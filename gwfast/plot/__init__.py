"""Pictures of solves, plans and spaces.

Each function draws into a new figure or the one it is given, returns it, and writes a
file where `path` names one. None goes through pyplot, so that nothing opens and nothing
has to be closed. Needs matplotlib (the extra ``cli``).
"""

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError(
        'gwfast.plot needs matplotlib: pip install "gwfast-ot[cli]"'
    ) from error

from .plans import plot_coupling, plot_couplings
from .solves import plot_candidates, plot_dynamics
from .spaces import (
    plot_dendrogram,
    plot_distance_histograms,
    plot_distances,
    plot_embedding,
)

__all__ = [
    "plot_candidates",
    "plot_coupling",
    "plot_couplings",
    "plot_dendrogram",
    "plot_distance_histograms",
    "plot_distances",
    "plot_dynamics",
    "plot_embedding",
]
