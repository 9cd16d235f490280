"""Types that annotations of several rooms share.

Names of choices stand here once: what checks them at run time takes them from here by
`typing.get_args`, or is compared with them in ``tests/typing``.
"""

import os
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
Float32Array: TypeAlias = NDArray[np.float32]
Float64Array: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

Metric: TypeAlias = Literal["cosine", "dot", "sqeuclidean"]
Statistic: TypeAlias = Literal["max", "mean", "median"]
LossName: TypeAlias = Literal["square", "kl"]
Marginals: TypeAlias = Literal["balanced", "semirelaxed", "partial"]
Method: TypeAlias = Literal["pgd", "ppa", "bapg"]
Tier: TypeAlias = Literal["auto", "dense", "sparse", "tiled"]
Dtype: TypeAlias = Literal["float32", "float64"]
NormalizeStep: TypeAlias = Literal["unit", "center"]
Retrieval: TypeAlias = Literal["nn", "csls", "inverted_softmax"]
Ranking: TypeAlias = Retrieval | Literal["coupling", "barycentric"]
MemoryLimit: TypeAlias = float | str | None
PathLike: TypeAlias = str | os.PathLike[str]
# Whether to show a bar, or whom to tell: progress(text, done, total).
Progress: TypeAlias = bool | Callable[[str, int | None, int | None], object]
