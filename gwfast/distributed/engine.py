"""Shards as actors on the workers of a Dask cluster."""

import asyncio
import math
from concurrent.futures import CancelledError

from distributed import KilledWorker, get_worker

from .._version import __version__
from .shard import Shard
from .team import Engine, Lost, NoWorkers, Place, wait_until

# Seconds to wait for a worker where there is none left, and between two looks at
# whether one that does not answer is still there.
PATIENCE, LOOK_EVERY = 300.0, 5.0
# What Dask raises of a worker that went away. What goes wrong inside of a shard it
# does not get to see, that is an answer.
GONE = OSError, CancelledError, asyncio.TimeoutError


class Remote:
    """A `Shard` as an actor; the first question makes it."""

    def __init__(self, x, p, tier, shared):
        worker = get_worker()
        if shared.version != __version__:
            raise RuntimeError(
                f"worker {worker.address} has gwfast {__version__}, and this is "
                f"gwfast {shared.version}"
            )
        self._given, self._shard = (x, p, tier, shared, worker.state.nthreads), None

    def ask(self, method, args):
        """The answer, or the exception that it ended in."""
        try:
            if self._shard is None:
                self._shard, self._given = Shard(*self._given), None
            return getattr(self._shard, method)(*args)
        except Exception as error:
            return error


class DaskEngine(Engine):
    """Actors of a `distributed.Client`, which is not asynchronous."""

    def __init__(self, client, patience=PATIENCE):
        self.client, self._patience = client, patience

    def places(self):
        self._check()
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {
            address: Place(worker["nthreads"], worker["memory_limit"] or math.inf)
            for address, worker in sorted(workers.items())
        }

    def wait(self):
        places = wait_until(self.places, self._patience)
        if places is None:
            raise NoWorkers(
                f"the cluster had no worker for {self._patience:.0f} s; with a "
                "checkpoint the same call goes on from there"
            )
        return places

    def start(self, parts, shared):
        client, addresses = self.client, sorted({address for address, *_ in parts})
        kind = dict(allow_other_workers=False, pure=False, actor=True)
        try:
            # From worker to worker, where there are many.
            given = dict(workers=addresses, broadcast=True, hash=False)
            copies, begun = client.scatter(shared, **given), []
            for address, *own in parts:
                there = client.scatter(own, workers=[address], hash=False)
                made = client.submit(Remote, *there, copies, workers=address, **kind)
                begun.append((address, made))
        except GONE:
            self._check()
            return [Lost()] * len(parts)
        handles = [(self._awaited(*one), one[0]) for one in begun]
        return [one[0] if isinstance(one[0], Lost) else one for one in handles]

    def ask(self, questions):
        begun = []
        for (actor, address), method, args in questions:
            try:
                begun.append((address, actor.ask(method, args)))
            except RuntimeError:  # "Worker holding Actor was lost"
                begun.append((address, None))
        return [
            Lost() if future is None else self._awaited(address, future)
            for address, future in begun
        ]

    def map(self, function, items):
        self.wait()
        given = zip(*items, strict=True)
        return self.client.gather(self.client.map(function, *given, pure=False))

    def _awaited(self, address, future):
        """The result, however long it takes, as long as the worker is there."""
        while True:
            try:
                return future.result(LOOK_EVERY)
            except asyncio.TimeoutError:  # no built-in before Python 3.11
                if address not in self.places():
                    return Lost()
            except GONE:
                self._check()
                return Lost()
            except (ImportError, AttributeError) as error:
                raise RuntimeError(
                    f"worker {address} must have gwfast {__version__} with dask, and "
                    f"said: {error}"
                ) from error
            except KilledWorker as error:
                raise RuntimeError(
                    f"workers died of making a shard: out of memory? ({error})"
                ) from error

    def _check(self):
        if self.client.status != "running":
            raise RuntimeError(
                f"the client of the cluster must be running, got "
                f"{self.client.status!r}; with a checkpoint the same call goes on "
                "from where it was"
            )
