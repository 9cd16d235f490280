"""Cells: their features, the steps between them in a graph of neighbors, and a score."""

from __future__ import annotations

import warnings
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import linalg

from ..kernels.threads import resolve_n_threads
from ..problems.dense_cost import ROUNDING, check_extremes
from ..problems.graphs import GraphCost
from ..results.tables import largest
from ..utils.blocks import row_blocks
from ..utils.callers import outside
from ..utils.labels import Labels, in_order, labels_of, positions
from ..utils.types import Float64Array
from ..utils.validation import as_count, as_matrix, in_memory, one_of

CellMetric: TypeAlias = Literal["cosine", "correlation", "euclidean"]
NComponents: TypeAlias = int | Literal["auto"] | None
# Largest number of columns of a table that is compared as it is, and number of principal
# components of wider tables; 14 pairs of data sets chose both.
N_COMPONENTS = 30


def is_anndata(cells: Any) -> bool:
    """Return whether this is an AnnData object, or looks like one."""
    return all(hasattr(cells, name) for name in ("X", "obs", "obsm", "uns"))


def names_of(cells: Any) -> Labels:
    """Return the names of the cells of AnnData or of a DataFrame; None for arrays."""
    return tuple(cells.obs_names) if hasattr(cells, "obs_names") else labels_of(cells)


def table_of(adata: Any, use_rep: str | None, name: str) -> tuple[Any, str]:
    """Return a table of AnnData, ``X`` for None or else a key of ``obsm`` or ``layers``, and what
    messages call it.
    """
    if use_rep is None:
        if adata.X is None:
            raise ValueError(f"{name}.X must be there, got None; or pass use_rep")
        return adata.X, f"{name}.X"
    places = {place: getattr(adata, place, {}) for place in ("obsm", "layers")}
    for place, tables in places.items():
        if use_rep in tables:
            return tables[use_rep], f"{name}.{place}[{use_rep!r}]"
    keys = ", or ".join(f"{name}.{place}, {sorted(tables)}" for place, tables in places.items())
    raise ValueError(f"use_rep must be a key of {keys}, got {use_rep!r}")


def values_of(data: Any, names: Labels, name: str) -> Any:
    """Return ``X`` of AnnData with its rows in the order of `names`; other values as they are."""
    if not is_anndata(data):
        return data
    table, called = table_of(data, None, name)
    order = positions(names_of(data), names, name, "the other set")
    return table if order is None else as_features(table, called)[order]


def as_features(table: Any, name: str) -> Any:
    """Return a finite table in float64, as an array or as sparse rows."""
    table = in_memory(table)
    if not sparse.issparse(table):
        return as_matrix(table, name).astype(np.float64)
    rows = sparse.csr_array(table, dtype=np.float64)
    if not np.isfinite(rows.data).all():
        raise ValueError(f"{name} must be finite")
    return rows


def filled(table: Any) -> Float64Array:
    """Return a table as an array."""
    return table.toarray() if sparse.issparse(table) else table


def representation(cells, use_rep, n_components, name):
    """Return coordinates to compare cells by, see `align`, the name of their table, and whether
    there was a warning of rows that should be normalized first.
    """
    if not (use_rep is None or isinstance(use_rep, str)):
        came = type(use_rep).__name__
        raise TypeError(f"use_rep must be a str, None or a pair of these, got {came}")
    if isinstance(n_components, str):
        one_of(n_components, "n_components", ("auto",))
    if isinstance(cells, str):
        remedy = "anndata.read_h5ad reads files"
        raise TypeError(f"{name} must be AnnData or a table of cells, got a str: {remedy}")
    table, called = cells, None
    if use_rep is not None and not is_anndata(cells):
        raise ValueError(
            f"use_rep must be None where {name} is no AnnData object, got {use_rep!r}; a pair has "
            "one for each side"
        )
    if is_anndata(cells):
        called = "X_pca" if use_rep is None and "X_pca" in cells.obsm else use_rep
        table, name = table_of(cells, None if called == "X" else called, name)
        if called is not None and n_components not in ("auto", None):
            taken = f"{name} is taken as it is, got {n_components}"
            raise ValueError(f"n_components must be 'auto' or None where {taken}")
    table = as_features(table, name)
    if table.shape[0] > 1 and are_equal(table):
        raise ValueError(f"{name} must have cells that differ, got {table.shape[0]} equal rows")
    if n_components == "auto":
        n_components = None if table.shape[1] <= N_COMPONENTS else N_COMPONENTS
    if called is None and n_components is not None:
        points, called = principal_components(table, n_components), "principal components"
    else:
        points = filled(table)
    if len(points) < 2:
        raise ValueError(f"{name} must have at least 2 cells, got {len(points)}")
    return points, called or "X", _warn_of_lengths(table, name)


def are_equal(table):
    """Return whether all rows are equal up to the rounding of float32."""
    low, high = (filled(extreme(axis=0)) for extreme in (table.min, table.max))
    size = max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0))
    return (high - low).max(initial=0.0) <= ROUNDING * size


def _warn_of_lengths(table, name):
    """Warn if lengths of rows differ enough to hide the types of cells, and return whether they do.
    Tables with negative numbers are left out: their zero has a meaning.
    """
    if table.shape[1] < 5 or table.min() < 0:
        return False
    squares = table.power(2) if sparse.issparse(table) else np.square(table)
    short, long = np.quantile(np.sqrt(squares.sum(axis=1)), (0.05, 0.95))
    # Tables of log counts and of shares had up to 3.1 there, counts 4.5 to 11.
    if long <= 4.0 * short:
        return False
    times = f"{long / short if short else np.inf:.2g} times between the 5 % and 95 % quantiles"
    warnings.warn(
        f"{name}: lengths of rows differ {times}, as if cells were read more or less deeply; first "
        "bring counts to one total in each cell and a log scale (scanpy.pp.normalize_total and "
        "log1p), other features to rows of length one",
        stacklevel=outside(),
    )
    return True


def principal_components(table: ArrayLike, n_components: int = 30) -> Float64Array:
    """Return coordinates (n, n_components) of rows along the directions in which they vary most:
    around zero, largest variance first, with signs such that the largest entry of each direction is
    positive.

    Parameters
    ----------
    table : array-like or sparse matrix of shape (n, d)
        Sparse matrices stay sparse.
    n_components : int, default=30
        At most ``min(n, d)``.

    Examples
    --------
    >>> from gwfast.singlecell import principal_components
    >>> principal_components([[0.0, 0.0], [3.0, 4.0]], 1).round(6).tolist()
    [[-2.5], [2.5]]
    """
    x = as_features(table, "table")
    n, d = x.shape
    k, means = min(as_count(n_components, "n_components"), n, d), x.mean(axis=0)
    # All components of 508 x 1000 entries take .17 s, 30 components .07 s.
    if n * d * min(n, d) <= 1e8 or k == min(n, d):
        left, values, right = np.linalg.svd(filled(x) - means, full_matrices=False)
    else:
        x, ones, row = map(linalg.aslinearoperator, (x, np.ones((n, 1)), means[None]))
        # Ones would vanish: columns are centered.
        start = np.cos(np.arange(min(n, d)))
        left, values, right = linalg.svds(x - ones @ row, k=k, v0=start, solver="arpack")
    order = np.argsort(-values, kind="stable")[:k]
    left, values, right = left[:, order], values[order], right[order]
    signs = np.sign(right[np.arange(k), np.abs(right).argmax(axis=1)])
    return left * (values * signs)


def neighbor_costs(
    points: ArrayLike,
    n_neighbors: int,
    *,
    metric: CellMetric = "cosine",
    n_threads: int | None = None,
) -> Float64Array:
    """Return numbers of steps between cells in their graph of nearest neighbors, as fractions of
    the largest (SCOT: Demetci et al., Journal of Computational Biology 2022): a symmetric (n, n)
    float64 array. Cells that no path connects are as far as the farthest cells.

    Parameters
    ----------
    points : array-like of shape (n, d)
    n_neighbors : int
        Number of neighbors that each cell is linked with, the cell itself counted.
    metric : {"cosine", "correlation", "euclidean"}, default="cosine"
        Which cells are near.
    n_threads : int or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.singlecell import neighbor_costs
    >>> path = np.array([[0.0], [1.0], [2.1], [3.3], [4.6]])
    >>> neighbor_costs(path, 2, metric="euclidean")[0].tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    one_of(metric, "metric", get_args(CellMetric))
    x = as_matrix(points, "points").astype(np.float64)
    check_extremes(float(x.min()), float(x.max()), "points")
    n, k = len(x), as_count(n_neighbors, "n_neighbors", least=2)
    if k > n:
        raise ValueError(f"n_neighbors must be at most {n}, the cells, got {k}")
    # Euclidean distances of these points order cells as the metric does.
    if metric == "correlation":
        x = x - x.mean(axis=1, keepdims=True)
    if metric != "euclidean":
        lengths = np.linalg.norm(x, axis=1, keepdims=True)
        # A row without direction is equally far from all cells.
        x = x / np.where(lengths > 0, lengths, 1.0)
    x = x - x.mean(axis=0)
    if metric != "euclidean" and np.abs(x).max() <= 1e-12:
        raise ValueError(f"points must differ by the metric {metric!r}, got {n} equal rows")
    half_squares = np.einsum("ij,ij->i", x, x) / 2
    neighbors, threads = np.empty((n, k), dtype=np.int64), resolve_n_threads(n_threads)
    for rows in row_blocks(n, n):
        # The larger the value, the nearer the cell.
        near = (x[rows] @ x.T - half_squares).astype(np.float32)
        neighbors[rows] = largest(np.ascontiguousarray(near), k, threads).indices
    entries = np.ones(n * k), (np.repeat(np.arange(n), k), neighbors.ravel())
    graph = sparse.csr_array(entries, shape=(n, n))
    cost = GraphCost(graph, unweighted=True, disconnected="largest").matrix
    return cost / (cost.max() or 1.0)


def foscttm(x: ArrayLike, y: ArrayLike) -> float:
    """Return the fraction of samples closer than the true match (Liu et al., WABI 2019), the mean
    of all cells and both directions: 0 if every cell is nearest to itself, 0.5 by chance.

    Parameters
    ----------
    x, y : array-like of shape (n, d)
        The same cells in the same order, in one space. Cells as close as the true match count half.

    Examples
    --------
    >>> from gwfast.singlecell import foscttm
    >>> foscttm([[0.0], [1.0], [2.0]], [[0.1], [1.1], [2.1]])
    0.0
    """
    y = in_order(y, "y", labels_of(x), labels_of(x, 1), of="x")
    x, y = as_matrix(x, "x").astype(np.float64), as_matrix(y, "y").astype(np.float64)
    if x.shape != y.shape:
        raise ValueError(f"y must have the shape of x, {x.shape}, got {y.shape}")
    n, total = len(x), 0.0
    for a, b in ((x, y), (y, x)):
        squares = np.einsum("ij,ij->i", b, b)
        for rows in row_blocks(n, n):
            near = squares - 2.0 * a[rows] @ b.T
            matched = near[np.arange(len(near)), np.arange(n)[rows]][:, None]
            total += (near < matched).sum() + ((near == matched).sum() - len(near)) / 2
    return float(total) / (2 * n * max(n - 1, 1))
