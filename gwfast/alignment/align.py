"""The main job: two embedding spaces in, correspondences and a mapping out."""

import dataclasses
import time

import numpy as np

from ..kernels import _products
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..problems.geometry import METRICS, STATISTICS, PointCloud
from ..problems.quadratic import QuadraticProblem
from ..quadratic.stopping import Limits
from ..results.result import GWResult
from ..solvers.diagnosis import warn_of
from ..solvers.gromov import solve
from ..solvers.options import SolveOptions
from ..utils.progress import reporting
from ..utils.validation import as_array, as_count, as_matrix, as_weights, one_of
from .normalize import Normalizer
from .procrustes import Maps, orthogonal
from .refine import Refinement, as_refinement
from .refine import refine as refine_maps
from .retrieval import METHODS, best_matches, hub_penalty, nearest_neighbors

# How `translate` ranks targets: by the plan or what it does to points, or by angles.
BY_PLAN = ("coupling", "barycentric")


@dataclasses.dataclass(frozen=True, repr=False)
class AlignmentResult:
    """An alignment of two embedding spaces.

    Attributes
    ----------
    mapping : (d, d') float32 ndarray
        ``x_normalized @ mapping`` lies in the space of the normalized `y`, or, where
        there is a `target_mapping`, of ``y_normalized @ target_mapping``. Orthogonal
        (semi-orthogonal where d != d') but for refinements that whiten or reweight.
    target_mapping : (d', d') float32 ndarray or None
        None where `y` stays as it is.
    gw : GWResult
        The Gromov-Wasserstein solution with its history.
    source, target : Normalizer
        How each side was normalized; ``source.rows``, ``target.rows`` are all rows of
        `x` and `y`, normalized.
    refinement : tuple of RefineStep
        What was done to the mapping since; empty for the one of the plan.
    n_threads : int
    seconds : float
        For all of it.
    """

    mapping: np.ndarray
    gw: GWResult
    source: Normalizer
    target: Normalizer
    n_threads: int
    seconds: float
    target_mapping: np.ndarray | None = None
    refinement: tuple = ()
    # Of the targets, by method: as dear as a search for all rows.
    _penalties: dict = dataclasses.field(default_factory=dict, init=False)

    @property
    def plan(self):
        """(n_words, m_words) float32 ndarray: masses moved between the rows that took
        part."""
        return self.gw.plan

    def match(self):
        """Best target row of every source row that took part, by the plan.

        Returns
        -------
        (n_words,) int64 ndarray
        """
        return self.gw.coupling.topk(1).indices[:, 0]

    def transform(self, x):
        """Map vectors of the source space into the target space.

        Parameters
        ----------
        x : array-like of shape (n, d)
            As they were given to `align`, not normalized.

        Returns
        -------
        (n, d') float32 ndarray
        """
        return self.source(_with_columns(x, "x", len(self.mapping))) @ self.mapping

    def transform_target(self, y):
        """Take vectors of the target space to where `transform` takes the source's.

        Parameters
        ----------
        y : array-like of shape (m, d')
            As they were given to `align`, not normalized.

        Returns
        -------
        (m, d') float32 ndarray
        """
        columns = self.target.rows.shape[1]
        y = self.target(_with_columns(y, "y", columns))
        return y if self.target_mapping is None else y @ self.target_mapping

    @property
    def mapped_source(self):
        """(n, d') float32 ndarray: all source rows in the common space."""
        return self.source.rows @ self.mapping

    @property
    def mapped_target(self):
        """(m, d') float32 ndarray: all target rows in the common space."""
        y = self.target.rows
        return y if self.target_mapping is None else y @ self.target_mapping

    def refine(self, refinement=None, *, progress=False):
        """Match rows by CSLS, fit the mapping to mutual matches, and so on.

        Parameters
        ----------
        refinement : Refinement, int or None, default=None
            How; None is `Refinement` with its defaults, a number is of iterations.
        progress : bool or callable, default=False
            See `gromov_wasserstein`.

        Returns
        -------
        AlignmentResult
            With another mapping; the plan is the same.
        """
        began = time.perf_counter()
        refinement = as_refinement(refinement) or Refinement()
        maps = Maps(self.mapping, self.target_mapping)
        with reporting(progress) as report_progress:
            maps, steps = refine_maps(
                self.source.rows,
                self.target.rows,
                maps,
                refinement,
                self.n_threads,
                report_progress,
            )
        return dataclasses.replace(
            self,
            mapping=maps.source,
            target_mapping=maps.target,
            refinement=self.refinement + steps,
            seconds=self.seconds + time.perf_counter() - began,
        )

    def translate(self, rows=None, *, method="csls", k=10):
        """The best target rows of source rows.

        Parameters
        ----------
        rows : array-like of int or None, default=None
            Numbers of source rows; None is all that the method can tell about.
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
            Of shape (len(rows), min(k, number of targets)).
        """
        one_of(method, "method", (*METHODS, *BY_PLAN))
        k = as_count(k, "k")
        coupling = self.gw.coupling
        n_rows = coupling.shape[0] if method in BY_PLAN else len(self.source.rows)
        rows = _as_rows(rows, n_rows, method)
        if method == "coupling":
            return coupling.topk(k, rows)
        options = dict(k=k, n_threads=self.n_threads)
        if method == "barycentric":
            target = self.target.rows
            means = coupling.transform(target[: coupling.shape[1]])[rows]
            return nearest_neighbors(means, target, method="nn", **options)
        return nearest_neighbors(
            self.mapped_source[rows],
            self.mapped_target,
            method=method,
            penalty=self._penalty(method),
            **options,
        )

    def best_matches(self, k=1):
        """The best rows of the other side for all rows of both, by CSLS.

        Parameters
        ----------
        k : int, default=1
            Target rows for every source row.

        Returns
        -------
        BestMatches
            Its ``mutual`` says which source rows are in turn the best of their best.
        """
        return best_matches(
            self.mapped_source,
            self.mapped_target,
            k=as_count(k, "k"),
            penalty=self._penalty("csls"),
            n_threads=self.n_threads,
        )

    def _penalty(self, method):
        if method not in self._penalties:
            self._penalties[method] = hub_penalty(
                self.mapped_target,
                self.mapped_source,
                method=method,
                n_threads=self.n_threads,
            )
        return self._penalties[method]

    def __repr__(self):
        return (
            f"AlignmentResult({len(self.source.rows)} x {len(self.target.rows)} rows, "
            f"mapping {self.mapping.shape[0]} -> {self.mapping.shape[1]}, {self.gw!r})"
        )


def align(
    x,
    y,
    *,
    p=None,
    q=None,
    n_words=None,
    metric="cosine",
    normalize=("unit", "center", "unit"),
    epsilon="auto",
    init="auto",
    loss="square",
    max_outer=1000,
    max_inner=10_000,
    tol=1e-5,
    marginal_tol=1e-5,
    n_threads=None,
    memory_limit=None,
    tier="auto",
    seed=0,
    refine=None,
    scale_costs=None,
    callback=None,
    progress=False,
):
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
        taken and normalized.
    n_words : int or None, default=None
        Rows of each side that take part in the Gromov-Wasserstein problem; None is
        all. The rest are mapped.
    metric : {"cosine", "sqeuclidean", "dot"}, default="cosine"
        Intra-space cost, see `PointCloud`.
    normalize : sequence of {"unit", "center"}, default=("unit", "center", "unit")
        Steps applied to each side, over all its rows.
    epsilon : float, "auto" or Epsilon, default="auto"
    init : str, start or array-like of shape (n_words, n_words), default="auto"
    loss : {"square", "kl"}, default="square"
    refine : Refinement, int or None, default=None
        Refine the mapping by so many rounds of CSLS and Procrustes, see `Refinement`;
        None leaves the one of the plan.
    scale_costs : {"mean", "median", "max"} or None, default=None
        Divide the costs of each side by this statistic of them, see
        `PointCloud.scaled_by`: for spaces whose distances are spread unevenly (section
        5.3 of the paper).
    max_outer, max_inner, tol, marginal_tol, n_threads, memory_limit, tier, seed,
    callback, progress
        See `gromov_wasserstein`. With ``init="auto"`` starts race on the most frequent
        1500 rows.

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
    """
    began = time.perf_counter()
    x, y = as_matrix(x, "x"), as_matrix(y, "y")
    one_of(metric, "metric", METRICS)
    if n_words is not None:
        n_words = as_count(n_words, "n_words")
    refine = as_refinement(refine)
    if scale_costs is not None:
        one_of(scale_costs, "scale_costs", STATISTICS)
    source, target = Normalizer(normalize, x, "x"), Normalizer(normalize, y, "y")
    left, right = source.rows[:n_words], target.rows[:n_words]
    clouds = [PointCloud(side, metric) for side in (left, right)]
    if scale_costs is not None:
        clouds = [cloud.scaled_by(scale_costs) for cloud in clouds]
    problem = QuadraticProblem(
        *clouds,
        _as_masses(p, "p", len(left), len(x)),
        _as_masses(q, "q", len(right), len(y)),
        loss=loss,
    )
    options = SolveOptions(
        Limits(max_outer, max_inner, tol, marginal_tol),
        epsilon=epsilon,
        init=init,
        order="given",
        n_threads=n_threads,
        memory_limit=memory_limit,
        tier=tier,
        seed=seed,
        callback=callback,
        progress=progress,
    )
    gw = solve(problem, options)
    warn_of(gw, options.limits, stacklevel=3)
    n_threads = resolve_n_threads(n_threads)
    result = AlignmentResult(
        mapping=_orthogonal_mapping(left, gw.coupling, right, n_threads),
        gw=gw,
        source=source,
        target=target,
        n_threads=n_threads,
        seconds=time.perf_counter() - began,
    )
    return result if refine is None else result.refine(refine, progress=progress)


def _orthogonal_mapping(x, coupling, y, n_threads):
    """Maximizer of ``<P, X' T Y>`` over (semi-)orthogonal P."""
    correlation = np.empty((x.shape[1], y.shape[1]))
    moved = coupling.apply(y)
    with single_threaded_blas():
        _products.gram(x, moved, correlation, n_threads)
    return orthogonal(correlation)


def _with_columns(x, name, columns):
    x = as_matrix(x, name)
    if x.shape[1] != columns:
        raise ValueError(f"{name} must have {columns} columns, got {x.shape[1]}")
    return x


def _as_masses(p, name, size, total_rows):
    """Masses of the first `size` rows."""
    if p is None or (isinstance(p, str) and p == "uniform"):
        return None
    if isinstance(p, str):
        if p != "zipf":
            raise ValueError(f'{name} must be "uniform", "zipf" or weights, got {p!r}')
        return as_weights(1.0 / np.arange(1, size + 1), name, size)
    p = as_array(p, name)
    if p.shape not in ((size,), (total_rows,)):
        expected = " or ".join(f"({n},)" for n in sorted({size, total_rows}))
        raise ValueError(f"{name} must have shape {expected}, got {p.shape}")
    return as_weights(p[:size], name, size)


def _as_rows(rows, n, method):
    if rows is None:
        return np.arange(n)
    rows = np.atleast_1d(as_array(rows, "rows"))
    if rows.size == 0:
        raise ValueError("rows must not be empty")
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(
            f"rows must be a 1-D array of integers, got {rows.ndim}-D {rows.dtype}"
        )
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(
            f"rows must be some of 0 to {n - 1} for method={method!r}, "
            f"got {rows.min()} to {rows.max()}"
        )
    return rows
