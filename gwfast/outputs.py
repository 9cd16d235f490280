"""The folder of results that `gwfast align --output DIR` writes."""

import json
import os
import platform
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path

import numpy as np
import scipy

from ._version import __version__
from .plot import plot_dynamics

FILES = ("mapping.npz", "translations.tsv", "result.json", "dynamics.png")
METHODS = {"coupling": "coupling", "nn": "nearest neighbor", "csls": "CSLS"}


@contextmanager
def staged(output):
    """A folder to write into, whose files move to `output` if all goes well."""
    if output is None:
        yield None
        return
    output = output.absolute()
    # Within an existing folder, as it may be a mount point of its own.
    holder = output if output.is_dir() else output.parent
    with tempfile.TemporaryDirectory(prefix=".gwfast-", dir=holder) as name:
        stage = Path(name) / "results"  # has the permissions of any new folder
        stage.mkdir()
        yield stage
        if holder == output:
            for file in sorted(stage.iterdir()):
                os.replace(file, output / file.name)
        else:
            os.rename(stage, output)


def write(outcome, folder):
    """Write the four files.

    ``mapping.npz`` holds what maps new vectors: the steps `normalize`, a row of
    `source_means` for each "center" among them, then `mapping`. With `target_means`
    the target's vectors are normalized likewise.
    """
    result = outcome.result
    np.savez(
        folder / "mapping.npz",
        mapping=result.mapping,
        normalize=np.array(outcome.settings.normalize, dtype=str),
        source_means=np.reshape(result.source.means, (-1, result.mapping.shape[0])),
        target_means=np.reshape(result.target.means, (-1, result.mapping.shape[1])),
    )
    _write_translations(outcome, folder / "translations.tsv")
    accuracy = {
        f"{METHODS[method]} P@1": score.at[1]
        for method, score in outcome.precision.items()
        if score.n_queries
    }
    plot_dynamics(
        result.gw.history, path=folder / "dynamics.png", accuracy=accuracy or None
    )
    text = json.dumps(
        _plain(_summary(outcome)), allow_nan=False, ensure_ascii=False, indent=1
    )
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")


def _write_translations(outcome, path):
    """A line for each word and rank: CSLS, and the plan where the word took part."""
    # A tab would break the columns; other white space in words is harmless.
    x, y = (
        [word.replace("\t", " ") for word in given.embeddings.words]
        for given in (outcome.source, outcome.target)
    )
    csls, coupling = outcome.csls, outcome.coupling
    n, k = coupling.indices.shape
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write("source\trank\tcsls\tcsls_score\tcoupling\tcoupling_score\n")
        for row, (targets, scores) in enumerate(
            zip(csls.indices.tolist(), csls.scores.tolist(), strict=True)
        ):
            for rank, (target, score) in enumerate(zip(targets, scores, strict=True)):
                other = "\t"
                if row < n and rank < k:
                    mass = coupling.scores[row, rank]
                    other = f"{y[coupling.indices[row, rank]]}\t{mass:.4g}"
                stream.write(
                    f"{x[row]}\t{rank + 1}\t{y[target]}\t{score:.4f}\t{other}\n"
                )


def _summary(outcome):
    """The content of ``result.json``."""
    gw = outcome.result.gw
    return {
        "versions": {
            "gwfast": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
        "settings": {
            name: asdict(value) if is_dataclass(value) else value
            for name, value in vars(outcome.settings).items()
        },
        "inputs": {
            side: {
                "name": given.name,
                "words": len(given.embeddings),
                "columns": given.embeddings.vectors.shape[1],
                "duplicates_dropped": given.embeddings.n_duplicates,
            }
            for side, given in (("source", outcome.source), ("target", outcome.target))
        },
        "plan_shape": outcome.result.gw.coupling.shape,
        "n_threads": outcome.result.n_threads,
        "gw": {
            name: getattr(gw, name)
            for name in (
                "status", "converged", "gw_cost", "reg_cost", "epsilon",
                "marginal_error", "n_outer", "n_inner", "seconds", "advice",
            )
        },
        "candidates": [row._asdict() for row in gw.candidates],
        "accuracy": {
            method: {
                "queries": score.n_queries,
                "dictionary_words": score.n_words,
                **{f"P@{k}": share for k, share in score.at.items()},
            }
            for method, score in outcome.precision.items()
        },
        "seconds": outcome.seconds,
        "warnings": outcome.warnings,
        "history": [step._asdict() for step in gw.history],
    }  # fmt: skip


def _plain(value):
    """The value in JSON's types; nan and inf, which it lacks, become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
