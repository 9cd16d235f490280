"""Pictures of solves, plans and spaces.

Each function draws into a new figure of pyplot, or into the figure or the axes that it is given,
and returns the figure: notebooks show it, and so does ``pyplot.show()``. If `path` names a file,
that is written instead, and nothing opens. Needs matplotlib (the extra ``cli``).
"""

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError('gwfast.plot needs matplotlib: pip install "gwfast-ot[cli]"') from error

from .solves import plot_candidates, plot_dynamics, plot_plan, plot_plans
from .spaces import (
    plot_aligned,
    plot_dendrogram,
    plot_distance_histograms,
    plot_distances,
    plot_embedding,
    plot_slices,
)

__all__ = [
    "plot_aligned",
    "plot_candidates",
    "plot_dendrogram",
    "plot_distance_histograms",
    "plot_distances",
    "plot_dynamics",
    "plot_embedding",
    "plot_plan",
    "plot_plans",
    "plot_slices",
]
