"""Single cells that were measured in two ways: AnnData in, AnnData out.

Cells become graphs of nearest neighbors, lengths of paths in the graphs are costs, and
`gwfast.gromov_wasserstein` matches them. AnnData objects are read without importing anndata.
"""

from .cells import foscttm, neighbor_costs, principal_components
from .matching import align

__all__ = ["align", "foscttm", "neighbor_costs", "principal_components"]
