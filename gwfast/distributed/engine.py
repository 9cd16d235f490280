"""Shards as actors on the workers of a Dask cluster."""

import math
import weakref

from .shard import Shard
from .team import Engine, Lost, NoWorkers, Place, wait_until

# Seconds to wait for a worker where there is none left, and between two looks at
# whether one that does not answer is still there.
PATIENCE, LOOK_EVERY = 300.0, 5.0


class Remote:
    """A `Shard` as an actor, which is made by the first question."""

    def __init__(self, x, p, shared):
        from distributed import get_worker

        self._given = x, p, shared, get_worker().state.nthreads
        self._shard = None

    def ask(self, method, args):
        """The answer, or the exception, which Dask need not tell from its own."""
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
        # What is shared of the problem that was begun last, by worker.
        self._copies = weakref.WeakKeyDictionary()

    def places(self):
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {
            address: Place(worker["nthreads"], worker["memory_limit"] or math.inf)
            for address, worker in sorted(workers.items())
        }

    def wait(self):
        places = wait_until(self.places, self._patience)
        if places is None:
            raise NoWorkers(
                f"no worker of {self.client.scheduler.address} was there for "
                f"{self._patience:.0f} s; with a checkpoint the same call goes on from "
                "there"
            )
        return places

    def start(self, address, x, p, shared):
        client = self.client
        own = client.scatter([x, p], workers=[address], hash=False)
        copy = client.scatter(shared, workers=[address], hash=False)
        kind = dict(workers=[address], allow_other_workers=False, pure=False)
        future = client.submit(Remote, *own, copy, actor=True, **kind)
        return self._awaited(address, future.result), address

    def ask(self, questions):
        begun = []
        for (actor, address), method, args in questions:
            try:
                begun.append((address, actor.ask(method, args)))
            except Exception as error:  # the client knows already
                begun.append((address, error))
        answers = []
        for address, future in begun:
            if isinstance(future, Exception):
                answers.append(Lost(address))
                continue
            try:
                answers.append(self._awaited(address, future.result))
            except Lost as lost:
                answers.append(lost)
        return answers

    def _awaited(self, address, result):
        """What ``result(timeout)`` returns, however long it takes, as long as the
        worker is there.
        """
        while True:
            try:
                return result(LOOK_EVERY)
            except TimeoutError:
                if address not in self.places():
                    raise Lost(address) from None
            except Exception as error:
                # Whatever Dask raises of a worker that went away: of what went wrong
                # inside of a shard it knows nothing.
                self.client.scheduler_info(n_workers=1)
                raise Lost(address) from error
