"""Matches that teach themselves: from rough first ones a rotation of one space onto the
other, from that new matches, and so on, with a random part of them left out at first
(Artetxe, Labaka and Agirre, ACL 2018).

It looks at points rather than at costs, and finds optima that no plan of costs alone
leads to. Whether what it has found is one is for the objective to say.
"""

import dataclasses

import numpy as np

from ..kernels._rows import Panels, Product
from ..problems.geometry import PointCloud, unit_rows_float32
from ..problems.quadratic import QuadraticProblem
from ..quadratic.factory import is_factored
from ..results.neighbors import largest
from ..utils.types import Float32Array
from .seeds import Seeds
from .starts import ALONE, Shared, Start

# Points a side that learn, those with most mass first.
POINTS = 3000
# Nearest neighbors that a point's closeness to all is the mean of (CSLS: Conneau et
# al., ICLR 2018).
NEIGHBORS = 10
# Chance of a match to be kept at first, and what it is multiplied by once rounds have
# not made matches closer for so long.
FIRST_CHANCE, GROWTH, PATIENCE = 0.1, 2.0, 30
# How much closer is closer, and the most rounds.
CLOSER, MAX_ROUNDS = 1e-6, 1000
# Matches of a point among which chance leaves one, at most: with the first chance it
# leaves none of so many in one of 30 cases, and the best is taken.
CHOICES = 32
# Quantiles of a profile, and in place of a length of zero.
PROFILE, TINY = 1000, 1e-30


@dataclasses.dataclass(frozen=True)
class SelfLearning(Start):
    """Start from matches that two point clouds have taught themselves, of up to 3000
    points a side (Artetxe, Labaka and Agirre, ACL 2018, by other means than theirs:
    first matches are of sorted similarities, a linear map is made of matches, and
    matches of what is near by it, a random part of them dropped at first).

    Parameters
    ----------
    seed : int, default=0
        Of what is dropped; different ones may lead to different optima.

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, _ = load_sample()
    >>> start = gwfast.SelfLearning(seed=1)
    >>> result = gwfast.align(spanish.vectors, french.vectors, n_words=200, init=start)
    >>> result.gw.converged
    True
    """

    seed: int = 0
    name, is_random = "self-learning", True

    def plan(
        self, problem: QuadraticProblem, n_threads: int, shared: Shared = ALONE
    ) -> Float32Array | None:
        if not is_factored(problem):
            raise ValueError(
                "init must be another start than 'self-learning' unless both costs are "
                "point clouds, balanced, under the squared loss"
            )
        x, y = problem.x, problem.y
        assert isinstance(x, PointCloud) and isinstance(y, PointCloud)
        some = [
            np.sort(np.argsort(-masses, kind="stable")[:POINTS])
            for masses in (problem.p, problem.q)
        ]
        left, right = [
            _centered(side.take(rows)) for side, rows in zip((x, y), some, strict=True)
        ]
        rng = np.random.default_rng(self.seed)
        pairs = _learned(left, right, rng, n_threads, shared.deadline)
        pairs = np.stack([some[0][pairs[:, 0]], some[1][pairs[:, 1]]], axis=1)
        return Seeds(pairs, rest="product").plan(problem, n_threads, shared)

    def __str__(self) -> str:
        return f"self-learning {self.seed}"


def _centered(cloud):
    """Unit rows in float32 about a mean of zero; what has no direction is given one."""
    points = cloud.points - cloud.points.mean(axis=0, dtype=np.float64)
    points[~points.any(axis=1)] = 1.0
    return unit_rows_float32(points, "points")


def _learned(x, y, rng, n_threads, deadline):
    """Mutual matches (k, 2) at the end."""
    near = _Nearness(_root_profile(x), _root_profile(y), n_threads)
    pairs, _ = near.matches(1.0, rng)
    chance, best, waited = FIRST_CHANCE, -np.inf, 0
    for _ in range(MAX_ROUNDS):
        deadline.check()
        left, _, right = np.linalg.svd(
            x[pairs[:, 0]].T @ y[pairs[:, 1]], full_matrices=False
        )
        near = _Nearness(x @ (left @ right), y, n_threads)
        pairs, closeness = near.matches(chance, rng)
        waited += 1
        if closeness >= best + CLOSER:
            best, waited = closeness, 0
        elif waited > PATIENCE:
            if chance >= 1.0:
                break
            chance, waited = min(1.0, GROWTH * chance), 0
    return near.mutual()


def _root_profile(x):
    """Similarities of each point to all, their square root, sorted: comparable between
    the spaces (section 3.2 there); resampled to one length.
    """
    left, values, _ = np.linalg.svd(x, full_matrices=False)
    roots = (left * values) @ left.T
    roots.sort(axis=1)
    at = np.linspace(0, roots.shape[1] - 1, PROFILE)
    low = np.minimum(at.astype(np.int64), max(roots.shape[1] - 2, 0))
    high, share = np.minimum(low + 1, roots.shape[1] - 1), (at - low).astype(x.dtype)
    made = roots[:, low] * (1 - share) + roots[:, high] * share
    made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), TINY)
    made -= made.mean(axis=0)
    made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), TINY)
    return np.ascontiguousarray(made, dtype=np.float32)


class _Nearness:
    """Similarities of rows of `x` and `y` in one space, less half of how close points
    are to all others.
    """

    def __init__(self, x, y, n_threads):
        self._n_threads = n_threads
        x, y = (np.ascontiguousarray(side, np.float32) for side in (x, y))
        pairs = (x, y), (y, x)
        nearest = [self._top(*pair, NEIGHBORS) for pair in pairs]
        self._closeness = [one.scores.mean(axis=1) for one in nearest]
        # One column more takes half the closeness of the others away.
        self._ways = [
            (
                np.hstack([one, np.full((len(one), 1), -0.5, np.float32)]),
                np.hstack([other, closeness[:, None]]),
            )
            for (one, other), closeness in zip(
                pairs, self._closeness[::-1], strict=True
            )
        ]

    def _top(self, one, other, k):
        """`Neighbors` of rows of one among those of the other, by their products."""
        product = Product(one, Panels(other, True, n_threads=self._n_threads))
        return largest(product, min(k, len(other)), self._n_threads)

    def matches(self, chance, rng):
        """Pairs (n + m, 2): for each point of either side what is nearest of what
        chance leaves; and how close they are, in the mean.
        """
        made, total = [], 0.0
        for way, own in zip(self._ways, self._closeness, strict=True):
            found, scores = self._top(*way, 1 if chance >= 1.0 else CHOICES)
            kept = rng.random(found.shape) < chance
            first = np.where(kept.any(axis=1), kept.argmax(axis=1), 0)
            rows = np.arange(len(found))
            made.append(np.stack([rows, found[rows, first]], axis=1))
            total += float((scores[rows, first] - own / 2).mean()) / 2
        return np.concatenate([made[0], made[1][:, ::-1]]), total

    def mutual(self):
        """Pairs (k, 2) of points that are one another's nearest."""
        forward, back = (self._top(*way, 1).indices[:, 0] for way in self._ways)
        rows = np.flatnonzero(back[forward] == np.arange(len(forward)))
        return np.stack([rows, forward[rows]], axis=1)
