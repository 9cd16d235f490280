"""What the solvers return: answers that carry their evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..utils import notebooks
from ..utils.labels import Labels, in_order
from ..utils.types import Float32Array, Float64Array, FloatArray, IntArray
from ..utils.validation import as_any_array, as_array, in_memory, one_of
from .candidates import Candidates
from .coupling import Coupling, check_points, matches_of, shares_of
from .status import Status
from .tables import as_labels, frame, named, names, of_tuples, taken

if TYPE_CHECKING:
    import pandas as pd

# Where a point goes: to the mean of what it is matched to, or to the best of these.
Projection: TypeAlias = Literal["barycentric", "match"]
PROJECTIONS: tuple[Projection, ...] = get_args(Projection)


class ConvergenceWarning(UserWarning):
    """A solver did not end as it should; the result's `status` says how.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = gwfast.gromov_wasserstein(cost, cost, max_outer=2, init="product")
    >>> [one.category.__name__ for one in caught]
    ['ConvergenceWarning']
    """


class OuterStep(NamedTuple):
    """One outer iteration, as kept in `GWResult.history` and passed to callbacks.

    Attributes
    ----------
    iteration : int
        Counted from 1.
    gw_cost : float
        The objective for the given marginals, without entropy, with the rounding of the
        loop. `GWResult.gw_cost` is more precise.
    epsilon : float
    change : float
        Relative change that this iteration made to what the next one depends on: for
        point clouds ``|A' - A|_F / |A'|_F`` of the matrix ``A = X' T Y``, for dense
        costs ``|T' - T|_1`` of the plan, over its mass. If `epsilon` is 0 it is the
        part of the way to the vertex that the plan went.
    marginal_error : float
        ``|T 1 - p|_1 + |T' 1 - q|_1``.
    n_inner : int
        Sinkhorn iterations in this one.
    seconds : float
        Since the solve began.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1], init="product")
    >>> last = result.history[-1]
    >>> bool(last.gw_cost < result.history[0].gw_cost)
    True
    """

    iteration: int
    gw_cost: float
    epsilon: float
    change: float
    marginal_error: float
    n_inner: int
    seconds: float


class LiveStep(OuterStep):
    """An `OuterStep` as callbacks get it, while the solver waits for them.

    It compares and unpacks like the one that `GWResult.history` keeps.

    Attributes
    ----------
    moved : float
        Frobenius norm of the change of the plan; for dense costs only, else NaN.
    """

    _make_coupling: Callable[[], Coupling] | None = None
    moved: float = np.nan

    @classmethod
    def stops(
        cls,
        callback: Callable[[LiveStep], object],
        step: OuterStep,
        make_coupling: Callable[[], Coupling],
        moved: float = np.nan,
    ) -> bool:
        """Whether a callback that sees this step ends the solve."""
        live = cls(*step)
        live._make_coupling, live.moved = make_coupling, moved
        try:
            return bool(callback(live))
        finally:
            # The solver goes on, and overwrites what a coupling would be made from.
            live._make_coupling = None

    @property
    def coupling(self) -> Coupling:
        """The plan of this iteration, a `Coupling`, to be looked at (`topk`, `apply`,
        ...) during the call only; `Coupling.toarray` and copy what is to stay.

        Raises
        ------
        RuntimeError
            After the call.
        """
        if self._make_coupling is None:
            raise RuntimeError("the coupling of a step is there during the callback only")
        return self._make_coupling()


class LabelTransfer(NamedTuple):
    """Labels that points have got from those they are matched with.

    Attributes
    ----------
    labels : ndarray
        For each point the label that most of its mass goes to; for points without mass
        NaN, or None where labels are no numbers.
    shares : float64 ndarray
        How much of its mass that is: 1 where all agree, 0 for points without mass.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import gromov_wasserstein
    >>> cost = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
    >>> result = gromov_wasserstein(cost, cost, epsilon=0)
    >>> labels, shares = result.transfer_labels(["near", "near", "far"])
    >>> labels.tolist(), shares.round(6).tolist()
    (['near', 'near', 'far'], [1.0, 1.0, 1.0])
    """

    labels: NDArray[Any]
    shares: Float64Array


@dataclasses.dataclass(frozen=True, repr=False)
class SinkhornResult:
    """Solution of ``min <plan, cost> - epsilon * entropy(plan)``.

    Attributes
    ----------
    plan : (n, m) float32 ndarray
        ``plan_ij = exp((f_i + g_j - cost_ij) / epsilon)``.
    potentials : tuple of (n,) and (m,) float64 ndarrays
        `f` and `g`, in units of cost.
    cost : float
        ``<plan, cost>``.
    reg_cost : float
        `cost` minus epsilon times the entropy ``-sum plan log plan``.
    epsilon : float
    marginal_error : float
        ``|plan 1 - p|_1 + |plan' 1 - q|_1``, of a total mass of one.
    n_iter : int
    status : Status
        A `str`: ``"converged"``, ``"max_iter"`` (the limit was reached), or
        ``"precision"``: the error no longer fell, above a tolerance that float32 cannot
        meet; or ``"time_limit"``.
    seconds : float

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> result = gwfast.sinkhorn(1 - np.eye(3), epsilon=0.1)
    >>> str(result.status)
    'converged'
    >>> result.plan.argmax(axis=1)
    array([0, 1, 2])
    """

    plan: Float32Array
    potentials: tuple[Float64Array, Float64Array]
    cost: float
    reg_cost: float
    epsilon: float
    marginal_error: float
    n_iter: int
    status: Status
    seconds: float

    @property
    def converged(self) -> bool:
        return self.status == Status.CONVERGED

    def __repr__(self) -> str:
        return (
            f"SinkhornResult({self.plan.shape[0]} x {self.plan.shape[1]}, "
            f"{self.status}, cost={self.cost:.6g}, epsilon={self.epsilon:.3g}, "
            f"marginal_error={self.marginal_error:.1e}, n_iter={self.n_iter})"
        )


@dataclasses.dataclass(frozen=True, repr=False)
class GWResult:
    """Solution of a Gromov-Wasserstein problem, entropic or exact.

    Attributes
    ----------
    coupling : Coupling
        The plan in the form it was computed in: an array, sparse, or factors.
    plan : (n, m) ndarray
        The plan as an array, of the `dtype` asked for; a MemoryError if that would not
        fit `memory_limit`.
    potentials : tuple of (n,) and (m,) float64 ndarrays
        `f` and `g`, in units of cost:
        ``plan_ij = exp((f_i + g_j - lin_cost_ij) / epsilon)`` with the last linearized
        cost; with ``method="ppa"`` and "bapg" that is multiplied by the plan before.
        If `epsilon` is 0 they are those of the last linear program: ``f_i + g_j <=
        lin_cost_ij``, with equality where its vertex has mass. Points without mass have
        minus infinity.
    gw_cost : float
        The objective of the plan, without entropy: computed in float64 from the plan where
        rounding, or marginals that it misses, could move it by over a ten thousandth.
        With a linear cost it is ``alpha`` times that plus ``(1 - alpha)`` times
        `linear_cost`. For an unbalanced plan it includes the `penalty`.
    linear_cost : float
        ``<linear_cost, plan>``; 0 where there is no linear cost.
    term_ratio : float
        How many times the quadratic term of a fused objective is the linear one, both
        of the product plan and with their weights: ``alpha`` times the
        Gromov-Wasserstein objective there, over ``(1 - alpha)`` times the mean of
        ``|linear_cost|``. Beyond 30, or below 1/30, there is a warning; `linear_cost`
        times this ratio makes both equal. NaN where there is no linear cost.
    reg_cost : float
        What is minimized: `gw_cost` minus twice epsilon times the entropy ``-sum plan
        log plan``; of an unbalanced plan `gw_cost` plus epsilon times ``KL2(plan |
        p q')``, see `gromov_wasserstein`.
    epsilon : float
        The number that was used, also if "auto" was asked for.
    marginal_error : float
        ``|plan 1 - p|_1 + |plan' 1 - q|_1``, of a total mass of one. For an unbalanced
        plan it is the distance from the marginals that its potentials ask for.
    n_outer, n_inner : int
        Numbers of linearizations and of Sinkhorn iterations, in all, of the last
        descent.
    status : Status
        Why the solver stopped, a `str` whose `meaning` says it in words:
        ``"converged"``, ``"max_outer"``, ``"max_inner"``, ``"precision"`` (nothing gets
        any better), ``"cycle"`` (outer iterations go in a cycle),
        ``"stopped"`` (by the callback) or ``"time_limit"``. A plan that converged, but
        should not be trusted as it is, has ``"near_product"``, ``"lost_mass"``,
        ``"missed_rows"`` (of ``method="bapg"``), ``"truncated"`` (`left_out` is above
        .01), ``"tie"`` (another plan is as good) or
        ``"uncertain"`` (of a search: `confidence` is below .93, or there
        is none, and one start alone came here with others near).
    confidence : float
        Of a search, an estimate of the chance that it has found the lowest optimum: by
        which starts led there, how far above the others ended, and whether descents
        from that plan with noise, and from random ones, came back to it. It is fitted
        to 490 problems (to 438 others if `epsilon` is 0). NaN where the search did not go
        on after its race (float64, tiers other than "dense", too little memory), where
        nothing was searched, and for problems that are not balanced.
    left_out : float
        With ``tier="neighbors"`` an upper bound on the fraction of the mass that these
        potentials would have outside of the neighbors that are kept, by the mean over
        rows drawn by their mass: it holds with a confidence of 95 %, and is .0007
        where nothing is found outside. 0 for other tiers.
    advice : str
        What to try, if `status` is neither "converged" nor "stopped", or if epsilon is
        large because of a linear cost that forbids matches.
    history : tuple of OuterStep
        The outer iterations of the last descent; with ``init="auto"`` there were other
        descents, see `candidates`.
    method : str
        ``"pgd"``, ``"ppa"`` or ``"bapg"``; ``"cg"`` where `epsilon` is 0.
    gap : float
        The gap of Frank and Wolfe, if `epsilon` is 0: the most by which the linearized
        objective of any plan is below that of this one, a certificate of stationarity;
        else NaN. If a limit or the callback ended the solve, it is that of the plan
        before the last step, or infinite if there was no time for any step.
    marginals : str
        "balanced", "semirelaxed", "partial" or "unbalanced", as it was asked for.
    p, q : (n,) and (m,) float64 ndarrays
        The masses that the plan was asked to have.
    mass : float
        Total mass of the plan.
    lost : tuple of two floats
        How much of `p` and of `q` the plan leaves unmatched, ``sum max(p - plan 1, 0)``
        and the same of the columns.
    penalty : float
        What an unbalanced plan pays for its marginals; 0 for others.
    candidates : Candidates
        What ``init="auto"``, `multistart` or `tune_epsilon` (a winner for each epsilon)
        tried, as a table; empty for any other start.
    seconds : float
        For all of it.
    labels : tuple of two, each a sequence or None
        What the points of either side are called: the nodes of a graph of networkx, the index of a
        DataFrame of pandas, the names of the cells of AnnData; None for other costs.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1])
    >>> str(result.status)
    'converged'
    >>> result.plan.shape
    (60, 60)
    >>> bool(result.marginal_error < 1e-4)
    True
    """

    coupling: Coupling
    potentials: tuple[Float64Array, Float64Array]
    gw_cost: float
    reg_cost: float
    epsilon: float
    marginal_error: float
    n_outer: int
    n_inner: int
    status: Status
    history: tuple[OuterStep, ...]
    seconds: float
    confidence: float = np.nan
    left_out: float = 0.0
    linear_cost: float = 0.0
    term_ratio: float = np.nan
    advice: str = ""
    method: Literal["pgd", "ppa", "bapg", "cg"] = "pgd"
    gap: float = np.nan
    mass: float = 1.0
    lost: tuple[float, float] = (0.0, 0.0)
    penalty: float = 0.0
    marginals: str = "balanced"
    p: Float64Array | None = None
    q: Float64Array | None = None
    candidates: Candidates = dataclasses.field(default_factory=Candidates)
    labels: tuple[Labels, Labels] = (None, None)

    @property
    def plan(self) -> FloatArray:
        """The coupling as an (n, m) ndarray."""
        return self.coupling.toarray()

    @property
    def sparse_plan(self) -> sparse.csr_array:
        """All entries of the plan that are not zero, a SciPy CSR array: where `epsilon`
        is 0 mostly fewer than ``n + m``.
        """
        return self.coupling.tocsr(0.0)

    def match(self) -> IntArray:
        """Return the best target point (n,) of every source point, by the plan; -1 for
        a point without mass in it, as a partial plan leaves some.
        """
        return matches_of(self.coupling, 1).indices[:, 0]

    def match_labels(self) -> dict[Any, Any]:
        """Best target of every source, as `match` has it, by their `labels`: which node
        of a graph of networkx is matched with which of another. Points of a side
        without labels go by their numbers; those without mass in the plan are left out.
        """
        best, (source, target) = self.match(), self.labels
        rows = np.flatnonzero(best >= 0)
        ours, theirs = named(source, rows), named(target, best[rows])
        return dict(zip(ours, theirs, strict=True))

    def transform(self, y: ArrayLike, *, projection: Projection = "barycentric") -> FloatArray:
        """Source points among the target points.

        Parameters
        ----------
        y : array-like or sparse matrix of shape (m,) or (m, e)
            Coordinates of the target points, or anything else that is known of them.
        projection : {"barycentric", "match"}, default="barycentric"
            "barycentric": the mean of the rows of `y` that a point's mass goes to.
            "match": the row that most of it goes to.

        Returns
        -------
        (n,) or (n, e) ndarray
            A point without mass in the plan has the mean 0, and no match: NaN, or None
            where `y` are no numbers.

        Notes
        -----
        *Which to use.* The mean is right where `y` are coordinates and the plan is sharp: points
        go between those they resemble, and small errors average out. The more a plan is blurred
        (large `epsilon`), the more means draw together in the middle of the cloud: distances to
        them then rank by who is central. The best match keeps to the points that there are, and so
        their spread; it is for plans of ``epsilon=0``, for `y` without means (identifiers, codes),
        and for blurred plans, at the price that several points may land on one. Categories are
        best taken by `transfer_labels`, which adds up mass by category.

        Both know only the points that took part. New points need a map: `align` and
        `AlignmentResult.transform`.

        See Also
        --------
        inverse_transform : The other direction.
        """
        return _project(self.coupling, y, "y", projection, self.labels[1])

    def inverse_transform(
        self, x: ArrayLike, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Target points among the source points, as `transform` has it.

        Parameters
        ----------
        x : array-like of shape (n,) or (n, d)
        projection : {"barycentric", "match"}, default="barycentric"

        Returns
        -------
        (m,) or (m, d) ndarray
        """
        return _project(self.coupling.T, x, "x", projection, self.labels[0])

    def transfer_labels(
        self, labels: ArrayLike, *, to: Literal["source", "target"] = "source"
    ) -> LabelTransfer:
        """Labels of the points of one side for those of the other, by mass.

        Parameters
        ----------
        labels : array-like of shape (m,), or (n,)
            Of the target points, or with ``to="target"`` of the source points.
        to : {"source", "target"}, default="source"

        Returns
        -------
        LabelTransfer

        Examples
        --------
        >>> import numpy as np
        >>> from gwfast import gromov_wasserstein
        >>> x = np.array([0.0, 1.0, 5.0, 7.0])
        >>> cost = np.abs(np.subtract.outer(x, x))
        >>> result = gromov_wasserstein(cost, cost[::-1, ::-1], epsilon=0)
        >>> result.transfer_labels(["far", "far", "near", "near"]).labels.tolist()
        ['near', 'near', 'far', 'far']
        """
        one_of(to, "to", ("source", "target"))
        coupling = self.coupling if to == "source" else self.coupling.T
        labels = in_order(labels, "labels", self.labels[to == "source"], of="its points")
        kinds, numbers = np.unique(
            as_labels(labels, "labels", coupling.shape[1]), return_inverse=True
        )
        return _by_mass(coupling, kinds, numbers)

    def to_frame(
        self, k: int = 1, *, source: ArrayLike | None = None, target: ArrayLike | None = None
    ) -> pd.DataFrame:
        """The best matches as a table of pandas. (`candidates` has a `to_frame` too,
        and `history_frame` is the history.)

        Parameters
        ----------
        k : int, default=1
            Matches of each source point.
        source, target : array-like of shape (n,) and (m,) or None, default=None
            Names of the points; None takes their `labels`, and numbers them where there are none.

        Returns
        -------
        DataFrame
            With columns "source", "target", "mass", and "share", the part of the mass
            of the source point. Points without mass in the plan are left out.
        """
        return frame(_matches(self.coupling, k, self.labels, (source, target)))

    def history_frame(self) -> pd.DataFrame:
        """The history as a table of pandas, a row for each outer iteration."""
        return of_tuples(OuterStep._fields, self.history)

    @property
    def converged(self) -> bool:
        """Whether the tolerances are met and nothing speaks against the plan, though it
        may be "uncertain" that no other is lower.
        """
        return self.status in (Status.CONVERGED, Status.UNCERTAIN)

    def _repr_html_(self) -> str:
        return notebooks.facts("GWResult", _facts(self))

    def __repr__(self) -> str:
        return (
            f"GWResult({self.coupling.shape[0]} x {self.coupling.shape[1]}, "
            f"{self.status}, "
            f"gw_cost={self.gw_cost:.6g}, epsilon={self.epsilon:.3g}, "
            f"marginal_error={self.marginal_error:.1e}, n_outer={self.n_outer}, "
            f"n_inner={self.n_inner}, seconds={self.seconds:.2f})"
        )


def _by_mass(coupling, kinds, numbers):
    """Return the `LabelTransfer` of columns that have the labels `kinds[numbers]`."""
    # Among what goes to labels, also where a plan has lost some mass.
    means = coupling.transform(np.eye(len(kinds), dtype=coupling.dtype)[numbers])
    alone = matches_of(coupling, 1).indices[:, 0] < 0
    best = np.where(alone, -1, means.argmax(axis=1))
    shares = np.minimum(means.max(axis=1).astype(np.float64), 1.0)
    return LabelTransfer(taken(kinds, best), np.where(alone, 0.0, shares))


def _matches(coupling, k, labels, given):
    """The columns of `GWResult.to_frame`."""
    found = matches_of(coupling, k)
    matched = found.indices >= 0
    rows, columns = np.nonzero(matched)[0], found.indices[matched]
    (n, m), (source, target) = coupling.shape, given
    return {
        "source": names("source", source, n, labels[0], rows),
        "target": names("target", target, m, labels[1], columns),
        "mass": found.scores[matched],
        "share": shares_of(coupling, found)[matched],
    }


def _project(coupling, points, name, projection, labels):
    """Rows of the coupling among the points of its columns, which have these labels."""
    one_of(projection, "projection", PROJECTIONS)
    points = in_order(points, name, labels, of="the points of that side")
    points = in_memory(points)
    points = points.toarray() if sparse.issparse(points) else points
    reading = as_array if projection == "barycentric" else as_any_array
    points = check_points(reading(points, name), name, coupling.shape[1])
    if projection == "match":
        return taken(points, matches_of(coupling, 1).indices[:, 0])
    return coupling.transform(points)


def _facts(result):
    """What a notebook shows of a `GWResult`: names and values."""
    facts = [
        ("points", " x ".join(map(str, result.coupling.shape))),
        ("status", f"{result.status}: {result.status.meaning}"),
        ("gw_cost", f"{result.gw_cost:.6g}"),
        ("epsilon", f"{result.epsilon:.3g}"),
        ("marginal error", f"{result.marginal_error:.1e}"),
        ("iterations", f"{result.n_outer} outer, {result.n_inner} inner"),
        ("seconds", f"{result.seconds:.2f}"),
    ]
    return [*facts, ("advice", result.advice)] if result.advice else facts
