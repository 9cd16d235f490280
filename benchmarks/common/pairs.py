"""Real pairs of spaces, where the data are there."""

import functools
import os
from pathlib import Path

import numpy as np
from scipy.sparse import csgraph, csr_matrix
from scipy.spatial import cKDTree

from gwfast import words

FOLDER = Path(
    os.environ.get("GWFAST_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
# Name: files of both languages, and their codes in the dictionaries.
LANGUAGES = {
    "es-en": ("ubilexat/es-en/word2vec.{}", "es", "en"),
    "zh-en": ("ubilexat/zh-en/word2vec.{}", "zh", "en"),
    "es-fr": ("eltec/{}.npz", "es", "fr"),
    "en-fr": ("eltec/{}.npz", "en", "fr"),
    "en-es": ("eltec/{}.npz", "en", "es"),
}


# Files of single vocabularies.
VOCABULARIES = {
    "es": "ubilexat/es-en/word2vec.es", "en": "ubilexat/es-en/word2vec.en",
    "zh": "ubilexat/zh-en/word2vec.zh", "it": "ubilexat/it-en/word2vec.it",
    "ja": "ubilexat/ja-zh/word2vec.ja", "en of zh-en": "ubilexat/zh-en/word2vec.en",
    "novels es": "eltec/es.npz", "novels en": "eltec/en.npz",
    "novels fr": "eltec/fr.npz",
}  # fmt: skip


@functools.cache
def embeddings(name):
    """The words of one of the `VOCABULARIES`."""
    return words.read_embeddings(FOLDER / VOCABULARIES[name])


def code(name):
    """The language of one of the `VOCABULARIES`."""
    return name.removeprefix("novels ").partition(" ")[0]


@functools.cache
def dictionary(source, target):
    """Both lists of a pair of languages, or by way of English."""

    def both(one, other):
        found = _both_ways(one, other)
        if not found:
            raise FileNotFoundError(f"{one}-{other}")
        return found

    if "en" in (source, target):
        return both(source, target)
    first, second = both(source, "en"), both("en", target)
    joined = {word: set().union(*(second.get(one, ()) for one in by)) for word, by in first.items()}
    return {word: found for word, found in joined.items() if found}


@functools.cache
def language_pair(name):
    """Embeddings of both languages and the union of the dictionaries of both ways.

    Raises
    ------
    FileNotFoundError
    """
    pattern, a, b = LANGUAGES[name]
    x, y = (words.read_embeddings(FOLDER / pattern.format(code)) for code in (a, b))
    return x, y, _both_ways(a, b)


def _both_ways(a, b):
    """Return the union of the dictionaries of both ways that are there, from `a` to `b`."""
    found = {}
    for source, target in ((a, b), (b, a)):
        path = FOLDER / "muse" / f"{source}-{target}.txt"
        for word, translations in words.read_dictionary(path).items() if path.exists() else ():
            for translation in translations:
                ends = (word, translation) if source == a else (translation, word)
                found.setdefault(ends[0], set()).add(ends[1])
    return found


def translations(dictionary, source_words, target_words):
    """Return the rows of the translations of each source row that has translations."""
    rows = {word: row for row, word in enumerate(target_words)}
    found = {}
    for row, word in enumerate(source_words):
        right = sorted(rows[target] for target in dictionary.get(word, ()) if target in rows)
        if right:
            found[row] = right
    return found


def known_pairs(dictionary, source_words, target_words, count):
    """Return rows of `count` random words and of a translation of each, an array (count, 2)."""
    right = translations(dictionary, source_words, target_words)
    some = np.random.default_rng(0).permutation(list(right))[:count]
    return np.array([(row, right[row][0]) for row in some])


def cells(name):
    """Two modalities of cells, and the types of the cells of each."""
    files = {
        "scGEM": ("expression", "methylation", "expression_type", "methlation_type"),
        "PBMC": ("RNA_scaledata", "ATAC_scaledata", "RNA_type", "ATAC_type"),
    }[name]
    return [np.loadtxt(FOLDER / "singlecell" / name / f"{file}.txt") for file in files]


def hops(points, k):
    """Steps along the symmetric graph of k nearest neighbors, the most being one.

    As SCOT makes its costs; what cannot be reached is as far as the farthest.
    """
    n = len(points)
    neighbors = cKDTree(points).query(points, k + 1)[1][:, 1:]
    entries = np.ones(n * k), (np.repeat(np.arange(n), k), neighbors.ravel())
    graph = csr_matrix(entries, shape=(n, n))
    paths = csgraph.shortest_path(graph, directed=False, unweighted=True)
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max()
    return paths / paths.max()
