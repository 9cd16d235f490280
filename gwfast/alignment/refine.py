"""Refinement of a mapping: match by CSLS, map the mutual matches, repeat.

The self-learning that unsupervised methods share (Conneau et al., ICLR 2018; Artetxe,
Labaka and Agirre, ACL 2018), started from the plan's mapping.
"""

import dataclasses
import time
import warnings
from typing import NamedTuple

import numpy as np

from ..results.result import ConvergenceWarning
from ..utils.callers import outside
from ..utils.deadline import NEVER, Deadline
from ..utils.progress import ProgressEvent, Reporter
from ..utils.types import Float32Array
from ..utils.validation import as_count, as_positive
from .procrustes import Maps, fit_maps
from .retrieval import best_matches


@dataclasses.dataclass(frozen=True)
class Refinement:
    """How to refine a mapping.

    By default the maps of both sides are vecmap's, see `gwfast.alignment.procrustes.fit_maps`: on
    word vectors their translations were right for 1 to 5 of 100 words more often than with an
    orthogonal map. What MUSE fits is ``Refinement(whiten=False, reweight=0, weighted=False)``.

    Parameters
    ----------
    n_iter : int, default=5
        At most; fewer where matches stand still. 0 leaves the mapping as it is.
    vocabulary : int or None, default=10_000
        Most frequent rows of each side that are matched; None is all.
    hood : int, default=10
        Neighbors that CSLS looks at, see `nearest_neighbors`.
    whiten : bool, default=True
        Whiten both sides before each orthogonal map, and undo that after. In rounds
        with fewer than two matches for each column the map is only orthogonal.
    reweight : float, default=0.5
        Power of the correlations by which the directions of the common space are
        weighted. Without `whiten` this makes things worse.
    weighted : bool, default=True
        Weigh each match by its CSLS, zero where that is negative, in the fit of the
        maps: loose matches are wrong more often. False is all alike.

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> result = gwfast.align(spanish.vectors, french.vectors, n_words=500)
    >>> refined = result.refine(gwfast.Refinement(n_iter=2, vocabulary=500))
    >>> len(refined.refinement)
    2
    """

    n_iter: int = 5
    vocabulary: int | None = 10_000
    hood: int = 10
    whiten: bool = True
    reweight: float = 0.5
    weighted: bool = True

    def __post_init__(self) -> None:
        as_count(self.n_iter, "n_iter", least=0)
        if self.vocabulary is not None:
            as_count(self.vocabulary, "vocabulary")
        as_count(self.hood, "hood")
        for name in ("whiten", "weighted"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be a bool, got {type(value).__name__}")
        as_positive(self.reweight, "reweight", zero=True)


class RefineStep(NamedTuple):
    """One iteration of a refinement.

    Attributes
    ----------
    iteration : int
        Counted from 1.
    n_pairs : int
        Mutual matches that the new mapping was fitted to.
    objective : float
        Mean CSLS of the matched rows with their best match, under the mapping before.
    change : float
        Fraction of rows whose best match is another one than in the iteration before.
    seconds : float
        Since the refinement began.

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> result = gwfast.align(spanish.vectors, french.vectors, n_words=500)
    >>> step = result.refine(gwfast.Refinement(2, vocabulary=500)).refinement[-1]
    >>> step.iteration, bool(step.n_pairs > 50)
    (2, True)
    """

    iteration: int
    n_pairs: int
    objective: float
    change: float
    seconds: float


def as_refinement(refine: Refinement | int | None) -> Refinement | None:
    """A `Refinement` from what `align` takes: None, a number of iterations, or one."""
    if refine is None or isinstance(refine, Refinement):
        return refine
    try:
        return Refinement(n_iter=as_count(refine, "refine", least=0))
    except TypeError:
        raise TypeError(
            "refine must be None, a number of iterations or a Refinement, got "
            f"{type(refine).__name__}"
        ) from None


def refine_maps(
    x: Float32Array,
    y: Float32Array,
    maps: Maps,
    refinement: Refinement,
    n_threads: int,
    report_progress: Reporter,
    deadline: Deadline = NEVER,
) -> tuple[Maps, tuple[RefineStep, ...]]:
    """Maps fitted to mutual matches of normalized rows, most frequent first, again and
    again, until there is no time for one more.
    """
    began = time.perf_counter()
    x, y = x[: refinement.vocabulary], y[: refinement.vocabulary]
    # With 1.3 matches a column whitening was worse than an orthogonal map, with 1.7 better.
    min_pairs = 2 * max(x.shape[1], y.shape[1])
    steps: list[RefineStep] = []
    before = None
    for iteration in range(1, refinement.n_iter + 1):
        spent = time.perf_counter() - began
        if deadline.passed(spent / max(len(steps), 1)):
            warnings.warn(
                f"time_limit ended the refinement after {len(steps)} of"
                f" {refinement.n_iter} rounds; try a larger time_limit",
                ConvergenceWarning,
                stacklevel=outside(),
            )
            break
        text, done = f"refinement {iteration}", iteration - 1
        report_progress(ProgressEvent("refinement", text, iteration, done, refinement.n_iter))
        found = best_matches(
            x @ maps.source,
            y if maps.target is None else y @ maps.target,
            n_neighbors=refinement.hood,
            n_threads=n_threads,
        )
        matched = found.forward.indices[:, 0]
        change = 1.0 if before is None else float(np.mean(matched != before))
        if change <= 1e-3:
            break
        rows, weights = _pairs(found, refinement.weighted)
        whiten, reweight = refinement.whiten, refinement.reweight
        if whiten and len(rows) < min_pairs:
            whiten, reweight = False, 0.0
        pairs = x[rows], y[matched[rows]]
        maps = fit_maps(*pairs, whiten=whiten, reweight=reweight, weights=weights)
        before = matched
        objective = float(found.forward.scores.mean())
        seconds = time.perf_counter() - began
        steps.append(RefineStep(iteration, len(rows), objective, change, seconds))
    return maps, tuple(steps)


def _pairs(found, weighted):
    """Rows with mutual matches, and the weights of these or None; of weighted ones
    those with a positive CSLS, if there are any.
    """
    rows = np.flatnonzero(found.mutual)
    scores = found.forward.scores[rows, 0]
    near = scores > 0
    if not weighted or not near.any():
        return rows, None
    return rows[near], scores[near]
