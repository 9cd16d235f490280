"""Slices of tissue: spots and their expression, from AnnData objects or arrays."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from ..problems.cross_cost import CrossCost
from ..problems.geometry import PointCloud
from ..singlecell.cells import (
    N_COMPONENTS,
    as_features,
    components_of,
    filled,
    is_anndata,
    names_of,
    table_of,
)
from ..utils.labels import Labels, in_order, labels_of
from ..utils.types import Float64Array
from ..utils.validation import as_matrix

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
    def of(cls, data: Any, use_rep: str | None, name: str) -> Slice:
        """Return the slice of an AnnData object, or of a pair of coordinates and a table."""
        if is_anndata(data):
            spots, names, (table, at) = _spots_of(data, name), data, table_of(data, use_rep, name)
            genes = None if use_rep in data.obsm else getattr(data, "var_names", None)
        else:
            if not (isinstance(data, tuple | list) and len(data) == 2):
                came = f"coordinates and features, got {type(data).__name__}"
                raise TypeError(f"{name} must be an AnnData object or a pair of {came}")
            if use_rep is not None:
                raise ValueError(f"use_rep must be None where {name} is no AnnData object")
            names, table, at = data[0], data[1], f"{name}[1]"
            table = in_order(table, at, labels_of(names), of=f"{name}[0]")
            spots, genes = coordinates(names, f"{name}[0]"), None
        columns = labels_of(table, 1)
        if genes is None and isinstance(columns, tuple):
            genes = list(columns)
        table = as_features(table, at)
        if len(spots) != table.shape[0]:
            rows = f"{len(spots)} spots, got {table.shape[0]}"
            raise ValueError(f"{at} must have a row for each of {rows}")
        return cls(at, spots, table, genes, names_of(names))


def coordinates(data: Any, name: str) -> Float64Array:
    """Return the coordinates (n, d) of an AnnData object, of a pair, or coordinates as they are;
    raise if all spots are at the same place.
    """
    if is_anndata(data):
        return _spots_of(data, name)
    if isinstance(data, tuple | list) and len(data) == 2 and np.ndim(data[0]) == 2:
        data, name = data[0], f"{name}[0]"
    spots = as_matrix(data, name).astype(np.float64)
    if len(spots) < 2 or not np.ptp(spots, axis=0).any():
        raise ValueError(f"{name} must have spots at two places at least")
    return spots


def _spots_of(adata, name):
    """Return the coordinates of an AnnData object."""
    if "spatial" not in adata.obsm:
        keys = sorted(adata.obsm)
        raise ValueError(f"a slice must have spots: {name}.obsm has {keys}, not 'spatial'")
    return coordinates(adata.obsm["spatial"], f"{name}.obsm['spatial']")


def with_common_genes(a: Slice, b: Slice) -> tuple[Slice, Slice]:
    """Return both slices with the genes that both have, in the order of the first; without
    names, both must have equally many.
    """
    if a.genes is not None and b.genes is not None:
        for each in (a, b):
            if twice := [gene for gene, n in Counter(each.genes).items() if n > 1]:
                raise ValueError(
                    f"var_names of {each.name} must be unique, got {len(twice)} names more than "
                    f"once, such as {', '.join(map(str, twice[:5]))}; var_names_make_unique() of "
                    "AnnData numbers them"
                )
        at = {gene: k for k, gene in enumerate(b.genes)}
        kept = [k for k, gene in enumerate(a.genes) if gene in at]
        if not kept:
            raise ValueError(f"{a.name} and {b.name} must have genes in common")
        if list(a.genes) != list(b.genes):
            genes = [a.genes[k] for k in kept]
            others = [at[gene] for gene in genes]
            a = dataclasses.replace(a, table=a.table[:, kept], genes=genes)
            b = dataclasses.replace(b, table=b.table[:, others], genes=genes)
    n, m = a.table.shape[1], b.table.shape[1]
    if n != m:
        raise ValueError(f"{b.name} must have the columns of {a.name}, {n}, got {m}")
    return a, b


def dissimilarities(a: Slice, b: Slice, kind: Dissimilarity) -> Float64Array:
    """Return PASTE's costs (n, m) between spots by their expression: the Kullback-Leibler
    divergence of shares of genes, or Euclidean distances.
    """
    x, y = filled(a.table), filled(b.table)
    if kind == "euclidean":
        return cdist(x, y)
    _check_counts(a, b)
    # PASTE adds this to all counts, so that every gene has a share everywhere.
    p, q = (table + 0.01 for table in (x, y))
    p, q = (table / table.sum(axis=1, keepdims=True) for table in (p, q))
    return (p * np.log(p)).sum(axis=1)[:, None] - p @ np.log(q).T


def features(a: Slice, b: Slice, kind: Dissimilarity) -> tuple[Float64Array, Float64Array]:
    """Return coordinates of the expression of both slices in one space: joint principal components,
    of logarithms of normalized counts for "kl", or the tables as they are.
    """
    x, y = a.table, b.table
    if kind == "kl":
        _check_counts(a, b)
        x, y = _logarithms(x), _logarithms(y)
    if x.shape[1] <= N_COMPONENTS:
        return filled(x), filled(y)
    stack = sparse.vstack if sparse.issparse(x) or sparse.issparse(y) else np.vstack
    components = components_of(stack([x, y]), N_COMPONENTS)
    return components[: len(a.spots)], components[len(a.spots) :]


def spacing(spots: list[Float64Array]) -> float:
    """Return the median distance of neighboring spots of both slices."""
    distances = np.concatenate([cKDTree(each).query(each, 2)[0][:, 1] for each in spots])
    # Two places at least differ, but most spots may be double.
    return float(np.median(distances[distances > 0])) if distances.any() else 1.0


def geometries(
    spots: list[Float64Array], rows: list[Float64Array]
) -> tuple[PointCloud, PointCloud, CrossCost]:
    """Return squared distances within both slices and between their features, which are means over
    the 7 nearest spots, in units of the difference of neighbors.
    """
    noise, smooth = [], []
    for places, expressed in zip(spots, rows, strict=True):
        _, nearest = cKDTree(places).query(places, min(7, len(places)))
        noise.append(np.square(expressed - expressed[nearest[:, 1]]).sum(axis=1))
        smooth.append(expressed[nearest].mean(axis=1))
    unit = spacing(spots)
    x, y = (places / unit for places in spots)
    # The root mean square of all distances of a slice, the mean of both.
    radius = np.sqrt(x.var(axis=0).sum() + y.var(axis=0).sum())
    first, second = (PointCloud(places / np.sqrt(2 * radius), "sqeuclidean") for places in (x, y))
    size = np.sqrt(np.concatenate(noise).mean()) or 1.0
    return first, second, CrossCost(smooth[0] / size, smooth[1] / size)


def _check_counts(*slices):
    """Raise a ValueError for tables that are no counts."""
    for each in slices:
        if each.table.shape[1] and each.table.min() < 0:
            raise ValueError(
                f"{each.name} must not be negative with dissimilarity='kl', which compares "
                f"shares of counts, got {each.table.min():.3g}; pass dissimilarity='euclidean'"
            )


def _logarithms(table):
    """Return logarithms of counts that are normalized to a total in each spot, as in scanpy."""
    totals = np.asarray(table.sum(axis=1)).ravel()
    factors = 1e4 / np.where(totals > 0, totals, 1.0)
    if sparse.issparse(table):
        return (sparse.diags_array(factors) @ table).log1p().tocsr()
    return np.log1p(table * factors[:, None])
