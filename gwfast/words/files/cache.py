"""Copies of text and binary files as archives, which load faster.

`read_npz` reads the archives too. For every dropped row they hold the number of words before it,
so that reading fewer words from the copy returns the same counts as reading the file.
"""

import json
from dataclasses import replace

import numpy as np

from ...utils.archives import open_archive, read_array
from ...utils.atomic_files import replacing
from ..vocabulary import Options
from .arrays import read_npz, readable
from .source import Source

_VERSION = 2
# Name of the first member, which identifies caches by their first bytes.
_NOTE = "gwfast_cache"


def cache_path(path):
    """Return the path of the cache of a file."""
    return path.with_name(path.name + ".npz")


def read_cache(source, options):
    """Embeddings of a file as its cache has them; None where that is of no use."""
    path, cached = source.path, cache_path(source.path)
    try:
        source = Source.of(cached, source.max_bytes)
        with open(cached, "rb") as stream, readable(cached):
            with open_archive(stream) as arrays:
                note, *dropped = (
                    read_array(arrays, name, source.budget)
                    for name in (_NOTE, "duplicates", "undecodable", "skipped")
                )
                note = json.loads(note.item())
        limit = note.pop("max_words", 0) if isinstance(note, dict) else 0
        too_few = limit is not None and (options.max_words or np.inf) > limit
        if too_few or note != _made_from(path.stat(), options):
            return None
        embeddings = read_npz(source, Options(options.max_words))
    except (OSError, ValueError):
        return None
    n_words = len(embeddings)
    # Rows after the last word are not counted.
    last = n_words - 1 if n_words == options.max_words else n_words
    counts = (int(np.count_nonzero(rows <= last)) for rows in dropped)
    names = "n_duplicates", "n_undecodable", "n_skipped"
    return replace(embeddings, **dict(zip(names, counts, strict=True)))


def write_cache(path, stat, rows, embeddings, options):
    """Write `embeddings` beside `path` if possible; `stat` is the status of `path` before it was
    read into `rows`.
    """
    words = "\n".join(embeddings.words).encode("utf-8")
    if words.count(b"\n") != len(embeddings) - 1:  # one has a line feed in it
        return
    note = _made_from(stat, options)
    try:
        if note != _made_from(path.stat(), options) or not _replaceable(path):
            return
        note["max_words"] = options.max_words if rows.full else None
        with replacing(cache_path(path)) as stream:
            np.savez(
                stream,
                **{_NOTE: np.array(json.dumps(note))},
                words=np.frombuffer(words, np.uint8),
                vectors=embeddings.vectors,
                duplicates=np.array(rows.vocabulary.duplicates, np.int64),
                undecodable=np.array(rows.vocabulary.undecodable, np.int64),
                skipped=np.array(rows.vocabulary.skipped, np.int64),
            )
    except OSError:  # no room, or no right to write there
        pass


def _made_from(stat, options):
    """Return the facts about a file that its cache must match."""
    return {
        "version": _VERSION,
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "lower": options.lower,
        "errors": options.errors,
        "encoding": options.encoding,
    }


def _replaceable(path):
    """Return whether the cache of `path` is missing, or was written here, even if damaged."""
    try:
        with open(cache_path(path), "rb") as stream:
            head = stream.read(64)
    except FileNotFoundError:
        return True
    return head.startswith(b"PK\x03\x04") and head[30:].startswith(_NOTE.encode())
