"""The shards of one problem: their workers, questions to all, and what is done if one is lost."""

import itertools
import uuid

import numpy as np

from ..quadratic.linearize import FULL_TIERS, factored_nbytes
from .shard import Missing, Shared

# Fraction of a worker's memory that shards may take: Dask stops a worker that takes more than 95 %.
USABLE = 0.6
# Times that a shard may be lost, and the answers that make up for a loss: if it is lost more often,
# the solve only waits for workers. A nanny needs 0.5 to 9 s for a new worker (`LocalCluster` on two
# cores), and twenty iterations of 10,000 points a side take two workers 0.5 s.
MAX_LOSSES, ANSWERS_A_LOSS = 5, 20
# End of error messages.
RESUMED = "with a checkpoint the same call goes on from there"


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


class Team:
    """Shards of a problem on the workers of a `DaskEngine`: `n_shards`, or fewer if there are
    fewer points. Kernels are stored as far as the `tier` allows.
    """

    def __init__(self, engine, problem, tier, n_shards):
        n, _ = self.shape = problem.shape
        # Numbers of kernels and of choices of entries, by which shards identify them.
        self.numbers = itertools.count(1)
        bounds = np.linspace(0, n, min(n_shards, *self.shape) + 1).round().astype(int)
        self.rows = [slice(*pair) for pair in itertools.pairwise(bounds)]
        self._engine, self._problem = engine, problem
        self.tier = choose_tier(problem, tier, engine.wait(), len(self.rows))
        token = uuid.uuid4().hex
        self._shared = Shared(token, problem.y.features, problem.q)
        self._handles = [None] * len(self.rows)
        self._addresses = [None] * len(self.rows)
        self._losses = [0] * len(self.rows)

    def __reduce__(self):
        raise TypeError("a plan on a cluster cannot be pickled; `toarray` or `tocsr` can")

    def ask(self, method, each=(), *, told=None):
        """Return the answers of shards, in their order, to a method of `Shard`: with a tuple of
        arguments for all, a list of the arguments of each, or a dict of the arguments of some.

        ``told(k)`` are pairs of a method and its arguments that shard k has to be asked first if it
        says that it is `Missing` something.
        """
        if isinstance(each, tuple):
            each = [each] * len(self.rows)
        if isinstance(each, list):
            each = dict(enumerate(each))
        answers, left = {}, [*each]
        while left:
            self._begin(left)
            questions = [(self._handles[k], method, each[k]) for k in left]
            for k, answer in zip([*left], self._engine.ask(questions), strict=True):
                if self._is_there(k, answer, told):
                    answers[k] = answer
                    left.remove(k)
        return [answers[k] for k in each]

    def _is_there(self, k, answer, told):
        """Return whether this is an answer; else the shard can be asked again."""
        if isinstance(answer, Lost):
            self._lose(k)
        elif isinstance(answer, Missing) and told is not None:
            for step in told(k):
                (result,) = self._engine.ask([(self._handles[k], *step)])
                if not self._is_there(k, result, None):
                    break
        elif isinstance(answer, Exception):
            raise answer
        else:
            self._losses[k] = max(self._losses[k] - 1 / ANSWERS_A_LOSS, 0)
            return True
        return False

    def _lose(self, k):
        self._handles[k] = self._addresses[k] = None
        self._losses[k] += 1
        if self._losses[k] > MAX_LOSSES:
            raise NoWorkers(
                f"shard {k} of {len(self.rows)} was lost more than {MAX_LOSSES} times with few "
                f"answers in between, as by workers that run out of memory; {RESUMED}"
            )

    def _begin(self, asked):
        """Begin the shards in `asked` that are missing, each on the worker with the fewest."""
        while missing := [k for k in asked if self._handles[k] is None]:
            places, problem, parts = self._engine.wait(), self._problem, []
            for k in missing:
                fewest = min(places, key=lambda place: (self._addresses.count(place), place))
                self._addresses[k], rows = fewest, self.rows[k]
                # Shards of lost workers may have made the worker too narrow for a stored kernel.
                size = size_of(problem, self.tier, len(self.rows))
                fits = self._addresses.count(fewest) * size <= USABLE * places[fewest]
                tier = self.tier if fits else FULL_TIERS[-1]
                parts.append((fewest, problem.x.features[rows], problem.p[rows], tier))
            handles = self._engine.start(parts, self._shared)
            for k, handle in zip(missing, handles, strict=True):
                if isinstance(handle, Lost):
                    self._lose(k)
                else:
                    self._handles[k] = handle

    def balance(self):
        """Move shards from workers that have too many to workers that joined later."""
        places = self._engine.places()
        while places:
            counts = {place: self._addresses.count(place) for place in places}
            most, least = max(counts, key=counts.get), min(counts, key=counts.get)
            if counts[most] - counts[least] < 2:
                return
            number = self._addresses.index(most)
            self._handles[number] = self._addresses[number] = None
            self._begin([number])


def choose_tier(problem, tier, places, n_shards):
    """Return the first tier from this tier on in which the shards fit the workers; raise a
    MemoryError with the sizes if there is none.
    """
    each, least, takes = -(-n_shards // len(places)), min(places.values()), {}
    for name in FULL_TIERS[FULL_TIERS.index(tier) :]:
        takes[name] = each * size_of(problem, name, n_shards)
        if takes[name] <= USABLE * least:
            return name
    (n, m), sizes = problem.shape, [f"{size / 1e9:.3g} GB ({name})" for name, size in takes.items()]
    raise MemoryError(
        f"{each} of {n_shards} shards of a problem of {n} x {m} take {', '.join(sizes)} on a "
        f"worker, and {USABLE:.0%} of its {least / 1e9:.3g} GB may be taken; more workers would "
        "have smaller shards"
    )


def size_of(problem, tier, n_shards):
    """Return the bytes of each of `n_shards` shards."""
    n, m = problem.shape
    return factored_nbytes(problem, tier, 1, (-(-n // n_shards), m))
