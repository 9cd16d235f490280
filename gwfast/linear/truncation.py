"""Which entries of a Gibbs kernel are worth keeping, and how much mass the others can
have at most, also after costs and potentials have moved.
"""

import numpy as np

from ..kernels import _sparse
from ..kernels._rows import aligned_empty

# An entry is kept if it is not smaller than such a share of the mass of its row or of
# its column: the first with which few enough are. On word vectors and clouds 1e-7
# leaves out up to 3e-5 of a row, and what 1e-9 leaves out may grow a hundred times more
# until another choice is due.
SHARES = (1e-9, 1e-8, 1e-7)
# Share of the mass of a row or column that may be outside, by what is known, before the
# entries are chosen anew.
CERTIFIED = 1e-4


class Support:
    """Entries of the kernel ``exp((f_i + g_j - (left @ right.T)_ij) / epsilon)``.

    Chosen where `kernel` itself, that is the plan with the potentials of `solver`, is
    not small.

    Parameters
    ----------
    kernel : Kernel
        Of a product, with `left`.
    solver : SinkhornSolver
    lengths : (m,) float64 ndarray
        Of the rows of `right`.
    share : float
        See `SHARES`.
    n_threads : int

    Attributes
    ----------
    kept : int
        Number of entries.
    start : (n + 1,) int64 ndarray
    index : (kept,) int32 ndarray
        Compressed sparse rows of column numbers, after `choose`.
    """

    def __init__(self, kernel, solver, lengths, share, n_threads):
        self.shape, self.n_threads = kernel.shape, n_threads
        self.epsilon, self.lengths = kernel.epsilon, lengths
        # What has no mass has no entries.
        row, col = (
            np.where(x > 0, share * x, np.inf).astype(np.float32)
            for x in (solver.p, solver.q)
        )
        ones = (np.ones(size, dtype=np.float32) for size in self.shape)
        self._entries = kernel.rows, *ones, row, col
        lost, kept = (
            [np.empty(size) for size in self.shape],
            np.empty(len(row), np.intp),
        )
        _sparse.count(*self._entries, *lost, kept, solver.sums, n_threads)
        self.start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        self.kept, self.index = int(self.start[-1]), None
        self._lost = [
            loss / np.where(mass > 0, mass, 1.0)
            for loss, mass in zip(lost, (solver.p, solver.q), strict=True)
        ]
        self._left, self._f, self._g = kernel.left, solver.f.copy(), solver.g.copy()

    def pays(self, density):
        """Whether no more than that is kept, and it may last for some steps."""
        few = self.kept <= density * self.shape[0] * self.shape[1]
        return few and max(map(np.max, self._lost)) <= CERTIFIED / 2

    def choose(self):
        """Look up the entries that have been counted; returns itself."""
        self.index = np.empty(self.kept, dtype=np.int32)
        _sparse.select(*self._entries, self.start, self.index, self.n_threads)
        self._entries = None
        return self

    def lost(self, left, f, g):
        """Largest share of the mass of a row or column that is outside, at most, for
        another `left` and other potentials.

        An entry outside has grown by ``exp((df_i + dg_j - dc_ij) / epsilon)``, and
        ``|dc_ij|`` is at most the length of the change of row i of `left` times that
        of row j of `right`.
        """
        moved = np.linalg.norm(left - self._left, axis=1)
        rows, cols = np.isfinite(self._f), np.isfinite(self._g)
        df, dg = f[rows] - self._f[rows], g[cols] - self._g[cols]
        row_grown = df + dg.max() + moved[rows] * self.lengths.max()
        col_grown = dg + df.max() + moved.max() * self.lengths[cols]
        with np.errstate(over="ignore", invalid="ignore"):
            row_lost = self._lost[0][rows] * np.exp(row_grown / self.epsilon)
            col_lost = self._lost[1][cols] * np.exp(col_grown / self.epsilon)
        most = float(max(row_lost.max(), col_lost.max()))
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
