"""Shards as actors on the workers of a Dask cluster."""

import asyncio
import math
import time
from concurrent.futures import CancelledError

from distributed import KilledWorker, get_worker

from .._version import __version__
from .shard import Shard
from .team import MAX_LOSSES, RESUMED, Lost, NoWorkers

LOOK_EVERY = 2.0  # seconds between two looks at a worker that does not answer
# What Dask raises of a worker that went away, or was restarted. What goes wrong inside
# of a shard Dask does not get to see: that is an answer.
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


class DaskEngine:
    """Starts shards and asks them, as actors of a `distributed.Client`, which is not asynchronous.

    Handles come from `start`. Answers are the values of the methods of `Shard`, the exceptions that
    the methods raised, or `Lost`.
    """

    def __init__(self, client, patience=300.0):
        self.client, self._patience = client, patience

    def places(self):
        """The workers that there are: a dict from addresses to the bytes that each may
        take, infinite without limit.
        """
        # A worker whose memory is nearly full is paused, and begins nothing.
        return {
            address: worker["memory_limit"] or math.inf
            for address, worker in sorted(self._workers().items())
            if worker["status"] == "running"
        }

    def wait(self):
        """`places` when there are some, or `NoWorkers` if none comes."""
        until = time.monotonic() + self._patience
        while not (places := self.places()):
            if time.monotonic() > until:
                raise NoWorkers(
                    f"the cluster had no worker for {self._patience:.0f} s, or only "
                    f"paused ones; {RESUMED}"
                )
            time.sleep(0.5)
        return places

    def start(self, parts, shared):
        """Return a handle of a shard, or `Lost`, for each tuple ``(address, x, p, tier)`` of a
        list.
        """
        client, kind = self.client, dict(allow_other_workers=False, pure=False)
        try:
            # The others fetch it from the first, and from one another.
            copies = client.scatter(shared, workers=[parts[0][0]], hash=False)
            begun = []
            for address, *own in parts:
                there = client.scatter(own, workers=[address], hash=False)
                given = (Remote, *there, copies)
                made = client.submit(*given, workers=address, actor=True, **kind)
                begun.append((address, made))
        except (*GONE, KeyError):  # KeyError: the scheduler knows no such worker
            self._check()
            return [Lost()] * len(parts)
        handles = []
        for address, made in begun:
            actor = self._awaited(made, address)
            lost = isinstance(actor, Lost)
            handles.append(actor if lost else (actor, address, made))
        return handles

    def ask(self, questions):
        """Answers, one for each of a list of tuples ``(handle, method, arguments)``."""
        begun = []
        for (actor, address, made), method, args in questions:
            try:
                begun.append((actor.ask(method, args), address, made))
            except RuntimeError:  # "Worker holding Actor was lost"
                begun.append(None)
        return [Lost() if one is None else self._awaited(*one) for one in begun]

    def map(self, function, items):
        """Return ``function(*item)`` of each item of a list, made on any workers."""
        arguments = [*zip(*items, strict=True)]
        for _ in range(MAX_LOSSES + 1):
            self.wait()
            try:
                return self.client.gather(self.client.map(function, *arguments, pure=False))
            except CancelledError:  # by a restart of the workers
                self._check()
            except KilledWorker as error:
                raise _died(error) from error
        raise NoWorkers(f"workers were restarted {MAX_LOSSES + 1} times; {RESUMED}")

    def _awaited(self, future, address, made=None):
        """The result, however long it takes, as long as the worker is there, and the
        actor if that is `made`.
        """
        while True:
            try:
                return future.result(LOOK_EVERY)
            except asyncio.TimeoutError:  # no built-in before Python 3.11
                if not self._is_there(address, made):
                    return Lost()
            except GONE:
                self._check()
                return Lost()
            except (ImportError, AttributeError) as error:
                raise RuntimeError(
                    f"worker {address} must have gwfast {__version__} with dask, and said: {error}"
                ) from error
            except KilledWorker as error:
                raise _died(error) from error

    def _is_there(self, address, made):
        if made is None:
            return address in self.places()
        # A worker that was restarted at its old address is there without the actor.
        return made.status == "finished" and address in self._workers()

    def _workers(self):
        """Return the scheduler's facts about all workers, by address."""
        self._check()
        return self.client.scheduler_info(n_workers=-1)["workers"]

    def _check(self):
        if self.client.status != "running":
            raise RuntimeError(
                f"the client of the cluster must be running, got {self.client.status!r}; {RESUMED}"
            )


def _died(error):
    return NoWorkers(f"workers died, out of memory? ({error}); {RESUMED}")
