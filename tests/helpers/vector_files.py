"""Files of word vectors, written without gwfast."""

import bz2
import gzip
import lzma

import numpy as np
from helpers.problems import cloud

# Words at which careless splitting breaks.
WORDS = ("casa", "||", "%", "\xa0", "a\u2028b", "x\x85y", ". . .", "1999", "a\ufeffb")
ONE_PART = tuple(word.replace(" ", "_") for word in WORDS)
COMPRESS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


def points(n, d, seed=0):
    return cloud(n, d, seed).astype(np.float32)


def encoded(words):
    return [word.encode() if isinstance(word, str) else word for word in words]


def text_of(words, vectors, header=True, end=b"\n"):
    lines = [b"%d %d" % vectors.shape] if header else []
    for word, row in zip(encoded(words), vectors.tolist(), strict=True):
        lines.append(b" ".join([word, *encoded(map(repr, row))]))
    return b"".join(line + end for line in lines)


def binary_of(words, vectors, end=b"\n"):
    rows = zip(encoded(words), vectors.astype("<f4"), strict=True)
    return b"%d %d\n" % vectors.shape + b"".join(b"%b %b" % row + end for row in rows)


def write(path, content):
    path.write_bytes(content)
    return path


def write_vectors(path, words, vectors):
    """Write the format that the name ends in; words are str, or bytes as they are in the file."""
    words = encoded(words)
    if path.suffix == ".npz":
        np.savez(path, words=np.array(words), vectors=vectors)
    elif path.suffix == ".npy":
        np.save(path, vectors)
        write(path.with_suffix(".words"), b"\n".join(words))
    else:
        write(path, (binary_of if path.suffix == ".bin" else text_of)(words, vectors))
    return path


def check(embeddings, words, vectors):
    assert embeddings.words == tuple(words)
    assert embeddings.vectors.dtype == np.float32 and embeddings.vectors.flags.c_contiguous
    assert type(embeddings.vectors) is np.ndarray
    np.testing.assert_array_equal(embeddings.vectors, vectors)
