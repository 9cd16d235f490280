"""Features of cells: a table of an AnnData object, or its principal components."""

from __future__ import annotations

import warnings
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import linalg

from ..utils.callers import outside
from ..utils.labels import Labels, labels_of
from ..utils.types import Float64Array
from ..utils.validation import as_any_array, as_count, as_matrix, in_memory, one_of

NComponents: TypeAlias = int | Literal["auto"] | None
# Largest number of columns of a table that is compared as it is, and number of principal
# components of wider tables; `python -m benchmarks.cells` chose both.
N_COMPONENTS = 30


def is_anndata(cells: Any) -> bool:
    """Return whether this is an AnnData object, or looks like one."""
    return all(hasattr(cells, name) for name in ("X", "obs", "obsm", "uns"))


def names_of(cells: Any) -> Labels:
    """Return the names of the cells of AnnData or of a DataFrame; None for arrays."""
    return tuple(cells.obs_names) if hasattr(cells, "obs_names") else labels_of(cells)


def representation(
    cells: Any, use_rep: str | None, n_components: NComponents, name: str
) -> tuple[Float64Array, str, bool]:
    """Return coordinates to compare cells by, see `align`, the name of their table, and
    whether there was a warning of rows that should be normalized first.
    """
    if not (use_rep is None or isinstance(use_rep, str)):
        raise TypeError(
            f"use_rep must be a str, None or a pair of these, got {type(use_rep).__name__}"
        )
    if isinstance(n_components, str):
        one_of(n_components, "n_components", ("auto",))
    elif n_components is not None:
        as_count(n_components, "n_components")
    if isinstance(cells, str):
        raise TypeError(
            f"{name} must be an AnnData object or a table of cells, got a str: "
            "anndata.read_h5ad reads files"
        )
    table = cells
    if is_anndata(cells):
        if use_rep is None and "X_pca" in cells.obsm:
            use_rep = "X_pca"
        if use_rep == "X" or use_rep is None:
            table, name = cells.X, f"{name}.X"
            if table is None:
                raise ValueError(f"{name} must be there, got None; or pass use_rep")
        elif use_rep in cells.obsm:
            table, name = cells.obsm[use_rep], f"{name}.obsm[{use_rep!r}]"
        else:
            raise ValueError(
                f"use_rep must be 'X' or a key of {name}.obsm, {sorted(cells.obsm)}, "
                f"got {use_rep!r}"
            )
    else:
        use_rep = None
    table = in_memory(table)
    if n_components == "auto":
        few = np.ndim(table) == 2 and np.shape(table)[1] <= N_COMPONENTS
        n_components = None if few else N_COMPONENTS
    if use_rep is not None or n_components is None:
        points, called = _dense(table, name), use_rep or "X"
    else:
        points = components_of(table, n_components, name)
        called = "principal components"
    if len(points) < 2:
        raise ValueError(f"{name} must have at least 2 cells, got {len(points)}")
    return points, called, _warn_of_lengths(table, name)


def _warn_of_lengths(table, name):
    """Warn if lengths of rows differ enough to hide the types of cells, and return whether they do.
    Tables with negative numbers are left out: their zero has a meaning.
    """
    made = sparse.csr_array(table) if sparse.issparse(table) else as_any_array(table, name)
    if made.shape[1] < 5 or made.min() < 0:
        return False
    if sparse.issparse(made):
        lengths = linalg.norm(made.astype(np.float64), axis=1)
    else:
        lengths = np.sqrt(np.einsum("ij,ij->i", made, made, dtype=np.float64))
    short, long = np.quantile(lengths, (0.05, 0.95))
    # Tables of log counts and of shares had up to 3.1 there, counts 4.5 to 11.
    if long <= 4.0 * short:
        return False
    warnings.warn(
        f"{name}: lengths of rows differ {long / short if short else np.inf:.2g} times,"
        " from the 5 % to the 95 % quantile, as if cells were read more or less deeply."
        " Normalize them first: counts to one total in each cell and a "
        "log scale (scanpy.pp.normalize_total and log1p), other features to rows of "
        "length one",
        stacklevel=outside(),
    )
    return True


def principal_components(table: ArrayLike, n_components: int = 30) -> Float64Array:
    """Return coordinates of rows along the directions in which they vary most.

    Parameters
    ----------
    table : array-like or sparse matrix of shape (n, d)
        Sparse matrices stay sparse.
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
    return components_of(table, n_components, "table")


def components_of(table: ArrayLike, n_components: int, name: str) -> Float64Array:
    """Return the `principal_components` of the table called `name`."""
    made: Any
    if sparse.issparse(table):
        made = sparse.csr_array(table, dtype=np.float64)
        if not np.isfinite(made.data).all():
            raise ValueError(f"{name} must be finite")
    else:
        made = as_matrix(table, name).astype(np.float64)
    n, d = made.shape
    k = min(as_count(n_components, "n_components"), n, d)
    means = np.asarray(made.mean(axis=0)).ravel()
    if n * d <= 1_000_000 or k == min(n, d):
        dense = made.toarray() if sparse.issparse(made) else made
        left, values, right = np.linalg.svd(dense - means, full_matrices=False)
    else:
        table, ones, row = map(linalg.aslinearoperator, (made, np.ones((n, 1)), means[None]))
        left, values, right = linalg.svds(
            table - ones @ row, k=k, v0=np.ones(min(n, d)), solver="arpack"
        )
        order = np.argsort(-values)
        left, values, right = left[:, order], values[order], right[order]
    left, values, right = left[:, :k], values[:k], right[:k]
    signs = np.sign(right[np.arange(k), np.abs(right).argmax(axis=1)])
    return left * (values * signs)


def _dense(table, name):
    if sparse.issparse(table):
        table = table.toarray()
    return as_matrix(table, name).astype(np.float64)
