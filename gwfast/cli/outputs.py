"""The folder of results that `gwfast align --output DIR` writes."""

import os
import re
from contextlib import contextmanager

import numpy as np

from ..alignment.saving import IN_FOLDER
from ..results.coupling import shares_of
from ..utils.atomic_files import check_folder, naming, temporary_folder
from ..utils.config import versions
from ..words import Embeddings, write_dictionary, write_embeddings
from .plain import plain, write_json
from .wording import METHOD_LABELS, as_options, best_targets, counted

# All that may be written; the vectors only where they are asked for.
FILES = (
    IN_FOLDER,
    "translations.tsv",
    "dictionary.txt",
    "result.json",
    "report.html",
    "dynamics.png",
    "source.vec",
    "source.bin",
    "target.vec",
    "target.bin",
)
# The columns of ``translations.tsv``.
TRANSLATIONS = (
    "source", "rank", "csls", "csls_score", "coupling", "coupling_share", "mutual",
)  # fmt: skip
_SEPARATORS = re.compile("[\t\r\n]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
# What ends a field or a line, commands a terminal, or has no place in UTF-8; and what
# readers of tables take away from the ends of a field.
_UNSAFE = re.compile("[\x00-\x1f\\\\\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]|^ +| +$")
# Of the picture of the solve: dots an inch, and characters a line of its note.
_DPI = 150


def check_output(settings, *inputs):
    """Refuse a folder that cannot be written or would be overwritten.

    `inputs` are files that are read, or None, and so are not results to be replaced.
    """
    folder = settings.output
    if folder is None:
        if settings.write_vectors is not None:
            raise ValueError("--vectors needs --output")
        return
    check_folder(folder, "--output")
    if folder.is_dir() and any(folder.iterdir()) and not settings.force:
        raise ValueError(f"--output must be empty without --force, got {folder}")
    inputs = {path.resolve() for path in inputs if path is not None}
    for path in (folder / name for name in FILES):
        if path.is_dir():
            raise ValueError(f"--output must not have a folder {path.name}")
        if path.resolve() in inputs:
            raise ValueError(f"--output must not hold what is read: {path} would be replaced")


@contextmanager
def staged(output):
    """A folder to write into, whose files move to `output` if all goes well."""
    given, output = output, output.absolute()
    # Within an existing folder, as it may be a mount point of its own.
    holder = output if output.is_dir() else output.parent
    with naming(given), temporary_folder(holder) as folder:
        stage = folder / "results"  # has the permissions of any new folder
        stage.mkdir()
        yield stage
        if holder == output:
            made = sorted(file.name for file in stage.iterdir())
            ours = (output / "result.json").exists()
            for name in made:
                os.replace(stage / name, output / name)
            # What an earlier run has left would pass for a result of this one.
            for name in set(FILES).difference(made) if ours else ():
                (output / name).unlink(missing_ok=True)
        else:
            os.rename(stage, output)


def write(outcome, folder):
    """Write the files.

    - ``mapping.npz`` is the file of `Alignment.save`, with all rows and words.
    - ``translations.tsv``: a line for each word and rank, with what CSLS says and, for
      words that took part, the plan: the words that most of their mass goes to, and which share of
      it. In lines of rank 1, `mutual` says whether the word is in turn CSLS' best for its
      translation ("yes" or "no"). Control characters, line separators, backslashes and spaces at
      the ends of words are written as in Python (``\\t``, ``\\x1b``, ``\\u2028``, ``\\\\``), and
      ``field.encode("latin-1", "backslashreplace").decode("unicode_escape")`` is the word again.
    - ``dictionary.txt``: the mutual pairs among them, for `read_dictionary`, without
      words that have control characters.
    - ``source.vec`` and ``target.vec`` (or ``.bin``), where the settings ask for them:
      all vectors, normalized and mapped to where those of both sides are comparable;
      a space within a word is written as ``_``, with more of them where the word
      would then be another one.
    - ``result.json``, ``report.html``, ``dynamics.png``.

    `rows` of the outcome are all source rows.
    """
    result = outcome.result
    x, y = (given.embeddings.words for given in (outcome.source, outcome.target))
    result.save(folder / IN_FOLDER)
    _write_translations(outcome, x, y, folder / "translations.tsv")
    _write_dictionary(outcome, x, y, folder / "dictionary.txt")
    suffix = {"text": "vec", "binary": "bin"}.get(outcome.settings.write_vectors)
    if suffix is not None:
        for side, words in (("source", x), ("target", y)):
            mapped = Embeddings(_tokens(words), getattr(result, f"mapped_{side}"))
            write_embeddings(folder / f"{side}.{suffix}", mapped)
    draw_dynamics(outcome, folder / "dynamics.png")
    write_json(folder / "result.json", summary(outcome))
    from .page import render  # with matplotlib, which only results on disk need

    # Half a surrogate pair, which arrays of words can hold, has no place in UTF-8.
    page = render(outcome).encode("utf-8", "backslashreplace")
    (folder / "report.html").write_bytes(page)


def field(word):
    """A word as a field of a table, from which it can be had again; see `write`."""
    return _UNSAFE.sub(_escaped, word)


def word_of(field):
    """The word of a field."""
    return field.encode("latin-1", "backslashreplace").decode("unicode_escape")


def draw_dynamics(outcome, path):
    """Write the picture of the solve."""
    history = outcome.result.gw.history
    if not history:  # a time limit may have been up before the first iteration
        return
    from matplotlib.figure import Figure

    from ..plot import plot_dynamics

    labels = {**METHOD_LABELS, "coupling": "coupling (the plan)"}
    accuracy = {
        f"{labels[method]} P@1": score.at[1]
        for method, score in outcome.precision.items()
        if score.n_queries
    }
    # Not one of pyplot, which might open a window.
    figure = Figure(figsize=(7, 5), layout="constrained")
    plot_dynamics(history, accuracy=accuracy or None, figure=figure)
    figure.savefig(path, dpi=_DPI)


def _escaped(found):
    return found[0].encode("unicode_escape").decode().replace(" ", r"\x20")


def _write_translations(outcome, x, y, path):
    x, y = ([field(word) for word in words] for words in (x, y))
    csls, coupling = outcome.csls, outcome.coupling
    n, k = coupling.indices.shape
    shares = shares_of(outcome.result.gw.coupling, coupling)
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write("\t".join(TRANSLATIONS) + "\n")
        for row, (targets, scores) in enumerate(
            zip(csls.indices.tolist(), csls.scores.tolist(), strict=True)
        ):
            mutual = "yes" if outcome.mutual[row] else "no"
            for rank, (target, score) in enumerate(zip(targets, scores, strict=True)):
                other = "\t"
                if row < n and rank < k and coupling.indices[row, rank] >= 0:
                    share = shares[row, rank]
                    other = f"{y[coupling.indices[row, rank]]}\t{share:.4g}"
                stream.write(
                    f"{x[row]}\t{rank + 1}\t{y[target]}\t{score:.4f}\t{other}"
                    f"\t{'' if rank else mutual}\n"
                )


def _write_dictionary(outcome, x, y, path):
    """The mutual pairs, but for words that such a file cannot hold."""
    pairs = {}
    for i in np.flatnonzero(outcome.mutual).tolist():
        pair = x[outcome.rows[i]], y[outcome.csls.indices[i, 0]]
        if all(word == _token(word) and not _CONTROLS.search(word) for word in pair):
            pairs[pair[0]] = {pair[1]}
    if pairs:
        write_dictionary(path, pairs)
    else:
        path.touch()


def _token(word):
    """A word as a line holds it; no space other than these ends one."""
    word = _SEPARATORS.sub(" ", word).strip(" \ufeff") or "_"
    return word.encode("utf-8", "backslashreplace").decode("utf-8")


def _tokens(words):
    """Words as files of vectors hold them: without spaces, and still distinct."""
    tokens = [_token(word).replace(" ", "_") for word in words]
    taken = {word for word, token in zip(words, tokens, strict=True) if word == token}
    for row, token in enumerate(tokens):
        if token != words[row]:
            while token in taken:
                token += "_"
            taken.add(token)
            tokens[row] = token
    return tuple(tokens)


def summary(outcome):
    """The content of ``result.json``, in JSON's types."""
    gw = outcome.result.gw
    x, y = (given.embeddings.words for given in (outcome.source, outcome.target))
    n_mutual = None if outcome.mutual is None else int(np.sum(outcome.mutual))
    return plain({
        "versions": versions(),
        "folder": os.getcwd(),  # what relative paths are relative to
        "settings": vars(outcome.settings),
        "inputs": {
            side: {"name": given.name, **counted(given.embeddings)}
            for side, given in (("source", outcome.source), ("target", outcome.target))
        },
        "plan_shape": outcome.result.gw.coupling.shape,
        "n_threads": outcome.result.n_threads,
        "gw": {
            name: getattr(gw, name)
            for name in (
                "status", "converged", "gw_cost", "reg_cost", "epsilon",
                "marginal_error", "n_iter", "seconds", "confidence",
            )
        } | {"advice": as_options(gw.advice)},
        "candidates": gw.candidates,
        "refinement": outcome.result.refinement,
        "mutual_pairs": n_mutual,
        "translations": {
            x[row]: [y[target] for target in best_targets(outcome, row)]
            for row in outcome.shown.tolist()
        },
        "accuracy": {
            method: {
                "convention": score.convention,
                "queries": score.n_queries,
                "dictionary_words": score.n_words,
                "coverage": score.coverage,
                **{f"P@{k}": fraction for k, fraction in score.at.items()},
                "intervals_95": {f"P@{k}": score.interval(k) for k in score.at},
            }
            for method, score in outcome.precision.items()
        },
        "seconds": outcome.seconds,
        "warnings": outcome.warnings,
        "history": gw.history,
    })  # fmt: skip
