"""Workers of a cluster in this process, which die when they are told to."""

import math
import random

from gwfast.distributed.shard import Shard
from gwfast.distributed.team import Lost, NoWorkers


class Workers:
    """Stands for a `DaskEngine` of `n` workers; with `dying` one of them dies before so
    many questions, at random, and another comes.
    """

    def __init__(self, n=2, memory=math.inf, dying=0.0, n_threads=1):
        self._memory, self._dying, self._n_threads = memory, dying, n_threads
        self._random, self._came = random.Random(0), 0
        self.there, self.asked, self.tiers = {}, [], []
        for _ in range(n):
            self.join()

    def join(self):
        self._came += 1
        self.there[f"worker {self._came:04}"] = self._memory

    def die(self, address):
        del self.there[address]

    def leave_one(self):
        for address in [*self.there][1:]:
            self.die(address)

    @property
    def died(self):
        return self._came - len(self.there)

    def places(self):
        return dict(self.there)

    def wait(self):
        if not self.there:
            raise NoWorkers("no worker")
        return self.places()

    def start(self, parts, shared):
        self.tiers += [tier for *_, tier in parts]
        return [
            (Shard(x, p, tier, shared, self._n_threads), address)
            for address, x, p, tier in parts
        ]

    def ask(self, questions):
        self.asked += [method for _, method, _ in questions]
        if self._random.random() < self._dying:
            self.die(self._random.choice(sorted(self.there)))
            self.join()
        return [self._answer(*question) for question in questions]

    def _answer(self, handle, method, args):
        shard, address = handle
        if address not in self.there:
            return Lost()
        try:
            return getattr(shard, method)(*args)
        except Exception as error:
            return error

    def map(self, function, items):
        return [function(*item) for item in items]
