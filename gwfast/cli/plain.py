"""Values in JSON's types."""

import json
import math
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.atomic_files import replacing


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


def json_line(value: Any) -> str:
    """The value as one line that any encoding can hold."""
    return json.dumps(value, allow_nan=False, ensure_ascii=True)


def write_json(path: Path, value: Any) -> None:
    """Write a file whole, or leave the one before as it is."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
    with replacing(path) as stream:
        # Half a surrogate pair, which names of files can hold, is no UTF-8.
        stream.write(text.encode("utf-8", "backslashreplace"))
