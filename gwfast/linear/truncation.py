"""Which entries of a Gibbs kernel are worth keeping, and how much mass the others can
have at most, also after costs and potentials have moved.
"""

import numpy as np

from ..kernels import _sparse
from ..kernels._rows import aligned_empty

# An entry is kept if it is not smaller than such a fraction of the mass of its row or
# of its column: the first fraction that few enough entries reach. On word vectors and
# clouds 1e-7 leaves out up to 3e-5 of a row, and what 1e-9 leaves out may grow a
# hundred times more until another choice is due.
FRACTIONS = (1e-9, 1e-8, 1e-7)
# Largest bound on the mass outside, as a fraction of a row or column, at which a choice
# of entries still serves.
MAX_BOUND = 1e-4
# Largest exponent of the kernel with which it can be told what is small in the plan:
# e^20 is the inverse of the least of the fractions.
MAX_PEAK = 20.0
# What is less is zero in float32.
UNDERFLOW = float(np.finfo(np.float32).tiny)


class Support:
    """Entries of a kernel ``exp((f_i + g_j - (left @ right.T)_ij) / epsilon)`` where
    that, made with these potentials, is no less than one of the `FRACTIONS` asks for;
    `lengths` (m,) are of the rows of `right`.

    Attributes
    ----------
    kept : int
        Number of entries.
    outside : list of (n,) and (m,) float64 ndarrays
        The mass of the others in each row and column, as a fraction of its own.
    start, index : (n + 1,) int64 ndarray, (kept,) int32 ndarray
        Compressed sparse rows of column numbers, after `choose`.
    """

    def __init__(self, kernel, potentials, solver, lengths, fraction):
        self.shape, self.n_threads = kernel.shape, solver.n_threads
        self.epsilon, self.lengths, self.fraction = kernel.epsilon, lengths, fraction
        self._potentials, self.index = potentials, None
        self.kept, self.outside = self._counted(kernel, solver)

    def _counted(self, kernel, solver):
        """How many entries are not small, and how much is outside, as fractions of the
        masses of rows and of columns.
        """
        # What has no mass has no entries.
        least = (
            np.where(x > 0, np.maximum(self.fraction * x, UNDERFLOW), np.inf)
            for x in (solver.p, solver.q)
        )
        ones = (np.ones(size, dtype=np.float32) for size in self.shape)
        self._entries = kernel.rows, *ones, *(x.astype(np.float32) for x in least)
        outside = [np.empty(size) for size in self.shape]
        kept = np.empty(self.shape[0], np.intp)
        sums = solver.scalings.sums
        _sparse.count(*self._entries, *outside, kept, sums, self.n_threads)
        self.start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        self._left = kernel.left
        # With what may have underflowed.
        return int(self.start[-1]), [
            (made + size * UNDERFLOW) / np.where(mass > 0, mass, 1.0)
            for made, mass, size in zip(
                outside, (solver.p, solver.q), self.shape[::-1], strict=True
            )
        ]

    def pays(self, density):
        """Whether no more than that is kept, and it may last for some steps."""
        few = self.kept <= density * self.shape[0] * self.shape[1]
        return few and max(map(np.max, self.outside)) <= MAX_BOUND / 2

    def choose(self):
        """Look up the entries that have been counted; returns itself."""
        self.index = np.empty(self.kept, dtype=np.int32)
        _sparse.select(*self._entries, self.start, self.index, self.n_threads)
        self._entries = None
        return self

    def moved(self, left):
        """Lengths (n,) of the changes of the rows of `left` since the choice."""
        return np.linalg.norm(left - self._left, axis=1)

    def bound(self, moved, potentials):
        """Largest fraction of the mass of a row or column that is outside, at most, for
        another `left`, whose rows have `moved`, and other potentials.

        An entry outside has grown by ``exp((df_i + dg_j - dc_ij) / epsilon)``, and
        ``|dc_ij|`` is at most the length of the change of row i of `left` times that
        of row j of `right`.
        """
        before, lengths = self._potentials, self.lengths
        rows, cols = np.isfinite(before.f), np.isfinite(before.g)
        df = potentials.f[rows] - before.f[rows]
        dg = potentials.g[cols] - before.g[cols]
        row_grown = df + dg.max() + moved[rows] * lengths.max()
        col_grown = dg + df.max() + moved.max() * lengths[cols]
        with np.errstate(over="ignore", invalid="ignore"):
            row_bound = self.outside[0][rows] * np.exp(row_grown / self.epsilon)
            col_bound = self.outside[1][cols] * np.exp(col_grown / self.epsilon)
        most = float(max(row_bound.max(), col_bound.max()))
        return most if most == most else np.inf  # nothing, grown infinitely


def padded(x):
    """`x` with zero columns up to whole vectors, as the sparse kernels read it."""
    width = -(-x.shape[1] // _sparse.LANES) * _sparse.LANES
    if width == x.shape[1]:
        return x
    out = aligned_empty((len(x), width))
    out[:, : x.shape[1]] = x
    out[:, x.shape[1] :] = 0.0
    return out
