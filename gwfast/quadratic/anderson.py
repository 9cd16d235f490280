"""Where the last steps of a fixed-point iteration lead: Anderson's acceleration
(D. G. Anderson, J. ACM 1965).

The point at which the steps of a linear G vanish is found whether G contracts there or
not, so it may be a saddle that the iteration is about to leave. Depth one goes forwards
only, further where the iteration goes anyway: of plans in float32 more depth saved one
iteration in ten. Greater depths go where they lead only if the steps say that G
contracts; where that is slow, as on sums over plans in float64, they save most.
"""

import numpy as np

from ..utils.trees import as_saved

# Extrapolation of depth one by more than this many times the last step is not trusted.
MAX_WEIGHT = 4.0
# Steps that deep extrapolation looks at, beside the last.
DEPTH = 5
# Largest eigenvalue of what is known of G's derivative at which a deep extrapolation is
# trusted, and largest sum of the absolute values of its coefficients.
MAX_EIGENVALUE, MAX_COEFFICIENTS = 0.99, 100.0
# Fraction of the largest eigenvalue of a Gram matrix that is rounding.
SINGULAR = 1e-12


class Anderson:
    """The last steps of the iteration ``after = G(before)``, `depth` and one.

    Parameters
    ----------
    depth : int
    """

    def __init__(self, depth=1):
        self.depth, self._steps = depth, []

    def export(self):
        """A tree from which `restore` takes the steps."""
        return self._steps

    def restore(self, saved, shape, dtype):
        """Take the steps that another exported, between arrays of this kind."""
        self._steps = [
            (as_saved(before, shape, dtype), as_saved(after, shape, dtype))
            for before, after in saved
        ]

    def add(self, before, after):
        """One step; the arrays must not change later."""
        self._steps = [*self._steps[-self.depth :], (before, after)]

    @property
    def last(self):
        """The last step, `before` and `after`."""
        return self._steps[-1]

    @property
    def penultimate(self):
        """The `after` of the step before the last."""
        return self._steps[-2][1]

    def weight(self):
        """How many times the difference of the last two `after` to go on by, so that
        what is left of the steps is smallest if G is linear; 0.0 where nothing can be
        said.
        """
        if len(self._steps) < 2:
            return 0.0
        early, late = (
            np.subtract(after, before, dtype=np.float64)
            for before, after in self._steps[-2:]
        )
        shrunk = early - late
        size = np.vdot(shrunk, shrunk)
        weight = np.vdot(shrunk, late) / size if size > 0 else 0.0
        return float(weight) if 0.0 < weight <= MAX_WEIGHT else 0.0

    def coefficients(self):
        """What to multiply the last `after` by, oldest first, to get where they lead;
        empty where nothing can be said.
        """
        if self.depth > 1:
            return self._deep_coefficients()
        weight = self.weight()
        return [-weight, 1.0 + weight] if weight else []

    def combined(self, coefficients):
        """The sum of the last `after`, so multiplied."""
        last = self._steps[-len(coefficients) :]
        return sum(c * after for c, (_, after) in zip(coefficients, last, strict=True))

    def _deep_coefficients(self):
        if len(self._steps) < 2:
            return []
        befores, afters = (
            np.array([np.ravel(step[side]) for step in self._steps], dtype=np.float64)
            for side in (0, 1)
        )
        steps, moved = afters - befores, np.diff(befores, axis=0)
        shrunk = np.diff(steps, axis=0)
        size = np.sqrt(np.einsum("ij,ij->i", shrunk, shrunk))
        if not size.all():
            return []
        # Of very different sizes, one after the other.
        shrunk, moved = shrunk / size[:, None], moved / size[:, None]
        # What is known of the derivative of G - 1, in a basis of where it went.
        values, vectors = np.linalg.eigh(moved @ moved.T)
        kept = values > SINGULAR * values[-1]
        basis = vectors[:, kept] / np.sqrt(values[kept])
        derivative = basis.T @ (moved @ shrunk.T) @ basis
        if np.abs(np.linalg.eigvals(derivative) + 1.0).max() > MAX_EIGENVALUE:
            return []
        # Least squares from normal equations that may be nearly singular.
        gram, right = shrunk @ shrunk.T, shrunk @ steps[-1]
        weights = np.linalg.lstsq(gram, right, rcond=SINGULAR)[0] / size
        coefficients = np.diff(weights, prepend=0.0, append=0.0)
        coefficients[-1] += 1.0
        fits = np.abs(coefficients).sum() <= MAX_COEFFICIENTS
        return list(coefficients) if fits else []
