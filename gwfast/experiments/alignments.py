"""Jobs that translate words: read, align, score."""

import contextlib
import functools
import time
import warnings

import numpy as np

import gwfast

from ..alignment.normalize import Normalizer
from ..alignment.spaces import AlignedSpaces
from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import as_epsilon
from ..words import CONVENTIONS, evaluate, gold_standard, read_dictionary, read_embeddings

KS = (1, 5, 10)
NORMALIZE = ("unit", "center", "unit")


@functools.lru_cache(maxsize=2)
def _read(path, changed, **options):
    # Some of the published files have words that are not UTF-8.
    return read_embeddings(path, errors="replace", **options)


def read(path, max_words, **options):
    """Embeddings; the last two are kept, as many jobs have one in common."""
    return _read(path, path.stat().st_mtime_ns, max_words=max_words, **options)


def read_pairs(path, convention):
    """The dictionary in a file, by the rules of a convention."""
    return read_dictionary(path, first_only=CONVENTIONS[convention].first_only)


def _read_files(files, settings):
    """Embeddings of both sides, and the dictionary that scores them."""
    # MUSE counts its 200,000 words in lower case.
    options = {"lower": CONVENTIONS[settings.convention].lower, "cache": settings.cache}
    x, y = (read(files[side], settings.max_vocab, **options) for side in ("source", "target"))
    return x, y, read_pairs(files["dictionary"], settings.convention)


def supervise(files, settings, *, n_threads, progress):
    """Procrustes on the training dictionary, by nearest neighbors and CSLS.

    Returns scores by method, pairs that the mapping was fitted to, and seconds for it.
    """
    x, y, test = _read_files(files, settings)
    train = read_pairs(files["train"], settings.convention)
    known = gold_standard(train, x.words, y.words, convention=settings.convention)
    if not len(known):
        raise ValueError(f"{files['train']}: no pair is in both vocabularies")
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
    scores = _scores(spaces, test, x, y, ("nn", "csls"), settings)
    return {"scores": scores, "pairs": len(rows), "solve_seconds": seconds}


def align(files, settings, epsilon, scale, *, n_threads, progress):
    """Gromov-Wasserstein alignment, as it is and refined.

    Returns scores by method ("refined" is CSLS after refinement), facts of the solve,
    and seconds for it and the refinement.
    """
    x, y, test = _read_files(files, settings)
    with recorded_warnings() as messages:
        result = gwfast.align(
            x.vectors,
            y.vectors,
            n_words=settings.n_words,
            normalize=NORMALIZE,
            epsilon=as_epsilon(epsilon),
            scale_costs=None if scale == "none" else scale,
            seed=settings.seed,
            time_limit=settings.time_limit,
            n_threads=n_threads,
            progress=progress,
        )
    scores = _scores(result, test, x, y, ("coupling", "nn", "csls"), settings)
    refined = result.refine(settings.rounds, progress=progress)
    scores["refined"] = _scores(refined, test, x, y, ("csls",), settings)["csls"]
    facts = "status", "gw_cost", "epsilon", "marginal_error", "n_outer"
    return {
        "scores": scores,
        "gw": {name: getattr(result.gw, name) for name in facts},
        "refinements": len(refined.refinement),
        "warnings": messages,
        "solve_seconds": refined.seconds,
    }


@contextlib.contextmanager
def recorded_warnings(category=gwfast.ConvergenceWarning):
    """A list that has the texts of the warnings inside, a line each, in the end."""
    messages = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        yield messages
    messages += [str(warning.message).replace("\n", " ") for warning in caught]


def _scores(result, dictionary, x, y, methods, settings):
    options = {"methods": methods, "ks": KS, "convention": settings.convention}
    found = evaluate(result, dictionary, x.words, y.words, **options)
    return {
        method: {
            **{f"P@{k}": share for k, share in score.at.items()},
            "interval": score.interval(1),
            "queries": score.n_queries,
            "words": score.n_words,
            "coverage": score.coverage,
        }
        for method, score in found.items()
    }
