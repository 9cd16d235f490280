"""The shards of one problem: where each of them is, questions to all of them, and what
is done when one is lost.
"""

import itertools
import time
import uuid
from typing import NamedTuple

import numpy as np

from ..quadratic import factored
from .points import Shared
from .shard import Missing

# Of a worker's memory, what shards may take there: Dask stops a worker that takes more
# than 95 % of it.
USABLE = 0.6


class Lost(Exception):
    """The worker is gone, and the shards that it had."""


class NoWorkers(RuntimeError):
    """There is no worker left to go on with.

    Examples
    --------
    >>> from gwfast.distributed import NoWorkers
    >>> issubclass(NoWorkers, RuntimeError)
    True
    """


class Place(NamedTuple):
    """A worker: its threads, and the bytes that it may take, infinite without limit."""

    n_threads: int
    memory: float


class Engine:
    """How shards are started and asked; `DaskEngine` does it on a cluster.

    A handle is whatever `start` returns. Answers are those of the methods of `Shard`,
    or the exceptions that these have raised, or `Lost`.
    """

    def places(self):
        """The workers that there are: a dict from addresses to `Place`."""

    def wait(self):
        """`places` when there are some, or `NoWorkers` if none comes."""

    def start(self, address, x, p, shared):
        """A handle of a `Shard` there; `Lost` if the worker is."""

    def ask(self, questions):
        """Answers, one for each of a list of tuples ``(handle, method, arguments)``."""


class Team:
    """Shards of a problem on the workers of an engine.

    Parameters
    ----------
    engine : Engine
    problem : QuadraticProblem
        Of two point clouds.
    tier : str
        The most that a worker may keep, see `choose_tier`.
    n_shards : int
        Fewer where there are fewer rows.

    Attributes
    ----------
    rows : list of slice
        Of each shard.
    shape : tuple of int
    started : int
        Shards that were begun, those that replace others included.
    """

    def __init__(self, engine, problem, tier, n_shards):
        n, _m = self.shape = problem.shape
        bounds = np.linspace(0, n, min(n_shards, n) + 1).round().astype(int)
        self.rows = [slice(*pair) for pair in itertools.pairwise(bounds)]
        self._engine, self._problem = engine, problem
        self.tier = choose_tier(problem, tier, engine.wait(), len(self.rows))
        token = uuid.uuid4().hex
        self._shared = Shared(token, problem.y.features, problem.q, self.tier)
        self._handles = [None] * len(self.rows)
        self._addresses = [None] * len(self.rows)
        self.started = self._number = 0

    @property
    def n_threads(self):
        """Of all workers that have shards."""
        places, used = self._engine.places(), {*self._addresses} - {None}
        return sum(places[one].n_threads for one in used if one in places)

    def next_number(self):
        """One that no other kernel or choice of this problem has."""
        self._number += 1
        return self._number

    def ask(self, method, each=None, *, told=None):
        """The answers of all shards, in their order.

        Parameters
        ----------
        method : str
            Of `Shard`.
        each : list of tuple or dict, default=None
            Arguments for every shard; of a dict only those asked are keys.
        told : callable, default=None
            ``told(k)`` are pairs of a method and its arguments that shard k has to be
            asked first if it says that it is `Missing` something.

        Raises
        ------
        NoWorkers
        """
        if not isinstance(each, dict):
            each = dict(enumerate([()] * len(self.rows) if each is None else each))
        answers, left = {}, [*each]
        while left:
            given = [(self._handle(k), method, each[k]) for k in left]
            for k, answer in zip([*left], self._engine.ask(given), strict=True):
                if isinstance(answer, Lost):
                    self._lose(k)
                elif isinstance(answer, Missing) and told is not None:
                    self._tell(k, told(k))
                elif isinstance(answer, Exception):
                    raise answer
                else:
                    answers[k] = answer
                    left.remove(k)
        return [answers[k] for k in each]

    def _tell(self, k, steps):
        for step in steps:
            (answer,) = self._engine.ask([(self._handle(k), *step)])
            if isinstance(answer, Lost):
                self._lose(k)
                return
            if isinstance(answer, Exception):
                raise answer

    def _lose(self, k):
        self._handles[k] = self._addresses[k] = None

    def _handle(self, k):
        """Of a shard, which is begun where the fewest are if there is none."""
        while self._handles[k] is None:
            places = self._engine.wait()
            address = min(places, key=lambda one: (self._addresses.count(one), one))
            rows, problem = self.rows[k], self._problem
            given = problem.x.features[rows], problem.p[rows], self._shared
            try:
                self._handles[k] = self._engine.start(address, *given)
            except Lost:
                continue
            self._addresses[k] = address
            self.started += 1
        return self._handles[k]

    def balance(self):
        """Move shards from workers that have too many to those that came since."""
        places = self._engine.places()
        while places:
            counts = {one: self._addresses.count(one) for one in places}
            most, least = max(counts, key=counts.get), min(counts, key=counts.get)
            if counts[most] - counts[least] < 2:
                return
            # The next question begins it where the fewest are.
            self._lose(self._addresses.index(most))
            self._handle(self._handles.index(None))


def choose_tier(problem, tier, places, n_shards):
    """The first tier from this one on in which the shards fit the workers.

    Raises
    ------
    MemoryError
        If none does; it has the sizes.
    """
    n, m = problem.shape
    each = -(-n_shards // len(places))
    rows = -(-n // n_shards)
    least = min(place.memory for place in places.values())
    tiers = ("dense", "sparse", "tiled")
    takes = {}
    for one in tiers[tiers.index(tier) :]:
        size = factored.nbytes(problem, one, 1, (rows, m))
        takes[one] = each * size
        if takes[one] <= USABLE * least:
            return one
    sizes = ", ".join(f"{size / 1e9:.3g} GB ({one})" for one, size in takes.items())
    raise MemoryError(
        f"{each} of {n_shards} shards of a problem of {n} x {m} take {sizes} on a "
        f"worker, and {USABLE:.0%} of the {least / 1e9:.3g} GB of one may be taken; "
        "more workers would have smaller shards"
    )


def wait_until(found, patience, interval=0.5):
    """What `found` returns as soon as that is true, or None."""
    until = time.monotonic() + patience
    while not (made := found()):
        if time.monotonic() > until:
            return None
        time.sleep(interval)
    return made
