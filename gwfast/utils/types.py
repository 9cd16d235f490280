"""Types that annotations of several rooms share."""

import os
from collections.abc import Callable
from typing import TypeAlias

from ..kernels.arrays import Float32Array as Float32Array
from ..kernels.arrays import Float64Array as Float64Array
from ..kernels.arrays import FloatArray as FloatArray
from ..kernels.arrays import IntArray as IntArray

MemoryLimit: TypeAlias = float | str | None
PathLike: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
# True for a bar, or a function to call: progress(text, done, total).
Progress: TypeAlias = bool | Callable[[str, int | None, int | None], object]
