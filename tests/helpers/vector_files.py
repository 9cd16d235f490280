"""Files of word vectors, written independently of what is tested."""

import numpy as np
from helpers.problems import cloud

# Words at which careless splitting breaks: an operator, a no-break space, a line
# separator, a next-line control, inner spaces, a number, a byte order mark inside.
WORDS = ("casa", "||", "%", "\xa0", "a\u2028b", "x\x85y", ". . .", "1999", "a\ufeffb")


def points(n, d, seed=0):
    return cloud(n, d, seed).astype(np.float32)


def text_of(words, vectors, header=True, end="\n", trail=""):
    lines = [f"{len(words)} {vectors.shape[1]}"] if header else []
    for word, row in zip(words, vectors.tolist(), strict=True):
        lines.append(" ".join([word, *map(repr, row)]) + trail)
    return (end.join(lines) + end).encode()


def binary_of(words, vectors, end=b"\n"):
    rows = [
        word.encode() + b" " + row.astype("<f4").tobytes() + end
        for word, row in zip(words, vectors, strict=True)
    ]
    return f"{len(words)} {vectors.shape[1]}\n".encode() + b"".join(rows)


def write(path, content):
    path.write_bytes(content)
    return path


def write_vectors(path, words, vectors):
    write(path, text_of(words, vectors))


def check(embeddings, words, vectors):
    assert embeddings.words == tuple(words)
    assert embeddings.vectors.dtype == np.float32
    assert embeddings.vectors.flags.c_contiguous
    assert type(embeddings.vectors) is np.ndarray
    np.testing.assert_array_equal(embeddings.vectors, vectors)
    assert len(embeddings) == len(words)
