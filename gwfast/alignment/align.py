"""Two embedding spaces in, correspondences and a mapping out."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import warnings
from collections.abc import Sequence
from typing import TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..kernels import _products
from ..kernels._kernels import mass_entropy
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..problems.epsilon import EpsilonLike
from ..problems.geometry import Metric, PointCloud
from ..problems.quadratic import QuadraticProblem
from ..results.records import Callback
from ..results.status import Ending
from ..solvers.gromov import solve
from ..solvers.options import InitLike, Settings, SolverOptions, in_force
from ..solvers.search.advice import warn_of
from ..solvers.search.seeds import Seeds
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.labels import in_order, labels_of
from ..utils.progress import log
from ..utils.types import MemoryLimit, PathLike, Progress
from ..utils.validation import as_array, as_count, as_weights, one_of
from .aligned import Alignment, as_words
from .evidence import agreements, chosen, weighed
from .maps import orthogonal
from .normalize import Normalizer, NormalizeStep, Vectors, check_steps, has_words

# "uniform", "zipf" or weights.
Masses: TypeAlias = str | ArrayLike | None


def align(
    x: Vectors,
    y: Vectors,
    p: Masses = None,
    q: Masses = None,
    *,
    n_words: int | None = None,
    metric: Metric = "cosine",
    normalize: Sequence[NormalizeStep] = ("unit", "center", "unit"),
    epsilon: EpsilonLike = "auto",
    init: InitLike = "auto",
    refine: int = 0,
    tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    memory_limit: MemoryLimit = None,
    seed: int = 0,
    checkpoint: PathLike | None = None,
    callback: Callback | None = None,
    progress: Progress = False,
    options: SolverOptions | None = None,
) -> Alignment:
    """Align two embedding spaces without known pairs.

    Solve the entropic Gromov-Wasserstein problem between the first `n_words` rows of each side, and
    take the orthogonal mapping from the singular vectors of ``X' T Y`` (Alvarez-Melis and Jaakkola,
    EMNLP 2018, Algorithm 1).

    Parameters
    ----------
    x : Embeddings, or array-like of shape (n, d)
        Source vectors, most frequent first. `translate` takes and returns words if the vectors are
        `gwfast.words.Embeddings`, or a frame of pandas with words as its index.
    y : Embeddings, or array-like of shape (m, d')
        Target vectors, most frequent first; d' may differ from d.
    p, q : {"uniform", "zipf"}, array-like or None, default=None
        Masses of the rows: uniform (None), ``1 / rank``, or non-negative weights. The masses of
        the first `n_words` are normalized. Uneven masses spoil plans of words, see :doc:`/words`.
    n_words : int or None, default=None
        Rows of each side that take part in the transport problem; None is all. The other rows are
        mapped.
    metric : {"cosine", "sqeuclidean", "euclidean", "dot"}, default="cosine"
        Costs within a space, by angles, distances or inner products of rows, see `PointCloud`.
    normalize : sequence of str, default=("unit", "center", "unit")
        Steps applied to all rows of each side: "unit" (length one), "center" (mean zero). A last
        step "mean", "median" or "max" divides the costs of each side by their mean, median or max.
    epsilon : float, str or Epsilon, default="auto"
        Softness of the plan, the weight of the entropy: a number (half of POT's), "auto" (1.75 % of
        the objective of the product plan), another fraction such as "2%", or an `Epsilon`.
    init : str, Seeds, array-like, GWResult or list of these, default="auto"
        "auto": a search, in which starts race on the first 1500 rows. "product", "profile",
        "random", "exact": one start. `Seeds`: known pairs. An array or a result: a warm start. A
        list: starts that race. Only "auto" leads to a `confidence`.
    refine : int, default=0
        Rounds of refinement of the mapping, see `Alignment.refine`; 5 improve most translations.
    tol : float, default=1e-5
        Relative change at which the solver stops.
    time_limit : float or None, default=None
        Seconds after which the solver returns its best plan, or the refinement ends.
    n_threads : int or None, default=None
        None is one thread a core, fewer for small problems.
    memory_limit : float, str or None, default=None
        Bytes that a solve may take, or a text such as "2.4GB"; None is 90 % of free memory.
    seed : int, default=0
        Seed of random starts.
    checkpoint : path-like or None, default=None
        File from which the same call goes on if it was killed.
    callback : callable or None, default=None
        ``callback(step)`` gets an `OuterStep` after each outer iteration that follows the race; if
        it returns true, the solver stops.
    progress : bool or callable, default=False
        Whether to show a progress bar, or a function ``progress(text, done, total)``.
    options : SolverOptions or None, default=None
        Rare settings: method, storage of kernels, inner iterations, effort of the search.

    Returns
    -------
    Alignment

    Warns
    -----
    ConvergenceWarning, UserWarning
        See `gromov_wasserstein`; also if masses are very uneven.

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, _ = load_sample()
    >>> alignment = gwfast.align(spanish, french, n_words=2000)
    >>> alignment.gw.converged
    True
    >>> alignment.translate("noche", k=2).words
    [['nuit', 'journée']]
    """
    began = time.perf_counter()
    deadline = Deadline.after(time_limit)
    refine = as_count(refine, "refine", least=0)
    steps, statistic = check_steps(normalize)
    one_of(metric, "metric", get_args(Metric))
    if n_words is not None:
        n_words = as_count(n_words, "n_words")
    source, cloud_x, labels_x = _side(x, "x", steps, n_words, metric, statistic)
    target, cloud_y, labels_y = _side(y, "y", steps, n_words, metric, statistic)
    problem = QuadraticProblem(
        cloud_x,
        cloud_y,
        _as_masses(p, "p", cloud_x.n, labels_x, "x", len(source.rows)),
        _as_masses(q, "q", cloud_y.n, labels_y, "y", len(target.rows)),
    )
    settings = Settings.of(
        options,
        deadline,
        tol=tol,
        epsilon=epsilon,
        init=init,
        order="given",
        n_threads=n_threads,
        memory_limit=memory_limit,
        seed=seed,
        checkpoint=checkpoint,
        callback=callback,
        progress=progress,
        placement=in_force.get(),
    )
    _warn_of_masses(problem)
    solving = time.perf_counter()
    gw = solve(problem, settings)
    gw = dataclasses.replace(gw, advice=gw.advice.replace("a larger max_iter, or ", ""))
    if not gw.history:  # the product plan, which maps nothing
        gw = dataclasses.replace(gw, ending=Ending.UNSOLVED)
    # A solve that went on from a checkpoint has the seconds of the earlier calls, too.
    began -= max(0.0, gw.seconds - (time.perf_counter() - solving))
    n_threads = resolve_n_threads(n_threads)
    contraction = _contraction(gw.coupling, source.rows, target.rows, n_threads)
    mapping, evidence = orthogonal(contraction), ()
    in_doubt = gw.candidates.rivals and gw.ending == Ending.UNCERTAIN
    if (refine or in_doubt) and not deadline.passed():
        compare = functools.partial(
            agreements,
            source.rows,
            target.rows,
            gw.coupling.shape,
            seed=seed,
            n_threads=n_threads,
            deadline=deadline,
        )
        evidence, pairs = compare(mapping, gw.candidates.rivals)
        if pairs is not None and not deadline.passed():
            again = dataclasses.replace(settings, init=Seeds(pairs), checkpoint=None, callback=None)
            other = chosen(gw, solve(problem, again), contraction)
            if other is not None:
                gw = other
                contraction = _contraction(gw.coupling, source.rows, target.rows, n_threads)
                mapping = orthogonal(contraction)
                evidence, _ = compare(mapping, gw.candidates.rivals)
        gw = weighed(gw, evidence)
    warn_of(gw, settings.limits)
    alignment = Alignment(
        mapping=mapping,
        source=source,
        target=target,
        words=(_words_of(labels_x), _words_of(labels_y)),
        n_words=gw.coupling.shape,
        n_threads=n_threads,
        seconds=time.perf_counter() - began,
        evidence=evidence,
        _gw=gw,
    )
    if refine:
        alignment = alignment._refined(refine, progress, deadline)
    log.info("aligned in %.2f s: %r", alignment.seconds, alignment)
    return alignment


def _contraction(coupling, x, y, n_threads):
    """Return ``X' T Y`` of the first rows of both sides."""
    product = np.empty((x.shape[1], y.shape[1]))
    projected = coupling.apply(y[: coupling.shape[1]])
    with single_threaded_blas():
        _products.gram(x[: coupling.shape[0]], projected, product, n_threads)
    return product


def _side(x, name, steps, n_words, metric, statistic):
    """Return the `Normalizer` of a side, the `PointCloud` of the rows that take part, and labels of
    all rows: words, an index or None.
    """
    if isinstance(x, str | os.PathLike):
        raise TypeError(f"{name} must be vectors, got a path; words.read_embeddings(path) reads it")
    side = Normalizer.fit(steps, x, name)
    labels = as_words(x.words, name, side) if has_words(x) else labels_of(x)
    cloud = PointCloud(side.rows[:n_words], metric)
    if statistic is not None:
        cloud = cloud.scaled_by(statistic)
    cloud.labels = None if labels is None else labels[: cloud.n]
    cloud.population = side.rows
    return side, cloud, labels


def _words_of(labels):
    """Return labels of all rows if they are words, else None."""
    are_words = labels is not None and all(isinstance(label, str) for label in labels)
    return tuple(labels) if are_words else None


def _as_masses(p, name, size, labels, of, n_rows):
    """Return masses of the first `size` rows of the argument `of`, which have these labels."""
    if p is None or (isinstance(p, str) and p == "uniform"):
        return None
    if isinstance(p, str):
        if p != "zipf":
            raise ValueError(f'{name} must be "uniform", "zipf" or weights, got {p!r}')
        return as_weights(1.0 / np.arange(1, size + 1), name, size)
    p = as_array(in_order(p, name, labels and labels[: len(p)], of=of), name)
    if p.shape not in ((size,), (n_rows,)):
        expected = " or ".join(f"({n},)" for n in sorted({size, n_rows}))
        raise ValueError(f"{name} must have shape {expected}, got {p.shape}")
    return as_weights(p[:size], name, size)


def _warn_of_masses(problem):
    """Warn if the masses of a side are very uneven."""
    for name, masses in (("p", problem.p), ("q", problem.q)):
        even = float(np.exp(mass_entropy(masses)))
        # By Zipf's law .12 for 3000 words: 1 to 5 % of them were translated right.
        if even < 0.3 * len(masses):
            warnings.warn(
                f"{name} is as uneven as {even:.0f} equal masses of {len(masses)} rows: few rows"
                " decide the plan; try uniform masses or their square roots",
                stacklevel=outside(),
            )
            break
