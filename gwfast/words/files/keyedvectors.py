"""Files of gensim's ``save``: a pickle, and files with large arrays."""

import mmap
import re
from pathlib import Path

import numpy as np

from ...utils.archives import open_archive, read_array, refuse_more, shortened
from ..embeddings import EmbeddingsFileError, from_arrays
from .arrays import readable, refused
from .pickles import Array, Inert, load
from .source import Source

# How pickles begin; no text does.
PICKLE = re.compile(rb"\x80[\x02-\x05]")
# The last two are older versions'.
_WORDS = ("index_to_key", "index2word", "index2entity")


def read_saved(source, options):
    """Embeddings of a file that gensim saved."""
    path = source.path
    try:
        saved = _load(source)
    except (MemoryError, EmbeddingsFileError):
        raise
    except Exception as error:  # of any kind, where a pickle is damaged
        message = f"cannot be unpickled: {type(error).__name__}: {shortened(error)}"
        raise EmbeddingsFileError(path, None, message) from error
    stem, state = str(path), _state(saved)
    if "wv" in state:  # a model, which has its vectors with its own
        stem, state = f"{path}.wv", _state(state["wv"])
    words = next((state[name] for name in _WORDS if name in state), None)
    vectors = state.get("vectors")
    vectors = vectors.array if isinstance(vectors, Array) else None
    beside = state.get("__numpys")
    if isinstance(beside, list) and "vectors" in beside:
        vectors = _read_beside(source, stem)
    if not isinstance(words, list) or not isinstance(vectors, np.ndarray):
        # FastText computes its vectors from parts of words when it is loaded.
        raise ValueError(
            "expected a pickle of gensim's with words and vectors, got another: use"
            " its save_word2vec_format"
        )
    n_bytes = 0
    for word in words:
        if not isinstance(word, str):
            came = repr(word) if isinstance(word, int) else type(word).__name__
            raise ValueError(f"expected words, got {came}")
        n_bytes += len(word)
    if n_bytes > source.budget:  # one text in many places, which is to be copied
        raise refuse_more(source.budget)
    return from_arrays(words, vectors, options)


def _load(source):
    """The object in the file."""
    if source.compression is not None or source.size > source.budget:
        with source.open() as stream, refused(source.path):
            data = stream.read()
        return load(data, source.budget)
    with open(source.path, "rb") as stream:
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return load(data, source.budget)


def _state(saved):
    return saved.state if isinstance(saved, Inert) else {}


def _read_beside(source, stem):
    """The array that gensim put into a file of its own."""
    compressed = source.path.suffix in (".gz", ".bz2")
    name = Path(f"{stem}.vectors.{'npz' if compressed else 'npy'}")
    if not name.is_file():
        raise ValueError(f"expected its vectors in {name.name} beside it, got no file")
    with readable(name):
        if not compressed:
            return np.load(name, mmap_mode="r", allow_pickle=False)
        with open_archive(name) as arrays:
            return read_array(arrays, "val", Source.of(name, source.max_bytes).budget)
