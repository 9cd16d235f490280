"""Orthogonal maps between paired vectors, and the two-sided maps of vecmap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.threads import single_threaded_blas
from ..utils.labels import in_order, labels_of
from ..utils.types import Float32Array, FloatArray
from ..utils.validation import as_matrix, as_weights


class Maps(NamedTuple):
    """Maps of both sides to a common space; `target` is None if that is the target space."""

    source: Float32Array  # (d, e)
    target: Float32Array | None  # (d', e)


def procrustes(x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> Float32Array:
    """Return the (semi-)orthogonal map P that minimizes ``sum_i w_i |x_i P - y_i|^2``.

    This is the supervised baseline of word translation (Schönemann, 1966).

    Parameters
    ----------
    x : array-like of shape (n, d)
    y : array-like of shape (n, d')
        Row i is the counterpart of row i of `x`, normalized alike.
    weights : array-like of shape (n,) or None, default=None
        Weights of the pairs; None weighs all pairs alike.

    Returns
    -------
    (d, d') float32 ndarray

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> y = x @ np.array([[0.0, 1], [-1, 0]])
    >>> mapping = gwfast.procrustes(x, y)
    >>> bool(np.allclose(x @ mapping, y, atol=1e-5))
    True
    """
    labels = labels_of(x)
    weights = in_order(weights, "weights", labels, of="x")
    y = in_order(y, "y", labels, of="x")
    x, y = (as_matrix(z, name).astype(np.float64) for z, name in ((x, "x"), (y, "y")))
    if len(x) != len(y):
        raise ValueError(f"y must have {len(x)} rows, a counterpart of each row of x, got {len(y)}")
    if weights is not None:
        x = x * as_weights(weights, "weights", len(x))[:, None]
    return orthogonal(x.T @ y)


def orthogonal(correlation: FloatArray) -> Float32Array:
    """Return the maximizer of ``<P, correlation>`` over (semi-)orthogonal P, float32."""
    with single_threaded_blas():
        u, _, vt = np.linalg.svd(correlation, full_matrices=False)
    return (u @ vt).astype(np.float32)


def whitened_maps(
    x: FloatArray, y: FloatArray, weights: FloatArray | None, reweight: float = 0.5
) -> Maps:
    """Return maps of both sides from paired rows (Artetxe, Labaka and Agirre, AAAI 2018).

    Both sides are whitened before the orthogonal map, and colored again after it. Each direction is
    multiplied, on both sides, by the correlation of the two sides along it to the power `reweight`.
    The common space has the coordinates of the target. On word vectors, translations were right
    for 1 to 5 of 100 words more often than with an orthogonal map. The weights of the pairs are
    (n,) or None.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    if weights is not None:
        roots = np.sqrt(as_weights(weights, "weights", len(x)))[:, None]
        x, y = x * roots, y * roots
    with single_threaded_blas():
        white_x, color_x = _whitening(x)
        white_y, color_y = _whitening(y)
        u, correlations, vt = np.linalg.svd((x @ white_x).T @ (y @ white_y), False)
        gains = (correlations / correlations[0]) ** reweight
        source = (white_x @ u * gains) @ (u.T @ color_x @ u)
        target = (white_y @ vt.T * gains) @ (vt @ color_y @ vt.T)
        return Maps((source @ vt).astype(np.float32), (target @ vt).astype(np.float32))


def _whitening(x):
    """Return ``(X'X)^(-1/2)`` and ``(X'X)^(1/2)``."""
    _, singular, vt = np.linalg.svd(x, full_matrices=False)
    # Directions that hardly vary are noise.
    singular = np.maximum(singular, 1e-5 * singular[0])
    return (vt.T / singular) @ vt, (vt.T * singular) @ vt
