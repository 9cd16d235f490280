"""One large problem on many machines, by Dask: `cluster`; points in files for which no
machine has room: `PointFile`.
"""

from .context import cluster as cluster
from .cost_model import Machine as Machine
from .cost_model import Prediction as Prediction
from .cost_model import Rate as Rate
from .cost_model import measure as measure
from .cost_model import predict as predict
from .point_file import PointFile as PointFile
from .team import NoWorkers as NoWorkers

__all__ = [
    "Machine",
    "NoWorkers",
    "PointFile",
    "Prediction",
    "Rate",
    "cluster",
    "measure",
    "predict",
]
