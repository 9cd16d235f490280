"""What an iteration of a problem on many machines takes, from what single operations on some take.

A worker has n / W rows of a kernel of m columns, made of d features. Work is shared,
messages are not: one process tells all workers the scalings of the columns, and gets
column sums from each, so that its link carries 12 W m bytes an iteration beside 8 n.
"""

from __future__ import annotations

import functools
import timeit
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..quadratic.factory import WHOLE_TIERS
from ..utils.validation import as_count, one_of
from .points import Shared
from .shard import KernelSpec, Shard

if TYPE_CHECKING:
    from distributed import Client

# Points of both sides and features with which operations are timed, and times that they
# are: the columns are so many that their features fit no core's cache, as in a problem
# for which machines are needed.
POINTS, RANKS, TIMES = (1000, 16_000), (32, 256), 7
# Bytes of the messages with which the link is timed; the short ones are as those of
# small problems.
SHORT, LONG = 1 << 17, 1 << 24


class Rate(NamedTuple):
    """Seconds an entry of the kernel takes: so many, and so many more a feature.

    Examples
    --------
    >>> from gwfast.distributed import Rate
    >>> round(Rate(1e-9, 1e-11).seconds(10**8, 100), 3)
    0.2
    """

    entry: float
    feature: float = 0.0

    def seconds(self, entries: float, rank: float) -> float:
        return entries * (self.entry + self.feature * rank)


class Machine(NamedTuple):
    """What a worker and the link to the workers are capable of; `measure` finds out.

    Attributes
    ----------
    make : Rate
        Of the kernel, from its factors.
    read : Rate
        A Sinkhorn iteration over a stored kernel.
    remake : Rate
        One over a kernel that is not stored (tier "tiled").
    contract, recontract : Rate
        The matrix ``X' T Y``, of a kernel that is stored or not.
    latency : float
        Seconds between a question to all workers and their answers, if these take no
        time.
    bandwidth : float
        Bytes a second to and from the process that asks.

    Examples
    --------
    >>> from gwfast.distributed import Machine, Rate, predict
    >>> rates = [Rate(1e-9, 1e-11), Rate(2e-10), *[Rate(1e-9, 1e-11)] * 3]
    >>> machine = Machine(*rates, latency=1e-3, bandwidth=1e9)
    >>> n = 10**6
    >>> few, many = (predict(machine, n, n, 300, w, tier="tiled") for w in (8, 4096))
    >>> few.communication < few.seconds / 2, many.communication > many.seconds / 2
    (True, True)
    """

    make: Rate
    read: Rate
    remake: Rate
    contract: Rate
    recontract: Rate
    latency: float
    bandwidth: float


class Prediction(NamedTuple):
    """Of one Sinkhorn iteration, and of what comes once in an outer iteration.

    Attributes
    ----------
    seconds, linearization : float
        Of a Sinkhorn iteration; of making the kernel and the matrix ``X' T Y``.
    communication : float
        The part of `seconds` that messages take.
    n_bytes, linearization_bytes : float
        Of the messages.
    memory : float
        Bytes that a worker keeps.

    Examples
    --------
    >>> from gwfast.distributed import Machine, Rate, predict
    >>> machine = Machine(*[Rate(1e-9, 1e-11)] * 5, latency=1e-3, bandwidth=1e9)
    >>> found = predict(machine, 100_000, 100_000, 100, n_workers=10, tier="tiled")
    >>> round(found.seconds, 2), round(found.memory / 1e9, 2)
    (2.01, 0.18)
    """

    seconds: float
    linearization: float
    communication: float
    n_bytes: float
    linearization_bytes: float
    memory: float


def predict(
    machine: Machine, n: int, m: int, rank: int, n_workers: int, *, tier: str = "dense"
) -> Prediction:
    """What iterations take with so many workers.

    Parameters
    ----------
    machine : Machine
    n, m : int
        Points of both spaces.
    rank : int
        Features of each (columns of the vectors, for cosines).
    n_workers : int
    tier : {"dense", "tiled"}, default="dense"
        Whether the workers store their parts of the kernel.

    Returns
    -------
    Prediction

    Examples
    --------
    >>> from gwfast.distributed import Machine, Rate, predict
    >>> machine = Machine(*[Rate(1e-9, 1e-11)] * 5, latency=1e-3, bandwidth=1e9)
    >>> found = predict(machine, 100_000, 100_000, 100, n_workers=10, tier="tiled")
    >>> found.communication < 0.02 * found.seconds
    True
    """
    one_of(tier, "tier", WHOLE_TIERS)
    workers = as_count(n_workers, "n_workers")
    stored, entries = tier == "dense", n * m / workers
    # Scalings there, float32, and column sums back, float64.
    n_bytes = 8.0 * n + 12.0 * m * workers
    # Potentials and matrices there, column sums and row sums back, and scalings.
    more = 20.0 * n + (20.0 * m + 12.0 * rank**2) * workers
    communication = machine.latency + n_bytes / machine.bandwidth
    work = (machine.read if stored else machine.remake).seconds(entries, rank)
    contract = machine.contract if stored else machine.recontract
    linearization = contract.seconds(entries, rank)
    linearization += machine.make.seconds(entries, rank) if stored else 0.0
    linearization += 2 * machine.latency + more / machine.bandwidth
    return Prediction(
        seconds=work + communication,
        linearization=linearization,
        communication=communication,
        n_bytes=n_bytes,
        linearization_bytes=more,
        memory=4.0 * (entries if stored else 0) + 16.0 * rank * (m + n / workers),
    )


def measure(client: Client, rank: int | None = None) -> Machine:
    """Time single operations on all workers at once, and messages to them.

    Parameters
    ----------
    client : distributed.Client
    rank : int or None, default=None
        Features of the problem that is in mind: operations are timed with as many, and
        with half of them. None times them with 32 and 256; in between caches make
        predictions wrong by up to a fifth.

    Returns
    -------
    Machine
        Of the slowest worker.

    Raises
    ------
    TypeError, ValueError
        If `rank` is no number of features.

    Examples
    --------
    >>> from dask.distributed import Client
    >>> from gwfast.distributed import measure
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     machine = measure(client, rank=16)
    >>> machine.latency > 0 and machine.read.entry > 0
    True
    """
    ranks = RANKS
    if rank is not None:
        ranks = max(as_count(rank, "rank") // 2, 1), max(rank, 2)
    addresses = [*client.scheduler_info(n_workers=-1)["workers"]]
    kind = dict(pure=False, allow_other_workers=False)
    made = [client.submit(_rates, ranks, workers=[one], **kind) for one in addresses]
    rates = [
        max(several, key=lambda rate: Rate(*rate).seconds(1.0, ranks[1]))
        for several in zip(*client.gather(made), strict=True)
    ]
    actors = [client.submit(_Echo, workers=[one], actor=True, **kind) for one in addresses]
    echoes = [one.result() for one in actors]
    short, long = (_round_trip(echoes, size) for size in (SHORT, LONG))
    bandwidth = 2.0 * (LONG - SHORT) * len(echoes) / max(long - short, 1e-9)
    latency = max(short - 2.0 * SHORT * len(echoes) / bandwidth, 0.0)
    make, read, remake, contract, recontract = map(Rate._make, rates)
    return Machine(make, read, remake, contract, recontract, latency, bandwidth)


class _Echo:
    def ask(self, message):
        return message


def _round_trip(actors, size):
    """Seconds for a message of so many bytes to all and back, the median."""
    message = np.zeros(size, dtype=np.uint8)

    def there_and_back():
        for one in [actor.ask(message) for actor in actors]:
            one.result()

    return float(np.median(timeit.repeat(there_and_back, number=1, repeat=9)))


def _rates(ranks):
    """The rates of a `Machine`, as pairs, in its order."""
    from distributed import get_worker

    n_threads = get_worker().state.nthreads
    found = [_seconds(rank, n_threads) for rank in ranks]
    few, many = (np.array(one) / np.prod(POINTS) for one in found)
    feature = np.maximum(many - few, 0.0) / (ranks[1] - ranks[0])
    # No more of them than there were: nothing takes less than no time.
    feature = np.minimum(feature, many / ranks[1])
    feature[1] = 0.0  # reading knows nothing of features
    entry = many - feature * ranks[1]
    return [*zip(entry.tolist(), feature.tolist(), strict=True)]


def _seconds(rank, n_threads):
    """Of each operation of a `Machine`, in its order."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((size, rank)).astype(np.float32) / np.sqrt(rank) for size in POINTS)
    p, q = (np.full(size, 1.0 / size) for size in POINTS)
    u, v = (np.ones(size, dtype=np.float32) for size in POINTS)
    core, shared = 0.1 * np.eye(rank, dtype=np.float32), Shared(f"of {rank}", y, q)
    spec = KernelSpec(1, core, np.zeros(len(u)), np.zeros(len(v)), 1.0)
    given = {"make": (spec,), "iterate": (1, u, v, 1.0), "contract": (1, u, v)}
    dense, tiled = (Shard(x, p, tier, shared, n_threads) for tier in WHOLE_TIERS)
    tiled.make(spec)
    found = []
    for shard, method in (
        (dense, "make"),
        (dense, "iterate"),
        (tiled, "iterate"),
        (dense, "contract"),
        (tiled, "contract"),
    ):
        ask = functools.partial(getattr(shard, method), *given[method])
        # The first time is not like the others.
        found.append(min(timeit.repeat(ask, number=1, repeat=TIMES + 1)[1:]))
    return found
