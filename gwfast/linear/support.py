"""Which entries of a Gibbs kernel are kept where rows have few partners: for each row
its nearest columns and for each column its nearest rows, without an n x m matrix.
"""

import functools

import numpy as np
from scipy import sparse

from ..kernels import _products, _sparse
from ..kernels._rows import Panels, Product, aligned_empty
from ..results.tables import largest
from ..utils.blocks import row_blocks

# Products with all items are sought through cells where there are more items: with
# 50,000 items of 50 features a search by cells takes half of the time.
EXACT_ITEMS = 30_000
# Cells of queries, and items on the short list of each, in square roots of the numbers of queries
# and of items. On noisy rotations of 100,000 (300,000) clustered points of 50 features 99.1 %
# (98.3 %) of the 32 best items are on the lists, and all of the best ones; half as long lists have
# 94 % (93 %) in three quarters of the time. The exact search takes 2.4 times as long (7), a graph
# of HNSW 4 times for 98.9 %. A pair that is missed from one side is mostly found from the other.
CELLS, LISTED = 6, 24
# Queries a cell, and rounds, of Lloyd's algorithm.
LLOYD_QUERIES, LLOYD_ROUNDS = 48, 6
# Items of which a quantile stands for that of all.
SAMPLED = 1 << 13


class Support:
    """Entries in compressed sparse rows: columns ``index[start[i]]`` to
    ``index[start[i + 1]]`` of row i, in order.

    Attributes
    ----------
    start, index : (n + 1,) int64 ndarray, (nnz,) int32 ndarray
    """

    def __init__(self, start, index):
        self.start, self.index = start, index

    @classmethod
    def nearest(cls, left, right, potentials, masses, k, n_threads):
        """The k columns with the largest ``g_j - left_i . right_j`` of each row i, and
        the k rows with the largest ``f_i - left_i . right_j`` of each column j, of
        points that have masses; and the entries of a plan with these masses, without
        which there may be none: potentials would run away.
        """
        f, g = (one.astype(np.float32) for one in (potentials.f, potentials.g))
        rows, cols = (np.flatnonzero(one > 0) for one in masses)
        f[~np.isfinite(f)] = g[~np.isfinite(g)] = 0.0
        shape, given = (len(f), len(g)), (rows, cols)
        x, y = (x[some] for x, some in zip((left, right), given, strict=True))
        of_rows = _nearest(x, y, g[cols], k, n_threads)
        of_cols = _nearest(y, x, f[rows], k, n_threads)
        ours = _pairs(rows, cols[of_rows], shape)
        theirs = _pairs(cols, rows[of_cols], shape[::-1]).T.tocsr()
        masses = (one[some] for one, some in zip(masses, given, strict=True))
        at = monotone(x, y, *masses)
        ones = np.ones(len(at[0]), dtype=np.int8)
        plan = sparse.coo_array((ones, (rows[at[0]], cols[at[1]])), shape=shape)
        both = ours + theirs + plan.tocsr()
        start = both.indptr.astype(np.int64)
        return cls(start, both.indices.astype(np.int32, copy=False))

    @classmethod
    def of_plan(cls, kernel, scalings, masses, least, max_density):
        """Return the entries of the plan of a float32 `StoredKernel` that are at least
        the fraction `least` of the mass of their row or column, or None if they are more
        than the fraction `max_density` of all.
        """
        p, q = ((least * one).astype(np.float32) for one in masses)
        start = np.empty(len(p) + 1, dtype=np.int64)
        given = kernel.rows, scalings.u, scalings.v, p, q, start
        _sparse.select(*given, n_threads=kernel.n_threads)
        if start[-1] > max_density * len(p) * len(q):
            return None
        index = np.empty(start[-1], dtype=np.int32)
        _sparse.select(*given, index, kernel.n_threads)
        return cls(start, index)


def monotone(x, y, p, q):
    """Rows and columns of the entries of a plan with these masses, if their totals are
    scaled to one: of the optimal one on a line (north-west corner rule), the leading
    axis of `y`, on which near points of both sides are about in the same order.
    """
    centered = y - y.mean(axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)
    orders = np.argsort(-x @ axes[:, -1]), np.argsort(y @ axes[:, -1])
    ends = [np.cumsum(one[order] / one.sum()) for one, order in zip((p, q), orders, strict=True)]
    steps = np.sort(np.concatenate([[0.0], *ends]))
    middle = (steps[1:] + steps[:-1]) / 2
    return [
        order[np.minimum(np.searchsorted(end, middle), len(order) - 1)]
        for end, order in zip(ends, orders, strict=True)
    ]


def _pairs(queries, items, shape):
    """A CSR array with an entry for each item of each query."""
    n, k = items.shape
    counts = np.zeros(shape[0] + 1, dtype=np.int64)
    counts[queries + 1] = k
    ones = np.ones(n * k, dtype=np.int8)
    given = ones, items.ravel().astype(np.int32), counts.cumsum()
    made = sparse.csr_array(given, shape=shape)
    made.sort_indices()
    return made


def _nearest(x, y, bias, k, n_threads):
    """The k items (len(x), k) with the largest ``bias_j - x_i . y_j`` of each query."""
    queries = np.hstack([-x, np.ones((len(x), 1), dtype=np.float32)])
    items = np.hstack([y, bias[:, None]])
    return largest_products(queries, items, min(k, len(items)), n_threads)


def largest_products(queries, items, k, n_threads):
    """The k items with the largest inner products with each query, (n, k) int64; the
    most of them, where there are many items.

    Queries are grouped in cells. The items with the largest products with the mean of
    a cell are its short list, among which each of its queries finds its own. (Inverted
    files and graphs, which rank items by distances, take longer for the same recall:
    a bias and lengths that differ make the largest product another than the nearest.)
    """
    n, m = len(queries), len(items)
    search = functools.partial(largest, k=k, n_threads=n_threads)
    if m <= EXACT_ITEMS or n < CELLS:
        return search(_product(queries, items, n_threads)).indices
    # Deviations of queries from their mean change products by their length in the
    # metric of the covariance of the items.
    spread = np.cov(items[:: max(m >> 16, 1), :-1].T) + 0.0
    unit = 1e-6 * np.trace(spread) + np.finfo(np.float32).tiny
    metric = np.linalg.cholesky(spread + unit * np.eye(len(spread)))
    points = (queries[:, :-1] @ metric.astype(np.float32)).astype(np.float32)
    order, start = _cells(points, int(CELLS * np.sqrt(n)), n_threads)
    found = np.empty((n, k), dtype=np.int64)
    listed = max(int(LISTED * np.sqrt(m)), 4 * k)
    panels = Panels(items, True, n_threads=n_threads)
    centers = np.add.reduceat(queries[order], start[:-1], axis=0)
    centers /= np.diff(start)[:, None].astype(np.float32)
    for some in row_blocks(len(centers), m, 1 << 28):
        scores = _made(centers[some], panels, n_threads)
        for cell, score in enumerate(scores, some.start):
            short, own = _short(score, listed), order[start[cell] : start[cell + 1]]
            made = search(_product(queries[own], items[short], n_threads))
            found[own] = short[made.indices]
    return found


def _made(rows, panels, n_threads):
    out = aligned_empty((len(rows), panels.m))
    _products.matmul(np.ascontiguousarray(rows), panels, out, n_threads=n_threads)
    return out


def _product(queries, items, n_threads):
    right = Panels(np.ascontiguousarray(items), True, n_threads=n_threads)
    return Product(np.ascontiguousarray(queries), right)


def _short(score, length):
    """About so many items with the largest scores, no fewer."""
    m = len(score)
    if length >= m:
        return np.arange(m)
    some = score[:: max(m // SAMPLED, 1)]
    at = min(int(1.1 * length * len(some) / m) + 1, len(some))
    least = np.partition(some, -at)[-at]
    short = np.flatnonzero(score >= least)
    if len(short) < length:
        short = np.argpartition(score, -length)[-length:]
    return short


def _cells(points, n_cells, n_threads):
    """Points by cells, of Lloyd's algorithm on some of them: their order, and where
    each cell starts in it and the last one ends; none is empty.
    """
    rng = np.random.default_rng(0)
    sample = rng.permutation(len(points))[: LLOYD_QUERIES * n_cells]
    some = np.ascontiguousarray(points[sample])
    centers = some[:n_cells].copy()
    for _ in range(LLOYD_ROUNDS):
        order, start = _by_cell(some, centers, n_threads)
        centers = np.add.reduceat(some[order], start[:-1], axis=0)
        centers /= np.diff(start)[:, None].astype(np.float32)
    return _by_cell(points, centers, n_threads)


def _by_cell(points, centers, n_threads):
    """Points in the order of their nearest centers."""
    half = -0.5 * np.square(centers).sum(axis=1, keepdims=True)
    ones = np.ones((len(points), 1), dtype=np.float32)
    made = _product(np.hstack([points, ones]), np.hstack([centers, half]), n_threads)
    cell = largest(made, 1, n_threads).indices[:, 0]
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=len(centers))
    start = np.concatenate([[0], counts[counts > 0].cumsum()])
    return order, start
