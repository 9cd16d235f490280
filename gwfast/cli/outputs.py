"""The folder of results that `gwfast align --output DIR` writes, and its reader."""

import json
import math
import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import gwfast

from ..alignment.saving import IN_FOLDER
from ..utils.atomic_files import check_folder, naming, temporary_folder
from ..utils.config import versions
from ..utils.labels import ByWord, first_rows
from ..words import Embeddings, write_dictionary, write_embeddings
from .options import METHODS, as_options
from .page import page
from .terminal import field, literal, word_of

# All files that may be written.
_FILES = (
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
COLUMNS = ("source", "rank", "csls", "csls_score", "plan", "plan_share", "mutual")


def check_output(settings, *inputs):
    """Refuse a folder that cannot be written to, or in which files or `inputs` would be lost."""
    folder = settings.output
    if folder is None:
        if settings.write_vectors is not None:
            raise ValueError("--vectors needs --output")
        return
    check_folder(folder, "--output")
    if (folder / "result.json").exists() and not settings.force:
        raise ValueError(f"--output {folder} already has results; --force replaces them")
    if folder.is_dir() and any(folder.iterdir()) and not settings.force:
        raise ValueError(f"--output must be empty without --force, got {folder}")
    inputs = {path.resolve() for path in inputs if path is not None}
    for path in (folder / name for name in _FILES):
        if path.is_dir() or path.resolve() in inputs:
            raise ValueError(f"--output must not hold folders or inputs, got {path} in it")


@contextmanager
def staged(output):
    """A folder to write into, whose files move to `output` if all goes well."""
    path = output.absolute()
    # Inside of an existing folder, as it may be a mount point of its own.
    with naming(output), temporary_folder(path if path.is_dir() else path.parent) as folder:
        yield folder
        if not path.is_dir():
            folder.rename(path)
            return
        names = {file.name for file in folder.iterdir()}
        # Files of an earlier run would pass for results of this one.
        stale = {*_FILES} - names if (path / "result.json").exists() else ()
        for name in names:
            os.replace(folder / name, path / name)
        for name in stale:
            (path / name).unlink(missing_ok=True)


def write(outcome, facts, folder):
    """Write the files of an `Outcome` and its summary `facts`; ``docs/words.md`` describes them."""
    from ..plot import plot_dynamics

    result = outcome.result
    x, y = outcome.source.embeddings.words, outcome.target.embeddings.words
    result.save(folder / IN_FOLDER)
    with open(folder / "translations.tsv", "w", encoding="utf-8", newline="\n") as stream:
        stream.write("\t".join(COLUMNS) + "\n")
        stream.writelines(_lines(x, y, outcome.csls, outcome.plan, outcome.mutual))
    pairs = [(x[row], y[outcome.csls.indices[row, 0]]) for row in np.flatnonzero(outcome.mutual)]
    # A file of pairs cannot hold every word, and has at least one pair.
    held = {x: {y} for x, y in pairs if all(literal(w).strip(" ") == w for w in (x, y))}
    (folder / "dictionary.txt").touch()
    if held:
        write_dictionary(folder / "dictionary.txt", held)
    if outcome.settings.write_vectors is not None:
        suffix = {"text": "vec", "binary": "bin"}[outcome.settings.write_vectors]
        for side, words in (("source", x), ("target", y)):
            tokens = [field(word).replace(" ", "_") for word in words]
            if len({*tokens}) < len(tokens):  # of "a b" and "a_b"
                tokens = [field(word).replace(" ", r"\x20") for word in words]
            mapped = Embeddings(tokens, getattr(result, f"mapped_{side}"))
            write_embeddings(folder / f"{side}.{suffix}", mapped)
    if result.gw.history:  # a time limit may have ended the solve before the first iteration
        scores = {name: score for name, score in outcome.precision.items() if score.n_queries}
        accuracy = {f"{METHODS[name]} P@1": score.at[1] for name, score in scores.items()}
        plot_dynamics(result.gw, accuracy=accuracy or None, path=folder / "dynamics.png")
    text = json.dumps(facts, allow_nan=False, ensure_ascii=False, indent=1)
    for name, content in (("result.json", f"{text}\n"), ("report.html", page(outcome, facts))):
        # Half a surrogate pair, which words and names of files can hold, has no place in UTF-8.
        (folder / name).write_bytes(content.encode("utf-8", "backslashreplace"))


def _lines(x, y, best, plan, mutual):
    """Yield lines of ``translations.tsv``: a line for each word of `x` and rank."""
    x, y = ([field(word) for word in words] for words in (x, y))
    n, k = plan.indices.shape
    rows = zip(best.indices.tolist(), best.scores.tolist(), strict=True)
    for row, (targets, scores) in enumerate(rows):
        flag = "yes" if mutual[row] else "no"
        for rank, (target, score) in enumerate(zip(targets, scores, strict=True)):
            by_plan = "\t"
            if row < n and rank < k and plan.indices[row, rank] >= 0:
                by_plan = f"{y[plan.indices[row, rank]]}\t{plan.scores[row, rank]:.4g}"
            yield f"{x[row]}\t{rank + 1}\t{y[target]}\t{score:.4f}\t{by_plan}\t{flag}\n"
            flag = ""


def rows_of(lines, words):
    """Return rows of ``translations.tsv`` by word, dicts by column."""
    wanted, rows = ByWord(dict.fromkeys(map(field, words))), ByWord()
    for line in lines:
        if (word := line.partition("\t")[0]) in wanted:
            fields = line.rstrip("\n").split("\t")
            if len(fields) != len(COLUMNS):
                raise ValueError(f"a line has {len(fields)} fields: {line!r:.60}")
            rows.setdefault(word, []).append(dict(zip(COLUMNS, fields, strict=True)))
    return {word: rows[field(word)] for word in words if field(word) in rows}


def translations(folder, words):
    """Return rows of ``translations.tsv`` by source word."""
    path = folder / "translations.tsv"
    if not path.is_file():
        raise ValueError(f"DIR must be a folder of gwfast align, got {folder} without {path.name}")
    with open(path, encoding="utf-8", newline="\n") as stream:
        try:
            # Files of versions before 1.0 call the plan a coupling.
            header = stream.readline().rstrip("\n").replace("coupling", "plan")
            if header.split("\t") != [*COLUMNS]:
                raise ValueError(f"the first line must be the columns {', '.join(COLUMNS)}")
            return rows_of(stream, words)
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from error


def translations_back(folder, words):
    """Return rows as of `translations` by target word, without the plan."""
    alignment = gwfast.Alignment.load(folder)
    row_of_word = first_rows(alignment.words[1] or ())
    if not (words := [word for word in dict.fromkeys(words) if word in row_of_word]):
        return {}
    best = alignment.translate(words, direction="backward")
    firsts = [sources[0] for sources in best.words]
    best_of = {x: rows[0]["csls"] for x, rows in translations(folder, firsts).items()}
    fields = [field(alignment.words[1][row_of_word[word]]) for word in words]
    mutual = [best_of.get(x) == y for x, y in zip(firsts, fields, strict=True)]
    no_plan = best._replace(indices=best.indices[:0])
    return rows_of(_lines(words, alignment.words[0], best, no_plan, mutual), words)


def as_object(rows):
    """Return rows of ``translations.tsv`` of a word in JSON's types."""
    best = [{"word": word_of(row["csls"]), "score": float(row["csls_score"])} for row in rows]
    plan = [
        {"word": word_of(row["plan"]), "share": float(row["plan_share"])}
        for row in rows
        if row["plan"]
    ]
    return {"mutual": rows[0]["mutual"] == "yes", "csls": best, "plan": plan}


def counted(embeddings):
    """Return the numbers of words, columns and rows that were left out."""
    n, d = embeddings.vectors.shape
    return {
        "words": n,
        "columns": d,
        "duplicates_dropped": embeddings.n_duplicates,
        "undecodable": embeddings.n_undecodable,
        "skipped": embeddings.n_skipped,
    }


def accuracy(precision):
    """Return scores by method, in JSON's types."""
    scores = {
        method: {
            "convention": score.convention,
            "coverage": score.coverage,
            "queries": score.n_queries,
            "dictionary_words": score.n_words,
            **{f"P@{k}": fraction for k, fraction in score.at.items()},
            "intervals_95": {f"P@{k}": score.interval(k) for k in score.at},
        }
        for method, score in precision.items()
    }
    return plain(scores)


def summary(outcome):
    """Return the content of ``result.json``, in JSON's types."""
    gw, mutual = outcome.result.gw, outcome.mutual
    sides = {"source": outcome.source, "target": outcome.target}
    figures = (
        "status",
        "converged",
        "gw_cost",
        "reg_cost",
        "epsilon",
        "marginal_error",
        "n_iter",
        "seconds",
        "confidence",
    )
    content = {
        "versions": versions(),
        "folder": os.getcwd(),  # what relative paths are relative to
        "settings": vars(outcome.settings),
        "inputs": {
            name: {"name": side.name, **counted(side.embeddings)} for name, side in sides.items()
        },
        "plan_shape": gw.coupling.shape,
        "n_threads": outcome.result.n_threads,
        "gw": {
            **{name: getattr(gw, name) for name in figures},
            "advice": as_options(gw.advice),
            "remarks": [*map(as_options, gw.remarks)],
        },
        "candidates": gw.candidates,
        "refinement": outcome.result.refinement,
        "evidence": outcome.result.evidence,
        "mutual_pairs": None if mutual is None else int(np.sum(mutual)),
        "translations": {entry.word: entry.best for entry in outcome.entries(outcome.shown)},
        "accuracy": accuracy(outcome.precision),
        "seconds": {"align": outcome.result.seconds},
        "warnings": outcome.warnings,
        "history": gw.history,
    }
    return plain(content)


def plain(value):
    """Return a value in JSON's types: records are objects, NaN and infinity null."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
