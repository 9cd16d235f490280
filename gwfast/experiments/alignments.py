"""Jobs that translate words: read, align, score."""

import functools
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gwfast

from ..alignment.normalize import Normalizer
from ..alignment.spaces import AlignedSpaces
from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import parse_epsilon
from ..words import (
    CONVENTIONS,
    evaluate,
    gold_standard,
    read_dictionary,
    read_embeddings,
)

KS = (1, 5, 10)
NORMALIZE = ("unit", "center", "unit")


@dataclass(frozen=True)
class TableSettings:
    """What all jobs of a table share."""

    n_words: int
    max_vocab: int
    epsilons: tuple[str, ...]  # as they were given: "auto", numbers, percentages
    scales: tuple[str, ...]  # statistics to scale costs by; "none" is not to
    convention: str
    rounds: int  # of refinement, at most
    seed: int
    time_limit: float | None  # of each solve, in seconds
    cache: bool  # keep what was read in files beside those of the vectors


@dataclass(frozen=True)
class Direction:
    """Files to translate from one language to another."""

    source: Path
    target: Path
    test: Path
    train: Path | None


@functools.lru_cache(maxsize=2)
def _read(path, max_words, lower, cache, changed):
    # Some of the published files have words that are not UTF-8.
    return read_embeddings(
        path, max_words=max_words, lower=lower, errors="replace", cache=cache
    )


def read(path, max_words, *, lower=False, cache=False):
    """Embeddings; the last two are kept, as many jobs have one in common."""
    return _read(path, max_words, lower, cache, path.stat().st_mtime_ns)


def _sides(direction, settings):
    # MUSE counts its 200,000 words in lower case.
    lower = CONVENTIONS[settings.convention].lower
    return (
        read(path, settings.max_vocab, lower=lower, cache=settings.cache)
        for path in (direction.source, direction.target)
    )


def dictionary_of(path, rules):
    """The dictionary in a file, by the rules of a convention."""
    return read_dictionary(path, first_only=rules.first_only)


def supervise(direction, settings, *, n_threads, progress):
    """Procrustes on the training dictionary, by nearest neighbors and CSLS.

    Returns scores by method, pairs that the mapping was fitted to, and seconds for it.
    """
    rules = CONVENTIONS[settings.convention]
    x, y = _sides(direction, settings)
    known = gold_standard(
        dictionary_of(direction.train, rules), x.words, y.words, convention=rules
    )
    if not len(known):
        raise ValueError(f"{direction.train}: no pair is in both vocabularies")
    began = time.perf_counter()
    source = Normalizer.fit(NORMALIZE, x.vectors, "source")
    target = Normalizer.fit(NORMALIZE, y.vectors, "target")
    rows = np.repeat(known.rows, [len(right) for right in known.targets])
    columns = np.concatenate([sorted(right) for right in known.targets])
    mapping = gwfast.procrustes(source.rows[rows], target.rows[columns])
    seconds = time.perf_counter() - began
    spaces = AlignedSpaces(
        mapping=mapping,
        source=source,
        target=target,
        n_words=tuple(min(settings.n_words, len(side)) for side in (x, y)),
        n_threads=resolve_n_threads(n_threads),
    )
    test = dictionary_of(direction.test, rules)
    scores = _scores(spaces, test, x, y, ("nn", "csls"), rules)
    return {"scores": scores, "pairs": len(rows), "solve_seconds": seconds}


def align(direction, settings, epsilon, scale, *, n_threads, progress):
    """Gromov-Wasserstein alignment, as it is and refined.

    Returns scores by method ("refined" is CSLS after refinement), facts of the solve,
    and seconds for it and the refinement.
    """
    rules = CONVENTIONS[settings.convention]
    x, y = _sides(direction, settings)
    test = dictionary_of(direction.test, rules)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", gwfast.ConvergenceWarning)
        result = gwfast.align(
            x.vectors,
            y.vectors,
            n_words=settings.n_words,
            normalize=NORMALIZE,
            epsilon=parse_epsilon(epsilon),
            scale_costs=None if scale == "none" else scale,
            seed=settings.seed,
            time_limit=settings.time_limit,
            n_threads=n_threads,
            progress=progress,
        )
    scores = _scores(result, test, x, y, ("coupling", "nn", "csls"), rules)
    refined = result.refine(settings.rounds, progress=progress)
    scores["refined"] = _scores(refined, test, x, y, ("csls",), rules)["csls"]
    gw = result.gw
    return {
        "scores": scores,
        "gw": {
            "status": gw.status,
            "gw_cost": float(gw.gw_cost),
            "epsilon": float(gw.epsilon),
            "marginal_error": float(gw.marginal_error),
            "n_outer": gw.n_outer,
        },
        "refinements": len(refined.refinement),
        "warnings": messages(caught),
        "solve_seconds": refined.seconds,
    }


def messages(caught):
    """Texts of recorded warnings, a line each."""
    return [str(warning.message).replace("\n", " ") for warning in caught]


def _scores(result, dictionary, x, y, methods, rules):
    found = evaluate(
        result, dictionary, x.words, y.words, methods=methods, ks=KS, convention=rules
    )
    return {method: _score(one) for method, one in found.items()}


def _score(score):
    return {
        **{f"P@{k}": number(share) for k, share in score.at.items()},
        "interval": [number(end) for end in score.interval(1)],
        "queries": score.n_queries,
        "words": score.n_words,
        "coverage": number(score.coverage),
    }


def number(value):
    """A float for JSON, which has no nan and no inf."""
    value = float(value)
    return value if math.isfinite(value) else None
