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
from ..solvers.gromov import solve
from ..solvers.options import InitLike, Settings, SolverOptions, as_options
from ..solvers.search.advice import warn_of
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.labels import in_order
from ..utils.mechanisms import ALL
from ..utils.types import Float64Array, FloatArray, Progress
from ..utils.validation import as_positive, one_of
from .coarse_to_fine import MOST_ALPHA, disagree, race_of
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

ADVICE = {
    Ending.MAX_OUTER: "try a larger blur",
    Ending.MAX_INNER: "try a larger blur",
    Ending.TIME_LIMIT: "try a larger time_limit, or a larger blur",
    Ending.PRECISION: "try a larger blur",
    Ending.NEAR_PRODUCT: "the plan matches nothing; try a smaller blur, or other alpha",
    Ending.LOST_MASS: "spots have lost all their matches; try a larger blur",
    Ending.UNCERTAIN: "a lower optimum may exist; compare other alpha, or other seeds",
    Ending.TIE: "another plan has the same objective: the slice is symmetric; try a smaller alpha",
}


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class SliceAlignment:
    """The alignment of two slices.

    Attributes
    ----------
    gw : GWResult
        The plan, with its evidence.
    a : (n, d) float64 ndarray
        Coordinates of the spots of the first slice.
    b : (m, d) float64 ndarray
        Coordinates of the spots of the second slice.
    blur : float
        Width of the plan, in spots; 0 if it solves the exact problem.
    alpha : float
        Weight of the distances.

    Examples
    --------
    See `pairwise_align`.

    >>> import numpy as np
    >>> from gwfast.spatial import pairwise_align
    >>> rng = np.random.default_rng(0)
    >>> spots, counts = rng.uniform(0, 9, (40, 2)), rng.poisson(3.0, (40, 12))
    >>> found = pairwise_align((spots, counts), (spots[::-1], counts[::-1]))
    >>> found.blur, found.transform().shape, round(abs(found.rigid().angle), 3)
    (0.0, (40, 2), 0.0)
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
        """Return places of the first slice's spots in the second slice, see `GWResult.transform`.

        Parameters
        ----------
        b : array-like of shape (m,) or (m, e) or None, default=None
            Values at the spots of the second slice, such as expression; None is their coordinates.
        projection : {"barycentric", "match"}, default="barycentric"

        Returns
        -------
        (n,), (n, d) or (n, e) ndarray
        """
        return self.gw.transform(self.b if b is None else b, projection=projection)

    def inverse_transform(
        self, a: ArrayLike | None = None, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Return places of the second slice's spots in the first slice, see `transform`."""
        a = self.a if a is None else a
        return self.gw.inverse_transform(a, projection=projection)

    def transfer_labels(
        self, labels: ArrayLike, *, to: Literal["source", "target"] = "source"
    ) -> LabelTransfer:
        """Return labels of one slice for the spots of the other slice, see
        `GWResult.transfer_labels`: to the first slice, or with ``to="target"`` to the second.
        """
        return self.gw.transfer_labels(labels, to=to)

    def rigid(self, *, reflection: bool = False) -> RigidMotion:
        """Return the rigid motion that takes the first slice closest to the second, by the
        mean square over all pairs of spots, weighted by the plan.

        Parameters
        ----------
        reflection : bool, default=False
            Whether the slice may be turned over.

        Returns
        -------
        RigidMotion
            A function of coordinates: ``found.rigid()(spots)``.

        Warns
        -----
        UserWarning
            If the slice fits far better turned over, and `reflection` is false.
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

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        See `gromov_wasserstein`.
    UserWarning
        If one slice is more than twice as large as the other, or neighboring spots
        are far from one apart where `blur` is 0 and `norm` is false.

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
    a, b = _pair(slice_a, slice_b, use_rep)
    if isinstance(blur, str):
        one_of(blur, "blur", ("auto",))
        # 2000 spots a slice take nine seconds of a core, seven times as long as 1000.
        blur = 2.0 if len(a.spots) * len(b.spots) > 2000 * 2000 else 0.0
    blur = as_positive(blur, "blur", zero=True)
    if overlap is not None and as_positive(overlap, "overlap") > 1:
        raise ValueError(f"overlap must be from 0 to 1, got {overlap}")
    if blur or not norm:
        _warn_of_units(a, b, not blur)
    deadline = Deadline.after(time_limit)
    terms: dict[str, Any] = {
        "p": in_order(p, "p", a.names, of="slice_a"),
        "q": in_order(q, "q", b.names, of="slice_b"),
        "alpha": alpha,
        "marginals": "balanced" if overlap is None else Partial(overlap),
    }
    solved = functools.partial(
        _solved, a, b, dissimilarity, norm, rare,
        deadline=deadline, n_threads=n_threads, seed=seed, progress=progress,
    )  # fmt: skip
    if overlap in (None, 1) or not (isinstance(init, str) and init == "auto"):
        gw, settings = solved(terms, blur, init)
    else:
        gw, settings = _overlapping(solved, terms, blur, time_limit)
    advice = ADVICE.get(gw.ending, "")
    if gw.ending == Ending.TRUNCATED:
        advice = (
            "try options=SolverOptions(tier='tiled'), SolverOptions(tier='neighbors', "
            f"n_neighbors={2 * settings.tier.k}), or a smaller blur"
        )
    gw = dataclasses.replace(gw, advice=advice, labels=(a.names, b.names))
    warn_of(gw, settings.limits)
    return SliceAlignment(gw, a.spots, b.spots, blur, alpha)


def _solved(a, b, dissimilarity, norm, rare, terms, blur, init, *, deadline, **others):
    """Return the `GWResult` from a start, and the settings that it was solved with."""
    if blur:
        as_positive(terms["alpha"], "alpha")
        x, y, between = geometries([a.spots, b.spots], [*features(a, b, dissimilarity)])
    else:
        x, y = _distances(a.spots, norm), _distances(b.spots, norm)
        between = dissimilarities(a, b, dissimilarity)
    problem = QuadraticProblem(x, y, linear_cost=between, **terms)
    tol, race = (1e-3 if blur else 1e-5), None
    settings = Settings.of(
        dataclasses.replace(rare, marginal_tol=tol), deadline, tol=tol, init=init,
        epsilon=problem.alpha * blur**2, takes_zero=True, **others,
    )  # fmt: skip
    if blur and isinstance(init, str) and init == "auto":
        race, settings = race_of(problem, blur, settings)
    if race is None:
        return solve(problem, settings), settings
    mechanisms = dataclasses.replace(ALL, second_look=False)
    settings = dataclasses.replace(settings, mechanisms=mechanisms)
    return solve(problem, settings, race), settings


def _overlapping(solved, terms, blur, time_limit):
    """Return the `GWResult` and the settings for slices that overlap in part."""
    alpha = as_positive(terms["alpha"], "alpha", zero=True)
    if not 0 < alpha < 1:
        return solved(terms, blur, "auto")
    if blur:
        gw, settings = solved(terms, blur, "auto")
    else:
        # Plans without entropy do not leave a wrong overlap, and with much weight on
        # distances plans with entropy are wrong. Half of the time is for the starts.
        weights = sorted({alpha, min(alpha, MOST_ALPHA)})
        part = time_limit and time_limit / 2 / len(weights)
        found, seconds = [], 0.0
        for weight in weights:
            weighted, until = {**terms, "alpha": weight}, Deadline.after(part)
            first, _ = solved(weighted, 2.0, "auto", deadline=until)
            gw, settings = solved(terms, blur, first.plan)
            seconds += first.seconds + gw.seconds
            found.append(dataclasses.replace(gw, candidates=first.candidates))
        gw = min(found, key=lambda result: result.gw_cost)
        gw = dataclasses.replace(gw, seconds=seconds)
    doubted = disagree(gw.candidates) or (blur > 0 and alpha > MOST_ALPHA)
    if gw.ending == Ending.CONVERGED and doubted:
        gw = dataclasses.replace(gw, ending=Ending.UNCERTAIN)
    return gw, settings


def _pair(slice_a, slice_b, use_rep):
    """Return both slices, with the genes that both have."""
    a, b = (
        Slice.of(given, use_rep, name)
        for given, name in ((slice_a, "slice_a"), (slice_b, "slice_b"))
    )
    a, b = with_common_genes(a, b)
    if a.spots.shape[1] != b.spots.shape[1]:
        raise ValueError(
            f"slice_b must have the dimensions of slice_a, {a.spots.shape[1]}, got "
            f"{b.spots.shape[1]}"
        )
    return a, b


def _warn_of_units(a, b, uses_distances):
    """Warn of slices of unequal sizes, and of distances that are not in spots."""
    sizes = [float(np.sqrt(one.spots.var(axis=0).sum())) for one in (a, b)]
    unit = spacing([a.spots, b.spots])
    # A half of a tissue is 1.6 times smaller at most.
    if max(sizes) > 2.0 * min(sizes):
        warnings.warn(
            f"slice_b must have the units of slice_a, got {sizes[1] / sizes[0]:.3g} times "
            "its size; divide the coordinates by the distance of neighboring spots",
            stacklevel=outside(),
        )
    elif uses_distances and not 1 / 30 < unit**2 < 30:
        warnings.warn(
            f"neighboring spots must be about 1 apart for alpha, got {unit:.3g}, which "
            f"weighs distances {unit**2:.3g} times; pass norm=True",
            stacklevel=outside(),
        )


def _distances(spots, norm):
    """Return distances (n, n) between spots, in units of the least positive one if `norm`."""
    distances = cdist(spots, spots)
    return distances / distances[distances > 0].min() if norm else distances
