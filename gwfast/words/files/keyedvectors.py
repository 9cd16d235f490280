"""What gensim's ``save`` writes: a pickle, with large arrays in files beside it.

A pickle may run any code when it is loaded, and make arrays of bytes that are none.
Here what it says of arrays of numbers is taken, and all else becomes inert objects.
"""

import pickle
import re
from pathlib import Path

import numpy as np

from ..embeddings import EmbeddingsFileError, from_arrays
from .arrays import readable

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
# The last two are older versions'.
_WORDS = ("index_to_key", "index2word", "index2entity")


class _Inert:
    """Stands for an object of any class."""

    def __init__(self, *arguments):
        pass

    __setitem__ = append = extend = __init__

    def __setstate__(self, state):
        if isinstance(state, dict):
            self.__dict__.update(state)

    def __call__(self, *arguments):
        return _Inert()


class _Type:
    """A dtype; None in its place where it is not of numbers."""

    def __init__(self, name, *_):
        numbers = re.fullmatch("f[248]|[iu][1248]", str(name))
        self.dtype = np.dtype(name) if numbers else None

    def __setstate__(self, state):
        if self.dtype is not None and state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """An array of numbers, or None in its place where it is of anything else."""

    def __init__(self, *_):
        self.array = None

    def __setstate__(self, state):
        _, shape, kind, in_columns, data = state
        self.fill(data, kind, shape, "F" if in_columns else "C")

    def fill(self, data, kind, shape, order):
        dtype = getattr(kind, "dtype", None)
        if dtype is not None and isinstance(data, (bytes, bytearray)):
            self.array = np.frombuffer(data, dtype).reshape(shape, order=order)
        return self


_MAKERS = {
    # Protocols before 3 have bytes as the first 256 characters.
    ("_codecs", "encode"): lambda text, encoding: text.encode("latin-1"),
    ("numpy", "dtype"): _Type,
    ("numpy", "_reconstruct"): _Array,
    ("numpy", "_frombuffer"): lambda *parts: _Array().fill(*parts),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        # Where within NumPy they are depends on its version.
        return _MAKERS.get((module.partition(".")[0], name), _Inert)


def is_saved(head):
    """Whether a file that begins so is a pickle; no text begins with that byte."""
    return _PICKLE.match(head) is not None


def read_saved(source, options):
    """Embeddings of a file that gensim saved."""
    path = source.path
    try:
        with source.open() as stream:
            saved = _Unpickler(stream, encoding="latin-1").load()
    except source.damaged as error:
        raise source.damage(None, error) from error
    except Exception as error:  # of any kind, where a pickle is damaged
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"cannot be unpickled: {reason}"
        raise EmbeddingsFileError(path, None, message) from error
    stem, state = str(path), getattr(saved, "__dict__", {})
    if "wv" in state:  # a model, which has its vectors with its own
        stem, state = f"{path}.wv", getattr(state["wv"], "__dict__", {})
    words = next((state[name] for name in _WORDS if name in state), None)
    vectors = getattr(state.get("vectors"), "array", None)
    if "vectors" in state.get("__numpys", ()):
        vectors = _read_beside(path, stem)
    if not isinstance(words, list) or not isinstance(vectors, np.ndarray):
        # FastText's, for one, are made of those of parts of words when they are loaded.
        raise ValueError(
            "expected a pickle of gensim's with words and vectors, got another: use"
            " its save_word2vec_format"
        )
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"expected words, got {word!r}")
    return from_arrays(words, vectors, options)


def _read_beside(path, stem):
    """The array that gensim put into a file of its own."""
    compressed = path.suffix in (".gz", ".bz2")
    name = Path(f"{stem}.vectors.{'npz' if compressed else 'npy'}")
    if not name.is_file():
        raise ValueError(f"expected its vectors in {name.name} beside it, got no file")
    with readable(name):
        if not compressed:
            return np.load(name, mmap_mode="r", allow_pickle=False)
        with np.load(name, allow_pickle=False) as arrays:
            return arrays["val"]
