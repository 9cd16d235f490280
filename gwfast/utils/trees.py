"""Files of nested dicts and lists of arrays, numbers, texts and None: trees.

A file is an archive of NumPy's, without pickles and compression: a header, JSON that
says what kind of file it is and has the tree, and the arrays that the tree names.
"""

import json
import os

import numpy as np

from .archives import open_archive, read_array, shortened
from .atomic_files import replacing

# Key that stands for an array, by its number.
ARRAY = "<array>"


def write_tree(path, kind, version, tree):
    """Write a file, whole or not at all, that is on the disk on return; of an array
    that is several times in the tree there is one copy.
    """
    arrays, numbers = [], {}

    def packed(x):
        if isinstance(x, np.ndarray):
            number = numbers.setdefault(id(x), len(arrays))
            if number == len(arrays):
                arrays.append(x)
            return {ARRAY: number}
        if isinstance(x, dict):
            return {key: packed(value) for key, value in x.items()}
        if isinstance(x, list | tuple):
            return [packed(value) for value in x]
        return x.item() if isinstance(x, np.generic) else x

    header = json.dumps({"kind": kind, "version": version, "tree": packed(tree)})
    named = {f"array_{k}": array for k, array in enumerate(arrays)}
    with replacing(path, durable=True) as stream:
        np.savez(stream, header=np.frombuffer(header.encode(), np.uint8), **named)


def read_tree(path, kind, version):
    """The tree in a file of this kind and version; tuples have become lists.

    Raises
    ------
    ValueError
        With the path and a reason, if the file is of no such kind, damaged, or of
        another version.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as stream:
        try:
            with open_archive(stream) as arrays:
                header, found = _read(arrays, os.fstat(stream.fileno()).st_size)
            came, number = header["kind"], int(header["version"])
            read = came == kind and number == version
            tree = _unpacked(header["tree"], found) if read else None
        # Of zip files, compression, the tokenizer of NumPy's headers, and the tree.
        except Exception as error:
            raise ValueError(
                f"{path}: truncated, damaged, or no {kind} ({shortened(error)})"
            ) from error
    if came != kind:
        raise ValueError(f"{path}: expected a {kind}, got a {came}")
    if number > version:
        raise ValueError(
            f"{path}: from a later version of gwfast, in format {number}; this one "
            f"reads formats up to {version}"
        )
    if number < version:
        raise ValueError(
            f"{path}: from an earlier version of gwfast, in format {number}; this one "
            f"reads formats from {version} on"
        )
    return tree


def _read(arrays, size):
    """The header, and all arrays by number."""
    # What is not compressed takes no more memory than the file has bytes.
    if sum(member.file_size for member in arrays.zip.infolist()) > size:
        raise ValueError("its members are larger than the file")
    header = json.loads(read_array(arrays, "header", size).tobytes())
    names = [f"array_{k}" for k in range(len(arrays.files) - 1)]
    return header, [read_array(arrays, name, size) for name in names]


def _unpacked(x, arrays):
    if isinstance(x, dict):
        if ARRAY in x:
            return arrays[x[ARRAY]]
        return {key: _unpacked(value, arrays) for key, value in x.items()}
    return [_unpacked(value, arrays) for value in x] if isinstance(x, list) else x


def as_saved(array, shape, dtype):
    """An array of a tree, if it has this shape and dtype."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected an array, got {type(array).__name__}")
    if array.shape != tuple(shape) or array.dtype != dtype:
        raise ValueError(
            f"expected {np.dtype(dtype)} of shape {tuple(shape)}, "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array
