"""Real pairs of spaces, where the data are there."""

import functools
import os
from pathlib import Path

import numpy as np
from scipy.sparse import csgraph, csr_matrix
from scipy.spatial import cKDTree
from scipy.spatial.distance import squareform

from gwfast import words

FOLDER = Path(
    os.environ.get("GWFAST_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
# Files of vocabularies; a name begins with its language, or with "novels" and its language.
VOCABULARIES = {
    "es": "ubilexat/es-en/word2vec.es",
    "en": "ubilexat/es-en/word2vec.en",
    "zh": "ubilexat/zh-en/word2vec.zh",
    "it": "ubilexat/it-en/word2vec.it",
    "ja": "ubilexat/ja-zh/word2vec.ja",
    "en of zh-en": "ubilexat/zh-en/word2vec.en",
    "novels es": "eltec/es.npz",
    "novels en": "eltec/en.npz",
    "novels fr": "eltec/fr.npz",
}
# Pairs of languages, the first on the vectors that UBiLexAT has for them.
LANGUAGES = {
    "es-en": ("es", "en"),
    "zh-en": ("zh", "en of zh-en"),
    "es-fr": ("novels es", "novels fr"),
    "en-fr": ("novels en", "novels fr"),
    "en-es": ("novels en", "novels es"),
}


@functools.cache
def embeddings(name):
    """Return the words of one of the `VOCABULARIES`."""
    return words.read_embeddings(FOLDER / VOCABULARIES[name])


def code(name):
    """Return the language of one of the `VOCABULARIES`."""
    return name.removeprefix("novels ").partition(" ")[0]


@functools.cache
def dictionary(source, target):
    """Return both lists of a pair of languages, or a dictionary by way of English."""
    if "en" in (source, target):
        found = _both_ways(source, target)
        if not found:
            raise FileNotFoundError(f"a dictionary of {source} and {target}")
        return found
    first, second = dictionary(source, "en"), dictionary("en", target)
    joined = {word: set().union(*(second.get(x, ()) for x in by)) for word, by in first.items()}
    return {word: found for word, found in joined.items() if found}


def language_pair(name):
    """Return the embeddings of both of the `LANGUAGES`, and the dictionaries of both ways."""
    source, target = LANGUAGES[name]
    x, y = embeddings(source), embeddings(target)
    return x, y, _both_ways(code(source), code(target))


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
    drawn = np.random.default_rng(0).permutation(list(right))[:count]
    return np.array([(row, right[row][0]) for row in drawn])


@functools.cache
def cells(name):
    """Return two modalities of cells, and the types of the cells of each."""
    files = {
        "scGEM": ("expression", "methylation", "expression_type", "methlation_type"),
        "PBMC": ("RNA_scaledata", "ATAC_scaledata", "RNA_type", "ATAC_type"),
    }[name]
    return [np.loadtxt(FOLDER / "singlecell" / name / f"{file}.txt") for file in files]


def slices():
    """Return two slices of tissue: dicts of coordinates "xy", "counts" and "total" counts."""
    return [np.load(FOLDER / f"tissue/slice{k}.npz") for k in (1, 2)]


def log_normalized(counts, total=None):
    """Return the logarithms of counts at a total of 10,000 in each row."""
    total = counts.sum(axis=1) if total is None else total
    return np.log1p(1e4 * counts / total[:, None])


def neurons(count):
    """Return distances within the first neurons, 50 points each."""
    condensed = np.load(FOLDER / "neurons" / "euclidean.npz")["condensed"][:count]
    return [squareform(distances).astype(np.float64) for distances in condensed]


# --- Graphs of neighbors --------------------------------------------------------------


def hops(points, k):
    """Return steps along the symmetric graph of k nearest neighbors, at most one, as SCOT makes
    its costs; what cannot be reached is as far as the farthest.
    """
    return shortest_paths(points, k, unweighted=True)


def shortest_paths(points, k=10, unweighted=False):
    """Return lengths of paths along the symmetric graph of k nearest neighbors, at most one."""
    n, k = len(points), min(k, len(points) - 1)
    lengths, neighbors = cKDTree(points).query(points, k + 1)
    ends = np.repeat(np.arange(n), k), neighbors[:, 1:].ravel()
    graph = csr_matrix((lengths[:, 1:].ravel(), ends), shape=(n, n))
    if unweighted:
        graph.data[:] = 1
    paths = csgraph.shortest_path(graph, directed=False, unweighted=unweighted)
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max()
    return paths / paths.max()


def correlated(points):
    """Return rows whose distances go with the correlations of points; constant rows are zero."""
    points = points - points.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1.0)
