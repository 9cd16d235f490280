"""The block in which large problems are solved by the workers of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..quadratic.linearize import Placement
from ..solvers.options import in_force
from ..utils.validation import as_count
from .sharded import Sharded
from .team import Team

if TYPE_CHECKING:
    from distributed import Client


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
        # Potentials, scalings, masses, sums and what is made of them.
        return 200 * sum(shape)


@contextlib.contextmanager
def placing(placement: Placement) -> Iterator[None]:
    """Have the public functions that are called in a block use a `Placement`."""
    token = in_force.set(placement)
    try:
        yield
    finally:
        in_force.reset(token)


@contextlib.contextmanager
def cluster(
    client: Client, *, n_shards: int | None = None, min_points: int = 10_000
) -> Iterator[None]:
    """Solve large problems in a block by the workers of a Dask cluster.

    The problems have two point clouds and the squared loss. Every worker gets some rows of the
    first cloud, its shard, and all rows of the second. Steps, tolerances, search and results are
    the same as on one machine. The plan stays on the workers, which answer `Coupling.topk`,
    `Coupling.apply`, `Coupling.transform` and `GWResult.match`.

    If a worker dies another worker takes its shards, and a worker that joins takes over a shard
    from a worker with several. The result is the same, because the calling process has all that a
    solve needs to go on. With a `checkpoint` a solve also goes on after the calling process or the
    scheduler died.

    Parameters
    ----------
    client : distributed.Client
        Client of the workers, which need the same version of gwfast. Each worker uses the number
        of threads that Dask gives it, and keeps its part of the kernel as its memory allows, as in
        the tiers of `gromov_wasserstein`.
    n_shards : int or None, default=None
        Number of parts; None is one for each worker. Results are the same for the same number, and
        within rounding for any.
    min_points : int, default=10000
        Problems with fewer points a side (in the geometric mean) are solved here, as
        are the first levels of the search for a start.

    Raises
    ------
    MemoryError
        From a solve, if the shards do not fit the workers.
    NoWorkers
        From a solve, if there is no worker for five minutes, or if workers are lost again and
        again, for example because they run out of memory.
    RuntimeError
        From a solve, if a worker has another version of gwfast, or the client is closed.

    Examples
    --------
    In a script, whose workers import it to find its functions, hence the guard::

        from dask.distributed import Client

        if __name__ == "__main__":
            with Client("tcp://scheduler:8786") as client:
                with gwfast.distributed.cluster(client):
                    result = gwfast.align(x, y)
                    words = result.match()

    With workers in this process:

    >>> import numpy as np, gwfast
    >>> from dask.distributed import Client
    >>> x = np.random.default_rng(0).standard_exponential((300, 8)) * np.arange(1, 9)
    >>> spaces = [gwfast.PointCloud(one, "sqeuclidean") for one in (x, x[::-1])]
    >>> with Client(processes=False, n_workers=2, dashboard_address=None) as client:
    ...     with gwfast.distributed.cluster(client, min_points=100):
    ...         result = gwfast.gromov_wasserstein(*spaces, init="product")
    ...     match = result.coupling.topk(1).indices[:, 0]
    >>> bool((match == np.arange(300)[::-1]).mean() > 0.9)
    True
    """
    if not hasattr(client, "scheduler_info"):
        raise TypeError(f"client must be a distributed.Client, got {type(client).__name__}")
    if client.asynchronous:
        raise ValueError("client must not be asynchronous")
    if n_shards is not None:
        n_shards = as_count(n_shards, "n_shards")
    min_points = as_count(min_points, "min_points")
    from .engine import DaskEngine

    with placing(Cluster(DaskEngine(client), n_shards, min_points)):
        yield
