"""The file in which a solve that was killed goes on: fields of one State, by `numpy.savez`."""

import hashlib
import json
import os
import time
import warnings
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from .. import _version
from ..utils.atomic_files import replacing

# Largest share of the time between two writings that writing may take.
MAX_SHARE = 0.05


def as_checkpoint(path):
    """Return the path of a caller's `checkpoint`, or None."""
    if path is None:
        return None
    try:
        path = Path(os.fsdecode(path))
    except TypeError:
        came = type(path).__name__
        raise TypeError(f"checkpoint must be a path or None, got {came}") from None
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise ValueError(f"checkpoint must be a file in an existing folder, got {path}")
    return path


def digest(*parts):
    """Return a text that tells arrays, by their content, and other values, by `repr`, apart."""
    feed = hashlib.blake2b(_version.__version__.encode(), digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            feed.update(f"{part.dtype}{part.shape}".encode())
            feed.update(np.ascontiguousarray(part))
        else:
            feed.update(f"{part!r};".encode())
    return feed.hexdigest()


class Checkpoint:
    """The arrays and numbers that a solve keeps in a file; `path` None keeps nothing. The identity
    is a `digest` of all that the result depends on.
    """

    def __init__(self, path, identity=""):
        self.path, self._identity, self._ended, self._took = path, identity, -np.inf, 0.0

    @property
    def is_there(self):
        """Return whether there is something to go on from."""
        return self.path is not None and self.path.exists()

    def load(self):
        """Return what was saved, or None; ValueError if the file is damaged or another solve's."""
        if not self.is_there:
            return None
        try:
            with open(self.path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                saved = {name: file[name] for name in file.files}
                saved |= json.loads(str(saved["numbers"]))
                identity = saved["identity"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise ValueError(f"{self.path}: damaged, or no checkpoint ({error})") from error
        if identity != self._identity:
            raise ValueError(
                f"{self.path}: the checkpoint of another solve; remove it to start anew"
            )
        return saved

    def save(self, **values):
        """Write arrays, and other values as JSON, whole or not at all, if that is due."""
        began = time.perf_counter()
        if self._took > MAX_SHARE * (began - self._ended):
            return
        arrays = {name: x for name, x in values.items() if isinstance(x, np.ndarray)}
        numbers = {name: x for name, x in values.items() if name not in arrays}
        numbers = json.dumps({**numbers, "identity": self._identity}, default=float)
        try:
            with replacing(self.path) as file:
                np.savez(file, numbers=numbers, **arrays)
                file.flush()
                os.fsync(file.fileno())  # for a power cut
        except OSError as error:
            text = f"{self.path}: the checkpoint cannot be written, and the solve goes on without"
            warnings.warn(f"{text} ({error})", stacklevel=2)
        self._ended = time.perf_counter()
        self._took = self._ended - began
