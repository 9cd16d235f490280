"""Single cells that were measured in two ways: AnnData in, AnnData out.

Cells become graphs of nearest neighbors, lengths of paths in the graphs are costs, and
`gwfast.gromov_wasserstein` matches them. AnnData objects are read without importing anndata.
"""

from .matching import align
from .neighbors import neighbor_costs
from .representation import principal_components
from .scores import foscttm

__all__ = ["align", "foscttm", "neighbor_costs", "principal_components"]
