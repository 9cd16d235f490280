"""Nearest neighbors among vectors of one space, plain and corrected for hubs.

Similarities are made for some rows at a time; an n x m matrix never exists.
"""

from typing import NamedTuple

import numpy as np

from ._validation import as_count, as_matrix, as_positive, one_of
from .geometry import unit_rows_float32
from .kernels import _kernels, _products
from .kernels._rows import Panels, aligned_empty
from .kernels.threads import resolve_n_threads

# Bytes of float32 similarities held at a time: large enough for full-speed products,
# small enough to leave a good part in cache until the largest entries are picked.
CHUNK_BYTES = 32 * 2**20

METHODS = ("nn", "csls", "inverted_softmax")


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
    queries,
    targets,
    *,
    method="csls",
    k=10,
    hood=10,
    inverse_temperature=30.0,
    sources=None,
    n_threads=None,
):
    """The `k` best targets of every query, by cosine similarity.

    Parameters
    ----------
    queries : array-like of shape (n_queries, d)
    targets : array-like of shape (m, d)
    method : {"csls", "nn", "inverted_softmax"}, default="csls"
        "nn" ranks by cosine, the others keep hubs, the points near everything, from
        being everybody's translation. "csls" ranks by cross-domain similarity local
        scaling, ``2 cos(x, y) - r(x) - r(y)`` (Conneau et al., ICLR 2018), where `r` is
        the mean cosine to the `hood` nearest points of the other space.
        "inverted_softmax" by the share of a target that a query gets where targets
        choose among the sources by ``exp(b cos(x, y))`` (Smith et al., ICLR 2017), with
        `b` the `inverse_temperature`; scores are its logarithms over `b`.
    k : int, default=10
        At most the number of targets is returned.
    hood : int, default=10
        For "csls".
    inverse_temperature : float, default=30.0
        For "inverted_softmax".
    sources : array-like of shape (n, d) or None, default=None
        The points that targets choose among; by default the queries.
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
    inverse_temperature = as_positive(inverse_temperature, "inverse_temperature")
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
    penalty = 0.0
    if method == "csls":
        penalty = _hood_similarity(targets, sources, hood, n_threads) / 2
    elif method == "inverted_softmax":
        penalty = _popularity(targets, sources, inverse_temperature, n_threads)
    found = []
    for cosine in _chunks(queries, targets, n_threads):
        own = 0.0
        if method == "csls":
            near = min(hood, targets.shape[0])
            own = largest(cosine, near, n_threads).scores.mean(axis=1, keepdims=True)
        if method != "nn":
            cosine -= penalty
        best = largest(cosine, k, n_threads)
        if method == "csls":
            best = Neighbors(best.indices, 2 * best.scores - own)
        found.append(best)
    return _joined(found)


class BestMatches(NamedTuple):
    """What every point of two sides would choose on the other.

    Attributes
    ----------
    forward, backward : (n,) and (m,) int64 ndarrays
        Best target of every source, best source of every target.
    scores : (n,) float32 ndarray
        CSLS of every source with its best target.
    """

    forward: np.ndarray
    backward: np.ndarray
    scores: np.ndarray

    @property
    def mutual(self):
        """(n,) bool ndarray: sources that are the best source of their best target."""
        return self.backward[self.forward] == np.arange(len(self.forward))


def best_matches(x, y, *, hood=10, n_threads=None):
    """Best matches by CSLS, both ways, from the similarities made twice.

    Parameters
    ----------
    x : array-like of shape (n, d)
    y : array-like of shape (m, d)
    hood : int, default=10
    n_threads : int or None, default=None

    Returns
    -------
    BestMatches
    """
    n_threads = resolve_n_threads(n_threads)
    x, y = unit_rows_float32(as_matrix(x, "x"), "x"), unit_rows_float32(y, "y")
    penalty = _hood_similarity(y, x, hood, n_threads) / 2
    near, found, start = min(hood, len(y)), [], 0
    # Of every target: the best source so far, and its cosine less its own penalty.
    backward = np.zeros(len(y), dtype=np.int64)
    highest = np.full(len(y), -np.inf, dtype=np.float32)
    for cosine in _chunks(x, y, n_threads):
        own = largest(cosine, near, n_threads).scores.mean(axis=1, keepdims=True)
        cosine -= own / 2
        # The fewer columns get better the further on, the less is searched.
        value = cosine.max(axis=0)
        better = np.flatnonzero(value > highest)
        highest[better] = value[better]
        backward[better] = start + (cosine[:, better] == value[better]).argmax(axis=0)
        cosine -= penalty
        best = largest(cosine, 1, n_threads)
        found.append(Neighbors(best.indices, 2 * best.scores))
        start += len(cosine)
    forward = _joined(found)
    return BestMatches(forward.indices[:, 0], backward, forward.scores[:, 0])


def _joined(parts):
    return Neighbors(*map(np.concatenate, zip(*parts, strict=True)))


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


def _popularity(points, others, b, n_threads):
    """``log(sum_i exp(b cos(point, other_i))) / b`` of every point."""
    parts = []
    for cosine in _chunks(points, others, n_threads):
        top = cosine.max(axis=1)
        cosine -= top[:, None]
        cosine *= np.float32(b)
        np.exp(cosine, out=cosine)
        parts.append(top + np.log(cosine.sum(axis=1, dtype=np.float64)) / b)
    return np.concatenate(parts).astype(np.float32)
