"""What thin products leave out of that of a plan, where the plan has most of its mass.

With ``left = L + A`` and ``right = R + B``, L and R of low rank, thin products leave
out ``A T B`` (see low_rank_products.py). With few entries S of the plan T ``A S`` takes
as few multiplications, and ``A S B`` is wanted on S only: a sampled product of dense
matrices. Where these are a twentieth of all entries, both together take an eighth of
the time of a whole product.
"""

import numpy as np
from scipy import sparse

from ..kernels import _sparse
from ..kernels._rows import ColumnSums, aligned_empty
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER

# The largest fraction of the entries that are kept.
MOST = 0.08
# Of a product, between two looks at a deadline: half a second. Each reads the right
# factor once more.
MULTIPLICATIONS = 3 * 10**10
# Rows of a plan by which it is told which entries these are.
LOOKED_AT = 64
# In place of a fraction of nothing.
TINY = float(np.finfo(np.float32).tiny)


class SampledRest:
    """The largest entries of a plan, as fractions of the mass of their row or column,
    and what thin products leave out there.

    Parameters
    ----------
    plan : (n, m) float32 ndarray
    fraction : float
        Of the mass of its row or column, what an entry has at least that is kept.
    factors : ThinFactors
    n_threads : int
    """

    def __init__(self, plan, fraction, factors, n_threads):
        self._factors, self._n_threads = factors, n_threads
        self._start, self._index = _largest(plan, fraction, n_threads)
        self._values = np.concatenate(
            [plan[rows].reshape(-1)[at] for rows, _, at in self._blocks(plan.shape)]
        )
        turned = sparse.csr_array(
            (self._values, self._index, self._start), shape=plan.shape
        ).tocsc()
        start, index = turned.indptr.astype(np.int64), turned.indices.astype(np.int32)
        self._columns = start, index, turned.data
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

    def make(self, scratch, deadline=NEVER):
        """Values of what thin products leave out, where the entries are; `scratch` is a
        matrix of the size of the plan, which is overwritten. OutOfTime after the
        deadline.
        """
        made, n = np.zeros_like(self._values), len(scratch)
        step = max(n * MULTIPLICATIONS // (n * len(made) + 1), 1)
        for i in range(0, n, step):
            deadline.check()
            rows = slice(i, min(i + step, n))
            start = self._start[rows.start : rows.stop + 1]
            part = slice(start[0], start[-1])
            at = start - start[0], self._index[part]
            self._make_rows(rows, at, scratch[rows], made[part])
        return made

    def _make_rows(self, rows, at, half, made):
        factors, threads = self._factors, self._n_threads
        left, right = factors.matrices
        _sparse.gather(left[rows], *self._columns, half, threads)
        factors.subtract_leading(rows, self._projected, half)
        _sparse.add_samples(*at, half, right, made, threads)
        inner, others = factors.leading_of(half)
        _sparse.add_samples(*at, np.negative(inner, out=inner), others, made, threads)

    def place(self, values, rest, out):
        """Add the values to `out`, in which there is the `rest` of another plan, or
        none, in place of that; returns what the plan gives of that elsewhere.
        """
        missing = 0.0
        for rows, part, at in self._blocks(out.shape):
            some = values[part]
            if rest is not None:
                before = rest[rows].reshape(-1)[at]
                some = some - before
                had = before, self._values[part]
                missing -= float(np.einsum("i,i->", *had, dtype=np.float64))
            out[rows].reshape(-1)[at] += some
        return missing

    def _gathered(self, rows):
        """``rows @ S``."""
        out = aligned_empty((len(rows), len(self._columns[0]) - 1))
        _sparse.gather(rows, *self._columns, out, self._n_threads)
        return out

    def _blocks(self, shape):
        """Of blocks of rows a slice of these, a slice of their entries, and where these
        are in the block, counted row by row.
        """
        for rows in row_blocks(*shape):
            start = self._start[rows.start : rows.stop + 1]
            part = slice(start[0], start[-1])
            at = np.repeat(np.arange(len(start) - 1) * shape[1], np.diff(start))
            yield rows, part, at + self._index[part]


def fraction_for(plan, left_out):
    """The fraction of the mass of its row or column that an entry is to have, for the
    others to have this share of the mass; None if too many would be kept.
    """
    some = slice(None, None, max(len(plan) // LOOKED_AT, 1))
    few, (rows, cols) = plan[some], _masses(plan)
    least = np.minimum.outer(rows[some], cols)
    ratios = np.divide(few, least, out=np.zeros_like(few), where=least > 0)
    order = np.argsort(-ratios, axis=None)
    mass = np.cumsum(few.reshape(-1)[order], dtype=np.float64)
    last = np.searchsorted(mass, (1 - left_out) * mass[-1])
    if last > MOST * len(order):
        return None
    return max(float(ratios.reshape(-1)[order[last]]), TINY)


def _masses(plan):
    return plan.sum(axis=1), plan.sum(axis=0)


def _largest(plan, fraction, n_threads):
    """Compressed sparse rows of column numbers: starts and numbers."""
    least = (np.where(mass > 0, fraction * mass, np.inf) for mass in _masses(plan))
    ones = (np.ones(size, np.float32) for size in plan.shape)
    entries = plan, *ones, *(one.astype(np.float32) for one in least)
    outside, kept = map(np.empty, plan.shape), np.empty(len(plan), np.intp)
    _sparse.count(*entries, *outside, kept, ColumnSums(*plan.shape), n_threads)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    index = np.empty(start[-1], np.int32)
    _sparse.select(*entries, start, index, n_threads)
    return start, index
