"""Results of finished jobs, so that what was stopped can go on."""

import hashlib
import json
from pathlib import Path

from ..replacing import replacing


def identity(path):
    """What tells a file from another, and from what it was before it was changed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    dict
        Its name, size and time of change: reading gigabytes to hash them would take
        longer than many a job.
    """
    path = Path(path)
    status = path.stat()
    return {
        "name": path.name,
        "bytes": status.st_size,
        "changed": status.st_mtime_ns,
    }


class Store:
    """A folder with a JSON file for each finished job, or nothing at all.

    Parameters
    ----------
    folder : Path or None
        Made with the first result. None keeps nothing.
    """

    def __init__(self, folder):
        self.folder = folder

    def get(self, key):
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

    def put(self, key, result):
        """Keep a result, in JSON's types; it is there whole or not at all."""
        if self.folder is not None:
            self.folder.mkdir(exist_ok=True)
            write_json(self._path(key), {"key": key, "result": result})

    def _path(self, key):
        text = json.dumps(key, sort_keys=True, ensure_ascii=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def write_json(path, value):
    """Write a file whole, or leave the one before as it is."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
    with replacing(path) as stream:
        # Half a surrogate pair, which names of files can hold, is no UTF-8.
        stream.write(text.encode("utf-8", "backslashreplace"))
