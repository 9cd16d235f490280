"""Alignment of two slices of tissue."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from ..linear.marginals import Partial
from ..problems.quadratic import QuadraticProblem
from ..results.result import GWResult, LabelTransfer, Projection
from ..results.status import Ending
from ..singlecell.advice import advised, quiet_solve, warn_of
from ..solvers.options import InitLike, SolverOptions, as_options
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.labels import in_order
from ..utils.types import Float64Array, FloatArray, Progress
from ..utils.validation import as_positive, one_of
from .coarse_to_fine import MOST_ALPHA, by_levels, disagree, level_sizes, with_tier
from .motions import RigidMotion, rigid_motion
from .slices import (
    Dissimilarity,
    Slice,
    dissimilarities,
    features,
    geometries,
    spacing,
    with_common_genes,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class SliceAlignment:
    """The alignment of two slices, see `pairwise_align`.

    Attributes
    ----------
    gw : GWResult
        The plan, with its evidence.
    a, b : (n, d) and (m, d) float64 ndarrays
        Coordinates of the spots of either slice.
    blur : float
        Width of the plan, in spots; 0 if it solves the exact problem.
    alpha : float
        Weight of the distances.
    """

    gw: GWResult
    a: Float64Array
    b: Float64Array
    blur: float
    alpha: float

    @property
    def objective(self) -> float:
        """``(1 - alpha) <M, T> + alpha GW(T)`` of the plan T; in PASTE's units if `blur` is 0."""
        return self.gw.gw_cost

    def transform(
        self, b: ArrayLike | None = None, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Return places (n, d) of the first slice's spots in the second slice, see
        `GWResult.transform`. `b` are values (m,) or (m, e) at the spots of the second slice, such
        as expression; None is their coordinates.
        """
        return self.gw.transform(self.b if b is None else b, projection=projection)

    def inverse_transform(
        self, a: ArrayLike | None = None, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Return places of the second slice's spots in the first slice, see `transform`."""
        return self.gw.inverse_transform(self.a if a is None else a, projection=projection)

    def transfer_labels(
        self, labels: ArrayLike, *, to: Literal["source", "target"] = "source"
    ) -> LabelTransfer:
        """Return labels of one slice for the other, see `GWResult.transfer_labels`."""
        return self.gw.transfer_labels(labels, to=to)

    def rigid(self, *, reflection: bool = False) -> RigidMotion:
        """Return the rigid motion that takes the first slice closest to the second, by the mean
        square over all pairs of spots, weighted by the plan: a function of coordinates,
        ``found.rigid()(spots)``. With `reflection` the slice may be turned over; a warning names a
        slice that would fit far better so.
        """
        return rigid_motion(self.gw.coupling, self.a, self.b, reflection, "slice_a")

    def to_frame(self, k: int = 1) -> pd.DataFrame:
        """Return the best `k` matches of each spot as a table, see `GWResult.to_frame`."""
        return self.gw.to_frame(k)

    def __repr__(self) -> str:
        problem = f"blur={self.blur:g}" if self.blur else "exact"
        return (
            f"SliceAlignment({len(self.a)} x {len(self.b)} spots, {problem}, "
            f"alpha={self.alpha:g}, {self.gw.status}, objective={self.objective:.6g})"
        )


def pairwise_align(
    slice_a: Any,
    slice_b: Any,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    *,
    alpha: float = 0.1,
    dissimilarity: Dissimilarity = "kl",
    use_rep: str | None = None,
    norm: bool = False,
    blur: float | Literal["auto"] = "auto",
    overlap: float | None = None,
    init: InitLike = "auto",
    time_limit: float | None = None,
    n_threads: int | None = None,
    seed: int = 0,
    progress: Progress = False,
    options: SolverOptions | None = None,
) -> SliceAlignment:
    """Align two slices of tissue by the expression of their spots and by distances.

    PASTE's problem (Zeira, Land, Strzalkowski and Raphael, Nature Methods 2022): the
    plan T with the least ``(1 - alpha) <M, T> + alpha GW(T)``, with the dissimilarity M of
    expression between the slices, and GW the mean squared difference of distances within them.
    Slices of few spots have this problem, slices of many spots a similar problem that scales,
    with entropy; the guide to slices explains both.

    Parameters
    ----------
    slice_a, slice_b : AnnData, or pair of arrays
        Spots with coordinates in ``obsm["spatial"]`` and expression in ``X``; or coordinates (n, d)
        and expression (n, genes), an array or a sparse matrix. Of AnnData the genes that both
        slices have are compared.
    p, q : array-like of shape (n,) and (m,) or None, default=None
        Masses of the spots; None is uniform.
    alpha : float, default=0.1
        Weight of the distances, from 0 to 1. If tissue is bent, a smaller `alpha` lets spots follow
        their expression further.
    dissimilarity : {"kl", "euclidean"}, default="kl"
        "kl": the Kullback-Leibler divergence of shares of genes, 0.01 being added to all counts.
        "euclidean": the distance of rows as they are, such as principal components.
    use_rep : str or None, default=None
        Key of ``obsm`` or ``layers`` to compare spots by, in place of ``X``.
    norm : bool, default=False
        Whether to divide the distances of each slice by the least positive distance, if `blur` is
        0; with entropy spots are always taken as one apart.
    blur : float or "auto", default="auto"
        Width of the plan, in distances of neighboring spots: `epsilon` is ``alpha * blur**2``. 0 is
        PASTE's exact problem. "auto" is 0 up to four million pairs of spots (2000 a slice), else 2.
    overlap : float or None, default=None
        The share of the spots' mass that has a match, from 0 to 1, if each slice has spots that the
        other slice lacks (PASTE2: Liu, Zeira and Raphael, Genome Research 2023). None is all. Too
        large an overlap forces spots to wrong places, too small an overlap does not.
    init : str, start or array-like of shape (n, m), default="auto"
        See `gromov_wasserstein`; PASTE begins at "product". All but "auto" leave out the coarse
        levels of slices with many spots.
    time_limit, n_threads, seed, progress
        See `gromov_wasserstein`.
    options : SolverOptions or None, default=None
        Its tier and `n_neighbors`, `max_inner`, and the effort of the search. The tier "auto" is
        "dense" up to 16,384 spots a slice if memory allows; more spots have neighbors, to
        the number that the plan spreads over: 232 in the plane if `blur` is 2, more with `overlap`.

    Returns
    -------
    SliceAlignment
        With the `GWResult` in `gw`, and ``rigid()``, ``transform()``, ``transfer_labels(labels)``,
        ``to_frame()``.

    Warns
    -----
    ConvergenceWarning
        See `gromov_wasserstein`.
    UserWarning
        If one slice is more than twice as large as the other, or neighboring spots are far from one
        apart where `blur` is 0 and `norm` is false.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.spatial import pairwise_align
    >>> rng = np.random.default_rng(0)
    >>> spots = rng.uniform(0, 9, (60, 2))
    >>> genes = np.exp(np.sin(spots @ rng.normal(size=(2, 20))))
    >>> first, second = rng.poisson(20 * genes), rng.poisson(20 * genes)
    >>> turned = spots @ [[0.0, 1.0], [-1.0, 0.0]]
    >>> found = pairwise_align((spots, first), (turned, second))
    >>> round(found.rigid().angle)
    90
    """
    one_of(dissimilarity, "dissimilarity", get_args(Dissimilarity))
    rare = as_options(options)
    rare.refuse("method", "marginal_tol")
    a, b = Slice.of(slice_a, use_rep, "slice_a"), Slice.of(slice_b, use_rep, "slice_b")
    a, b = with_common_genes(a, b)
    d = a.spots.shape[1]
    if d != b.spots.shape[1]:
        raise ValueError(
            f"slice_b must have the dimensions of slice_a, {d}, got {b.spots.shape[1]}"
        )
    if isinstance(blur, str):
        one_of(blur, "blur", ("auto",))
        # 2000 spots a slice take nine seconds of a core, seven times as long as 1000.
        blur = 2.0 if len(a.spots) * len(b.spots) > 2000 * 2000 else 0.0
    blur = as_positive(blur, "blur", zero=True)
    if overlap is not None and as_positive(overlap, "overlap") > 1:
        raise ValueError(f"overlap must be from 0 to 1, got {overlap}")
    alpha = as_positive(alpha, "alpha", zero=blur == 0)
    if blur or not norm:
        _warn_of_units(a, b, not blur)
    deadline = Deadline.after(time_limit)
    solve = functools.partial(
        _solved, a, b, dissimilarity, norm, rare,
        p=in_order(p, "p", a.names, of="slice_a"), q=in_order(q, "q", b.names, of="slice_b"),
        marginals="balanced" if overlap is None else Partial(overlap),
        n_threads=n_threads, seed=seed, progress=progress,
    )  # fmt: skip
    searches = isinstance(init, str) and init == "auto"
    if overlap in (None, 1) or not (searches and 0 < alpha < 1):
        gw = solve(alpha, blur, init, deadline)
    else:
        gw = _overlapping(solve, alpha, blur, deadline, time_limit)
    gw = advised(gw, "blur", "alpha, or other seeds")
    gw = dataclasses.replace(gw, labels=(a.names, b.names))
    warn_of(gw)
    return SliceAlignment(gw, a.spots, b.spots, blur, alpha)


def _solved(
    a, b, dissimilarity, norm, rare, alpha, blur, init, deadline, *, p, q, marginals, **more
):
    """Return the `GWResult` from a start; `more` are arguments of `gromov_wasserstein`."""
    if blur:
        x, y, between = geometries([a.spots, b.spots], [*features(a, b, dissimilarity)])
    else:
        x, y = (cdist(spots, spots) for spots in (a.spots, b.spots))
        if norm:
            x, y = (distances / distances[distances > 0].min() for distances in (x, y))
        between = dissimilarities(a, b, dissimilarity)
    problem = QuadraticProblem(x, y, p, q, linear_cost=between, alpha=alpha, marginals=marginals)
    tol, epsilon = (1e-3, alpha * blur**2) if blur else (1e-5, 0.0)
    options = dataclasses.replace(rare, marginal_tol=tol)
    levels = level_sizes(max(problem.shape))
    if blur and isinstance(init, str) and init == "auto" and (levels or not problem.is_balanced):
        options = with_tier(problem, blur, options) if levels else options
        return by_levels(problem, epsilon, options, deadline, **more)
    return quiet_solve(
        problem, epsilon=epsilon, init=init, tol=tol, options=options, time_limit=deadline.left,
        **more,
    )  # fmt: skip


def _overlapping(solve, alpha, blur, deadline, time_limit):
    """Return the `GWResult` of slices that overlap in part."""
    if blur:
        gw = solve(alpha, blur, "auto", deadline)
    else:
        # Plans without entropy do not leave a wrong overlap, and with much weight on
        # distances plans with entropy are wrong. Half of the time is for the starts.
        weights = sorted({alpha, min(alpha, MOST_ALPHA)})
        part = time_limit and time_limit / 2 / len(weights)
        found, seconds = [], 0.0
        for weight in weights:
            first = solve(weight, 2.0, "auto", Deadline.after(part))
            gw = solve(alpha, blur, first.plan, deadline)
            seconds += first.seconds + gw.seconds
            found.append(dataclasses.replace(gw, candidates=first.candidates))
        gw = min(found, key=lambda result: result.gw_cost)
        gw = dataclasses.replace(gw, seconds=seconds)
    doubted = disagree(gw.candidates) or (blur > 0 and alpha > MOST_ALPHA)
    if gw.ending == Ending.CONVERGED and doubted:
        gw = dataclasses.replace(gw, ending=Ending.UNCERTAIN)
    return gw


def _warn_of_units(a, b, uses_distances):
    """Warn of slices of unequal sizes, and of distances that are not in spots."""
    size_a, size_b = (float(np.sqrt(each.spots.var(axis=0).sum())) for each in (a, b))
    unit, text = spacing([a.spots, b.spots]), None
    # A half of a tissue is 1.6 times smaller at most.
    if max(size_a, size_b) > 2.0 * min(size_a, size_b):
        text = (
            f"slice_b must have the units of slice_a, got {size_b / size_a:.3g} times its size; "
            "divide the coordinates by the distance of neighboring spots"
        )
    elif uses_distances and not 1 / 30 < unit**2 < 30:
        text = (
            f"neighboring spots must be about 1 apart for alpha, got {unit:.3g}, which weighs "
            f"distances {unit**2:.3g} times; pass norm=True"
        )
    if text:
        warnings.warn(text, stacklevel=outside())
