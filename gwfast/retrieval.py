"""Nearest neighbors among vectors of one space, plain and corrected for hubs.

Similarities are made for some rows at a time; an n x m matrix never exists.
"""

from typing import NamedTuple

import numpy as np

from ._validation import as_count, as_matrix, one_of
from .geometry import unit_rows_float32
from .kernels import _kernels, _products
from .kernels._rows import Panels, aligned_empty
from .kernels.threads import resolve_n_threads

# Bytes of float32 similarities held at a time: large enough for full-speed products,
# small enough to leave a good part in cache until the largest entries are picked.
CHUNK_BYTES = 32 * 2**20

METHODS = ("nn", "csls")


class Neighbors(NamedTuple):
    """The best targets of every query, best first.

    Attributes
    ----------
    indices : (n_queries, k) int64 ndarray
    scores : (n_queries, k) float32 ndarray
    """

    indices: np.ndarray
    scores: np.ndarray


def largest(x, k, n_threads):
    """`Neighbors` by the largest entries of float32 rows, an array or `Rows`."""
    n = len(x) if isinstance(x, np.ndarray) else x.n
    indices = np.empty((n, k), dtype=np.intp)
    scores = np.empty((n, k), dtype=np.float32)
    _kernels.topk_rows(x, indices, scores, n_threads)
    return Neighbors(indices.astype(np.int64, copy=False), scores)


def nearest_neighbors(
    queries, targets, *, method="csls", k=10, hood=10, sources=None, n_threads=None
):
    """The `k` best targets of every query, by cosine similarity.

    Parameters
    ----------
    queries : array-like of shape (n_queries, d)
    targets : array-like of shape (m, d)
    method : {"csls", "nn"}, default="csls"
        "nn" ranks by cosine. "csls" by cross-domain similarity local scaling,
        ``2 cos(x, y) - r(x) - r(y)`` (Conneau et al., ICLR 2018), where `r` is the
        mean cosine to the `hood` nearest points of the other space: it keeps hubs, the
        points near everything, from being everybody's translation.
    k : int, default=10
        At most the number of targets is returned.
    hood : int, default=10
    sources : array-like of shape (n, d) or None, default=None
        The points that ``r(y)`` looks at; by default the queries.
    n_threads : int or None, default=None

    Returns
    -------
    Neighbors

    Raises
    ------
    ValueError
        If shapes do not fit or rows are zero.
    """
    queries, targets = as_matrix(queries, "queries"), as_matrix(targets, "targets")
    sources = queries if sources is None else as_matrix(sources, "sources")
    one_of(method, "method", METHODS)
    k = min(as_count(k, "k"), targets.shape[0])
    hood = as_count(hood, "hood")
    n_threads = resolve_n_threads(n_threads)
    for x, name in ((targets, "targets"), (sources, "sources")):
        if x.shape[1] != queries.shape[1]:
            raise ValueError(
                f"{name} must have as many columns as queries, {queries.shape[1]}, "
                f"got {x.shape[1]}"
            )
    same = sources is queries
    queries = unit_rows_float32(queries, "queries")
    targets = unit_rows_float32(targets, "targets")
    sources = queries if same else unit_rows_float32(sources, "sources")
    penalty = np.float32(0.0)
    if method == "csls":
        penalty = _hood_similarity(targets, sources, hood, n_threads)
    found = []
    for cosine in _chunks(queries, targets, n_threads):
        if method == "nn":
            found.append(largest(cosine, k, n_threads))
            continue
        near = min(hood, targets.shape[0])
        own = largest(cosine, near, n_threads).scores.mean(axis=1, keepdims=True)
        cosine *= 2.0
        cosine -= penalty
        best = largest(cosine, k, n_threads)
        found.append(Neighbors(best.indices, best.scores - own))
    return Neighbors(
        np.concatenate([part.indices for part in found]),
        np.concatenate([part.scores for part in found]),
    )


def _chunks(x, y, n_threads):
    """Products of some of the unit rows of `x` at a time with those of `y`, in one
    buffer."""
    step = max(1, min(x.shape[0], CHUNK_BYTES // (4 * y.shape[0])))
    buffer = aligned_empty((step, y.shape[0]))
    panels = Panels(y, True, n_threads=n_threads)
    for i in range(0, x.shape[0], step):
        chunk = x[i : i + step]
        cosine = buffer[: len(chunk)]
        _products.matmul(chunk, panels, cosine, n_threads=n_threads)
        yield cosine


def _hood_similarity(points, others, hood, n_threads):
    """Mean cosine of every point to its `hood` nearest among `others`."""
    hood = min(hood, others.shape[0])
    return np.concatenate(
        [
            largest(cosine, hood, n_threads).scores.mean(axis=1)
            for cosine in _chunks(points, others, n_threads)
        ]
    )
