"""Word lists: bilingual dictionaries and word counts."""

import math
import re
from pathlib import Path

from .embeddings import EmbeddingsFileError

# str.split() would also cut at the no-break spaces that words contain.
_SPACES = re.compile("[ \t]+")


class DictionaryFileError(EmbeddingsFileError):
    """A word list is malformed. The message is ``path:line: expected, came``."""


def read_dictionary(path):
    """Read a word list such as those of MUSE.

    Parameters
    ----------
    path : str or path-like
        UTF-8 text, ``source target`` a line, several lines a source word. Where
        a line has a tab, the tab separates, so that an entry may contain spaces;
        otherwise spaces do. Blank lines are ignored.

    Returns
    -------
    dict of str to set of str
        The translations of every source word, in the file's order.

    Raises
    ------
    DictionaryFileError
        If a line does not have exactly two fields, is not UTF-8, or if the file
        holds no pair.
    OSError
        If the file cannot be opened.
    """
    pairs = {}
    for number, line in _read_lines(path):
        fields = line.split("\t") if "\t" in line else _SPACES.split(line)
        fields = [field.strip(" ") for field in fields]
        if len(fields) != 2 or not all(fields):
            raise DictionaryFileError(
                path, number, f"expected 'source target', got {line[:60]!r}"
            )
        pairs.setdefault(fields[0], set()).add(fields[1])
    return pairs


def read_counts(path):
    """Read word counts, ``word count`` a line.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    dict of str to float
        Where a word comes twice, its first count.

    Raises
    ------
    DictionaryFileError
        If a line is not a word and a count above 0, or the file is empty.
    OSError
        If the file cannot be opened.
    """
    counts = {}
    for number, line in _read_lines(path):
        word, _, count = line.replace("\t", " ").rpartition(" ")
        try:
            value = float(count)
        except ValueError:
            value = math.nan
        if not (word.strip(" ") and 0 < value < math.inf):
            raise DictionaryFileError(
                path, number, f"expected 'word count', got {line[:60]!r}"
            )
        counts.setdefault(word.strip(" "), value)
    return counts


def invert(dictionary):
    """Swap source and target words.

    Parameters
    ----------
    dictionary : mapping of str to set of str

    Returns
    -------
    dict of str to set of str
    """
    inverted = {}
    for source, targets in dictionary.items():
        for target in sorted(targets):
            inverted.setdefault(target, set()).add(source)
    return inverted


def merge(*dictionaries):
    """Join word lists of the same direction.

    ``merge(read_dictionary("es-en.txt"), invert(read_dictionary("en-es.txt")))``
    is a fuller gold standard than either list, as each misses pairs.

    Parameters
    ----------
    *dictionaries : mapping of str to set of str

    Returns
    -------
    dict of str to set of str
        The union of the translations of every word. The arguments are unchanged.
    """
    merged = {}
    for dictionary in dictionaries:
        for source, targets in dictionary.items():
            merged.setdefault(source, set()).update(targets)
    return merged


def _read_lines(path):
    """Numbers and text of the lines that are not blank; at least one."""
    path = Path(path)
    empty = True
    with open(path, "rb") as stream:
        for number, raw in enumerate(stream, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DictionaryFileError(
                    path, number, f"expected UTF-8, got byte {raw[error.start]:#04x}"
                ) from None
            line = line.strip(" \r\n")
            if line.strip("\t"):
                empty = False
                yield number, line
    if empty:
        raise DictionaryFileError(path, None, "expected words, got an empty file")
