"""Orthogonal maps between paired vectors, and the two-sided maps of vecmap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.threads import single_threaded_blas
from ..utils.labels import in_order, labels_of
from ..utils.types import Float32Array, Float64Array, FloatArray
from ..utils.validation import as_matrix, as_positive, as_weights


class Maps(NamedTuple):
    """The maps of both sides to a common space; `target` is None if that is the target's."""

    source: Float32Array  # (d, e)
    target: Float32Array | None  # (d', e)


def procrustes(x: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> Float32Array:
    """The (semi-)orthogonal map that takes the rows of `x` closest to those of `y`.

    Minimizes ``sum_i w_i |x_i P - y_i|^2``: the supervised baseline of word
    translation, where rows are the known pairs (Schönemann, 1966).

    Parameters
    ----------
    x : array-like of shape (n, d)
    y : array-like of shape (n, d')
    weights : array-like of shape (n,) or None, default=None
        Of the pairs; None is all alike.

    Returns
    -------
    (d, d') float32 ndarray

    Raises
    ------
    ValueError
        If `x` and `y` do not have as many rows.

    Examples
    --------
    Rows of `x` and `y` are translations of one another, normalized alike:

    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> y = x @ np.array([[0.0, 1], [-1, 0]])
    >>> mapping = gwfast.procrustes(x, y)
    >>> bool(np.allclose(x @ mapping, y, atol=1e-5))
    True
    """
    weights = in_order(weights, "weights", labels_of(x), of="x")
    x, y = _as_pairs(x, y)
    if weights is not None:
        x = x * as_weights(weights, "weights", len(x))[:, None]
    return orthogonal(x.T @ y)


def orthogonal(correlation: FloatArray) -> Float32Array:
    """Maximizer of ``<P, correlation>`` over (semi-)orthogonal P, float32."""
    with single_threaded_blas():
        u, _, vt = np.linalg.svd(correlation, full_matrices=False)
    return (u @ vt).astype(np.float32)


def fit_maps(
    x: ArrayLike,
    y: ArrayLike,
    *,
    whiten: bool = False,
    reweight: float = 0.0,
    weights: ArrayLike | None = None,
) -> Maps:
    """Maps of both sides from paired rows, in the steps of Artetxe, Labaka and Agirre (AAAI 2018).

    `whiten` makes all directions vary alike before the orthogonal map, and undoes that after. Each
    direction is multiplied, on both sides, by the correlation of the two along it to the power
    `reweight`. Without either this is the map of `procrustes`, and `target` is None. The common
    space has the coordinates of the target. `weights` (n,) are of the pairs; None is all alike.
    """
    reweight = as_positive(reweight, "reweight", zero=True)
    if not whiten and not reweight:
        return Maps(procrustes(x, y, weights=weights), None)
    x, y = _as_pairs(x, y)
    if weights is not None:
        roots = np.sqrt(as_weights(weights, "weights", len(x)))[:, None]
        x, y = x * roots, y * roots
    min_pairs = max(x.shape[1], y.shape[1])
    if whiten and len(x) < min_pairs:
        raise ValueError(f"whiten needs at least {min_pairs} pairs, got {len(x)}")
    with single_threaded_blas():
        # Coloring is the inverse of whitening.
        (white_x, color_x), (white_y, color_y) = (
            _whitening(z) if whiten else (np.eye(z.shape[1]),) * 2 for z in (x, y)
        )
        u, correlations, vt = np.linalg.svd((x @ white_x).T @ (y @ white_y), False)
        gains = (correlations / correlations[0]) ** reweight
        # To the common directions, weighted there, and colored again as each side was.
        source = (white_x @ u * gains) @ (u.T @ color_x @ u)
        target = (white_y @ vt.T * gains) @ (vt @ color_y @ vt.T)
        return Maps((source @ vt).astype(np.float32), (target @ vt).astype(np.float32))


def _as_pairs(x: ArrayLike, y: ArrayLike) -> tuple[Float64Array, Float64Array]:
    y = in_order(y, "y", labels_of(x), of="x")
    x, y = (as_matrix(z, name).astype(np.float64) for z, name in ((x, "x"), (y, "y")))
    if len(x) != len(y):
        raise ValueError(
            f"y must have as many rows as x, {len(x)}, as they are pairs, got {len(y)}"
        )
    return x, y


def _whitening(x):
    """``(X'X)^(-1/2)`` and ``(X'X)^(1/2)``."""
    _, singular, vt = np.linalg.svd(x, full_matrices=False)
    # Directions that hardly vary are noise.
    singular = np.maximum(singular, 1e-5 * singular[0])
    return (vt.T / singular) @ vt, (vt.T * singular) @ vt
