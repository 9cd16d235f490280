"""Single cells that were measured in two ways: AnnData in, AnnData out.

A thin layer: cells become graphs of nearest neighbors, the lengths of paths in these
are costs, and `gwfast.gromov_wasserstein` does the rest. AnnData objects are taken as
they are, and nothing is imported to do so.
"""

from .matching import CellAlignment, Tried, align
from .neighbors import neighbor_costs
from .representation import principal_components
from .scores import foscttm

__all__ = ["CellAlignment", "Tried", "align", "foscttm", "neighbor_costs", "principal_components"]
