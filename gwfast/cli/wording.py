"""What the terminal and the page have in common: names, signs and what is right."""

import re

import numpy as np

# Of the ways to translate.
METHOD_LABELS = {
    "coupling": "coupling",
    "barycentric": "barycentric",
    "nn": "nearest neighbor",
    "csls": "CSLS",
    "inverted_softmax": "inverted softmax",
}
# Advice in the arguments of Python, and in the options of the command; nothing if it has none.
_OPTIONS = {
    "SolverOptions(search_time=...)": "--search-time SECONDS",
    "init=Seeds(...)": "--seeds FILE",
    'init="auto"': "--init auto",
    "SolverOptions with a larger n_neighbors or tier='tiled'": "--tier tiled",
    ", or SolverOptions with a larger max_inner or marginal_tol": "",
    ", or SolverOptions(max_inner=...)": "",
    ", or the smaller steps of SolverOptions(method='ppa'), the proximal point method": "",
    ", or a larger marginal_tol of SolverOptions": "",
    "at max_inner": "at their limit",
    "PointCloud.scaled_by, or matrices over their means": "--normalize unit,center,unit,mean",
    "an epsilon smaller": "an --epsilon smaller",
    "smaller epsilon": "smaller --epsilon",
    "larger epsilon": "larger --epsilon",
    "epsilon or tol": "epsilon or --tol",
    "larger tol": "larger --tol",
    "(tol ": "(--tol ",
    "(marginal_tol": "(at most",
    "larger time_limit": "larger --time-limit",
    "time_limit ended": "--time-limit ended",
    "fewer points": "a smaller --n-words",
    "more points": "a larger --n-words",
}
# Control characters, which HTML has no place for, and halves of surrogate pairs.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def counted(embeddings):
    """How many words and columns there are, and what was dropped, in JSON's types."""
    n, d = embeddings.vectors.shape
    return {
        "words": n,
        "columns": d,
        "duplicates_dropped": embeddings.n_duplicates,
        "undecodable": embeddings.n_undecodable,
        "skipped": embeddings.n_skipped,
    }


def given_start(settings):
    """The only start of a solve that does not search; None if it does."""
    if settings.seeds is not None:
        return "seeds"
    return None if settings.init == "auto" else settings.init


def threads_of(result):
    return f"{result.n_threads} thread{'s' * (result.n_threads > 1)}"


def best_targets(outcome, row):
    """Target rows of a source row, by CSLS."""
    return outcome.csls.indices[np.searchsorted(outcome.rows, row)].tolist()


def right_translations(gold):
    """Sets of target rows by source row; empty without dictionary."""
    return {} if gold is None else dict(zip(gold.rows.tolist(), gold.targets, strict=True))


def as_options(text):
    """Text with the options of the command in place of arguments in Python."""
    for argument, option in _OPTIONS.items():
        text = text.replace(argument, option)
    return text


def printable(value):
    """Text with signs in place of what HTML has no place for and terminals obey."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _UNPRINTABLE.sub(_sign, value)


def _sign(match):
    code = ord(match.group())
    return chr(0x2400 + code) if code < 0x20 else f"\\u{code:04x}"
