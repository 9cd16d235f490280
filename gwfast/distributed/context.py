"""The block in which large problems are solved by the workers of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..quadratic.placement import Placement, placing
from ..utils.validation import as_count
from .sharded import Sharded
from .team import Team

if TYPE_CHECKING:
    from distributed import Client

# Points a side (in the geometric mean) from which on a problem is worth the messages.
MIN_POINTS = 10_000
# Vectors with an entry for each point that a solve has in this process: potentials,
# scalings, masses, sums and what is made of them.
VECTORS = 200


class Cluster(Placement):
    """Shards of every problem that is large enough."""

    def __init__(self, engine, n_shards, min_points):
        self._engine, self._n_shards = engine, n_shards
        self._min_points = min_points

    def takes(self, problem):
        n, m = problem.shape
        return n * m >= self._min_points**2

    def linearize(self, problem, n_threads, tier):
        n_shards = self._n_shards or len(self._engine.wait())
        team = Team(self._engine, problem, tier, n_shards)
        return Sharded(problem, n_threads, team)

    def nbytes(self, shape):
        return VECTORS * sum(shape)

    def map(self, function, items):
        return self._engine.map(function, items)


@contextlib.contextmanager
def cluster(
    client: Client, *, n_shards: int | None = None, min_points: int = MIN_POINTS
) -> Iterator[None]:
    """A block in which large problems are solved by the workers of a Dask cluster."""
    from .engine import DaskEngine

    if n_shards is not None:
        n_shards = as_count(n_shards, "n_shards")
    min_points = as_count(min_points, "min_points")
    with placing(Cluster(DaskEngine(client), n_shards, min_points)):
        yield
