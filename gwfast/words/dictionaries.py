"""Word lists: bilingual dictionaries and word counts."""

import gzip
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ..utils.atomic_files import replacing
from ..utils.types import PathLike
from ..utils.validation import as_translations, one_of
from .embeddings import EmbeddingsFileError
from .files.rows import not_a_comma, show
from .files.source import Source

# str.split() would also cut at the no-break spaces that words contain.
_SPACES = re.compile("[ \t]+")
_BREAKS = re.compile("[\t\r\n]")
# Separators of the fields of a line, in messages.
SEPARATORS = "a space or a tab"

Format: TypeAlias = Literal["auto", "muse", "dinu", "xling", "zhang"]
Translations: TypeAlias = Mapping[str, Collection[str]]


def read_dictionary(
    path: PathLike,
    *,
    format: Format = "auto",
    lower: bool = False,
    first_only: bool = False,
    reverse: bool = False,
    max_bytes: int | None = None,
) -> dict[str, set[str]]:
    """Read a word list.

    Parameters
    ----------
    path : str or path-like
        UTF-8 text, plain or compressed by gzip, bzip2 or xz under any name. A byte order mark, line
        ends of either kind and blank lines do not belong to words.
    format : {"auto", "muse", "dinu", "xling", "zhang"}, default="auto"
        Format of a line, whose fields end at spaces and tabs only: words may hold a no-break space.

        - "muse" (Conneau et al., ICLR 2018) and "dinu" (Dinu et al. 2015, with the lists that
          vecmap added): ``source target``, several lines for a source word;
        - "xling" (Glavaš et al., ACL 2019): ``source<tab>target``, both may contain spaces;
        - "zhang" (Zhang et al., ACL 2017): ``source target1 target2 ...``; words without a
          translation are left out;
        - "auto": "zhang" for a name in ``.lex`` (or ``.lex.gz``), otherwise "xling" for lines with
          a tab and "muse" for other lines.
    lower : bool, default=False
        Put all words in lower case, and join the translations of words that become equal.
    first_only : bool, default=False
        Keep only the first translation of each line, as the script of Alvarez-Melis and Jaakkola
        does with "zhang".
    reverse : bool, default=False
        Return the list in the opposite direction, from target to source words.
    max_bytes : int, optional
        Limit of the unpacked size in bytes, see `read_embeddings`.

    Returns
    -------
    dict of str to set of str
        The translations of every source word, in the file's order of source words.

    Raises
    ------
    EmbeddingsFileError
        If a line lacks a field or has too many, is not UTF-8, or if the file holds no pair or more
        than `max_bytes`, or compressed data are damaged.
    MemoryError, OSError
        If the file cannot be opened, or does not fit memory.

    Examples
    --------
    >>> import os, tempfile
    >>> from gwfast.words import read_dictionary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "es-fr.txt")
    ...     with open(path, "w") as file:
    ...         print("sol soleil", "rey roi", sep="\\n", file=file)
    ...     read_dictionary(path), read_dictionary(path, reverse=True)
    ({'sol': {'soleil'}, 'rey': {'roi'}}, {'soleil': {'sol'}, 'roi': {'rey'}})
    """
    one_of(format, "format", get_args(Format))
    path = Path(os.fsdecode(path))
    if format == "auto" and ".lex" in path.suffixes[-2:]:
        format = "zhang"
    pairs: dict[str, set[str]] = {}
    for number, line in _read_lines(path, max_bytes):
        source, *targets = _fields(line.lower() if lower else line, format)
        if format == "zhang":
            if not targets:
                continue
        elif len(targets) != 1 or not source or not targets[0]:
            between = "<tab>" if format == "xling" else " "
            message = f"expected 'source{between}target', got {show(line)}"
            raise EmbeddingsFileError(path, number, message + not_a_comma(line, SEPARATORS))
        pairs.setdefault(source, set()).update(targets[:1] if first_only else targets)
    if not pairs:
        raise EmbeddingsFileError(path, None, "expected pairs of words, got none")
    return invert(pairs) if reverse else pairs


def _fields(line, format):
    if format == "xling" or (format == "auto" and "\t" in line):
        return [field.strip(" ") for field in line.split("\t")]
    return _SPACES.split(line.strip(" \t"))


def write_dictionary(path: PathLike, dictionary: Translations) -> None:
    """Write a word list that `read_dictionary` reads back: ``source<tab>target``.

    Parameters
    ----------
    path : str or path-like
        Overwritten. Compressed by gzip if the name ends in ``.gz``.
    dictionary : mapping of str to iterable of str
        Source words keep their order; the translations of each word are sorted.

    Raises
    ------
    TypeError
        If translations are a single string, or not words.
    ValueError
        If there is no pair, or a word could not be read back: an empty word, a word with a tab, a
        line end or a lone surrogate, or with a space or a byte order mark at an end. Nothing is
        written.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> from gwfast.words import read_dictionary, write_dictionary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "es-fr.txt")
    ...     write_dictionary(path, {"sol": {"soleil"}})
    ...     read_dictionary(path)
    {'sol': {'soleil'}}
    """
    lines = []
    for source, targets in dictionary.items():
        for target in sorted(as_translations(targets, source, "dictionary")):
            for word in (source, target):
                if not word or word != word.strip(" \ufeff") or _BREAKS.search(word):
                    raise ValueError(
                        "dictionary must have words without tabs, line ends and outer"
                        f" spaces, got {word!r}"
                    )
            lines.append(f"{source}\t{target}\n")
    if not lines:
        raise ValueError("dictionary must have a pair of words, got none")
    content = "".join(lines).encode("utf-8")
    packed = os.fsdecode(path).endswith(".gz")
    with replacing(path) as stream:
        stream.write(gzip.compress(content, mtime=0) if packed else content)


def read_counts(path: PathLike, *, max_bytes: int | None = None) -> dict[str, float]:
    """Read word counts, a ``word count`` in each line.

    Parameters
    ----------
    path : str or path-like
        Plain or compressed, see `read_dictionary`.
    max_bytes : int, optional
        Limit of the unpacked size in bytes, see `read_embeddings`.

    Returns
    -------
    dict of str to float
        The first count of each word.

    Raises
    ------
    EmbeddingsFileError
        If a line is not a word and a count above 0, or the file is empty or holds more than
        `max_bytes`.
    MemoryError, OSError
        If the file cannot be opened, or does not fit memory.

    Examples
    --------
    >>> import os, tempfile
    >>> from gwfast.words import read_counts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "counts.txt")
    ...     with open(path, "w") as file:
    ...         print("sol 12", "luna 7", sep="\\n", file=file)
    ...     read_counts(path)
    {'sol': 12.0, 'luna': 7.0}
    """
    counts: dict[str, float] = {}
    for number, line in _read_lines(path, max_bytes):
        word, _, count = line.replace("\t", " ").rpartition(" ")
        word = word.strip(" ")
        try:
            value = float(count)
        except ValueError:
            value = math.nan
        if not (word and 0 < value < math.inf):
            message = f"expected 'word count', got {show(line)}"
            raise EmbeddingsFileError(path, number, message + not_a_comma(line, SEPARATORS))
        counts.setdefault(word, value)
    return counts


def invert(dictionary: Translations) -> dict[str, set[str]]:
    """Return a word list with source and target words swapped."""
    inverted: dict[str, set[str]] = {}
    for source, targets in dictionary.items():
        for target in sorted(targets):
            inverted.setdefault(target, set()).add(source)
    return inverted


def merge(*dictionaries: Translations) -> dict[str, set[str]]:
    """Return the union of word lists of the same direction."""
    merged: dict[str, set[str]] = {}
    for dictionary in dictionaries:
        for source, targets in dictionary.items():
            merged.setdefault(source, set()).update(targets)
    return merged


def _read_lines(path: PathLike, max_bytes: int | None) -> Iterator[tuple[int, str]]:
    """Yield numbers and texts of the lines that are not blank; raise if all are."""
    path, empty = Path(os.fsdecode(path)), True
    try:
        for number, raw in Source.of(path, max_bytes).lines():
            line = raw.decode("utf-8").strip(" \r\n")
            if line.strip("\t"):
                empty = False
                yield number, line
    except UnicodeDecodeError as error:
        message = f"expected UTF-8, got byte {error.object[error.start]:#04x}"
        raise EmbeddingsFileError(path, number, message) from None
    except MemoryError as error:
        reason = str(error) or "out of memory"
        raise MemoryError(f"{path}: cannot be read: {reason}") from error
    if empty:
        raise EmbeddingsFileError(path, None, "expected words, got an empty file")
