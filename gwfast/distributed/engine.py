"""Shards as actors on the workers of a Dask cluster."""

import asyncio
import math
import time
from concurrent.futures import CancelledError

from distributed import KilledWorker, get_worker

from .._version import __version__
from .shard import Shard
from .team import RESUMED, Lost, NoWorkers

# The errors that Dask raises for a worker that went away, or was restarted. An error that a shard
# raises is an answer.
GONE = OSError, CancelledError, asyncio.TimeoutError


class Remote:
    """A `Shard` as an actor; the first question makes it."""

    def __init__(self, x, p, tier, shared):
        worker = get_worker()
        if shared.version != __version__:
            versions = f"gwfast {__version__}, and this is gwfast {shared.version}"
            raise RuntimeError(f"worker {worker.address} has {versions}")
        self._arguments, self._shard = (x, p, tier, shared, worker.state.nthreads), None

    def ask(self, method, args):
        """Return the answer, or the exception that it ended in."""
        try:
            if self._shard is None:
                self._shard, self._arguments = Shard(*self._arguments), None
            return getattr(self._shard, method)(*args)
        except Exception as error:
            return error


class DaskEngine:
    """Starts shards and asks them, as actors of a `distributed.Client`, which is not asynchronous.

    Handles come from `start`. Answers are the values of the methods of `Shard`, the exceptions that
    the methods raised, or `Lost`.
    """

    def __init__(self, client, patience=300.0):
        self.client, self._patience = client, patience

    def places(self):
        """Return the bytes that each worker may take, infinite without limit, by its address."""
        # A worker whose memory is nearly full is paused, and begins nothing.
        return {
            address: worker["memory_limit"] or math.inf
            for address, worker in sorted(self._workers().items())
            if worker["status"] == "running"
        }

    def wait(self):
        """Return `places` when there are some, or raise `NoWorkers` if none comes."""
        until = time.monotonic() + self._patience
        while not (places := self.places()):
            if time.monotonic() > until:
                seconds = f"{self._patience:.0f} s, or only paused workers"
                raise NoWorkers(f"the cluster had no worker for {seconds}; {RESUMED}")
            time.sleep(0.5)
        return places

    def start(self, parts, shared):
        """Return a shard, or `Lost`, for each tuple ``(address, x, p, tier)`` of a list."""
        client, begun = self.client, []
        try:
            # Workers fetch it from the first worker, and from one another.
            copies = client.scatter(shared, workers=[parts[0][0]], hash=False)
            for address, *data in parts:
                data = client.scatter(data, workers=[address], hash=False)
                future = client.submit(
                    Remote,
                    *data,
                    copies,
                    workers=address,
                    actor=True,
                    pure=False,
                    allow_other_workers=False,
                )
                begun.append((address, future))
        except (*GONE, KeyError):  # KeyError: the scheduler knows no such worker
            self._check()
            return [Lost()] * len(parts)
        actors = [self._awaited(future, address) for address, future in begun]
        return [
            actor if isinstance(actor, Lost) else (actor, *where)
            for actor, where in zip(actors, begun, strict=True)
        ]

    def ask(self, questions):
        """Return the answer to each of a list of tuples ``(handle, method, arguments)``."""
        begun = []
        for (actor, address, future), method, args in questions:
            try:
                begun.append((actor.ask(method, args), address, future))
            except RuntimeError:  # "Worker holding Actor was lost"
                begun.append(None)
        return [Lost() if question is None else self._awaited(*question) for question in begun]

    def _awaited(self, future, address, actor=None):
        """Return the result, however long it takes, as long as the worker is there and, if `actor`
        is its future, the actor.
        """
        while True:
            try:
                return future.result(2.0)  # seconds until a look at a worker that does not answer
            except asyncio.TimeoutError:  # no built-in before Python 3.11
                # A worker that was restarted at its old address is there without the actor.
                there = address in (self.places() if actor is None else self._workers())
                if not there or (actor is not None and actor.status != "finished"):
                    return Lost()
            except GONE:
                self._check()
                return Lost()
            except (ImportError, AttributeError) as error:
                raise RuntimeError(
                    f"worker {address} must have gwfast {__version__} with dask, and said: {error}"
                ) from error
            except KilledWorker as error:
                raise NoWorkers(f"workers died, out of memory? ({error}); {RESUMED}") from error

    def _workers(self):
        """Return the scheduler's facts about all workers, by address."""
        self._check()
        return self.client.scheduler_info(n_workers=-1)["workers"]

    def _check(self):
        if self.client.status != "running":
            raise RuntimeError(
                f"the client of the cluster must be running, got {self.client.status!r}; {RESUMED}"
            )
