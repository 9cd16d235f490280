"""Types that annotations of several rooms share."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
Float32Array: TypeAlias = NDArray[np.float32]
Float64Array: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

MemoryLimit: TypeAlias = float | str | None
PathLike: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
# Whether to show a bar, or whom to tell: progress(text, done, total).
Progress: TypeAlias = bool | Callable[[str, int | None, int | None], object]
