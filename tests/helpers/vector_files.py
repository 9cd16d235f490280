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


def write_as(path, words, vectors):
    """A file of any format; words are str, or bytes as they are to be in it."""
    words = [word.encode() if isinstance(word, str) else word for word in words]
    if path.suffix == ".npz":
        np.savez(path, words=np.array(words), vectors=vectors)
    elif path.suffix == ".npy":
        np.save(path, vectors)
        write(path.with_suffix(".words"), b"\n".join(words))
    else:
        made = binary_of if path.suffix == ".bin" else text_of
        heads = {f"\0{i}\0": word for i, word in enumerate(words)}
        content = made(list(heads), vectors)
        for head, word in heads.items():
            content = content.replace(head.encode(), word, 1)
        write(path, content)
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
