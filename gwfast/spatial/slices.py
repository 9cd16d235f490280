"""Slices of tissue: spots and their expression, from AnnData objects or arrays."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from ..problems.cross_cost import CrossCost
from ..problems.geometry import PointCloud
from ..singlecell.representation import N_COMPONENTS, components_of, is_anndata, names_of
from ..utils.labels import Labels, in_order, labels_of
from ..utils.types import Float64Array
from ..utils.validation import as_matrix, in_memory

Dissimilarity: TypeAlias = Literal["kl", "euclidean"]


@dataclasses.dataclass(frozen=True, eq=False)
class Slice:
    """Coordinates (n, d) of spots, and their table of expression (n, genes), an array or a sparse
    matrix; `genes` are the names of its columns and `names` the names of its rows, or None.
    """

    name: str
    spots: Float64Array
    table: Any
    genes: Any = None
    names: Labels = None

    @classmethod
    def of(cls, given: Any, use_rep: str | None, name: str) -> Slice:
        """Return the slice of an AnnData object, or of a pair of coordinates and a table."""
        genes = None
        if is_anndata(given):
            spots, called = _of_obsm(given, "spatial", name)
            if use_rep is None:
                table, at = given.X, f"{name}.X"
            elif use_rep in given.obsm:
                table, at = given.obsm[use_rep], f"{name}.obsm[{use_rep!r}]"
            elif use_rep in given.layers:
                table, at = given.layers[use_rep], f"{name}.layers[{use_rep!r}]"
            else:
                raise ValueError(
                    f"use_rep must be a key of {name}.obsm, {sorted(given.obsm)}, or "
                    f"{name}.layers, {sorted(given.layers)}, got {use_rep!r}"
                )
            if table is None:
                raise ValueError(f"{at} must be there, got None; or pass use_rep")
            if use_rep not in given.obsm:
                genes = getattr(given, "var_names", None)
        else:
            if not (isinstance(given, tuple | list) and len(given) == 2):
                raise TypeError(
                    f"{name} must be an AnnData object or a pair of coordinates and "
                    f"features, got {type(given).__name__}"
                )
            if use_rep is not None:
                raise ValueError(f"use_rep must be None where {name} is no AnnData object")
            (spots, table), called, at = given, f"{name}[0]", f"{name}[1]"
            table = in_order(table, at, labels_of(spots), of=called)
        columns = labels_of(table, 1)
        if genes is None and isinstance(columns, tuple):
            genes = list(columns)
        names = names_of(given if is_anndata(given) else spots)
        made = _table(in_memory(table), at, len(spots))
        return cls(at, spots_of(spots, called), made, genes, names)


def spots_of(spots: ArrayLike, name: str) -> Float64Array:
    """Return coordinates (n, d); raise if all spots are at the same place."""
    made = as_matrix(spots, name).astype(np.float64)
    if len(made) < 2 or not np.ptp(made, axis=0).any():
        raise ValueError(f"{name} must have spots at two places at least")
    return made


def coordinates(given: Any, name: str) -> Float64Array:
    """Return the coordinates of an AnnData object, of a pair, or coordinates as they are."""
    if is_anndata(given):
        given, name = _of_obsm(given, "spatial", name)
    elif isinstance(given, tuple | list) and len(given) == 2 and np.ndim(given[0]) == 2:
        given, name = given[0], f"{name}[0]"
    return spots_of(given, name)


def with_common_genes(a: Slice, b: Slice) -> tuple[Slice, Slice]:
    """Return both slices with the genes that both have, in the order of the first; without
    names, both must have equally many.
    """
    if a.genes is not None and b.genes is not None:
        for one in (a, b):
            if twice := [gene for gene, n in Counter(one.genes).items() if n > 1]:
                raise ValueError(
                    f"var_names of {one.name} must be unique, got {len(twice)} names more "
                    f"than once, such as {', '.join(map(str, twice[:5]))}; "
                    "var_names_make_unique() of AnnData numbers them"
                )
        at = {gene: k for k, gene in enumerate(b.genes)}
        kept = [k for k, gene in enumerate(a.genes) if gene in at]
        if not kept:
            raise ValueError(f"{a.name} and {b.name} must have genes in common")
        others = [at[a.genes[k]] for k in kept]
        if list(a.genes) != list(b.genes):
            genes = [a.genes[k] for k in kept]
            a = dataclasses.replace(a, table=a.table[:, kept], genes=genes)
            b = dataclasses.replace(b, table=b.table[:, others], genes=genes)
    if a.table.shape[1] != b.table.shape[1]:
        raise ValueError(
            f"{b.name} must have the columns of {a.name}, {a.table.shape[1]}, got "
            f"{b.table.shape[1]}"
        )
    return a, b


def dissimilarities(a: Slice, b: Slice, kind: Dissimilarity) -> Float64Array:
    """Return PASTE's costs (n, m) between spots by their expression: the Kullback-Leibler
    divergence of shares of genes, or Euclidean distances.
    """
    x, y = (filled(one.table) for one in (a, b))
    if kind == "euclidean":
        return cdist(x, y)
    p, q = (_shares(one, of.name) for one, of in ((x, a), (y, b)))
    return (p * np.log(p)).sum(axis=1)[:, None] - p @ np.log(q).T


def features(a: Slice, b: Slice, kind: Dissimilarity) -> tuple[Float64Array, Float64Array]:
    """Return coordinates of the expression of both slices in one space: joint principal components,
    of logarithms of normalized counts for "kl", or the tables as they are.
    """
    x, y = a.table, b.table
    if kind == "kl":
        x, y = (_logarithms(one.table, one.name) for one in (a, b))
    if x.shape[1] <= N_COMPONENTS:
        return filled(x), filled(y)
    stack = sparse.vstack if sparse.issparse(x) or sparse.issparse(y) else np.vstack
    made = components_of(stack([x, y]), N_COMPONENTS, a.name)
    return made[: len(a.spots)], made[len(a.spots) :]


def spacing(spots: list[Float64Array]) -> float:
    """Return the median distance of neighboring spots of both slices."""
    distances = np.concatenate([cKDTree(one).query(one, 2)[0][:, 1] for one in spots])
    # Two places at least differ, but most spots may be double.
    return float(np.median(distances[distances > 0])) if distances.any() else 1.0


def geometries(
    spots: list[Float64Array], rows: list[Float64Array], n_neighbors: int = 7
) -> tuple[PointCloud, PointCloud, CrossCost]:
    """Return squared distances within both slices and between their features, which are means over
    the `n_neighbors` nearest spots, in units of the difference of neighbors.
    """
    noise, smooth = [], []
    for places, expressed in zip(spots, rows, strict=True):
        k = min(max(n_neighbors, 2), len(places))
        _, nearest = cKDTree(places).query(places, k)
        noise.append(np.square(expressed - expressed[nearest[:, 1]]).sum(axis=1))
        smooth.append(_means(expressed, nearest[:, :n_neighbors]))
    unit = spacing(spots)
    x, y = (one / unit for one in spots)
    # The root mean square of all distances of a slice, the mean of both.
    radius = np.sqrt(x.var(axis=0).sum() + y.var(axis=0).sum())
    first, second = (PointCloud(one / np.sqrt(2 * radius), "sqeuclidean") for one in (x, y))
    size = np.sqrt(np.concatenate(noise).mean()) or 1.0
    return first, second, CrossCost(smooth[0] / size, smooth[1] / size)


def _means(rows, nearest):
    """Return means (n, k) of the rows at indices (n, l)."""
    n, count = nearest.shape
    starts = np.arange(0, n * count + 1, count)
    weights = np.full(n * count, 1.0 / count)
    chosen = sparse.csr_array((weights, nearest.ravel(), starts), shape=(n, n))
    return chosen @ rows


def _of_obsm(adata, key, name):
    if key not in adata.obsm:
        keys = sorted(adata.obsm)
        raise ValueError(f"a slice must have spots: {name}.obsm has {keys}, not {key!r}")
    return adata.obsm[key], f"{name}.obsm[{key!r}]"


def _table(table, name, n):
    if sparse.issparse(table):
        made = sparse.csr_array(table, dtype=np.float64)
        if not np.isfinite(made.data).all():
            raise ValueError(f"{name} must be finite")
    else:
        made = as_matrix(table, name).astype(np.float64)
    if made.shape[0] != n:
        raise ValueError(f"{name} must have a row for each of {n} spots, got {made.shape[0]}")
    return made


def filled(table: Any) -> Float64Array:
    """Return a table as an array."""
    return table.toarray() if sparse.issparse(table) else table


def _check_counts(table, name):
    if table.shape[1] and table.min() < 0:
        raise ValueError(
            f"{name} must not be negative with dissimilarity='kl', which compares "
            f"shares of counts, got {table.min():.3g}; pass dissimilarity='euclidean'"
        )


def _shares(table, name):
    _check_counts(table, name)
    # PASTE adds this to all counts, so that every gene has a share everywhere.
    made = table + 0.01
    return made / made.sum(axis=1, keepdims=True)


def _logarithms(table, name):
    _check_counts(table, name)
    totals = np.asarray(table.sum(axis=1)).ravel()
    # Counts of each spot before their logarithm is taken, as in scanpy.
    factors = 1e4 / np.where(totals > 0, totals, 1.0)
    if sparse.issparse(table):
        return (sparse.diags_array(factors) @ table).log1p().tocsr()
    return np.log1p(table * factors[:, None])
