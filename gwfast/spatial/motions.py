"""Rigid motions between slices: a few matched spots determine a motion, and it is judged by the
expression of all spots that it lays upon one another (random sample consensus: Fischler and Bolles,
Communications of the ACM 1981). Lengths are in distances of neighboring spots: no unit enters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from ..utils.types import Float64Array
from .slices import rigid_motion, spacing

# Largest distance from a spot to the spot that it is laid upon.
REACH = 1.2
# Root mean square distance between spots after two motions, from which on the motions differ.
DISTINCT = 3.0


class Motions:
    """Motions between two slices by coordinates (n, d) and (m, d) and features of their spots, for
    plans with the marginals of a rule.
    """

    def __init__(
        self, spots: Sequence[Float64Array], features: Sequence[Float64Array], rule: Any
    ) -> None:
        masses, unit = (rule.p, rule.q), max(spacing([each]) for each in spots)
        # Spots without mass take no part.
        self._rows = rows = [mass.nonzero()[0] for mass in masses]
        self._spots, self._shape = [each / unit for each in spots], tuple(map(len, spots))
        self._x, self._y = (each[kept] for each, kept in zip(self._spots, rows, strict=True))
        self._p, self._share = rule.p[rows[0]] / rule.p.sum(), rule.mass
        self._every, (of_x, self._tree) = np.arange(len(self._x)), map(cKDTree, (self._x, self._y))
        # The means of `geometries` are averaged once more, over a spot and its ring.
        u, v = (
            values[kept][tree.query(tree.data, min(7, tree.n))[1]].mean(axis=1)
            for values, kept, tree in zip(features, rows, (of_x, self._tree), strict=True)
        )
        self._costs = cdist(u, v, "sqeuclidean")
        self._match = self._costs.argmin(axis=1)

    @property
    def costs(self) -> Float64Array:
        """Squared distances (n, m) between features, 0 for spots without mass."""
        costs = np.zeros(self._shape)
        costs[np.ix_(*self._rows)] = self._costs
        return costs

    def plans(self, count: int, seed: int) -> list[Float64Array]:
        """Return the plans (n, m) of at most `count` distinct motions, the best first, without
        motions that fall far behind.
        """
        rng, plans = np.random.default_rng(seed), []
        # A hundred spots judge motions before all spots do.
        motions, probes = self._drawn(rng), rng.permutation(self._every)[:100]
        motions, _ = self._ranked(motions, probes, 2 * DISTINCT)
        motions, scores = self._ranked(self._fitted(motions), self._every, DISTINCT)
        # Mass that is laid upon spots at random costs the mean.
        gains = self._share * self._costs.mean() - scores
        for motion in motions[gains > 0.9 * gains.max(initial=0.0)][:count]:
            near, plan = self._near(motion), np.zeros(self._shape)
            laid = near < len(self._y)
            plan[self._rows[0][laid], self._rows[1][near[laid]]] = self._p[laid]
            plans.append(plan)
        return plans

    def laid(self, coupling: Any) -> float:
        """Return the share of the mass that the motion nearest to a plan lays upon spots."""
        near = self._tree.query(self._places(coupling)[self._rows[0]], distance_upper_bound=REACH)
        return float(self._p @ np.isfinite(near[0]))

    def are_distinct(self, coupling: Any, other: Any) -> bool:
        """Return whether the motions nearest to two plans differ where the plans have mass."""
        squares = np.square(self._places(coupling) - self._places(other)).sum(axis=1)
        weights = coupling.marginals[0] + other.marginals[0]
        return bool(weights @ squares > DISTINCT**2 * weights.sum())

    def _places(self, coupling):
        return rigid_motion(coupling, *self._spots, True, "")(self._spots[0])

    def _drawn(self, rng):
        """Return motions (k, d + 1, d) by up to 500 sets of d matches whose distances agree, each
        with and without a reflection.
        """
        spread, d = self._costs.std(axis=1), self._x.shape[1]
        if not spread.all():
            return np.empty((0, d + 1, d))
        # Matches of spots that are unlike most others stand out of the noise.
        clear = (self._costs.min(axis=1) - self._costs.mean(axis=1)) / spread
        clear = clear.argsort()[: -(-len(clear) // 2)]
        sets = clear[rng.integers(len(clear), size=(10_000, d))]
        a, b, agree = self._x[sets], self._y[self._match[sets]], np.ones(len(sets), dtype=bool)
        for i, k in itertools.combinations(range(d), 2):
            first, second = (np.linalg.norm(z[:, i] - z[:, k], axis=1) for z in (a, b))
            # Matches of a set are 5 apart at least, and their distances agree up to 1.5.
            agree &= (first > 5.0) & (abs(first - second) < 1.5)
        a, b = a[agree][:500], b[agree][:500]
        weights = np.ones((*a.shape[:2], 1))
        return np.concatenate([_rigid(a, b, weights, sign) for sign in (1.0, -1.0)])

    def _fitted(self, motions):
        """Return the motions after fits to all matches near them, which are nearer each time."""
        signs, y = np.linalg.det(motions[:, :-1]), self._y[self._match]
        for most in (3.0, 2.0, 1.5):
            near = np.square(self._moved(motions) - y).sum(axis=2) < most**2
            motions = _rigid(self._x, y, near[:, :, None], signs)
        return motions

    def _moved(self, motions, spots=slice(None)):
        return self._x[spots] @ motions[..., :-1, :] + motions[..., -1:, :]

    def _near(self, motions, spots=slice(None)):
        """Return the spots of the second slice that spots are laid upon, m where there are none."""
        return self._tree.query(self._moved(motions, spots), distance_upper_bound=REACH)[1]

    def _scores(self, motions, spots):
        """Return the mean cost (k,) of the share of the mass that each motion lays best; mass that
        it lays upon no spot takes the mean of all costs.
        """
        costs = np.pad(self._costs, ((0, 0), (0, 1)), constant_values=np.inf)
        costs = costs[spots, self._near(motions, spots)]
        order = costs.argsort(axis=1)
        masses = (self._p[spots] / self._p[spots].sum())[order].cumsum(axis=1)
        masses = np.diff(np.minimum(masses, self._share), axis=1, prepend=0.0)
        costs = np.take_along_axis(costs, order, axis=1)
        return (np.where(np.isinf(costs), self._costs.mean(), costs) * masses).sum(axis=1)

    def _ranked(self, motions, spots, distance):
        """Return up to 30 motions that are better than all others within a distance, the best
        first, and their scores.
        """
        scores, best = self._scores(motions, spots), []
        order, places = scores.argsort(), self._moved(motions, spots[:20])
        while len(order) and len(best) < 30:
            best.append(order[0])
            squares = np.square(places[order] - places[order[0]]).sum(axis=2).mean(axis=1)
            order = order[squares > distance**2]
        return motions[best], scores[best]


def _rigid(a, b, weights, signs):
    """Return motions (k, d + 1, d), rotations above shifts, that take weighted points (k, s, d)
    closest to others (Procrustes), with determinants of these signs.
    """
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    center, goal = ((weights * z).sum(axis=1, keepdims=True) for z in (a, b))
    left, _, right = np.linalg.svd(np.swapaxes(weights * (a - center), 1, 2) @ (b - goal))
    left[:, :, -1] *= (signs * np.linalg.det(left @ right))[:, None]
    rotations = left @ right
    return np.concatenate([rotations, goal - center @ rotations], axis=1)
