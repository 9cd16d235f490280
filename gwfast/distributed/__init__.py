"""One large problem on many machines, by Dask: `cluster`."""

from .context import cluster as cluster
from .team import NoWorkers as NoWorkers

__all__ = ["NoWorkers", "cluster"]
