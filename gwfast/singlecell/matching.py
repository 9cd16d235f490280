"""Alignment of two sets of cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._version import __version__
from ..linear.marginals import Marginals
from ..problems.epsilon import EpsilonLike
from ..problems.quadratic import QuadraticProblem
from ..results.result import GWResult, LabelTransfer, Projection
from ..results.status import Ending, Status
from ..results.tables import as_labels, of_tuples
from ..solvers.gromov import solve
from ..solvers.options import Settings, in_force
from ..solvers.search.advice import warn_of
from ..utils.deadline import Deadline
from ..utils.labels import in_order
from ..utils.types import Float64Array, FloatArray, Progress
from ..utils.validation import as_count
from . import cells
from .cells import CellMetric, NComponents, is_anndata, names_of, representation

if TYPE_CHECKING:
    import pandas as pd

# `width` is the argument for the width of a plan, `others` are further arguments to change.
ADVICE = {
    Ending.CONVERGED: "",
    Ending.STOPPED: "",
    Ending.CYCLE: "try a larger {width}, or compare other {others}",
    Ending.TIME_LIMIT: "try a larger time_limit, a larger {width}, or fewer points",
    Ending.NEAR_PRODUCT: "the plan matches nothing; try a smaller {width}, or other {others}",
    Ending.EQUAL_COSTS: "all costs of a side are equal, so that nothing tells its points apart",
    Ending.LOST_MASS: "points have lost their mass; try a larger {width}",
    Ending.TRUNCATED: "try a smaller {width}, or options with a larger n_neighbors or tier='tiled'",
    Ending.UNCERTAIN: "a lower optimum may exist; compare other {others}",
    Ending.TIE: "another plan has the same objective, see gw.candidates; compare other {others}",
    Ending.RIVAL: "{doubt}; compare other {others}",
}
UNBALANCED = ADVICE | {
    Ending.UNCERTAIN: (
        "which points an unbalanced plan leaves out depends on rho; compare Partial(mass) with the "
        "mass that both sides share, or 'semirelaxed' if only the first side lacks points"
    )
}


class Tried(NamedTuple):
    """A number of neighbors that was tried, and what it led to."""

    n_neighbors: int
    gw_cost: float
    epsilon: float
    status: Status
    seconds: float


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CellAlignment:
    """The alignment of the cells of two data sets, see `align`.

    Attributes
    ----------
    gw : GWResult
        The plan, with its evidence.
    x, y : (n, d) and (m, d') float64 ndarrays
        Representations that the cells of either set were compared by.
    n_neighbors : int
        Number of neighbors of the graph that was chosen, whose plan has the lowest `gw_cost`.
    tried : tuple of Tried
        A row for each number of neighbors.
    """

    gw: GWResult
    x: Float64Array
    y: Float64Array
    n_neighbors: int
    tried: tuple[Tried, ...]

    def transform(
        self, y: ArrayLike | None = None, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Return coordinates (n, e) of the first set in the space of the second, see
        `GWResult.transform`. `y` are other coordinates (m, e) of the second set, such as the other
        modality's values, or AnnData, whose ``X`` counts; None is its representation.
        """
        y = self.y if y is None else cells.values_of(y, self.gw.labels[1], "y")
        return self.gw.transform(y, projection=projection)

    def inverse_transform(
        self, x: ArrayLike | None = None, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Return coordinates of the second set in the space of the first, see `transform`."""
        x = self.x if x is None else cells.values_of(x, self.gw.labels[0], "x")
        return self.gw.inverse_transform(x, projection=projection)

    def transfer_labels(
        self, labels: ArrayLike, *, to: Literal["source", "target"] = "source"
    ) -> LabelTransfer:
        """Return labels of one set for the cells of the other, see `GWResult.transfer_labels`."""
        return self.gw.transfer_labels(labels, to=to)

    def foscttm(self) -> float:
        """Return the mean `foscttm` of both projections, if both sets are the same cells in the
        same order.
        """
        forth = cells.foscttm(self.transform(), self.y)
        return (forth + cells.foscttm(self.inverse_transform(), self.x)) / 2

    def to_frame(self) -> pd.DataFrame:
        """Return the tried numbers of neighbors as a table of pandas."""
        return of_tuples(Tried._fields, self.tried)

    def __repr__(self) -> str:
        return (
            f"CellAlignment({len(self.x)} x {len(self.y)} cells, {self.n_neighbors} neighbors, "
            f"{self.gw.status}, gw_cost={self.gw.gw_cost:.6g})"
        )


def align(
    adata_x: Any,
    adata_y: Any,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    *,
    use_rep: str | tuple[str | None, str | None] | None = None,
    n_components: NComponents = "auto",
    n_neighbors: int | Iterable[int] | None = None,
    metric: CellMetric = "cosine",
    labels: str | None = None,
    epsilon: EpsilonLike = "auto",
    marginals: Marginals = "balanced",
    time_limit: float | None = None,
    n_threads: int | None = None,
    seed: int = 0,
    progress: Progress = False,
    key_added: str | None = "gwfast",
) -> CellAlignment:
    """Align the cells of two data sets that have no feature in common.

    SCOT's procedure (Demetci et al., Journal of Computational Biology 2022): a graph of nearest
    neighbors in each set, steps between cells as costs, the entropic Gromov-Wasserstein plan, here
    the best of several starts, and the number of neighbors whose plan has the lowest objective.

    Parameters
    ----------
    adata_x, adata_y : AnnData, or array-like or sparse matrix of shape (n, genes)
        Counts should be normalized and on a log scale, other features to rows of equal length if
        lengths say nothing.
    p, q : array-like of shape (n,) and (m,) or None, default=None
        Masses of the cells; None is uniform.
    use_rep : str, pair of str or None, default=None
        Table of AnnData to compare cells by, as it is: a key of ``obsm`` or ``layers``, or "X"; or
        a pair, for each side. None is "X_pca" if it exists, else ``X``, see `n_components`.
    n_components : int, "auto" or None, default="auto"
        Largest number of principal components of ``X``, and of tables that are no AnnData. "auto"
        is 30 for more than 30 columns, and takes fewer columns as they are, None all columns. A
        number is refused for a table that is taken as it is, such as "X_pca".
    n_neighbors : int, iterable of int or None, default=None
        Number of neighbors of each cell in its graph, the cell itself counted; of several numbers
        the number with the lowest objective is taken. None is three numbers between a 20th and a
        6th of the cells for up to 250 cells, else 50.
    metric : {"cosine", "correlation", "euclidean"}, default="cosine"
        Which cells are neighbors. "cosine" and "correlation" ignore the lengths of rows.
    labels : str or None, default=None
        Column of ``adata_y.obs`` whose values to give to the cells of `adata_x`.
    epsilon, time_limit, n_threads, seed, progress
        See `gromov_wasserstein`; `time_limit` is for all graphs together.
    marginals : "balanced", "semirelaxed", Partial or Unbalanced, default="balanced"
        See `gromov_wasserstein`. If each set has types of cells that the other set lacks, try
        ``Partial(mass)`` with the mass that both share; if only `adata_x` lacks cells,
        "semirelaxed". Costs are fractions of the largest; an unbalanced plan is never more than
        "uncertain".
    key_added : str or None, default="gwfast"
        Write the alignment into AnnData objects under this key; None writes nothing. Both get
        ``obsm["X_gwfast"]``, coordinates in the representation of `adata_y`, `adata_x` gets
        ``uns["gwfast"]`` and, with `labels`, ``obs["gwfast_<labels>"]`` and their shares from 0 to
        1, ``obs["gwfast_<labels>_share"]``, in place of the columns of an earlier call.

    Returns
    -------
    CellAlignment
        With the `GWResult` in `gw`, and ``transform()``, ``transfer_labels(labels)``,
        ``foscttm()``, ``to_frame()``.

    Warns
    -----
    ConvergenceWarning, UserWarning
        See `gromov_wasserstein`, of the graph that was chosen; and if the lengths of rows differ
        and rows should be normalized: a plan that converged is "uncertain" then.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.singlecell import align
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 4]
    >>> found = align(x, x[:, ::-1], n_neighbors=8, metric="euclidean")
    >>> found.foscttm() < 0.2  # these are the same cells
    True
    """
    deadline = Deadline.after(time_limit)
    pair: Any = use_rep
    if not (isinstance(use_rep, tuple | list) and len(use_rep) == 2):
        pair = use_rep, use_rep
    x, name_x, uneven_x = representation(adata_x, pair[0], n_components, "adata_x")
    y, name_y, uneven_y = representation(adata_y, pair[1], n_components, "adata_y")
    for name, adata in (("adata_x", adata_x), ("adata_y", adata_y)):
        backed = getattr(adata, "isbacked", False) and getattr(adata, "is_view", False)
        if backed and key_added is not None:
            view = f"{name} is a view of a backed AnnData object; or pass {name}.to_memory()"
            raise ValueError(f"key_added must be None if {view}")
    column = _labels(adata_y, labels)
    names = names_of(adata_x), names_of(adata_y)
    p, q = in_order(p, "p", names[0], of="adata_x"), in_order(q, "q", names[1], of="adata_y")
    settings = Settings.of(
        None,
        deadline,
        tol=1e-5,
        epsilon=epsilon,
        n_threads=n_threads,
        seed=seed,
        takes_zero=True,
        progress=progress,
        placement=in_force.get(),
    )
    alignments, tried = list[CellAlignment](), list[Tried]()
    for k in _numbers(n_neighbors, min(len(x), len(y))):
        if tried and deadline.passed():
            break
        cost_x, cost_y = (
            cells.neighbor_costs(z, k, metric=metric, n_threads=n_threads) for z in (x, y)
        )
        gw = solve(QuadraticProblem(cost_x, cost_y, p, q, marginals=marginals), settings)
        unbalanced, uneven = gw.marginals.name == "unbalanced", uneven_x or uneven_y
        if gw.converged and (uneven or unbalanced):
            # An unbalanced plan has no confidence.
            gw = dataclasses.replace(gw, ending=Ending.UNCERTAIN)
        others = "n_neighbors, metric and use_rep"
        gw = advised(gw, "epsilon", f"{others}, or normalize the rows" if uneven else others)
        gw = dataclasses.replace(gw, labels=names)
        tried.append(Tried(k, gw.gw_cost, gw.epsilon, gw.status, gw.seconds))
        alignments.append(CellAlignment(gw, x, y, k, ()))
        alignments = [min(alignments, key=lambda each: each.gw.gw_cost)]
    alignment = dataclasses.replace(alignments[0], tried=tuple(tried))
    warn_of(alignment.gw, settings.limits)
    if key_added is not None:
        facts = dict(metric=metric, seed=seed, representation_x=name_x, representation_y=name_y)
        _write(alignment, adata_x, adata_y, labels, column, key_added, facts)
    return alignment


def _numbers(n_neighbors, n_cells):
    """Return the numbers of neighbors to try."""
    if n_neighbors is None:
        if n_cells > 250:
            return [50]
        # As fractions of the cells, as in SCOT's search.
        parts = 1 / 20, 13 / 120, 1 / 6
        return sorted({max(int(part * n_cells), min(2, n_cells)) for part in parts})
    several = n_neighbors if isinstance(n_neighbors, Iterable) else [n_neighbors]
    numbers = [as_count(k, "n_neighbors", least=2) for k in several]
    if not numbers:
        raise ValueError("n_neighbors must not be empty")
    return numbers


def _labels(adata, labels):
    """Return the column of ``adata.obs`` with the name `labels`, or None."""
    if labels is None:
        return None
    if not is_anndata(adata):
        remedy = "pass them to CellAlignment.transfer_labels"
        raise TypeError(f"labels must be None where adata_y is no AnnData object; {remedy}")
    if not isinstance(labels, str):
        raise TypeError(f"labels must be the name of a column, got {type(labels).__name__}")
    if labels not in adata.obs:
        raise ValueError(f"labels must be one of adata_y.obs, {list(adata.obs)}, got {labels!r}")
    return as_labels(adata.obs[labels], "labels", adata.n_obs)


def _write(alignment, adata_x, adata_y, labels, column, key, facts):
    """Write the alignment, and facts of the call, into the AnnData objects of both."""
    if is_anndata(adata_y):
        adata_y.obsm[f"X_{key}"] = alignment.y.astype(np.float32)
    if not is_anndata(adata_x):
        return
    # Labels and shares of an earlier alignment.
    for name in [*adata_x.obs]:
        if f"{name}".startswith(f"{key}_") and (share := f"{name}_share") in adata_x.obs:
            del adata_x.obs[name], adata_x.obs[share]
    adata_x.obsm[f"X_{key}"] = np.asarray(alignment.transform(), dtype=np.float32)
    adata_x.uns[key] = facts | {
        "n_neighbors": alignment.n_neighbors,
        "gw_cost": float(alignment.gw.gw_cost),
        "epsilon": float(alignment.gw.epsilon),
        "status": str(alignment.gw.status),
        "confidence": float(alignment.gw.confidence),
        "advice": alignment.gw.advice,
        "marginals": alignment.gw.marginals.name,
        "version": __version__,
    }
    if column is not None:
        received, shares = alignment.transfer_labels(column)
        dtype = adata_y.obs[labels].dtype
        if hasattr(dtype, "categories"):
            import pandas as pd

            # Categories keep their order, also categories without cells.
            received = pd.Categorical(received, dtype=dtype)
        adata_x.obs[f"{key}_{labels}"] = received
        adata_x.obs[f"{key}_{labels}_share"] = shares


def advised(gw, width, others):
    """Return the `GWResult` with advice in the arguments `width` and `others`, and its remarks."""
    advice_of = UNBALANCED if gw.marginals.name == "unbalanced" else ADVICE
    # Scales of the terms are chosen by the caller's function.
    ending = Ending.CONVERGED if gw.ending == Ending.SCALES else gw.ending
    doubt = gw.advice.partition(";")[0]
    advice = advice_of.get(ending, "try a larger {width}")
    advice = advice.format(width=width, others=others, doubt=doubt)
    advice = "; ".join(filter(None, [advice, *gw.remarks]))
    return dataclasses.replace(gw, ending=ending, advice=advice)
