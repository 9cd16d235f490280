"""What cells are compared by: a table of an AnnData object, or its principal
components.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import linalg

from ..utils.types import Float64Array
from ..utils.validation import as_count, as_matrix

# Tables of so many entries are decomposed whole, which takes less than a second.
SMALL = 1_000_000


def is_anndata(cells: Any) -> bool:
    """Whether this is an AnnData object, or looks like one."""
    return all(hasattr(cells, name) for name in ("X", "obs", "obsm", "uns"))


def name_of(cells: Any, use_rep: str | None) -> str | None:
    """What is taken of an AnnData object; None is principal components of its `X`."""
    if use_rep is None and is_anndata(cells) and "X_pca" in cells.obsm:
        return "X_pca"
    return use_rep


def representation(
    cells: Any, use_rep: str | None, n_components: int | None, name: str
) -> Float64Array:
    """(n, d) coordinates of cells; see `align`."""
    if n_components is not None:
        as_count(n_components, "n_components")
    if isinstance(cells, str):
        raise TypeError(
            f"{name} must be an AnnData object or a table of cells, got a str: "
            "anndata.read_h5ad reads files"
        )
    if is_anndata(cells):
        rep = name_of(cells, use_rep)
        if rep == "X" or rep is None:
            table, name = cells.X, f"{name}.X"
            if table is None:
                raise ValueError(f"{name} must be there, got None; or pass use_rep")
        elif rep in cells.obsm:
            return _dense(cells.obsm[rep], f"{name}.obsm[{rep!r}]")
        else:
            raise ValueError(
                f"use_rep must be 'X' or a key of {name}.obsm, {sorted(cells.obsm)}, "
                f"got {rep!r}"
            )
        if rep == "X":
            return _dense(table, name)
    else:
        table = cells
    if n_components is None:
        return _dense(table, name)
    return principal_components(table, n_components, name=name)


def principal_components(
    table: ArrayLike, n_components: int = 30, *, name: str = "table"
) -> Float64Array:
    """Coordinates of rows along the directions in which they vary most.

    Parameters
    ----------
    table : array-like or sparse matrix of shape (n, d)
        Sparse ones are centered without being filled.
    n_components : int, default=30
        At most ``min(n, d)``.

    Returns
    -------
    (n, n_components) float64 ndarray
        Around zero, largest variance first; the signs are such that the largest entry
        of each direction is positive.

    Examples
    --------
    >>> from gwfast.singlecell import principal_components
    >>> principal_components([[0.0, 0.0], [3.0, 4.0]], 1).round(6).tolist()
    [[-2.5], [2.5]]
    """
    made: Any
    if sparse.issparse(table):
        made = sparse.csr_array(table, dtype=np.float64)
        if not np.isfinite(made.data).all():
            raise ValueError(f"{name} must be finite")
    else:
        made = as_matrix(np.asarray(table), name).astype(np.float64)
    n, d = made.shape
    k = min(as_count(n_components, "n_components"), n, d)
    means = np.asarray(made.mean(axis=0)).ravel()
    if n * d <= SMALL or k == min(n, d):
        dense = made.toarray() if sparse.issparse(made) else made
        left, values, right = np.linalg.svd(dense - means, full_matrices=False)
    else:
        left, values, right = linalg.svds(
            _centered(made, means), k=k, v0=np.ones(min(n, d)), solver="arpack"
        )
        order = np.argsort(-values)
        left, values, right = left[:, order], values[order], right[order]
    left, values, right = left[:, :k], values[:k], right[:k]
    signs = np.sign(right[np.arange(k), np.abs(right).argmax(axis=1)])
    return left * (values * signs)


def _centered(table, means):
    """The table less the means of its columns, as an operator."""
    n, d = table.shape
    return linalg.LinearOperator(
        (n, d),
        matvec=lambda v: table @ v.ravel() - means @ v.ravel(),
        rmatvec=lambda u: table.T @ u.ravel() - means * u.sum(),
        matmat=lambda v: table @ v - means @ v,
        rmatmat=lambda u: table.T @ u - np.outer(means, u.sum(axis=0)),
        dtype=np.float64,
    )


def _dense(table, name):
    if sparse.issparse(table):
        table = table.toarray()
    return as_matrix(np.asarray(table), name).astype(np.float64)
