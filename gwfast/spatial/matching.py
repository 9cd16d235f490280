"""Alignment of two slices of tissue. Of many spots few are matched first, then more and more, each
time with less entropy, from the plan of the spots before.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import time
import warnings
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.stats import chi2

from ..linear.marginals import Partial
from ..problems.cross_cost import CrossCost
from ..problems.epsilon import Epsilon
from ..problems.quadratic import QuadraticProblem
from ..quadratic.neighbors import NeighborTier
from ..results.coupling import SparseCoupling
from ..results.result import GWResult, LabelTransfer, Projection
from ..results.status import Ending
from ..results.tables import Candidates
from ..singlecell.cells import are_equal, values_of
from ..singlecell.matching import advised
from ..solvers.gromov import solve
from ..solvers.options import InitLike, Settings, SolverOptions, as_options, in_force
from ..solvers.search.advice import warn_of
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.labels import in_order
from ..utils.memory import as_memory_limit
from ..utils.orders import spread
from ..utils.types import Float64Array, FloatArray, Progress
from ..utils.validation import as_positive, one_of
from .motions import Motions
from .race import race, row_of
from .slices import (
    Dissimilarity,
    RigidMotion,
    Slice,
    dissimilarities,
    features,
    geometries,
    rigid_motion,
    spacing,
    with_common_genes,
)

if TYPE_CHECKING:
    import pandas as pd

# Spots a side of the first level, where starts race, and the factor to the next level: its spots
# are twice as near to one another.
FIRST, GROWTH = 1500, 4


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
        as expression, or AnnData, whose ``X`` counts; None is their coordinates.
        """
        b = self.b if b is None else values_of(b, self.gw.labels[1], "b")
        return self.gw.transform(b, projection=projection)

    def inverse_transform(
        self, a: ArrayLike | None = None, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Return places of the second slice's spots in the first slice, see `transform`."""
        a = self.a if a is None else values_of(a, self.gw.labels[0], "a")
        return self.gw.inverse_transform(a, projection=projection)

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

    PASTE's problem (Zeira, Land, Strzalkowski and Raphael, Nature Methods 2022): the plan T with
    the least ``(1 - alpha) <M, T> + alpha GW(T)``, with the dissimilarity M of expression between
    the slices, and GW the mean squared difference of distances within them; or for slices of many
    spots a similar problem that scales, with entropy (see the guide to slices).

    Parameters
    ----------
    slice_a, slice_b : AnnData, or pair of arrays
        Spots with coordinates in ``obsm["spatial"]`` and expression in ``X``, whose common genes
        count; or coordinates (n, d) and expression (n, genes), perhaps sparse.
    p, q : array-like of shape (n,) and (m,) or None, default=None
        Masses of the spots; None is uniform.
    alpha : float, default=0.1
        Weight of the distances, from 0 to 1. If tissue is bent, a smaller `alpha` lets spots follow
        their expression further.
    dissimilarity : {"kl", "euclidean"}, default="kl"
        "kl": the Kullback-Leibler divergence of shares of genes, 0.01 being added to all counts.
        "euclidean": the distance (PASTE's is squared) of rows as they are, such as principal
        components.
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
    ConvergenceWarning, UserWarning
        See `gromov_wasserstein`; and if one slice is more than twice as large as the other, or
        neighboring spots are far from one apart where `blur` is 0 and `norm` is false.

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
    if blur > 1e6:
        raise ValueError(f"blur must be at most 1e6 distances of spots, got {blur:g}")
    if overlap is not None and as_positive(overlap, "overlap") > 1:
        raise ValueError(f"overlap must be from 0 to 1, got {overlap}")
    alpha = as_positive(alpha, "alpha", zero=blur == 0)
    for each in (a, b):
        if alpha < 1 and are_equal(each.table):
            differ = f"spots whose features differ, got {len(each.spots)} equal rows"
            raise ValueError(f"{each.name} must have {differ}; alpha=1 compares places alone")
    if blur or not norm:
        _warn_of_units(a, b, not blur)
    p = in_order(p, "p", a.names, of="slice_a")
    q = in_order(q, "q", b.names, of="slice_b")
    tol, marginals = 1e-3 if blur else 1e-5, "balanced" if overlap is None else Partial(overlap)
    settings = Settings.of(
        dataclasses.replace(rare, marginal_tol=tol),
        Deadline.after(time_limit),
        tol=tol,
        epsilon=alpha * blur**2,
        init=init,
        n_threads=n_threads,
        seed=seed,
        takes_zero=True,
        progress=progress,
        placement=in_force.get(),
    )
    gw = _solved(a, b, p, q, dissimilarity, norm, alpha, blur, marginals, settings)
    gw = advised(gw, "blur", "alpha, or other seeds")
    gw = dataclasses.replace(gw, labels=(a.names, b.names))
    warn_of(gw, settings.limits)
    return SliceAlignment(gw, a.spots, b.spots, blur, alpha)


def _solved(a, b, p, q, dissimilarity, norm, alpha, blur, marginals, settings):
    """Return the `GWResult` of two slices."""
    spots, terms = [a.spots, b.spots], dict(alpha=alpha, marginals=marginals)
    searches = isinstance(settings.init, str) and settings.init == "auto"
    if blur:
        x, y, expressed = geometries(spots, features(a, b, dissimilarity))
        problem = QuadraticProblem(x, y, p, q, linear_cost=CrossCost(*expressed), **terms)
        if searches and (_level_sizes(max(problem.shape)) or not problem.is_balanced):
            return _by_levels(problem, spots, expressed, blur, settings)
        return solve(problem, settings)
    x, y = (cdist(each, each) for each in spots)
    if norm:
        units = [distances[distances > 0].min() for distances in (x, y)]
        x, y, *spots = (z / unit for z, unit in zip((x, y, *spots), units * 2, strict=True))
    costs = dissimilarities(a, b, dissimilarity)
    problem = QuadraticProblem(x, y, p, q, linear_cost=costs, **terms)
    if not (searches and 0 < alpha < 1):
        return solve(problem, settings)
    _, _, expressed = geometries(spots, features(a, b, dissimilarity))
    return race(problem, Motions(spots, expressed, problem.rule), settings)


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


def _tier_of(problem, blur):
    """Return the tier for "auto": "dense" while it is faster and fits, else "neighbors" for a plan
    with a width of `blur` spots.
    """
    n_pairs = math.prod(problem.shape)
    # Up to 1 GiB a kernel with all entries is the faster kernel.
    if n_pairs <= 1 << 28 and 8 * n_pairs <= as_memory_limit(None):
        return "dense"
    # The linearized problem takes alpha r^2 / d times the matched mass for a match of the middle
    # spot that is r spots too far, in d dimensions, and more for other spots: plans of spots are
    # within a Gaussian. Beyond r is its tail; the number of spots within r is a ball's volume.
    d = problem.x.n_coordinates
    # On grids of 50,000 spots .001 leaves .005 of the mass outside of the neighbors.
    r = blur * math.sqrt(chi2.isf(1e-4, d) * d / (2 * problem.mass))
    volume = math.pi ** (d / 2) / math.gamma(d / 2 + 1) * r**d
    return NeighborTier(math.ceil(volume))


def _by_levels(problem, spots, expressed, blur, settings):
    """Return the `GWResult` of a fused problem of squared distances between spots with features."""
    began, largest, limits = time.perf_counter(), max(problem.shape), settings.limits
    sizes = [*_level_sizes(largest), largest]
    if len(sizes) > 1 and settings.tier == "auto":
        settings = dataclasses.replace(settings, tier=_tier_of(problem, blur))
    orders = [_evenly(problem.x.points, problem.p), _evenly(problem.y.points, problem.q)]
    # The width of the plan, in distances of the level's own spots, is the same on each level; a
    # level ends with the epsilon of the next level, for which its plan is then right.
    epsilons = [settings.epsilon.value * largest / size for size in [*sizes, largest]]
    coarse_limits = dataclasses.replace(limits, max_outer=40, max_inner=min(limits.max_inner, 1000))
    coarse = dataclasses.replace(settings, limits=coarse_limits)
    if neighbors := NeighborTier.of(settings.tier):
        # The plan of a coarse level ends half as wide in its spots.
        tier = NeighborTier(math.ceil(neighbors.k / GROWTH))
        coarse = dataclasses.replace(coarse, tier=tier)
    gw, before, remarks = None, None, ()
    for size, first, last in zip(sizes, epsilons, epsilons[1:], strict=False):
        rows = [np.sort(order[: -(-size * len(order) // largest)]) for order in orders]
        part, level = (problem.take(*rows), coarse) if size < largest else (problem, settings)
        schedule = Epsilon(last, anneal_from=first / last, anneal_by=0.5)
        if gw is None:
            searched = dataclasses.replace(schedule, anneal_by=Epsilon.anneal_by)
            level = dataclasses.replace(level, tier="dense", epsilon=searched)
            gw = solve(part, level)
            if not part.is_balanced and part.alpha < 1.0:
                level = dataclasses.replace(level, epsilon=schedule)
                of_part = (list(map(operator.getitem, z, rows)) for z in (spots, expressed))
                gw = race(part, Motions(*of_part, part.rule), level, gw)
                remarks = gw.remarks
            candidates, ending, confidence = gw.candidates, gw.ending, gw.confidence
        elif limits.deadline.passed():
            gw = solve(problem, dataclasses.replace(settings, init="product"))
            break
        else:
            start = _extended(gw, part.shape, rows, before)
            gw = solve(part, dataclasses.replace(level, init=start, epsilon=schedule))
            candidates = [*candidates, row_of(_winner(candidates), gw, "won")]
        before = rows
    if gw.converged and ending in (Ending.TIE, Ending.UNCERTAIN):
        gw = dataclasses.replace(gw, ending=ending)
    rows, seconds = Candidates(candidates, confidence), time.perf_counter() - began
    return dataclasses.replace(gw, candidates=rows, seconds=seconds, remarks=remarks)


def _winner(candidates):
    """Return the start that has won, or ""."""
    return next((row.start for row in candidates if row.fate == "won"), "")


def _extended(gw, shape, rows, before):
    """Return the result with its plan between the spots `before` as a plan of the spots `rows`,
    whose other spots have no mass: its moments are the same.
    """
    plan = gw.coupling.tocsr().tocoo()
    i, j = (np.searchsorted(*pair) for pair in zip(rows, before, strict=True))
    plan = sparse.csr_array((plan.data, (i[plan.row], j[plan.col])), shape=shape)
    return dataclasses.replace(gw, coupling=SparseCoupling(plan, gw.coupling.n_threads))


def _level_sizes(largest):
    """Return the spots a side of the levels before the last."""
    sizes = (FIRST * GROWTH**k for k in itertools.count())
    return list(itertools.takewhile(lambda size: size < 0.6 * largest, sizes))


def _evenly(points, masses):
    """Return the spots (n,) in an order whose first spots are spread evenly over the slice, which
    keeps its moments: at even steps through a tree of halves. Spots without mass come last.
    """
    order = spread(cKDTree(points, leafsize=1).indices)
    return order[np.argsort(masses[order] == 0, kind="stable")]
