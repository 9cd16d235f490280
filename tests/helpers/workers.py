"""Workers of a cluster in this process, which die when they are told to.

They stand for the workers of Dask, and so they hold the shards themselves, which are internal.
"""

import math
import random

import gwfast
from gwfast.distributed.context import Cluster, placing
from gwfast.distributed.shard import Shard
from gwfast.distributed.team import USABLE, Lost, size_of
from gwfast.problems.quadratic import QuadraticProblem


class Workers:
    """Stands for a `DaskEngine` of `n` workers; before a share
    `dying` of the questions, at random, a worker dies and another comes.
    """

    def __init__(self, n=2, memory=math.inf, dying=0.0):
        self._memory, self._dying = memory, dying
        self._random, self._came = random.Random(0), 0
        self.there, self.asked = {}, []
        # Address and tier of every shard.
        self.begun = []
        for _ in range(n):
            self.join()

    def join(self):
        self._came += 1
        self.there[f"worker {self._came:04}"] = self._memory

    def die(self, address):
        del self.there[address]

    @property
    def died(self):
        return self._came - len(self.there)

    def places(self):
        return dict(self.there)

    wait = places

    def start(self, parts, shared):
        self.begun += [(address, tier) for address, *_, tier in parts]
        return [(Shard(*own, shared, 1), address) for address, *own in parts]

    def ask(self, questions):
        self.asked += [method for _, method, _ in questions]
        if self._random.random() < self._dying:
            self.die(self._random.choice(sorted(self.there)))
            self.join()
        return [self.answer(*question) for question in questions]

    def answer(self, handle, method, args):
        shard, address = handle
        if address not in self.there:
            return Lost()
        try:
            return getattr(shard, method)(*args)
        except Exception as error:
            return error


def on(engine, n_shards=3, min_points=100):
    """Have the public functions that are called in a block use these workers."""
    return placing(Cluster(engine, n_shards, min_points))


def solve(spaces, engine=None, n_shards=3, min_points=100, *, tier="auto", relative=0.01, **more):
    """Solve here, or on workers."""
    more = dict(init="product", options=gwfast.SolverOptions(tier=tier)) | more
    more["epsilon"] = gwfast.Epsilon(relative=relative)
    if engine is None:
        return gwfast.gromov_wasserstein(*spaces, **more)
    with on(engine, n_shards, min_points):
        return gwfast.gromov_wasserstein(*spaces, **more)


def memory_for(spaces, n_shards):
    """Return the memory of a worker that has room for one of `n_shards` shards."""
    return size_of(QuadraticProblem(*spaces), "dense", n_shards) / USABLE
