"""Refinement of a mapping: match by CSLS, map the mutual matches, repeat.

The self-learning of unsupervised methods (Conneau et al., ICLR 2018; Artetxe, Labaka and Agirre,
ACL 2018), started from the mapping of the plan.
"""

import time
import warnings
from typing import NamedTuple

import numpy as np

from ..results.result import ConvergenceWarning
from ..utils.callers import outside
from ..utils.deadline import NEVER, Deadline
from ..utils.progress import ProgressEvent, Reporter
from ..utils.types import Float32Array
from .procrustes import Maps, procrustes, whitened_maps
from .retrieval import best_matches


class RefineStep(NamedTuple):
    """One round of a refinement.

    Attributes
    ----------
    iteration : int
        Counted from 1.
    n_pairs : int
        Mutual matches that the new mapping was fitted to.
    objective : float
        Mean CSLS of the matched rows with their best match, under the mapping before.
    change : float
        Fraction of rows whose best match changed since the round before.
    seconds : float
        Since the refinement began.
    """

    iteration: int
    n_pairs: int
    objective: float
    change: float
    seconds: float


def refine_maps(
    x: Float32Array,
    y: Float32Array,
    maps: Maps,
    rounds: int,
    n_threads: int,
    report_progress: Reporter,
    deadline: Deadline = NEVER,
    vocabulary: int = 10_000,
) -> tuple[Maps, tuple[RefineStep, ...]]:
    """Return maps fitted to mutual matches of the first `vocabulary` normalized rows of each side.

    Rounds end if at most one match of a thousand changes, or at the deadline.
    """
    began = time.perf_counter()
    x, y = x[:vocabulary], y[:vocabulary]
    # With 1.3 matches a column whitening was worse than an orthogonal map, with 1.7 better.
    min_pairs = 2 * max(x.shape[1], y.shape[1])
    steps: list[RefineStep] = []
    before = None
    for iteration in range(1, rounds + 1):
        spent = time.perf_counter() - began
        if deadline.passed(spent / max(len(steps), 1)):
            warnings.warn(
                f"time_limit ended the refinement after {len(steps)} of {rounds} rounds;"
                " try a larger time_limit",
                ConvergenceWarning,
                stacklevel=outside(),
            )
            break
        text, done = f"refinement {iteration}", iteration - 1
        report_progress(ProgressEvent("refinement", text, iteration, done, rounds))
        mapped = y if maps.target is None else y @ maps.target
        found = best_matches(x @ maps.source, mapped, n_threads=n_threads)
        matched = found.forward.indices[:, 0]
        change = 1.0 if before is None else float(np.mean(matched != before))
        if change <= 1e-3:
            break
        rows, weights = _pairs(found)
        pairs = x[rows], y[matched[rows]]
        if len(rows) < min_pairs:
            maps = Maps(procrustes(*pairs, weights=weights), None)
        else:
            maps = whitened_maps(*pairs, weights)
        before = matched
        objective = float(found.forward.scores.mean())
        seconds = time.perf_counter() - began
        steps.append(RefineStep(iteration, len(rows), objective, change, seconds))
    return maps, tuple(steps)


def _pairs(found):
    """Return the rows with mutual matches of positive CSLS, and the CSLS as weights.

    Loose matches are wrong more often. If no CSLS is positive, return all mutual matches and None.
    """
    rows = np.flatnonzero(found.mutual)
    scores = found.forward.scores[rows, 0]
    near = scores > 0
    return (rows[near], scores[near]) if near.any() else (rows, None)
