"""Orthogonal maps between paired vectors, and the two-sided maps of vecmap."""

from typing import NamedTuple

import numpy as np

from ..kernels.threads import single_threaded_blas
from ..utils.validation import as_matrix, as_positive, as_weights

# Directions of less than this share of the largest variance are not blown up.
LEAST_SPREAD = 1e-5


class Maps(NamedTuple):
    """What takes both sides to a common space.

    Attributes
    ----------
    source : (d, e) float32 ndarray
    target : (d', e) float32 ndarray or None
        None where the common space is the target's.
    """

    source: np.ndarray
    target: np.ndarray | None


def procrustes(x, y, *, weights=None):
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
    ``x[rows]`` and ``y[columns]`` are translations of one another, normalized alike:

    >>> mapping = procrustes(x[rows], y[columns])  # doctest: +SKIP
    >>> found = nearest_neighbors(x @ mapping, y, method="csls")  # doctest: +SKIP
    """
    x, y = _as_pairs(x, y)
    if weights is not None:
        x = x * as_weights(weights, "weights", len(x))[:, None]
    return orthogonal(x.T @ y)


def orthogonal(correlation):
    """Maximizer of ``<P, correlation>`` over (semi-)orthogonal P, float32."""
    with single_threaded_blas():
        u, _, vt = np.linalg.svd(correlation, full_matrices=False)
    return (u @ vt).astype(np.float32)


def fit_maps(x, y, *, whiten=False, reweight=0.0):
    """Maps of both sides from paired rows, in the steps of Artetxe, Labaka and Agirre
    (AAAI 2018).

    Parameters
    ----------
    x : array-like of shape (n, d)
    y : array-like of shape (n, d')
    whiten : bool, default=False
        Make all directions vary alike before the orthogonal map, and undo that after.
    reweight : float, default=0.0
        Multiply each direction by the correlation of the two sides along it to this
        power, on both sides.

    Returns
    -------
    Maps
        Of `procrustes` alone, `target` None, without either. The common space has the
        coordinates of the target's.

    Raises
    ------
    ValueError
        If there are fewer pairs than columns, where whitening needs them.
    """
    reweight = as_positive(reweight, "reweight", zero=True)
    if not whiten and not reweight:
        return Maps(procrustes(x, y), None)
    x, y = _as_pairs(x, y)
    most = max(x.shape[1], y.shape[1])
    if whiten and len(x) < most:
        raise ValueError(f"whiten needs at least {most} pairs, got {len(x)}")
    with single_threaded_blas():
        # One is the inverse of the other.
        (white_x, color_x), (white_y, color_y) = (
            _whitening(z) if whiten else (np.eye(z.shape[1]),) * 2 for z in (x, y)
        )
        u, spread, vt = np.linalg.svd((x @ white_x).T @ (y @ white_y), False)
        gains = (spread / spread[0]) ** reweight
        # Along common directions, weighted, then colored again as each side was.
        source = (white_x @ u * gains) @ (u.T @ color_x @ u)
        target = (white_y @ vt.T * gains) @ (vt @ color_y @ vt.T)
        return Maps((source @ vt).astype(np.float32), (target @ vt).astype(np.float32))


def _as_pairs(x, y):
    x, y = (as_matrix(z, name).astype(np.float64) for z, name in ((x, "x"), (y, "y")))
    if len(x) != len(y):
        raise ValueError(
            f"y must have as many rows as x, {len(x)}, as they are pairs, got {len(y)}"
        )
    return x, y


def _whitening(x):
    """``(X'X)^(-1/2)`` and ``(X'X)^(1/2)``."""
    _, spread, vt = np.linalg.svd(x, full_matrices=False)
    spread = np.maximum(spread, LEAST_SPREAD * spread[0])
    return (vt.T / spread) @ vt, (vt.T * spread) @ vt
