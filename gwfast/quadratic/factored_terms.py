"""The terms of a linearized cost of point clouds."""

import functools

import numpy as np


class FactoredTerms:
    """The linearized cost ``left @ core(state) @ right.T`` of a problem of two point
    clouds, perhaps with a `CrossCost` between them, beside its separable terms.

    The state is ``left.T @ T @ right`` of a plan T, restricted to what is `needed`: the
    block of the features X and Y of both clouds, and the diagonal of the factors of a
    `CrossCost`. The part of the core that belongs to these factors is constant.

    Attributes
    ----------
    ranks : (int, int)
        Columns of `left` and `right`.
    cost_scale : float
        Unit of `core`.
    """

    def __init__(self, problem):
        x, y, between = problem.x, problem.y, problem.between
        self._signs, self._signatures = (x.signs, y.signs), (x.signature, y.signature)
        self._inside, self._between = np.s_[: x.rank, : y.rank], between
        more = 0 if between is None else between.rank
        self.ranks = x.rank + more, y.rank + more
        alpha, half = 1.0, 0.0
        quadratic, linear = x.scale * y.scale, 0.0
        if between is not None:
            alpha = problem.alpha
            half, linear = (1.0 - alpha) / 2, between.scale
        self.cost_scale = max(alpha * quadratic, half * linear) or 1.0
        self._weight = -2.0 * (alpha * quadratic / self.cost_scale)
        self._constant = half * linear / self.cost_scale
        self._sides, self._alpha, self._half = (x, y), alpha, half

    @functools.cached_property
    def left(self):
        """Features of x (n, r), and beside them the factors of the costs between the
        spaces, float32.
        """
        return self._beside(0)

    @functools.cached_property
    def right(self):
        """Features of y (m, s), likewise."""
        return self._beside(1)

    def _beside(self, side):
        features, between = self._sides[side].features, self._between
        if between is None:
            return features
        more = (between.left, between.right)[side]
        return np.ascontiguousarray(np.hstack([features, more]))

    def separable(self, rows, cols):
        """The terms that depend on one index, (n,) and (m,) in units of cost, at a plan
        with these marginals.
        """
        made = [
            self._alpha * (side.scale**2 * side.square_times(sums))
            for side, sums in zip(self._sides, (rows, cols), strict=True)
        ]
        if self._between is not None:
            made[0] += self._half * self._between.row
            made[1] += self._half * self._between.col
        return made

    def product_state(self, p, q):
        """The state of the plan ``p q'``."""
        (x, y), between = self._sides, self._between
        means = [x.mean(p), y.mean(q)]
        if between is not None:
            means[0] = np.append(means[0], p @ between.left)
            means[1] = np.append(means[1], q @ between.right)
        return self.needed(np.outer(*means))

    def needed(self, state):
        """The needed entries of ``left.T @ T @ right``; others are zero."""
        if self._between is None:
            return state
        made, (rows, cols) = np.zeros_like(state), self._inside
        made[rows, cols] = state[rows, cols]
        own = self._own(state)
        made[own] = state[own]
        return made

    def core(self, state):
        """The linearized cost at a state, between the factors of both sides."""
        inside = state[self._inside]
        (left, right), (signs, others) = self._signatures, self._signs
        if signs is None or others is None:
            inside = left @ inside @ right
        else:
            inside = signs[:, None] * inside * others
        if self._between is None:
            return self._weight * inside
        made = np.zeros_like(state)
        made[self._inside] = self._weight * inside
        made[self._own(state)] = self._constant
        return made

    def linear_value(self, state, rows, cols):
        """``<linear_cost, T>`` of a plan with this state and these marginals."""
        between = self._between
        if between is None:
            return 0.0
        product = between.scale * float(state[self._own(state)].sum())
        return product + float(rows @ between.row + cols @ between.col)

    def _own(self, state):
        """Index of the diagonal of the factors of the costs between the spaces."""
        rows, cols = self._inside
        return np.arange(rows.stop, len(state)), np.arange(cols.stop, state.shape[1])
