"""A center slice of several slices."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from ..results.status import Ending
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.progress import ProgressEvent, reporting
from ..utils.types import Float64Array, Progress
from ..utils.validation import as_count, as_positive, as_weights, one_of
from .matching import SliceAlignment, pairwise_align
from .slices import Dissimilarity, Slice, filled, with_common_genes

# Lower bound of divisors, which are sums that may be zero.
TINY = 1e-12


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CenterAlignment:
    """A center slice, and its alignments with several slices.

    Attributes
    ----------
    spots : (n, d) float64 ndarray
        Coordinates of the center's spots, the spots of the slice that it began as.
    loadings : (n, k) float64 ndarray
        Expression of each program at the center's spots, not negative.
    programs : (k, genes) float64 ndarray
        Programs, not negative; the product of `loadings` and `programs` is `expression`.
    alignments : tuple of SliceAlignment
        The alignment of the center with each slice.
    objectives : tuple of float
        The weighted mean of the objectives of the alignments, after each round.

    Examples
    --------
    See `center_align`.

    >>> import numpy as np
    >>> from gwfast.spatial import center_align
    >>> rng = np.random.default_rng(0)
    >>> spots, counts = rng.uniform(0, 9, (30, 2)), rng.poisson(3.0, (30, 8))
    >>> found = center_align((spots, counts), [(spots, counts)], n_components=3)
    >>> found.expression.shape, len(found.alignments)
    ((30, 8), 1)
    """

    spots: Float64Array
    loadings: Float64Array
    programs: Float64Array
    alignments: tuple[SliceAlignment, ...]
    objectives: tuple[float, ...]

    @property
    def expression(self) -> Float64Array:
        """Expression (n, genes) of the center's spots."""
        return self.loadings @ self.programs

    def __repr__(self) -> str:
        return (
            f"CenterAlignment({len(self.spots)} spots, {len(self.alignments)} slices, "
            f"{len(self.objectives)} rounds, objective={self.objectives[-1]:.6g})"
        )


def center_align(
    center: Any,
    slices: Sequence[Any],
    *,
    weights: ArrayLike | None = None,
    alpha: float = 0.1,
    dissimilarity: Dissimilarity = "kl",
    use_rep: str | None = None,
    norm: bool = False,
    n_components: int = 15,
    max_rounds: int = 10,
    tol: float = 1e-3,
    time_limit: float | None = None,
    n_threads: int | None = None,
    seed: int = 0,
    progress: Progress = False,
) -> CenterAlignment:
    """Find the slice that is nearest to several slices, in the mean.

    PASTE's center slice: it has the coordinates of one slice, and an expression of few programs.
    Plans between the center and all slices, and a non-negative factorization of the expression
    that the plans carry to its spots, are found in turn.

    Parameters
    ----------
    center : AnnData, or pair of arrays
        The slice that the center begins as, see `pairwise_align`.
    slices : sequence of AnnData or pairs of arrays
        Slices with non-negative expression, such as counts. Of AnnData the genes are taken that the
        center and all slices have.
    weights : array-like of shape (len(slices),) or None, default=None
        Weights of the slices; None is uniform.
    alpha, dissimilarity, use_rep, norm, n_threads, seed
        See `pairwise_align`; the factorization minimizes the same `dissimilarity`.
    n_components : int, default=15
        Number of programs.
    max_rounds : int, default=10
    tol : float, default=1e-3
        Relative change of the objective below which the rounds end.
    time_limit : float or None, default=None
        Seconds after which the last whole round is returned. If the first round is cut short, its
        plans have the status "time_limit".
    progress : bool or callable, default=False
        See `gromov_wasserstein`.

    Returns
    -------
    CenterAlignment
        With `expression`, the `alignments` and their `objectives`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        See `pairwise_align`.
    UserWarning
        If not all slices have the same genes; it says how many all have.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.spatial import center_align
    >>> rng = np.random.default_rng(0)
    >>> spots = rng.uniform(0, 9, (40, 2))
    >>> programs = np.exp(2 * np.sin(spots @ rng.normal(size=(2, 3))))
    >>> genes = programs @ rng.uniform(size=(3, 12)) ** 3
    >>> slices = [(spots + 5 * k, rng.poisson(genes)) for k in range(3)]
    >>> found = center_align(slices[0], slices, n_components=3)
    >>> bool(np.corrcoef(found.expression.ravel(), genes.ravel())[0, 1] > 0.9)
    True
    """
    one_of(dissimilarity, "dissimilarity", get_args(Dissimilarity))
    deadline = Deadline.after(time_limit)
    max_rounds, tol = as_count(max_rounds, "max_rounds"), as_positive(tol, "tol")
    if not len(slices):
        raise ValueError("slices must not be empty")
    if weights is None:
        weights = np.ones(len(slices))
    shares = as_weights(weights, "weights", len(slices))
    start, others = _with_common_genes(center, slices, use_rep)
    spots, table = start.spots, filled(start.table)
    rank = min(as_count(n_components, "n_components"), *table.shape)
    loadings, programs = _random_factors(table, rank, seed)
    loadings, programs = _factorized(table, loadings, programs, dissimilarity)
    objectives: list[float] = []
    made = None
    with reporting(progress) as report:
        while True:
            expression, found = loadings @ programs, []
            for k, one in enumerate(others, start=1):
                if made is not None and deadline.passed():
                    return made
                text = f"round {len(objectives) + 1} of {max_rounds} at most, slice {k}"
                report(ProgressEvent("round", f"{text} of {len(others)}", k))
                align = pairwise_align(
                    (spots, expression), (one.spots, one.table), alpha=alpha, norm=norm,
                    dissimilarity=dissimilarity, n_threads=n_threads, seed=seed,
                    time_limit=deadline.left,
                )  # fmt: skip
                if made is not None and align.gw.ending == Ending.TIME_LIMIT:
                    return made
                found.append(align)
            objectives.append(float(shares @ [one.objective for one in found]))
            brought = sum(
                share * align.transform(filled(one.table))
                for share, align, one in zip(shares, found, others, strict=True)
            )
            loadings, programs = _factorized(brought, loadings, programs, dissimilarity)
            ends = loadings, programs, tuple(found), tuple(objectives)
            made = CenterAlignment(spots, *ends)
            change = abs(objectives[-1] - objectives[-2]) if objectives[1:] else np.inf
            still = change <= tol * abs(objectives[-1])
            if still or len(objectives) == max_rounds or deadline.passed():
                return made


def _with_common_genes(center, slices, use_rep):
    """Return the center and the slices, with the genes that all of them have."""
    start = Slice.of(center, use_rep, "center")
    others = [Slice.of(one, use_rep, f"slices[{k}]") for k, one in enumerate(slices)]
    sizes = {one.table.shape[1] for one in (start, *others)}
    for one in others:
        start, _ = with_common_genes(start, one)
    others = [with_common_genes(start, one)[1] for one in others]
    if sizes != {start.table.shape[1]}:
        warnings.warn(
            f"center and slices must have the same genes, got up to {max(sizes)}; the "
            f"{start.table.shape[1]} that all have are taken",
            stacklevel=outside(),
        )
    for one in (start, *others):
        if one.table.min() < 0:
            raise ValueError(f"{one.name} must not be negative, got {one.table.min():.3g}")
    return start, others


def _random_factors(table, rank, seed):
    """Return random factors of a rank, whose product has about the means of the table."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.5, 1.5, (len(table), rank))
    programs = rng.uniform(0.5, 1.5, (rank, table.shape[1]))
    return loadings, programs * table.mean(axis=0) / rank


def _factorized(table, loadings, programs, kind):
    """Return non-negative factors of a table by multiplicative updates of factors, for the
    Kullback-Leibler divergence or the squared error (Lee and Seung, NIPS 2000).
    """
    table, w, h = (one.astype(np.float32) for one in (table, loadings, programs))
    product, errors = np.empty_like(table), []
    size = xlogy(table, table).sum() if kind == "kl" else 0.0

    def multiplied():
        return np.maximum(np.matmul(w, h, out=product), TINY, out=product)

    for number in range(200):
        if number % 10 == 0:
            if kind == "kl":
                fit = np.vdot(table, np.log(multiplied(), out=product)) + table.sum()
                errors.append(float(size - fit + w.sum(axis=0) @ h.sum(axis=1)))
            else:
                errors.append(float(np.square(table - multiplied()).sum()))
            if number and errors[-2] - errors[-1] <= 2e-4 * errors[0]:
                break
        if kind == "kl":
            ratio = np.divide(table, multiplied(), out=product)
            w *= ratio @ h.T / np.maximum(h.sum(axis=1), TINY)
            ratio = np.divide(table, multiplied(), out=product)
            h *= w.T @ ratio / np.maximum(w.sum(axis=0)[:, None], TINY)
        else:
            w *= table @ h.T / np.maximum(w @ (h @ h.T), TINY)
            h *= w.T @ table / np.maximum((w.T @ w) @ h, TINY)
    return w.astype(np.float64), h.astype(np.float64)
