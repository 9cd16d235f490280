"""An alignment of words that are hard to write, made by hand as the report gets it."""

import functools
from types import SimpleNamespace

import numpy as np

import gwfast
from gwfast.cli.report import Input
from gwfast.words import Embeddings, precision_at_k
from gwfast.words.evaluation import gold_standard

N, N_TAKING_PART = 80, 60

# What would end a script, a tag, an attribute, a line, a field, a template or a file.
HARD = (
    "</script>", "&lt;", "<b>x</b>", "<!--", "-->", '"onload="alert(1)', "'quote'",
    "{{ 7*7 }}", "{% raw %}", "{#", "$x_1$", "\\u003c", "null", "=1+1", "a b", "a_b",
    "a\tb", "c\nd", "e\rf", "\x00\x1b[31m", "\u2028", "\ufeffbom", "\ud800", "\x85",
    "שלום", "مرحبا بالعالم", "日本語", "हिन्दी", "e\u202ef", "n\u0303", "👩\u200d👧",
    "W" * 200,
)  # fmt: skip


SETTINGS = {
    "epsilon": gwfast.Epsilon(relative=0.02),
    "normalize": ("unit", "center", "unit"),
    "force": True,
    "quiet": False,
    **dict.fromkeys(("tol", "output", "write_vectors")),
}


def sides(n=N, n_columns=6, hard=True):
    """A cloud without symmetry and the same one rotated, both in one order."""
    rng = np.random.default_rng(7)
    x = rng.exponential(size=(n, n_columns)) * np.arange(n_columns, 0, -1)
    rotation = np.linalg.qr(rng.standard_normal((n_columns, n_columns)))[0]
    words = [*HARD, *(f"s{i}" for i in range(n))][:n] if hard else []
    words = words or [f"s{i}" for i in range(n)]
    return tuple(
        Embeddings(tuple(f"{word}{end}" for word in words), z.astype(np.float32))
        for z, end in ((x, ""), (x @ rotation, "!"))
    )


def csls_best(x, y, hood=10):
    """Best target of every source and best source of every target, in float64."""
    x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
    cosine = x.astype(np.float64) @ y.T
    own, other = (np.sort(z, axis=1)[:, -hood:].mean(axis=1) for z in (cosine, cosine.T))
    csls = 2 * cosine - own[:, None] - other
    return csls.argmax(axis=1), csls.argmax(axis=0)


@functools.cache
def aligned(n_columns, source, target, n_words, refine):
    """Of the bytes of both sides, so that no alignment is computed twice."""
    clouds = (np.frombuffer(x, np.float32).reshape(-1, n_columns) for x in (source, target))
    return gwfast.align(*clouds, n_words=n_words, epsilon=0.01, refine=refine)


def changed(outcome, **parts):
    """The outcome with other parts."""
    return SimpleNamespace(**{**vars(outcome), **parts})


def outcome(
    *,
    source=None,
    target=None,
    names=("es.vec", "fr.vec"),
    n_words=N_TAKING_PART,
    gold=True,
    refine=2,
    warnings=(),
    **settings,
):
    """As `gwfast.cli.report` makes it; every other word is in the dictionary."""
    if source is None:
        source, target = sides()
    given = source.vectors.tobytes(), target.vectors.tobytes()
    result = aligned(source.vectors.shape[1], *given, n_words, refine)
    forward, backward = csls_best(result.mapped_source, result.mapped_target)
    mutual = backward[forward] == np.arange(len(source))
    standard, precision = None, {}
    if gold:
        words = zip(source.words[::2], target.words[::2], strict=True)
        pairs = {word: {other} for word, other in words}
        standard = gold_standard(pairs, source.words, target.words)
        for method in ("nn", "csls", "inverted_softmax"):
            found = result.translate(range(len(source)), method=method).indices
            precision[method] = precision_at_k(found, pairs, source.words, target.words)
    rows = np.arange(len(source))
    return SimpleNamespace(
        source=Input(names[0], source),
        target=Input(names[1], target),
        settings=SimpleNamespace(**{"n_words": n_words, **SETTINGS, **settings}),
        result=result,
        gold=standard,
        precision=precision,
        coupling=result.translate(method="coupling"),
        csls=result.translate(rows),
        rows=rows,
        mutual=mutual,
        shown=rows[:20],
        warnings=tuple(warnings),
        seconds={"align": result.seconds},
    )
