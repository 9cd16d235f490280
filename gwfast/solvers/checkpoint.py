"""The file in which a solve that was killed goes on: fields of one State, by `numpy.savez`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import _version
from ..utils.archives import open_archive, read_array, shortened
from ..utils.atomic_files import replacing
from ..utils.types import PathLike

# Bytes of the header of an array, and of its entry in the archive.
HEADER_BYTES = 1 << 12


def as_checkpoint(path: PathLike | None) -> Path | None:
    """Return the path of a caller's `checkpoint`, or None."""
    if path is None:
        return None
    try:
        path = Path(os.fsdecode(path))
    except TypeError:
        type_name = type(path).__name__
        raise TypeError(f"checkpoint must be a path or None, got {type_name}") from None
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise ValueError(f"checkpoint must be a file in an existing folder, got {path}")
    return path


def digest(*parts: object) -> str:
    """Return a text that tells arrays, by their content, and other values, by `repr`, apart."""
    feed = hashlib.blake2b(_version.__version__.encode(), digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            feed.update(f"{part.dtype}{part.shape}".encode())
            feed.update(np.ascontiguousarray(part).data)
        else:
            feed.update(f"{part!r};".encode())
    return feed.hexdigest()


class Checkpoint:
    """The arrays and numbers that a solve keeps in a file. The identity is a `digest` of all that
    the result depends on.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path, self._identity, self._ended, self._took = path, identity, -np.inf, 0.0

    @property
    def is_there(self) -> bool:
        """Return whether there is something to go on from."""
        return self.path.exists()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Turn every error inside the block into a ValueError that names the file."""
        try:
            yield
        # zipfile, NumPy, JSON and wrong values raise errors of many kinds.
        except Exception as error:
            text = f"{self.path}: damaged, or no checkpoint of this solve ({shortened(error)})"
            raise ValueError(text) from error

    def load(
        self, arrays: Mapping[str, tuple[tuple[int, ...], DTypeLike]], n_steps: int = 0
    ) -> dict[str, Any]:
        """Return what was saved: arrays of these names, shapes and dtypes, and at most
        `n_steps` steps. ValueError if the file is damaged, holds more, or is another solve's.
        """
        # 1000 candidates take 0.6 MB, and a step 1040 bytes at most. A text of brackets alone takes
        # six times its size once JSON has read it.
        most = (4 << 20) + 1200 * n_steps
        total = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in arrays.values())
        with self.reading(), open(self.path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > most + total + HEADER_BYTES * (2 + len(arrays)):
                raise ValueError(f"expected at most {most + total} bytes, got {size}")
            with open_archive(stream) as archive:
                text = str(read_array(archive, "numbers", min(most, size)))
                saved = json.loads(text)
                is_own = saved["identity"] == self._identity
                if is_own:
                    for name, expected in arrays.items():
                        array = read_array(archive, name, total + HEADER_BYTES, expected)
                        saved[name] = np.ascontiguousarray(array)
                    content = digest(text, *(saved[name] for name in sorted(arrays)))
                    if content != str(read_array(archive, "content", HEADER_BYTES)):
                        raise ValueError("the content is not what was written")
        if not is_own:
            raise ValueError(
                f"{self.path}: the checkpoint of another solve; remove it to start anew"
            )
        return saved

    def save(self, **values: object) -> None:
        """Write arrays, and other values as JSON, whole or not at all, if that is due."""
        began = time.perf_counter()
        # Writing takes 5 % of the time at most.
        if self._took > 0.05 * (began - self._ended):
            return
        arrays: dict[str, Any] = {
            name: x for name, x in values.items() if isinstance(x, np.ndarray)
        }
        values_to_write = {name: x for name, x in values.items() if name not in arrays}
        numbers = json.dumps({**values_to_write, "identity": self._identity}, default=float)
        try:
            with replacing(self.path) as file:
                content = digest(numbers, *(arrays[name] for name in sorted(arrays)))
                np.savez(file, numbers=np.array(numbers), content=np.array(content), **arrays)
                file.flush()
                os.fsync(file.fileno())  # for a power cut
        except OSError as error:
            text = f"{self.path}: the checkpoint cannot be written, and the solve goes on without"
            warnings.warn(f"{text} ({error})", stacklevel=2)
        self._ended = time.perf_counter()
        self._took = self._ended - began
