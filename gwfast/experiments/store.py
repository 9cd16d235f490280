"""Results of finished jobs, so that what was stopped can go on."""

import glob
import hashlib
import json
import math
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.atomic_files import replacing

_LOOKED_AT = 1 << 20  # bytes


def identity(path: str | Path) -> dict[str, Any]:
    """What is different in another file, or in this one after a change.

    Its name, size and time of change, a digest of its first and last bytes (reading
    gigabytes to hash them would take longer than many a job), and the same of the
    files that belong to it: the word list of an ``.npy``, what gensim keeps beside.
    """
    path = Path(path)
    found = _identity(path)
    beside = [path.with_suffix(".words"), path.with_suffix(".txt")]
    beside = beside if path.suffix == ".npy" else []
    beside += sorted(path.parent.glob(f"{glob.escape(path.name)}.*.npy"))
    beside = [_identity(other) for other in beside if other.is_file()]
    return {**found, "beside": beside} if beside else found


def _identity(path):
    status = path.stat()
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        digest.update(stream.read(_LOOKED_AT))
        stream.seek(max(status.st_size - _LOOKED_AT, 0))
        digest.update(stream.read(_LOOKED_AT))
    return {
        "name": path.name,
        "bytes": status.st_size,
        "changed": status.st_mtime_ns,
        "ends": digest.hexdigest()[:24],
    }


class Store:
    """A folder with a JSON file for each finished job; without one, nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, key: dict[str, Any]) -> dict[str, Any] | None:
        """The result that was kept for a key, or None.

        A file that cannot be read (of a full disk, say) counts as none.
        """
        if self.folder is None:
            return None
        try:
            kept = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        if isinstance(kept, dict) and kept.get("key") == key:
            return kept.get("result")
        return None

    def put(self, key: dict[str, Any], result: dict[str, Any]) -> None:
        """Keep a result, in JSON's types; it is there whole or not at all."""
        if self.folder is not None:
            self.folder.mkdir(exist_ok=True)
            write_json(self._path(key), {"key": key, "result": result})

    def _path(self, key):
        text = json.dumps(key, sort_keys=True, ensure_ascii=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def plain(value: Any) -> Any:
    """The value in JSON's types: records are objects, nan and inf null."""
    if is_dataclass(value):
        value = vars(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def as_json(value: Any) -> str:
    """The value as one line that any encoding can hold."""
    return json.dumps(value, allow_nan=False, ensure_ascii=True)


def write_json(path: Path, value: Any) -> None:
    """Write a file whole, or leave the one before as it is."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
    with replacing(path) as stream:
        # Half a surrogate pair, which names of files can hold, is no UTF-8.
        stream.write(text.encode("utf-8", "backslashreplace"))
