"""Where the last steps of a fixed-point iteration lead: Anderson's acceleration
(D. G. Anderson, J. ACM 1965).

The point at which the steps of a linear G vanish is found whether G contracts there or
not, so it may be a saddle that the iteration is about to leave. Depth one goes there
only if that is forwards. Greater depths go there only if the steps say that G
contracts; where that is slow they save most. Where neither does, but the last two steps
are alike, as past saddles for tens of iterations, some more of them are gone at once.
"""

import enum

import numpy as np
from scipy.linalg import lapack

from ..utils.blocks import CACHED_BYTES, row_blocks

# Depth one: the largest factor from one step to the next at which the end is in sight,
# and how many times the last step it may be away.
CONTRACTING, MAX_WEIGHT = 0.75, 4.0
# Least cosine between steps that are alike, and how many more of them are gone at once.
# What else there is of a step, and becomes r times as large in the next, must not grow
# meanwhile: it does not for r above 1/2 with 3, above 5/7 with 6, which saves no more.
# Of 96 descents of words past saddles 7 ended elsewhere than without all extrapolation
# before there was this, 12 do with 0.99 (11 lower), 20 with 0.9 (16 lower).
ALIKE, FURTHER = 0.99, 3.0
# Steps that deep extrapolation looks at, beside the last.
DEPTH = 5
# Largest eigenvalue of what is known of G's derivative at which a deep extrapolation is
# trusted, and largest sum of the absolute values of its coefficients.
MAX_EIGENVALUE, MAX_COEFFICIENTS = 0.99, 100.0
# Fraction of the largest eigenvalue of a Gram matrix that is rounding.
SINGULAR = 1e-12


class Lead(enum.IntEnum):
    """What extrapolation has followed the last steps to."""

    NOWHERE = 0
    END = 1  # where they vanish
    AHEAD = 2  # further where they go anyway


class Anderson:
    """The last steps of the iteration ``after = G(before)``, `depth` and one.

    Parameters
    ----------
    depth : int
    goes_ahead : bool, default=True
        Whether it follows steps past saddles.

    Attributes
    ----------
    lead : Lead
        Of the last `coefficients`.
    """

    lead = Lead.NOWHERE

    def __init__(self, depth=1, goes_ahead=True):
        self.depth, self._steps, self._goes_ahead = depth, [], goes_ahead

    def mapped(self, found):
        """The same of what `found` makes of arrays."""
        other = Anderson(self.depth, self._goes_ahead)
        other._steps = [tuple(map(found, step)) for step in self._steps]
        return other

    def add(self, before, after):
        """One step; the arrays must not change later."""
        self._steps = [*self._steps[-self.depth :], (before, after)]

    @property
    def has_steps(self):
        return bool(self._steps)

    @property
    def last(self):
        """The last step, `before` and `after`."""
        return self._steps[-1]

    @property
    def penultimate(self):
        """The `after` of the step before the last."""
        return self._steps[-2][1]

    def weights(self):
        """How many times the difference of the last two `after` to go on by: to the
        end, where what is left of the steps is smallest if G is linear, and further
        ahead; 0.0 where that is not in sight.
        """
        if len(self._steps) < 2:
            return 0.0, 0.0
        moved, before, both, last = _of_two(self._steps[-2:])
        shrunk = before - 2 * both + last
        weight = (both - last) / shrunk if shrunk > 0 else 0.0
        if last <= CONTRACTING**2 * before:
            return (weight if 0.0 < weight <= MAX_WEIGHT else 0.0), 0.0
        alike = both >= ALIKE * np.sqrt(before * last)
        if not (self._goes_ahead and moved > 0 and alike):
            return 0.0, 0.0
        further = FURTHER * np.sqrt(last / moved)
        return 0.0, float(min(weight, further) if weight > 0 else further)

    def coefficients(self, most=DEPTH + 1):
        """What to multiply the last `after` by, of so many at most, oldest first, to
        get where they lead; empty where nothing can be said.
        """
        deep = self._deep_coefficients(most) if self.depth > 1 else []
        end, ahead = (0.0, 0.0) if deep else self.weights()
        weight = ahead if self.depth > 1 else end or ahead
        if not deep and not weight:
            self.lead = Lead.NOWHERE
            return []
        self.lead = Lead.AHEAD if ahead else Lead.END
        return deep or [-weight, 1.0 + weight]

    def leads(self):
        """Where the last steps lead, or None where nothing can be said."""
        coefficients = self.coefficients()
        return self.combined(coefficients) if coefficients else None

    def combined(self, coefficients):
        """The sum of the last `after`, so multiplied."""
        last = self._steps[-len(coefficients) :]
        return sum(c * after for c, (_, after) in zip(coefficients, last, strict=True))

    def _deep_coefficients(self, most):
        steps = self._steps[-most:]
        if len(steps) < 2:
            return []
        moved, mixed, gram, right = _inner_products(steps)
        size = np.sqrt(gram.diagonal())
        if not size.all():
            return []
        # Of very different sizes, one after the other.
        scale = size[:, None] * size
        moved, mixed, gram, right = (
            moved / scale,
            mixed / scale,
            gram / scale,
            right / size,
        )
        # What is known of the derivative of G - 1, in a basis of where it went.
        basis = _orthonormal(moved)
        if not basis.size:
            return []
        derivative = basis.T @ mixed @ basis
        real, imaginary, _, _, failed = lapack.dgeev(
            derivative, compute_vl=0, compute_vr=0
        )
        if failed or not np.hypot(real + 1.0, imaginary).max() <= MAX_EIGENVALUE:
            return []
        # Least squares from normal equations that may be nearly singular.
        basis = _orthonormal(gram)
        weights = basis @ (right @ basis) / size
        coefficients = np.zeros(len(weights) + 1)
        coefficients[:-1] = weights
        coefficients[1:] -= weights
        coefficients[-1] += 1.0
        fits = np.abs(coefficients).sum() <= MAX_COEFFICIENTS
        return coefficients.tolist() if fits else []


def _of_two(steps):
    """Of two steps: the squared distance between where they led, and the inner products
    of the first with itself, of both, and of the second with itself.
    """
    made = np.zeros(4)
    flat = [(np.ravel(before), np.ravel(after)) for before, after in steps]
    for part in row_blocks(flat[0][0].size, 2, CACHED_BYTES):
        early, late = (
            np.subtract(after[part], before[part], dtype=np.float64)
            for before, after in flat
        )
        moved = np.subtract(flat[1][1][part], flat[0][1][part], dtype=np.float64)
        pairs = (moved, moved), (early, early), (early, late), (late, late)
        made += [one @ other for one, other in pairs]
    return made.tolist()


def _inner_products(steps):
    """Of the differences of successive `before`, of these with the differences of
    successive steps, of the latter, and of the latter with the last step; some
    entries at a time, as these differences are many copies.
    """
    count = len(steps) - 1
    made = [np.zeros((count, count)) for _ in range(3)] + [np.zeros(count)]
    flat = [(np.ravel(before), np.ravel(after)) for before, after in steps]
    for part in row_blocks(flat[0][0].size, 2 * len(flat), CACHED_BYTES):
        befores, afters = (
            np.array([pair[side][part] for pair in flat], dtype=np.float64)
            for side in (0, 1)
        )
        steps = afters - befores
        moved, shrunk = befores[1:] - befores[:-1], steps[1:] - steps[:-1]
        pairs = (moved, moved), (moved, shrunk), (shrunk, shrunk)
        for total, (left, right) in zip(made, pairs, strict=False):
            total += left @ right.T
        made[3] += shrunk @ steps[-1]
    return made


def _orthonormal(gram):
    """A basis, orthonormal in the inner product of a Gram matrix (k, k), in columns;
    without directions that are rounding.
    """
    # LAPACK's own, as checks take longer than a few numbers do.
    values, vectors, _ = lapack.dsyev(gram)
    kept = values > SINGULAR * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])
