"""Real pairs of spaces, where the data are there."""

import functools
import os
from pathlib import Path

import numpy as np
from scipy.sparse import csgraph, csr_matrix
from scipy.spatial import cKDTree

from gwfast import words

FOLDER = Path(
    os.environ.get("GWFAST_DATA")
    or Path(__file__).resolve().parents[3] / "shared" / "data"
)
# Name: files of both languages, and their codes in the dictionaries.
LANGUAGES = {
    "es-en": ("ubilexat/es-en/word2vec.{}", "es", "en"),
    "zh-en": ("ubilexat/zh-en/word2vec.{}", "zh", "en"),
    "es-fr": ("eltec/{}.npz", "es", "fr"),
    "en-fr": ("eltec/{}.npz", "en", "fr"),
    "en-es": ("eltec/{}.npz", "en", "es"),
}


@functools.cache
def language_pair(name):
    """Embeddings of both languages and the union of the dictionaries of both ways.

    Raises
    ------
    FileNotFoundError
    """
    pattern, a, b = LANGUAGES[name]
    x, y = (words.read_embeddings(FOLDER / pattern.format(code)) for code in (a, b))
    lists = (FOLDER / "muse" / f"{one}-{two}.txt" for one, two in ((a, b), (b, a)))
    forth, back = (words.read_dictionary(path) for path in lists)
    return x, y, words.merge(forth, words.invert(back))


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
