"""One large problem on many machines, by Dask: `cluster`; points in files for which no
machine has room: `PointFile`.
"""

from .context import cluster as cluster
from .point_file import PointFile as PointFile
from .team import NoWorkers as NoWorkers

__all__ = ["NoWorkers", "PointFile", "cluster"]
