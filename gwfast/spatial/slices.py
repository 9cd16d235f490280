"""Slices of tissue: spots and their expression, rigid motions between them, and stacks."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from ..problems.dense_cost import check_extremes
from ..problems.geometry import PointCloud
from ..results.coupling import ArrayCoupling
from ..results.result import GWResult
from ..singlecell import cells
from ..utils.callers import outside
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
        if cells.is_anndata(data):
            spots, names = coordinates(data, name), data
            table, table_name = cells.table_of(data, use_rep, name)
            genes = None if use_rep in data.obsm else getattr(data, "var_names", None)
        else:
            if not (isinstance(data, tuple | list) and len(data) == 2):
                came = f"coordinates and features, got {type(data).__name__}"
                raise TypeError(f"{name} must be an AnnData object or a pair of {came}")
            if use_rep is not None:
                raise ValueError(f"use_rep must be None where {name} is no AnnData object")
            names, table, table_name = data[0], data[1], f"{name}[1]"
            table = in_order(table, table_name, labels_of(names), of=f"{name}[0]")
            spots, genes = coordinates(names, f"{name}[0]"), None
        columns = labels_of(table, 1)
        if genes is None and isinstance(columns, tuple):
            genes = list(columns)
        table = cells.as_features(table, table_name)
        if len(spots) != table.shape[0]:
            rows = f"{len(spots)} spots, got {table.shape[0]}"
            raise ValueError(f"{table_name} must have a row for each of {rows}")
        return cls(table_name, spots, table, genes, cells.names_of(names))


def coordinates(data: Any, name: str) -> Float64Array:
    """Return the coordinates (n, d) of an AnnData object, of a pair, or coordinates as they are;
    raise if all spots are at the same place.
    """
    if cells.is_anndata(data):
        if "spatial" not in data.obsm:
            keys = sorted(data.obsm)
            raise ValueError(f"a slice must have spots: {name}.obsm has {keys}, not 'spatial'")
        data, name = data.obsm["spatial"], f"{name}.obsm['spatial']"
    elif isinstance(data, tuple | list) and len(data) == 2 and np.ndim(data[0]) == 2:
        data, name = data[0], f"{name}[0]"
    spots = as_matrix(data, name).astype(np.float64)
    check_extremes(float(spots.min()), float(spots.max()), name)
    if len(spots) < 2 or not np.ptp(spots, axis=0).any():
        raise ValueError(f"{name} must have spots at two places at least")
    return spots


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
        column_of = {gene: k for k, gene in enumerate(b.genes)}
        kept = [k for k, gene in enumerate(a.genes) if gene in column_of]
        if not kept:
            raise ValueError(f"{a.name} and {b.name} must have genes in common")
        if list(a.genes) != list(b.genes):
            genes = [a.genes[k] for k in kept]
            others = [column_of[gene] for gene in genes]
            a = dataclasses.replace(a, table=a.table[:, kept], genes=genes)
            b = dataclasses.replace(b, table=b.table[:, others], genes=genes)
    n, m = a.table.shape[1], b.table.shape[1]
    if n != m:
        raise ValueError(f"{b.name} must have the columns of {a.name}, {n}, got {m}")
    return a, b


def dissimilarities(a: Slice, b: Slice, dissimilarity: Dissimilarity) -> Float64Array:
    """Return PASTE's costs (n, m) between spots by their expression: the Kullback-Leibler
    divergence of shares of genes, or Euclidean distances.
    """
    x, y = cells.filled(a.table), cells.filled(b.table)
    if dissimilarity == "euclidean":
        return cdist(x, y)
    _check_counts(a, b)
    # PASTE adds this to all counts, so that every gene has a share everywhere.
    p, q = (table + 0.01 for table in (x, y))
    p, q = (table / table.sum(axis=1, keepdims=True) for table in (p, q))
    return (p * np.log(p)).sum(axis=1)[:, None] - p @ np.log(q).T


def features(a: Slice, b: Slice, dissimilarity: Dissimilarity) -> tuple[Float64Array, Float64Array]:
    """Return coordinates of the expression of both slices in one space: joint principal components,
    of logarithms of normalized counts for "kl", or the tables as they are.
    """
    x, y = a.table, b.table
    if dissimilarity == "kl":
        _check_counts(a, b)
        x, y = _logarithms(x), _logarithms(y)
    if x.shape[1] <= cells.N_COMPONENTS:
        return cells.filled(x), cells.filled(y)
    stack = sparse.vstack if sparse.issparse(x) or sparse.issparse(y) else np.vstack
    components = cells.principal_components(stack([x, y]), cells.N_COMPONENTS)
    return components[: len(a.spots)], components[len(a.spots) :]


def spacing(spots: list[Float64Array]) -> float:
    """Return the median distance of neighboring spots of both slices."""
    distances = np.concatenate([cKDTree(each).query(each, 2)[0][:, 1] for each in spots])
    # Two places at least differ, but most spots may be double.
    return float(np.median(distances[distances > 0])) if distances.any() else 1.0


def geometries(spots, rows):
    """Return squared distances within both slices, and features of both, which are means over the 7
    nearest spots, in units of the difference of neighbors.
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
    return first, second, [features / size for features in smooth]


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


class RigidMotion(NamedTuple):
    """A motion: a `rotation` (d, d), perhaps with a reflection, and then a `shift` (d,)."""

    rotation: Float64Array
    shift: Float64Array

    def __call__(self, points: ArrayLike) -> Float64Array:
        """Return points (n, d) after the motion."""
        return as_matrix(points, "points").astype(np.float64) @ self.rotation + self.shift

    def inverse(self) -> RigidMotion:
        """Return the inverse motion."""
        return RigidMotion(self.rotation.T, -self.shift @ self.rotation.T)

    @property
    def angle(self) -> float:
        """Degrees by which points of the plane turn, counterclockwise; NaN for other dimensions."""
        if self.rotation.shape != (2, 2):
            return float("nan")
        return float(np.rad2deg(np.arctan2(self.rotation[0, 1], self.rotation[0, 0])))

    @property
    def is_reflection(self) -> bool:
        """True if the slice is turned over as well."""
        return bool(np.linalg.det(self.rotation) < 0)


def rigid_motion(coupling, a, b, reflection, name):
    """Return the motion of the spots `a` that is nearest to the spots `b`, by the mean square over
    all pairs, weighted by the plan (Procrustes, as in PASTE). A warning names a slice that has to
    be turned over.
    """
    rows, cols = coupling.marginals
    mass = rows.sum()
    if not mass > 0:
        raise ValueError("the plan must have mass for a rigid motion, got none")
    center, goal = rows @ a / mass, cols @ b / mass
    a, b = a - center, b - goal
    contraction = a.T @ coupling.apply(b).astype(np.float64)
    left, sizes, right = np.linalg.svd(contraction / mass)
    if not reflection and np.linalg.det(left @ right) < 0:
        left[:, -1] *= -1.0
        total = float(rows @ np.square(a).sum(axis=1) + cols @ np.square(b).sum(axis=1)) / mass
        best, more = max(total - 2 * sizes.sum(), 0.0), 4 * sizes[-1]
        # Spots in a line, and plans that match nothing, fit either way.
        if more > max(best, 0.01 * total):
            warnings.warn(
                f"{name} fits better turned over: its spots are off by {math.sqrt(best):.3g} with "
                f"a reflection, by {math.sqrt(best + more):.3g} without; pass reflection=True",
                stacklevel=outside(),
            )
    rotation = left @ right
    return RigidMotion(rotation, goal - center @ rotation)


def stack_slices(
    slices: Sequence[Any],
    alignments: Sequence[Any],
    *,
    reflection: bool = False,
    key_added: str | None = "spatial_aligned",
) -> list[Float64Array]:
    """Bring successive slices into the frame of the first.

    The rigid motion that is best for the plan between two slices moves each slice onto the slice
    before (PASTE: Zeira, Land, Strzalkowski and Raphael, Nature Methods 2022).

    Parameters
    ----------
    slices : sequence of k AnnData objects, pairs, or arrays of shape (n_i, d)
        The slices, or the coordinates of their spots.
    alignments : sequence of k - 1 SliceAlignment, GWResult, or arrays
        Alignment of each slice with the next slice, from `pairwise_align`; or plans of
        shape (n_i, n_(i + 1)).
    reflection : bool, default=False
        Whether slices may be turned over; a warning names a slice that would fit far better so.
    key_added : str or None, default="spatial_aligned"
        Write the coordinates into ``obsm[key_added]`` of AnnData objects; None writes nothing.

    Returns
    -------
    list of (n_i, d) float64 ndarrays
        Coordinates of all slices; the first slice stays where it is.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.spatial import stack_slices
    >>> spots = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    >>> turned = spots @ [[0.0, 1.0], [-1.0, 0.0]] + 7.0
    >>> first, second = stack_slices([spots, turned], [np.eye(3) / 3])
    >>> bool(np.allclose(first, second))
    True
    """
    if len(slices) < 2 or len(alignments) != len(slices) - 1:
        numbers = f"at least two, got {len(alignments)} and {len(slices)}"
        raise ValueError(f"alignments must be one fewer than slices, and slices {numbers}")
    spots = [coordinates(data, f"slices[{k}]") for k, data in enumerate(slices)]
    moved = [spots[0]]
    for k, alignment in enumerate(alignments):
        name, shape = f"alignments[{k}]", (len(spots[k]), len(spots[k + 1]))
        orders = cells.names_of(slices[k]), cells.names_of(slices[k + 1])
        plan = in_order(alignment, name, *orders, of=f"slices[{k}] and slices[{k + 1}]")
        plan = getattr(plan, "gw", plan)
        if isinstance(plan, GWResult):
            coupling = plan.coupling
        else:
            plan = np.ascontiguousarray(as_matrix(plan, name), dtype=np.float64)
            coupling = ArrayCoupling(plan, 1)
        if coupling.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {coupling.shape}")
        # The next slice onto this slice, where it is in the stack.
        motion = rigid_motion(coupling.T, spots[k + 1], moved[k], reflection, f"slices[{k + 1}]")
        moved.append(motion(spots[k + 1]))
    if key_added is not None:
        for data, places in zip(slices, moved, strict=True):
            if cells.is_anndata(data):
                data.obsm[key_added] = places
    return moved
