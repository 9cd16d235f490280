"""The one judge of fused plans: objective, marginals and best matches in float64, from
what a plan does to some columns, whatever form it has.

Squared Euclidean costs are ``|x_i|^2 + |x_k|^2 - 2 x_i' x_k``, so that of the plan no
more than its products with coordinates, squared lengths and ones is in the objective.
"""

import numpy as np

from gwfast.utils.blocks import row_blocks

# Entries of a low-rank plan that are made at a time (256 MB of float32).
BLOCK = 1 << 26


class Whole:
    """A plan with all of its entries, made block by block; a `Coupling`."""

    def __init__(self, coupling):
        self._coupling = coupling

    def products(self, columns):
        """The plan times columns, and its column sums."""
        sums, parts = 0.0, []
        for rows in row_blocks(*self._coupling.shape):
            block = self._coupling._rows(rows)
            block = block.astype(np.float64)
            parts.append(block @ columns)
            sums = sums + block.sum(axis=0)
        return np.concatenate(parts), sums

    def best(self):
        return self._coupling.topk(1).indices[:, 0]


class LowRank:
    """The plan ``q diag(1 / g) r'``."""

    def __init__(self, q, r, g):
        self._q, self._r, self._g = (np.asarray(one, np.float64) for one in (q, r, g))

    def products(self, columns):
        left = self._q / self._g
        return left @ (self._r.T @ columns), self._r @ left.sum(axis=0)

    def best(self):
        left, right = (self._q / self._g).astype(np.float32), self._r.astype(np.float32)
        step = max(BLOCK // len(right), 1)
        blocks = (left[i : i + step] @ right.T for i in range(0, len(left), step))
        return np.concatenate([block.argmax(axis=1) for block in blocks])


def judged(plan, case):
    """Its terms, ``alpha`` times the quadratic plus ``1 - alpha`` times the linear one,
    the L1 error of both marginals, and the share of rows whose match is right.
    """
    x, y, u, v = (side.astype(np.float64) for side in (*case.sides, *case.features))
    left, right = _factors(x), _factors(y)
    moved, cols = plan.products(np.column_stack([right, v, np.ones(len(y))]))
    size = right.shape[1]
    rows, state = moved[:, -1], left.T @ moved[:, :size]
    both = np.vdot(_core(state), state)
    own = (
        np.vdot(_core(gram), gram) for gram in ((left.T * rows) @ left, (right.T * cols) @ right)
    )
    quadratic = sum(own) - 2 * both
    lengths = (np.square(one).sum(axis=1) for one in (u, v))
    linear = sum(one @ sums for one, sums in zip(lengths, (rows, cols), strict=True))
    linear -= 2 * np.vdot(u, moved[:, size:-1])
    error = sum(np.abs(sums - 1 / len(sums)).sum() for sums in (rows, cols))
    return {
        "quadratic": float(quadratic),
        "linear": float(linear),
        "objective": float(case.alpha * quadratic + (1 - case.alpha) * linear),
        "marginal_error": float(error),
        "right": float(case.right(plan.best())),
    }


def _factors(x):
    """Rows of squared lengths, ones and coordinates. Distances do not see that these
    are about zero; roundings do.
    """
    x = x - x.mean(axis=0)
    return np.column_stack([np.square(x).sum(axis=1), np.ones(len(x)), x])


def _core(state):
    """The state with the costs' signs on both sides."""
    return _signed(_signed(state).T).T


def _signed(state):
    """Squared lengths and ones change places, coordinates are taken -2 times."""
    return np.concatenate([state[1::-1], -2 * state[2:]])
