"""The main job: two embedding spaces in, correspondences and a mapping out."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..kernels import _products
from ..kernels._kernels import mass_entropy
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..problems.epsilon import EpsilonLike
from ..problems.geometry import Metric, PointCloud, Statistic
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem
from ..quadratic.judge import Limits
from ..quadratic.linearize import Tier
from ..results.coupling import matches_of
from ..results.result import GWResult
from ..results.tables import Neighbors
from ..solvers.gromov import solve
from ..solvers.options import Callback, InitLike, Settings, in_force
from ..solvers.search.advice import warn_of
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.labels import in_order, labels_of
from ..utils.progress import log
from ..utils.types import FloatArray, IntArray, MemoryLimit, PathLike, Progress
from ..utils.validation import as_array, as_count, as_matrix, as_weights, one_of
from .normalize import Normalizer, NormalizeStep
from .procrustes import orthogonal
from .refine import Refinement, as_refinement
from .retrieval import Retrieval, nearest_neighbors
from .spaces import AlignedSpaces

# How `translate` ranks targets by the plan, or by what it does to points.
ByPlan: TypeAlias = Literal["coupling", "barycentric"]
Ranking: TypeAlias = Retrieval | ByPlan


# "uniform", "zipf" or weights.
Masses: TypeAlias = str | ArrayLike | None


@dataclasses.dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class AlignmentResult(AlignedSpaces):
    """Two aligned embedding spaces, and the record of how that came about.

    Attributes
    ----------
    mapping, target_mapping, source, target, n_words, refinement, words, n_threads
        See `AlignedSpaces`.
    gw : GWResult
        The Gromov-Wasserstein solution with its history.
    seconds : float
        For all of it.

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> result = gwfast.align(spanish.vectors, french.vectors, n_words=500)
    >>> result.gw.converged
    True
    >>> result.mapping.shape
    (200, 200)
    >>> result.translate(range(3), k=2).indices.shape
    (3, 2)
    """

    gw: GWResult
    seconds: float

    @property
    def plan(self) -> FloatArray:
        """(n_words, m_words) float32 ndarray: masses moved between the rows that took
        part."""
        return self.gw.plan

    def match(self) -> IntArray:
        """Return the best target row of every source row that took part, by the plan.

        Returns
        -------
        (n_words,) int64 ndarray
            -1 for a row without mass in the plan.
        """
        return self.gw.match()

    def _refined(self, refinement, progress, deadline):
        began = time.perf_counter()
        refined = super()._refined(refinement, progress, deadline)
        seconds = self.seconds + time.perf_counter() - began
        return dataclasses.replace(refined, seconds=seconds)

    def translate(
        self, rows: ArrayLike | None = None, *, method: Ranking = "csls", k: int = 10
    ) -> Neighbors:
        """The best target rows of source rows, or of other vectors.

        Parameters
        ----------
        rows : array-like of int, str or float, or None, default=None
            Numbers of source rows, words where there are `words`, or vectors, see
            `AlignedSpaces.translate`; by the plan no vectors. None is all that the
            method can tell about.
        method : {"csls", "nn", "inverted_softmax", "coupling", "barycentric"}, \
                default="csls"
            "coupling" ranks by the plan, among the rows that took part.
            "barycentric" ranks all target rows by their angle to the mean of those
            that the plan moves the row to. The others, by their angle to the mapped
            vector, see `nearest_neighbors`.
        k : int, default=10

        Returns
        -------
        Neighbors
            Of shape (len(rows), min(k, number of targets)). By the plan, rows without
            mass in it have indices of -1.
        """
        one_of(method, "method", (*get_args(Retrieval), *get_args(ByPlan)))
        if method != "coupling" and method != "barycentric":
            return super().translate(rows, method=method, k=k)
        k, coupling = as_count(k, "k"), self.gw.coupling
        rows = self._as_rows(rows, coupling.shape[0], method)
        if method == "coupling":
            return matches_of(coupling, k, rows)
        target = self.target.rows
        means = coupling.transform(target[: coupling.shape[1]])[rows]
        unmatched = ~means.any(axis=1)
        means[unmatched] = target[0]  # any row, as zeros have no angle
        found = nearest_neighbors(means, target, method="nn", k=k, n_threads=self.n_threads)
        found.indices[unmatched], found.scores[unmatched] = -1, 0.0
        return found

    def __repr__(self) -> str:
        return f"AlignmentResult({self._sizes()}, {self.gw!r})"


def align(
    x: ArrayLike,
    y: ArrayLike,
    *,
    p: Masses = None,
    q: Masses = None,
    n_words: int | None = None,
    metric: Metric = "cosine",
    normalize: Sequence[NormalizeStep] = ("unit", "center", "unit"),
    epsilon: EpsilonLike = "auto",
    init: InitLike = "auto",
    loss: LossName = "square",
    max_iter: int = 1000,
    max_inner: int = 10_000,
    tol: float = 1e-5,
    marginal_tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    memory_limit: MemoryLimit = None,
    tier: Tier = "auto",
    seed: int = 0,
    search_time: float | None = None,
    refine: Refinement | int | None = None,
    scale_costs: Statistic | None = None,
    checkpoint: PathLike | None = None,
    callback: Callback | None = None,
    progress: Progress = False,
) -> AlignmentResult:
    """Align two embedding spaces without any known correspondence.

    Solves the entropic Gromov-Wasserstein problem between the first `n_words` rows of
    each side and takes the orthogonal mapping from the singular vectors of ``X' T Y``
    (Alvarez-Melis and Jaakkola, EMNLP 2018, Algorithm 1).

    Parameters
    ----------
    x : array-like of shape (n, d)
        Source vectors, most frequent first.
    y : array-like of shape (m, d')
        Target vectors, most frequent first; d' may differ from d.
    p, q : {"uniform", "zipf"}, array-like or None, default=None
        Masses of the source and target rows: uniform (None), ``1 / rank``, or any
        non-negative weights such as word counts, of which the first `n_words` are
        taken and normalized. Zipf's law gives a few words so much mass that plans of
        thousands of words match next to nothing; with the square roots of such weights
        P@1 is at most 0.02 below that of uniform ones.
    n_words : int or None, default=None
        Rows of each side that take part in the Gromov-Wasserstein problem; None is
        all. The rest are mapped.
    metric : {"cosine", "sqeuclidean", "dot"}, default="cosine"
        Intra-space cost, see `PointCloud`.
    normalize : sequence of {"unit", "center"}, default=("unit", "center", "unit")
        Steps applied to each side, over all its rows.
    epsilon : float, str or Epsilon, default="auto"
    init : str, start or array-like of shape (n_words, n_words), default="auto"
    loss : {"square", "kl"}, default="square"
    refine : Refinement, int or None, default=None
        Refine the mapping by so many rounds of CSLS and Procrustes, see `Refinement`;
        None or 0 leaves the mapping of the plan.
    scale_costs : {"mean", "median", "max"} or None, default=None
        Divide the costs of each side by this statistic of these costs, see
        `PointCloud.scaled_by`: for spaces whose distances are spread unevenly (section
        5.3 of the paper).
    time_limit : float or None, default=None
        Seconds after which the solve ends with the best plan so far (its `status` is
        "time_limit"), or the refinement without further rounds.
    max_iter, max_inner, tol, marginal_tol, n_threads, memory_limit, tier, seed,
    search_time, checkpoint, callback, progress
        See `gromov_wasserstein`. With ``init="auto"`` starts race on the most frequent 1500 rows.

    Returns
    -------
    AlignmentResult

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.
    MemoryError
        If the problem does not fit `memory_limit`, before anything large is allocated.

    Warns
    -----
    ConvergenceWarning
        See `gromov_wasserstein`.
    UserWarning
        If masses are very uneven.

    Notes
    -----
    The logger ``gwfast`` of `logging` gets stages and the end as INFO, the starts that
    are tried as DEBUG; ``logging.basicConfig(level="INFO")`` shows them. The other
    solvers and `gwfast.words.read_embeddings` log in the same way.

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, _ = load_sample()
    >>> result = gwfast.align(spanish.vectors, french.vectors, n_words=500)
    >>> result.gw.converged
    True
    >>> result.translate(range(10), k=3).indices.shape
    (10, 3)
    """
    began = time.perf_counter()
    deadline = Deadline.after(time_limit)
    refine = as_refinement(refine)
    spaces = _as_spaces(x, y, n_words, metric, normalize, scale_costs)
    (source, cloud_x), (target, cloud_y) = spaces
    problem = QuadraticProblem(
        cloud_x,
        cloud_y,
        _as_masses(p, "p", cloud_x.n, x, "x"),
        _as_masses(q, "q", cloud_y.n, y, "y"),
        loss=loss,
    )
    options = Settings(
        Limits(max_iter, max_inner, tol, marginal_tol, deadline=deadline),
        epsilon=epsilon,
        init=init,
        order="given",
        n_threads=n_threads,
        memory_limit=memory_limit,
        tier=tier,
        seed=seed,
        search_time=search_time,
        checkpoint=checkpoint,
        callback=callback,
        progress=progress,
        placement=in_force.get(),
    )
    _warn_of_masses(problem)
    result = _result(source, target, problem, options, began)
    if refine is not None:
        result = result._refined(refine, progress, deadline)
    log.info("aligned in %.2f s: %r", result.seconds, result)
    return result


def _warn_of_masses(problem):
    for name, masses in (("p", problem.p), ("q", problem.q)):
        even = float(np.exp(mass_entropy(masses)))
        # Zipf's law has .12 for 3000 words, and 1 to 5 % of the words were translated right.
        if even < 0.3 * len(masses):
            warnings.warn(
                f"{name} is as uneven as {even:.0f} equal masses of {len(masses)} "
                "rows: few rows decide the plan, which on word vectors then matched "
                "next to nothing at every epsilon tried; take uniform masses or square "
                "roots of these",
                stacklevel=outside(),
            )
            break


def _as_spaces(x, y, n_words, metric, normalize, scale_costs):
    """For each side a `Normalizer`, and a `PointCloud` of the rows that take part."""
    labels = labels_of(x), labels_of(y)
    x, y = as_matrix(x, "x"), as_matrix(y, "y")
    one_of(metric, "metric", get_args(Metric))
    if n_words is not None:
        n_words = as_count(n_words, "n_words")
    if scale_costs is not None:
        one_of(scale_costs, "scale_costs", get_args(Statistic))
    sides = [Normalizer.fit(normalize, z, name) for z, name in ((x, "x"), (y, "y"))]
    clouds = [PointCloud(side.rows[:n_words], metric) for side in sides]
    if scale_costs is not None:
        clouds = [cloud.scaled_by(scale_costs) for cloud in clouds]
    for cloud, names in zip(clouds, labels, strict=True):
        cloud.labels = names and names[: cloud.n]
    return zip(sides, clouds, strict=True)


def _result(source, target, problem, options, began):
    """The solution with the maximizer of ``<P, X' T Y>`` over (semi-)orthogonal P."""
    solving = time.perf_counter()
    gw = solve(problem, options)
    # Seconds of earlier calls, from whose checkpoint it went on.
    began -= max(0.0, gw.seconds - (time.perf_counter() - solving))
    warn_of(gw, options.limits)
    (n, m), n_threads = gw.coupling.shape, resolve_n_threads(options.n_threads)
    correlation = np.empty((source.rows.shape[1], target.rows.shape[1]))
    moved = gw.coupling.apply(target.rows[:m])
    with single_threaded_blas():
        _products.gram(source.rows[:n], moved, correlation, n_threads)
    return AlignmentResult(
        mapping=orthogonal(correlation),
        source=source,
        target=target,
        n_words=(n, m),
        n_threads=n_threads,
        gw=gw,
        seconds=time.perf_counter() - began,
    )


def _as_masses(p, name, size, rows, of):
    """Masses of the first `size` of the rows of the argument `of`."""
    if p is None or (isinstance(p, str) and p == "uniform"):
        return None
    if isinstance(p, str):
        if p != "zipf":
            raise ValueError(f'{name} must be "uniform", "zipf" or weights, got {p!r}')
        return as_weights(1.0 / np.arange(1, size + 1), name, size)
    labels, total_rows = labels_of(rows), len(rows)
    p = as_array(in_order(p, name, labels and labels[: len(p)], of=of), name)
    if p.shape not in ((size,), (total_rows,)):
        expected = " or ".join(f"({n},)" for n in sorted({size, total_rows}))
        raise ValueError(f"{name} must have shape {expected}, got {p.shape}")
    return as_weights(p[:size], name, size)
