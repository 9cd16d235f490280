"""Nearest neighbors among vectors of one space, plain and corrected for hubs.

Similarities are computed for some rows at a time; an n x m matrix never exists.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels import _products
from ..kernels._products import Panels
from ..kernels._rows import aligned_empty
from ..kernels.threads import resolve_n_threads
from ..problems.geometry import unit_rows
from ..results.tables import Neighbors, largest
from ..utils.labels import in_order, labels_of
from ..utils.types import IntArray
from ..utils.validation import as_count, as_matrix, as_positive, one_of

Retrieval: TypeAlias = Literal["nn", "csls", "inverted_softmax"]
ByPlan: TypeAlias = Literal["plan", "barycentric"]
# Neighbors in the other space that CSLS averages over, as in Conneau et al. (2018).
N_NEIGHBORS = 10
# Factor of the cosines in the inverted softmax, as in Smith et al. (2017).
INVERSE_TEMPERATURE = 30.0


def nearest_neighbors(
    queries: ArrayLike,
    targets: ArrayLike,
    *,
    k: int = 10,
    method: Retrieval = "csls",
    n_neighbors: int = N_NEIGHBORS,
    inverse_temperature: float = INVERSE_TEMPERATURE,
    sources: ArrayLike | None = None,
    n_threads: int | None = None,
) -> Neighbors:
    """Return the `k` best targets of each query, by cosine similarity.

    "nn" ranks by the cosine. The other methods correct it for hubs, points near everything. "csls"
    ranks by ``2 cos(x, y) - r(x) - r(y)``, with `r` the mean cosine to the `n_neighbors` nearest
    points of the other side (Conneau et al., ICLR 2018). "inverted_softmax" ranks by ``exp(b cos(x,
    y))`` over its sum over the sources, `b` the `inverse_temperature` (Smith et al., ICLR 2017).

    Parameters
    ----------
    queries : array-like of shape (n_queries, d)
    targets : array-like of shape (m, d)
    k : int, default=10
        All targets are returned if there are fewer.
    method : {"csls", "nn", "inverted_softmax"}, default="csls"
    n_neighbors : int, default=10
        For "csls".
    inverse_temperature : float, default=30.0
        For "inverted_softmax".
    sources : array-like of shape (n, d) or None, default=None
        The points that the targets are compared with to find hubs; None is the queries.
    n_threads : int or None, default=None
        None is a thread for each core.

    Returns
    -------
    Neighbors
        `indices` and `scores`, (n_queries, k), best first. The scores of "inverted_softmax" are
        logarithms over `b`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).normal(size=(40, 5))
    >>> gwfast.nearest_neighbors(x[:3], x, method="nn", k=1).indices.ravel()
    array([0, 1, 2])
    """
    labels = labels_of(queries, 1)
    queries = unit_rows(as_matrix(queries, "queries"), "queries", np.float32)
    targets = _points(targets, "targets", labels, queries.shape[1])
    sources = queries if sources is None else _points(sources, "sources", labels, queries.shape[1])
    for x, name in ((targets, "targets"), (sources, "sources")):
        if not np.any(x, axis=1).all():
            unit_rows(x, name)  # raises an error that names the rows of zeros
    one_of(method, "method", get_args(Retrieval))
    k, n_neighbors = as_count(k, "k"), as_count(n_neighbors, "n_neighbors")
    inverse_temperature = as_positive(inverse_temperature, "inverse_temperature")
    n_threads = resolve_n_threads(n_threads)
    penalty = hubness(targets, sources, method, n_threads, n_neighbors, inverse_temperature)
    return ranked(queries, targets, penalty, method, k, n_threads, n_neighbors)


def _points(x, name, labels, n_columns):
    """Return an argument with the columns of the queries."""
    x = as_matrix(in_order(x, name, None, labels, of="queries"), name)
    if x.shape[1] != n_columns:
        raise ValueError(f"{name} must have {n_columns} columns, got {x.shape[1]}")
    return x


def unit_or_zero(x):
    """Return float32 rows of length one; rows of zeros, to which no row is near, stay zeros."""
    zero = ~x.any(axis=1)
    if not zero.any():
        return unit_rows(x, "x", np.float32)
    unit = unit_rows(np.where(zero[:, None], x.dtype.type(1), x), "x", np.float32)
    unit[zero] = 0.0
    return unit


def ranked(queries, targets, penalty, method, k, n_threads, n_neighbors=N_NEIGHBORS):
    """Return `nearest_neighbors` of unit rows among targets of known `hubness`."""
    targets = unit_or_zero(targets)
    k = min(k, len(targets))
    blocks = []
    for cosine in _chunks(queries, targets, n_threads):
        if method == "csls":
            own_means = _mean_of_largest(cosine, n_neighbors, n_threads)
        if penalty is not None:
            cosine -= penalty
        best = largest(cosine, k, n_threads)
        if method == "csls":
            best = Neighbors(best.indices, 2 * best.scores - own_means[:, None])
        blocks.append(best)
    return _joined(blocks)


def hubness(targets, sources, method, n_threads, n_neighbors=N_NEIGHBORS, b=INVERSE_TEMPERATURE):
    """Return the reduction of the cosines of each target, by its nearness to the sources.

    With "csls" half the mean cosine to the `n_neighbors` nearest sources, with "inverted_softmax"
    the logarithm of its denominator, with "nn" None.
    """
    if method == "nn":
        return None
    targets, sources = unit_or_zero(targets), unit_or_zero(sources)
    blocks = []
    for cosine in _chunks(targets, sources, n_threads):
        if method == "csls":
            blocks.append(_mean_of_largest(cosine, n_neighbors, n_threads) / 2)
        else:
            blocks.append(_softmax(cosine, b))
    return np.concatenate(blocks)


class BestMatches(NamedTuple):
    """Best matches of all points of two sides."""

    forward: Neighbors  # the best targets of each source
    backward: IntArray  # the best source of each target, (m,)

    @property
    def mutual(self) -> NDArray[np.bool_]:
        """(n,) bool ndarray: whether a source is the best source of its best target."""
        best = self.forward.indices[:, 0]
        return self.backward[best] == np.arange(len(best))


def best_matches(x, y, penalty, k, n_threads):
    """Return the `BestMatches` of rows by CSLS, `k` of them for each row of `x`; `penalty` is the
    `hubness` of `y`.
    """
    k = min(k, len(y))
    x, y = unit_or_zero(x), unit_or_zero(y)
    blocks, start = [], 0
    # The best source of each target so far, and its cosine less its penalty.
    backward = np.zeros(len(y), dtype=np.int64)
    highest = np.full(len(y), -np.inf, dtype=np.float32)
    for cosine in _chunks(x, y, n_threads):
        cosine -= _mean_of_largest(cosine, N_NEIGHBORS, n_threads)[:, None] / 2
        # Only columns that get better are searched: fewer and fewer.
        value = cosine.max(axis=0)
        better = np.flatnonzero(value > highest)
        highest[better] = value[better]
        backward[better] = start + (cosine[:, better] == value[better]).argmax(axis=0)
        cosine -= penalty
        best = largest(cosine, k, n_threads)
        blocks.append(Neighbors(best.indices, 2 * best.scores))
        start += len(cosine)
    return BestMatches(_joined(blocks), backward)


def _joined(parts):
    return Neighbors(*map(np.concatenate, zip(*parts, strict=True)))


def _chunks(x, y, n_threads):
    """Yield products of blocks of unit rows of `x` with the unit rows of `y`, in one buffer."""
    # 8 MiB of float32 stay in cache until they are ranked; with fewer than 256 rows products with
    # many targets wait for memory.
    step = min(x.shape[0], max(256, 2**21 // y.shape[0]))
    buffer = aligned_empty((step, y.shape[0]))
    panels = Panels(y, True, n_threads=n_threads)
    for i in range(0, x.shape[0], step):
        chunk = x[i : i + step]
        cosine = buffer[: len(chunk)]
        _products.matmul(chunk, panels, cosine, n_threads=n_threads)
        yield cosine


def _mean_of_largest(cosine, k, n_threads):
    """Return the mean of the `k` largest entries of each row."""
    return largest(cosine, min(k, cosine.shape[1]), n_threads).scores.mean(axis=1)


def _softmax(cosine, b):
    """Return ``log(sum_j exp(b cosine_ij)) / b`` of each row; overwrite the argument."""
    top = cosine.max(axis=1)
    cosine -= top[:, None]
    cosine *= np.float32(b)
    np.exp(cosine, out=cosine)
    logs = np.log(cosine.sum(axis=1, dtype=np.float64))
    return (top + logs / b).astype(np.float32)
