from numpy import int32, int64
from numpy.typing import NDArray

from ._rows import ColumnSums, Rows, ScalingMap
from .arrays import Float32Array, Float64Array

LANES: int

class Kept:
    n: int
    m: int

def sample(
    kernel: Float32Array | Rows,
    v: Float32Array,
    offset: Float64Array,
    index: NDArray[int32],
    times: NDArray[int32],
    step: Float64Array,
    n_threads: int = 1,
) -> None: ...
def select(
    kernel: Float32Array,
    u: Float32Array,
    v: Float32Array,
    row: Float32Array,
    col: Float32Array,
    start: NDArray[int64],
    index: NDArray[int32] | None = None,
    n_threads: int = 1,
) -> None: ...
def cost(
    start: NDArray[int64],
    index: NDArray[int32],
    x: Float32Array,
    y: Float32Array,
    out: Float32Array,
    n_threads: int = 1,
) -> None: ...
def logsumexp_rows(
    start: NDArray[int64],
    index: NDArray[int32],
    cost: Float32Array,
    g: Float64Array,
    epsilon: float,
    lse: Float64Array,
    n_threads: int = 1,
) -> None: ...
def logsumexp_cols(
    start: NDArray[int64],
    index: NDArray[int32],
    cost: Float32Array,
    f: Float64Array,
    epsilon: float,
    lse: Float64Array,
    n_threads: int = 1,
) -> None: ...
def gibbs(
    start: NDArray[int64],
    index: NDArray[int32],
    x: Float32Array,
    y: Float32Array,
    f: Float64Array,
    g: Float64Array,
    epsilon: float,
    out: Float32Array,
    n_threads: int = 1,
) -> float: ...
def sinkhorn_passes(
    start: NDArray[int64],
    index: NDArray[int32],
    kernel: Float32Array,
    p: Float64Array,
    q: Float64Array,
    u: Float32Array,
    v: Float32Array,
    work: ColumnSums,
    omega: float = 1.0,
    most: int = 1,
    tol: float = 0.0,
    n_threads: int = 1,
    scaling_map: ScalingMap | None = None,
) -> tuple[float, int]: ...
def normal_product(
    start: NDArray[int64],
    index: NDArray[int32],
    kernel: Float32Array,
    weights: Float64Array,
    x: Float32Array,
    row_sums: Float64Array,
    work: ColumnSums,
    n_threads: int = 1,
) -> None: ...
def product(
    start: NDArray[int64],
    index: NDArray[int32],
    kernel: Float32Array,
    v: Float32Array,
    y: Float32Array,
    out: Float32Array,
    sums: Float64Array,
    n_threads: int = 1,
) -> None: ...
