"""Two slices of tissue in, which spot is above which out."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from ..problems.quadratic import QuadraticProblem
from ..quadratic.judge import Limits
from ..quadratic.linearize import Tier
from ..results.result import GWResult, LabelTransfer, Projection
from ..results.status import Ending
from ..singlecell.representation import NComponents
from ..solvers.gromov import solve
from ..solvers.options import InitLike, Settings
from ..solvers.search.advice import warn_of
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.labels import in_order
from ..utils.mechanisms import ALL
from ..utils.types import Float64Array, FloatArray, MemoryLimit, Progress
from ..utils.validation import as_count, as_positive, one_of
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

SliceMethod: TypeAlias = Literal["exact", "entropic"]
ADVICE = {
    Ending.MAX_OUTER: "try a larger tol",
    Ending.MAX_INNER: "try a larger tol or blur",
    Ending.TIME_LIMIT: "try a larger time_limit or tol",
    Ending.PRECISION: "try a larger tol or blur",
    Ending.NEAR_PRODUCT: "the plan matches nothing; try a smaller blur, or other alpha",
    Ending.LOST_MASS: "spots have lost all their matches; try a larger blur",
    Ending.UNCERTAIN: "a lower optimum may exist; compare other alpha, or other seeds",
    Ending.TIE: "another plan has the same objective: the slice is symmetric; try a smaller alpha",
}


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class SliceAlignment:
    """Spots of one slice among those of another.

    Attributes
    ----------
    gw : GWResult
        The plan, with its evidence.
    a : (n, d) float64 ndarray
        Coordinates of the spots of the first slice.
    b : (m, d) float64 ndarray
        Those of the second.
    method : {"exact", "entropic"}
        Which problem was solved.
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
    >>> found.method, found.transform().shape, round(abs(found.rigid().angle), 3)
    ('exact', (40, 2), 0.0)
    """

    gw: GWResult
    a: Float64Array
    b: Float64Array
    method: SliceMethod
    alpha: float

    @property
    def objective(self) -> float:
        """``(1 - alpha) <M, T> + alpha GW(T)`` of the plan T: where `method` is "exact"
        that of PASTE, in its units.
        """
        return self.gw.gw_cost

    def transform(
        self, b: ArrayLike | None = None, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Spots of the first slice among the spots of the second, see `GWResult.transform`.

        Parameters
        ----------
        b : array-like of shape (m,) or (m, e) or None, default=None
            What is known of the spots of the second slice, such as expression; None is
            their coordinates.
        projection : {"barycentric", "match"}, default="barycentric"

        Returns
        -------
        (n,), (n, d) or (n, e) ndarray
        """
        return self.gw.transform(self.b if b is None else b, projection=projection)

    def inverse_transform(
        self, a: ArrayLike | None = None, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Spots of the second slice among those of the first, as `transform` has it."""
        a = self.a if a is None else a
        return self.gw.inverse_transform(a, projection=projection)

    def transfer_labels(
        self, labels: ArrayLike, *, to: Literal["source", "target"] = "source"
    ) -> LabelTransfer:
        """Labels of the spots of one slice for the spots of the other, see
        `GWResult.transfer_labels`: to the first slice, or with ``to="target"`` to the second.
        """
        return self.gw.transfer_labels(labels, to=to)

    def rigid(self, *, reflection: bool = False) -> RigidMotion:
        """The rigid motion that takes the first slice closest to the second, by the
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
        """The best `k` matches of each spot as a table of pandas, see `GWResult.to_frame`."""
        return self.gw.to_frame(k)

    def __repr__(self) -> str:
        return (
            f"SliceAlignment({len(self.a)} x {len(self.b)} spots, {self.method}, "
            f"alpha={self.alpha:g}, {self.gw.status}, objective={self.objective:.6g})"
        )


def pairwise_align(
    slice_a: Any,
    slice_b: Any,
    *,
    alpha: float = 0.1,
    dissimilarity: Dissimilarity = "kl",
    use_rep: str | None = None,
    layer: str | None = None,
    norm: bool = False,
    method: SliceMethod | Literal["auto"] = "auto",
    blur: float = 2.0,
    n_components: NComponents = "auto",
    n_neighbors: int = 7,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    overlap: float | None = None,
    init: InitLike = "auto",
    tol: float | None = None,
    time_limit: float | None = None,
    n_threads: int | None = None,
    memory_limit: MemoryLimit = None,
    tier: Tier = "auto",
    seed: int = 0,
    progress: Progress = False,
) -> SliceAlignment:
    """Align two slices of tissue by the expression of their spots and by distances.

    PASTE's problem (Zeira, Land, Strzalkowski and Raphael, Nature Methods 2022): the
    plan T with the least ``(1 - alpha) <M, T> + alpha GW(T)``, with M the dissimilarity
    of expression between the slices, and GW the mean of how much distances within one
    slice differ from those within the other, squared. Slices of few spots have exactly
    this problem, slices of many one that is like it and scales, see Notes.

    Parameters
    ----------
    slice_a, slice_b : AnnData, or pair of arrays
        Spots with coordinates in ``obsm["spatial"]`` and expression in ``X``; or
        coordinates (n, d) and expression (n, genes), an array or a sparse matrix. Of
        AnnData the genes that both have are compared.
    alpha : float, default=0.1
        Weight of the distances, from 0 to 1. Where tissue is bent, spots follow their
        expression further the smaller it is.
    dissimilarity : {"kl", "euclidean"}, default="kl"
        "kl": the Kullback-Leibler divergence of shares of genes, 0.01 being added to
        all counts. "euclidean": the distance of rows as they are, of principal
        components say.
    use_rep : str or None, default=None
        Key of ``obsm`` to compare spots by, in place of ``X``.
    layer : str or None, default=None
        Key of ``layers``, likewise.
    norm : bool, default=False
        Whether to divide the distances of each slice by its least positive one, for
        ``method="exact"``; the other method always takes spots as one apart.
    method : {"auto", "exact", "entropic"}, default="auto"
        "exact" up to four million pairs of spots (2000 a slice), else "entropic".
    blur : float, default=2
        How far the plan of a spot spreads, in distances of neighboring spots, for
        ``method="entropic"``: its `epsilon` is ``alpha * blur**2``. A smaller one takes
        more iterations.
    n_components : int, "auto" or None, default="auto"
        For ``method="entropic"``: the number of joint principal components to compare
        spots by; "auto" is 30 for more than 30 columns, and None takes columns as they
        are.
    n_neighbors : int, default=7
        For ``method="entropic"``: expression is averaged over so many nearest spots,
        the spot itself counted, which leaves less noise; 1 takes it as it is.
    p, q : array-like of shape (n,) and (m,) or None, default=None
        Masses of the spots; None is uniform.
    overlap : float or None, default=None
        The part of the spots' mass, from 0 to 1, that has a match, where each slice has
        spots that the other lacks (PASTE2: Liu, Zeira and Raphael, Genome Research
        2023). None is all. With ``init="auto"`` the search then begins with plans for
        which distances weigh little; "uncertain" says that its two lowest plans differ,
        or that an `alpha` above 0.1 makes wrong plans with entropy the lowest.
        More than the slices have in common forces spots to wrong places, less does not.
    init : str, start or array-like of shape (n, m), default="auto"
        See `gromov_wasserstein`; PASTE begins at "product". Anything but "auto" leaves
        out the coarse levels of ``method="entropic"``.
    tol : float or None, default=None
        See `gromov_wasserstein`; None is 1e-5 for "exact", 1e-3 for "entropic", which
        is also that of the marginals.
    time_limit, n_threads, memory_limit, seed, progress
        See `gromov_wasserstein`.
    tier : {"auto", "dense", "tiled", "neighbors"} or NeighborTier, default="auto"
        See `gromov_wasserstein`; for ``method="entropic"`` "auto" is "dense" up to 16,384
        spots a slice, and for more spots or a smaller `memory_limit` a `NeighborTier` of as
        many spots as the plan spreads over: 232 in the plane if `blur` is 2, more
        with `overlap`. Fewer leave out too much of the plan.

    Returns
    -------
    SliceAlignment

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.
    MemoryError
        If the problem does not fit `memory_limit`.

    Warns
    -----
    ConvergenceWarning
        See `gromov_wasserstein`.
    UserWarning
        If one slice is more than twice as large as the other, or neighboring spots
        are far from one apart where `method` is "exact" and `norm` is false.

    Notes
    -----
    *Many spots.* Matrices of 50,000 spots do not fit memory, so that
    ``method="entropic"`` never makes any: it has squared distances, of coordinates and
    of features, which are products of few columns, and a plan with entropy. First few
    spots of each slice are matched, then four times as many, until all are.

    *Scale.* PASTE's units have a property that is worth keeping where spots are one apart, as on
    its glasses or with `norm`: if a spot is matched with one that is one too far, its distances to
    all others change by a half, squared, on a slice of any size. So squared distances are divided,
    ``|x - x'|^2 / (2 R)``, with coordinates in units of the median distance of neighboring spots
    and R the root mean square of all distances: around R that changes as the distance does. The
    dissimilarity of spots is the squared distance of their features, divided by the mean of that
    between neighboring spots, which is mostly noise. Both terms are then in units of the difference
    of neighbors, and an `alpha` means the same for slices of any size.
    `GWResult.term_ratio`, which compares both terms at the plan that matches all with all, grows
    with the slice; that is no reason for another `alpha`.

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
    >>> bool((found.gw.match() == np.arange(60)).mean() > 0.8)
    True

    Of AnnData objects with counts in ``X`` and coordinates in ``obsm["spatial"]``::

        found = gwfast.spatial.pairwise_align(first, second)
        first.obs["region"] = found.transfer_labels(second.obs["region"]).labels
    """
    one_of(dissimilarity, "dissimilarity", get_args(Dissimilarity))
    one_of(method, "method", ("auto", *get_args(SliceMethod)))
    few = as_count(n_neighbors, "n_neighbors")
    a, b = _pair(slice_a, slice_b, use_rep, layer)
    if method == "auto":
        # 2000 spots a slice take nine seconds of a core, seven times as long as 1000.
        many = len(a.spots) * len(b.spots) > 2000 * 2000
        method = "entropic" if many else "exact"
    if overlap is not None and as_positive(overlap, "overlap") > 1:
        raise ValueError(f"overlap must be from 0 to 1, got {overlap}")
    if method == "entropic" or not norm:
        _warn_of_units(a, b, method == "exact")
    deadline = Deadline.after(time_limit)
    p = in_order(p, "p", a.names, of="slice_a")
    q = in_order(q, "q", b.names, of="slice_b")
    terms: dict[str, Any] = {"p": p, "q": q, "alpha": alpha}
    if overlap is not None:
        terms |= {"marginals": "partial", "mass": overlap}
    spaces = dissimilarity, norm, n_components, few
    solved = functools.partial(
        _solved, a, b, spaces, blur, n_threads=n_threads, seed=seed,
        memory_limit=memory_limit, progress=progress, deadline=deadline,
    )  # fmt: skip
    if overlap in (None, 1) or not (isinstance(init, str) and init == "auto"):
        gw, options = solved(terms, method, init, tol, tier)
    else:
        gw, options = _overlapping(solved, terms, method, tol, tier, time_limit)
    advice = ADVICE.get(gw.ending, "")
    if gw.ending == Ending.TRUNCATED:
        more = f"NeighborTier(k={2 * options.tier.k})" if tier == "auto" else "'auto'"
        advice = f"try tier='tiled', tier={more}, or a smaller blur"
    gw = dataclasses.replace(gw, advice=advice, labels=(a.names, b.names))
    # Distances outweigh features the more the larger a slice is, see Notes.
    warn_of(dataclasses.replace(gw, term_ratio=math.nan), options.limits)
    return SliceAlignment(gw, a.spots, b.spots, method, alpha)


def _solved(a, b, spaces, blur, terms, method, init, tol, tier, *, deadline, **others):
    """The `GWResult` by a method from a start, and the options that it was solved with."""
    problem = QuadraticProblem(**_spaces(a, b, method, *spaces), **terms)
    tol = {"exact": 1e-5, "entropic": 1e-3}[method] if tol is None else as_positive(tol, "tol")
    epsilon, race = 0.0, None
    if method == "entropic":
        alpha = as_positive(problem.alpha, "alpha")
        epsilon = alpha * as_positive(blur, "blur") ** 2
    options = Settings(
        Limits(1000, 10_000, tol, tol, deadline=deadline), init=init, tier=tier,
        epsilon=epsilon, takes_zero=True, **others,
    )  # fmt: skip
    if epsilon and isinstance(init, str) and init == "auto":
        race, options = race_of(problem, blur, options)
    if race is None:
        return solve(problem, options), options
    mechanisms = dataclasses.replace(ALL, second_look=False)
    options = dataclasses.replace(options, mechanisms=mechanisms)
    return solve(problem, options, race), options


def _overlapping(solved, terms, method, tol, tier, time_limit):
    """The `GWResult` and the options for slices that overlap in part."""
    alpha = as_positive(terms["alpha"], "alpha", zero=True)
    if not 0 < alpha < 1:
        return solved(terms, method, "auto", tol, tier)
    if method == "entropic":
        gw, options = solved(terms, method, "auto", tol, tier)
    else:
        # Plans without entropy do not leave a wrong overlap, and with much weight on
        # distances those with entropy are wrong. Half of the time is for the starts.
        weights = sorted({alpha, min(alpha, MOST_ALPHA)})
        part = time_limit and time_limit / 2 / len(weights)
        found, seconds = [], 0.0
        for weight in weights:
            deadline, given = Deadline.after(part), {**terms, "alpha": weight}
            first, _ = solved(given, "entropic", "auto", None, "auto", deadline=deadline)
            gw, options = solved(terms, method, first.plan, tol, tier)
            seconds += first.seconds + gw.seconds
            found.append(dataclasses.replace(gw, candidates=first.candidates))
        gw = min(found, key=lambda one: one.gw_cost)
        gw = dataclasses.replace(gw, seconds=seconds)
    doubted = disagree(gw.candidates) or (method == "entropic" and alpha > MOST_ALPHA)
    if gw.ending == Ending.CONVERGED and doubted:
        gw = dataclasses.replace(gw, ending=Ending.UNCERTAIN)
    return gw, options


def _pair(slice_a, slice_b, use_rep, layer):
    """Both slices, with the genes that both have."""
    a, b = (
        Slice.of(given, use_rep, layer, name)
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
    """Warn of slices of other sizes, and of distances that are not in spots."""
    sizes = [float(np.sqrt(one.spots.var(axis=0).sum())) for one in (a, b)]
    unit = spacing([a.spots, b.spots])
    # A half of a tissue is 1.6 times smaller at most.
    if max(sizes) > 2.0 * min(sizes):
        warnings.warn(
            f"slice_b must have the units of slice_a, got {sizes[1] / sizes[0]:.3g} times "
            "its size; divide the coordinates by the distance of neighboring spots",
            stacklevel=outside(),
        )
    elif uses_distances and not 1 / 30 < unit**2 < 30:  # as for `term_ratio`
        warnings.warn(
            f"neighboring spots must be about 1 apart for alpha, got {unit:.3g}, which "
            f"weighs distances {unit**2:.3g} times as much; pass norm=True",
            stacklevel=outside(),
        )


def _spaces(a, b, method, dissimilarity, norm, n_components, n_neighbors):
    """The costs within both slices and between them, as arguments of a problem."""
    if method == "exact":
        x, y = _distances(a.spots, norm), _distances(b.spots, norm)
        between = dissimilarities(a, b, dissimilarity)
    else:
        rows = features(a, b, dissimilarity, n_components)
        x, y, between = geometries([a.spots, b.spots], [*rows], n_neighbors)
    return {"x": x, "y": y, "linear_cost": between}


def _distances(spots, norm):
    """Distances (n, n) between spots, perhaps in units of the least."""
    made = cdist(spots, spots)
    return made / made[made > 0].min() if norm else made
