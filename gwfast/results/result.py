"""Results of the solvers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..utils.labels import Labels, in_order
from ..utils.types import Float32Array, Float64Array, FloatArray, IntArray, PathLike
from ..utils.validation import as_any_array, as_array, in_memory, one_of
from .coupling import Coupling, check_points, matches_of, shares_of
from .records import Masses, OuterStep
from .saving import read_result, write_result
from .status import Ending, Status
from .tables import Candidates, as_labels, frame, named, values_at

if TYPE_CHECKING:
    import pandas as pd

# A point goes to the mean of its matches, or to the best match.
Projection: TypeAlias = Literal["barycentric", "match"]


class ConvergenceWarning(UserWarning):
    """A solver did not end as it should; the result's `status` says how.

    Examples
    --------
    >>> import gwfast
    >>> issubclass(gwfast.ConvergenceWarning, UserWarning)
    True
    """


class LabelTransfer(NamedTuple):
    """Labels that points have got from those they are matched with.

    Attributes
    ----------
    labels : ndarray
        The label that most of each point's mass goes to; NaN for points without mass, or None if
        labels are no numbers.
    shares : float64 ndarray
        The share of its mass that goes there; 0 for points without mass.

    Examples
    --------
    >>> from gwfast import gromov_wasserstein
    >>> cost = [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    >>> result = gromov_wasserstein(cost, cost, epsilon=0)
    >>> result.transfer_labels(["near", "near", "far"]).shares.tolist()
    [1.0, 1.0, 1.0]
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
    cost, reg_cost : float
        ``<plan, cost>``, and that minus epsilon times the entropy ``-sum plan log plan``.
    epsilon, marginal_error, n_iter, seconds : float, float, int, float
        The error is ``|plan 1 - p|_1 + |plan' 1 - q|_1``, of a total mass of one.
    status : Status
        "converged", "max_iter", "stalled" (the error no longer fell) or "time_limit".

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> result = gwfast.sinkhorn(1 - np.eye(3), epsilon=0.1)
    >>> str(result.status), result.plan.argmax(axis=1).tolist()
    ('converged', [0, 1, 2])
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
        n, m = self.plan.shape
        return (
            f"SinkhornResult({n} x {m}, {self.status}, cost={self.cost:.6g}, epsilon="
            f"{self.epsilon:.3g}, marginal_error={self.marginal_error:.1e}, n_iter={self.n_iter})"
        )


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class GWResult:
    """Solution of a Gromov-Wasserstein problem, entropic or exact.

    Attributes
    ----------
    coupling : Coupling
        The plan (n, m) in the form that it was computed in: an array, sparse, or factors.
    potentials : tuple of (n,) and (m,) float64 ndarrays
        `f` and `g` in units of cost: ``plan_ij = exp((f_i + g_j - lin_cost_ij) / epsilon)``, times
        the plan before with "ppa" and "bapg". If `epsilon` is 0, of the last linear program.
    gw_cost : float
        Objective of the plan without entropy, in units of costs squared; if fused, ``alpha`` times
        that plus ``(1 - alpha)`` times `linear_cost`; if unbalanced, with the penalty.
    reg_cost : float
        The minimized objective: `gw_cost` minus twice epsilon times the entropy ``-sum plan log
        plan``, or if unbalanced plus epsilon times ``KL2(plan | p q')``.
    linear_cost : float
        ``<linear_cost, plan>``; 0 if not fused.
    epsilon : float
        The regularization that was used, in units of costs squared.
    marginal_error : float
        ``|plan 1 - p|_1 + |plan' 1 - q|_1``; of an unbalanced plan the distance from the marginals
        that its potentials ask for.
    gap : float
        Frank-Wolfe gap if `epsilon` is 0, a certificate of stationarity; else NaN.
    ending, advice : Ending, str
        The case of the `status`; and what to try unless that is "converged" or "stopped", then the
        `remarks`.
    remarks : tuple of str
        What else to know of the plan: that it comes from one start, how many known pairs it keeps,
        points that cannot be told apart.
    history : tuple of OuterStep
        The outer iterations of the last descent.
    candidates : Candidates
        Starts that a search tried, as a table, with the `confidence` in the winner.
    marginals : Masses
        The rule of the marginals, and the masses that the plan was asked to have.
    method : {"pgd", "ppa", "bapg", "cg"}
        "cg" (conditional gradient) if `epsilon` is 0.
    labels : tuple of two, each a sequence or None
        Names of the points of either side: nodes of networkx, an index of pandas, cells.
    seconds : float
        Time of the whole solve.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> cost = np.abs(np.subtract.outer(np.arange(9.0) ** 1.5, np.arange(9.0) ** 1.5))
    >>> gwfast.gromov_wasserstein(cost, cost[::-1, ::-1]).match()
    array([8, 7, 6, 5, 4, 3, 2, 1, 0])
    """

    coupling: Coupling
    potentials: tuple[Float64Array, Float64Array]
    gw_cost: float
    reg_cost: float
    epsilon: float
    marginal_error: float
    ending: Ending
    history: tuple[OuterStep, ...]
    marginals: Masses
    linear_cost: float = 0.0
    gap: float = np.nan
    advice: str = ""
    remarks: tuple[str, ...] = ()
    candidates: Candidates = dataclasses.field(default_factory=Candidates)
    method: Literal["pgd", "ppa", "bapg", "cg"] = "pgd"
    labels: tuple[Labels, Labels] = (None, None)
    seconds: float = 0.0

    @property
    def plan(self) -> FloatArray:
        """The coupling as an (n, m) ndarray; a MemoryError if it would not fit `memory_limit`."""
        return self.coupling.toarray()

    @property
    def status(self) -> Status:
        """Why the solver stopped, and what the plan is worth."""
        return self.ending.status

    @property
    def converged(self) -> bool:
        """True if the status is "converged", and only then."""
        return self.status == Status.CONVERGED

    @property
    def n_iter(self) -> int:
        """Number of outer iterations of the last descent."""
        return len(self.history)

    @property
    def mass(self) -> float:
        """Mass of the plan."""
        return float(self.coupling.marginals[0].sum())

    @property
    def confidence(self) -> float:
        """An estimate of the chance that a search found the lowest optimum, by some 900 problems:
        at most .99, or 1 of isomorphic costs; below .93 the status is "uncertain". NaN if there was
        no search.
        """
        return self.candidates.confidence

    @property
    def left_out(self) -> float:
        """With the tier "neighbors" an upper bound, at 95 % confidence, of the mass that the
        potentials would have outside of the neighbors that are kept; else 0.
        """
        return self.coupling.left_out

    def match(self) -> IntArray:
        """Return the best target point (n,) of every source point; -1 for a point without mass in
        the plan.
        """
        return matches_of(self.coupling, 1).indices[:, 0]

    def transform(self, y: ArrayLike, *, projection: Projection = "barycentric") -> FloatArray:
        """Source points among the target points.

        Parameters
        ----------
        y : array-like or sparse matrix of shape (m,) or (m, e)
            Coordinates of the target points, or anything else that is known of them.
        projection : {"barycentric", "match"}, default="barycentric"
            "barycentric": the mean of the rows of `y` that a point's mass goes to, for
            coordinates and sharp plans; means of a blurred plan draw together in the middle.
            "match": the row that most of it goes to, for plans of ``epsilon=0``, for `y` without
            means (identifiers, codes), and for blurred plans.

        Returns
        -------
        (n,) or (n, e) ndarray
            A point without mass in the plan has the mean 0, and no match: NaN, or None if `y` are
            no numbers.
        """
        return _project(self.coupling, y, "y", projection, self.labels[1])

    def inverse_transform(
        self, x: ArrayLike, *, projection: Projection = "barycentric"
    ) -> FloatArray:
        """Target points (m,) or (m, d) among the source points `x`, see `transform`."""
        return _project(self.coupling.T, x, "x", projection, self.labels[0])

    def transfer_labels(
        self, labels: ArrayLike, *, to: Literal["source", "target"] = "source"
    ) -> LabelTransfer:
        """Labels of the points of one side for the points of the other side, by mass.

        Parameters
        ----------
        labels : array-like of shape (m,), or (n,)
            Of the target points, or with ``to="target"`` of the source points.
        to : {"source", "target"}, default="source"
        """
        one_of(to, "to", ("source", "target"))
        coupling = self.coupling if to == "source" else self.coupling.T
        labels = in_order(labels, "labels", self.labels[to == "source"], of="its points")
        labels = as_labels(labels, "labels", coupling.shape[1])
        kinds, numbers = np.unique(labels, return_inverse=True)
        # Shares of the mass that the plan has, which may be less than one.
        means = coupling.transform(np.eye(len(kinds), dtype=coupling.dtype)[numbers])
        alone = matches_of(coupling, 1).indices[:, 0] < 0
        best = np.where(alone, -1, means.argmax(axis=1))
        shares = np.minimum(means.max(axis=1).astype(np.float64), 1.0)
        return LabelTransfer(values_at(kinds, best), np.where(alone, 0.0, shares))

    def to_frame(
        self, k: int = 1, *, source: ArrayLike | None = None, target: ArrayLike | None = None
    ) -> pd.DataFrame:
        """The best matches as a table of pandas.

        Parameters
        ----------
        k : int, default=1
            Matches of each source point.
        source, target : array-like of shape (n,) and (m,) or None, default=None
            Names of the points; None takes their `labels`, and numbers them where there are none.

        Returns
        -------
        DataFrame
            With columns "source", "target", "mass", and "share", the part of the mass of the
            source point. Points without mass in the plan are left out.
        """
        matches, (n, m) = matches_of(self.coupling, k), self.coupling.shape
        matched = matches.indices >= 0
        rows, columns = np.nonzero(matched)[0], matches.indices[matched]
        table = dict(
            source=named(self.labels[0], rows, source, "source", n),
            target=named(self.labels[1], columns, target, "target", m),
            mass=matches.scores[matched],
            share=shares_of(self.coupling, matches)[matched],
        )
        return frame(table)

    def save(self, path: PathLike) -> None:
        """Write the result to an .npz file, which `load` reads."""
        write_result(vars(self), path)

    @classmethod
    def load(cls, path: PathLike) -> GWResult:
        """Return the result that `save` has written; a ValueError if it is damaged, or if it holds
        values that no solve gives.
        """
        return cls(**read_result(path))

    def __repr__(self) -> str:
        n, m = self.coupling.shape
        return (
            f"GWResult({n} x {m}, {self.status}, gw_cost={self.gw_cost:.6g}, "
            f"epsilon={self.epsilon:.3g}, marginal_error={self.marginal_error:.1e}, "
            f"n_iter={self.n_iter}, seconds={self.seconds:.2f})"
        )


def _project(coupling, points, name, projection, labels):
    """Return rows of the coupling among the points of its columns, which have these labels."""
    one_of(projection, "projection", get_args(Projection))
    points = in_memory(in_order(points, name, labels, of="the points of that side"))
    points = points.toarray() if sparse.issparse(points) else points
    reading = as_array if projection == "barycentric" else as_any_array
    points = check_points(reading(points, name), name, coupling.shape[1])
    if projection == "match":
        return values_at(points, matches_of(coupling, 1).indices[:, 0])
    return coupling.transform(points)
