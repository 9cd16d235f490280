"""What thin products leave out of that of a plan, where the plan has most of its mass.

With ``left = L + A`` and ``right = R + B``, L and R of low rank, thin products leave
out ``A T B`` (see low_rank_products.py). With few entries S of the plan T ``A S`` takes
as few multiplications, and ``A S B`` is wanted on S only: a sampled product of dense
matrices. Where these are a twentieth of all entries, both together take a seventh of
the time of a whole product.
"""

import numpy as np
from scipy import sparse

from ..kernels import _kernels, _sparse
from ..kernels._rows import ColumnSums, aligned_empty
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER

# The largest fraction of the entries that are kept, and their number, for memory.
MOST, MOST_KEPT = 0.08, 3 << 20
# Bytes for each of them.
BYTES_KEPT = 24
# Of either product, between two looks at a deadline: half a second. What is between
# reads the right factor once.
MULTIPLICATIONS = 3 * 10**10
# Rows of a plan by which it is told which entries these are.
LOOKED_AT = 64
# Last bits of a fraction that do not count where fractions are counted: a bin is less
# than one percent wide.
BIN_BITS = 16
# In place of a fraction of nothing.
TINY = float(np.finfo(np.float32).tiny)


class SampledRest:
    """The largest entries of a plan, as fractions of the mass of their row or column,
    and what thin products leave out there.

    Parameters
    ----------
    plan : (n, m) float32 ndarray
    least : (n,) and (m,) float32 ndarrays
        What an entry has at least that is kept, by its row or by its column.
    factors : ThinFactors
    n_threads : int
    """

    def __init__(self, plan, least, factors, n_threads):
        self._plan, self._factors, self._n_threads = plan, factors, n_threads
        self._start, self._index = _largest(plan, least, n_threads)
        blocks = self._blocks(slice(0, len(plan)))
        values = np.concatenate([_flat(plan, rows)[at] for rows, _, at in blocks])
        # With starts of 64 bits the numbers of columns would be copied to as many.
        given = values, self._index, self._start.astype(np.int32)
        turned = sparse.csr_array(given, shape=plan.shape).tocsc()
        self._columns = turned.indptr.astype(np.int64), turned.indices, turned.data
        self._projected = self._gathered(factors.rows)

    def measured(self, before):
        """Rows of what thin products leave out, the measured ones: as it is made of
        these entries where they are, and as it is in `before` elsewhere.
        """
        made = self._factors.rest(self._projected)
        for row, i in enumerate(self._factors.measured):
            at = self._index[self._start[i] : self._start[i + 1]]
            before[row, at] = made[row, at]
        return before

    def fill(self, part, rest, out, deadline=NEVER):
        """Write a product of the plan: its thin `part`, and what that leaves out, made
        of the entries where they are, and of another plan, the `rest`, elsewhere; that
        is nothing where it is None. OutOfTime after the deadline.

        Returns
        -------
        float
            What the plan gives of the rest elsewhere.
        """
        n, write, elsewhere = len(out), part.writer(), 0.0
        step = max(MULTIPLICATIONS // max(len(self._index), 1), 1)
        for i in range(0, n, step):
            deadline.check()
            rows = slice(i, min(i + step, n))
            made = self._make(rows, out[rows])
            write(rows, out[rows], rest)
            if rest is not None:
                given = self._plan[rows], rest[rows], self._n_threads
                elsewhere += _kernels.dot(*given)
            elsewhere -= self._place(rows, made, rest, out)
        return elsewhere

    def _make(self, rows, half):
        """Some rows of ``A S B``, where the entries are; `half` is scratch."""
        factors, threads = self._factors, self._n_threads
        left, right = factors.matrices
        start = self._start[rows.start : rows.stop + 1]
        at = start - start[0], self._index[start[0] : start[-1]]
        made = np.zeros(len(at[1]), np.float32)
        _sparse.gather(left[rows], *self._columns, half, threads)
        factors.subtract_leading(rows, self._projected, half)
        _sparse.add_samples(*at, half, right, made, threads)
        inner, others = factors.leading_of(half)
        _sparse.add_samples(*at, np.negative(inner, out=inner), others, made, threads)
        return made

    def _place(self, rows, made, rest, out):
        """Add what was made of some rows in place of the rest there; returns what the
        plan gives of that.
        """
        there, first = 0.0, self._start[rows.start]
        for some, part, at in self._blocks(rows):
            values = made[part.start - first : part.stop - first]
            if rest is not None:
                before = _flat(rest, some)[at]
                values = values - before
                given = before, _flat(self._plan, some)[at]
                there += float(np.einsum("i,i->", *given, dtype=np.float64))
            _flat(out, some)[at] += values
        return there

    def _gathered(self, rows):
        """``rows @ S``."""
        out = aligned_empty((len(rows), len(self._columns[0]) - 1))
        _sparse.gather(rows, *self._columns, out, self._n_threads)
        return out

    def _blocks(self, rows):
        """Of blocks of some rows: which they are, which entries these have, and where
        they are among all of the block.
        """
        m = self._plan.shape[1]
        for block in row_blocks(rows.stop - rows.start, m):
            some = slice(rows.start + block.start, rows.start + block.stop)
            start = self._start[some.start : some.stop + 1]
            part = slice(start[0], start[-1])
            at = np.repeat(np.arange(0, m * (len(start) - 1), m), np.diff(start))
            yield some, part, at + self._index[part]


def _flat(matrix, rows):
    return matrix[rows].reshape(-1)


def least_kept(plan, left_out, n_threads):
    """What an entry has at least, by its row or by its column, a fraction of their
    masses, for the others to have this share of the mass; None if too many would be
    kept.
    """
    masses = tuple(map(np.empty, plan.shape))
    _kernels.marginals(plan, *masses, ColumnSums(*plan.shape), n_threads)
    some = slice(None, None, max(len(plan) // LOOKED_AT, 1))
    few, less = plan[some], np.minimum.outer(masses[0][some], masses[1])
    ratios = np.zeros_like(few)
    # What was put together of parts of a plan may be less than nothing here and there.
    wanted = (less > 0) & (few > 0)
    np.divide(few, less, out=ratios, where=wanted, casting="same_kind")
    # Which of them is the last is told by a histogram, not by their order.
    bins = (ratios.view(np.int32) >> BIN_BITS).reshape(-1)
    mass = np.cumsum(np.bincount(bins, few.reshape(-1))[::-1])
    last = len(mass) - 1 - int(np.searchsorted(mass, (1 - left_out) * mass[-1]))
    kept = np.count_nonzero(bins >= max(last, 1))  # the first is of nothing
    if kept > min(MOST, MOST_KEPT / plan.size) * len(bins):
        return None
    fraction = np.array(last << BIN_BITS, np.int32).view(np.float32)
    fraction = max(float(fraction), TINY)
    return tuple(
        np.where(one > 0, fraction * one, np.inf).astype(np.float32) for one in masses
    )


def _largest(plan, least, n_threads):
    """Compressed sparse rows of column numbers: starts and numbers."""
    entries = plan, *(np.ones(size, np.float32) for size in plan.shape), *least
    outside, kept = map(np.empty, plan.shape), np.empty(len(plan), np.intp)
    _sparse.count(*entries, *outside, kept, ColumnSums(*plan.shape), n_threads)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    index = np.empty(start[-1], np.int32)
    _sparse.select(*entries, start, index, n_threads)
    return start, index


def nbytes(shape):
    """Bytes that it takes of plans of that many points."""
    return BYTES_KEPT * min(MOST * shape[0] * shape[1], MOST_KEPT)
