"""The files of both benchmarks, under the names they were published with, and tables."""

from typing import NamedTuple

import numpy as np

from gwfast.alignment.normalize import Normalizer
from gwfast.words import read_dictionary, read_embeddings


class Layout(NamedTuple):
    """Patterns of files below a folder, the usual first, and where to get the files."""

    vectors: tuple[str, ...]
    train: tuple[str, ...]
    test: tuple[str, ...]
    source: str


def _muse(ranks):
    folders = "crosslingual/dictionaries/", "dictionaries/", ""
    return tuple(f"{folder}{{x}}-{{y}}.{ranks}.txt" for folder in folders)


MUSE = Layout(
    vectors=("wiki.{x}.vec",),
    train=_muse("0-5000"),
    test=_muse("5000-6500"),
    source="https://fasttext.cc/docs/en/pretrained-vectors.html, "
    "https://github.com/facebookresearch/MUSE",
)
DINU = Layout(
    vectors=(
        "{X}.200K.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt",
        "embeddings/original/{x}.emb.txt",
        "{x}.emb.txt",
    ),
    train=("OPUS_{x}_{y}_europarl_train_5K.txt", "dictionaries/{x}-{y}.train.txt"),
    test=("OPUS_{x}_{y}_europarl_test.txt", "dictionaries/{x}-{y}.test.txt"),
    source="get_data.sh of https://github.com/artetxem/vecmap",
)


def find(folder, patterns, x, y=""):
    """Return the first file that is there, compressed or not, or None."""
    for pattern in patterns:
        name = pattern.format(x=x, y=y, X=x.upper())
        for suffix in ("", ".gz", ".bz2", ".xz", ".npz"):
            if (folder / (name + suffix)).is_file():
                return folder / (name + suffix)
    return None


def read(options, layout, direction, fold="test", max_words=None):
    """Return embeddings of both sides and a dictionary; None, with a line, if a file is missing."""
    x, y = direction.split("-")
    asked = (layout.vectors, x, ""), (layout.vectors, y, ""), (getattr(layout, fold), x, y)
    files = [find(options.data, *names) for names in asked]
    if None in files:
        absent = ", ".join(
            patterns[0].format(x=x, y=y, X=x.upper())
            for (patterns, x, y), file in zip(asked, files, strict=True)
            if file is None
        )
        print(f"{direction} is not run: no {absent} in {options.data}; see {layout.source}")
        return None
    lower, most = options.convention == "muse", max_words or options.max_vocab
    sides = [read_embeddings(x, max_words=most, lower=lower, errors="replace") for x in files[:2]]
    return *sides, read_dictionary(files[2], lower=lower)


def print_table(title, columns, rows, note=""):
    """Print rows of a label and texts by column."""
    cells = [["", *columns]]
    cells += [[label, *(texts.get(column, "") for column in columns)] for label, texts in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for label, *texts in cells:
        parts = [label.ljust(widths[0]), *map(str.rjust, texts, widths[1:])]
        print("  ".join(parts).rstrip())
    if note:
        print(note)


def normalized(vectors):
    """Return vectors of unit length, centered, of unit length again."""
    return Normalizer.fit(("unit", "center", "unit"), vectors, "vectors").rows


def percent(share):
    return "" if share is None or np.isnan(share) else f"{100 * share:.1f}"
