from typing import Any

from numpy import dtype, intp
from numpy.typing import NDArray

from ._rows import ColumnSums, Rows, ScalingMap
from .arrays import Float32Array, Float64Array, FloatArray

LEAST_ENTRY: dict[dtype[Any], float]

def sinkhorn_passes(
    kernel: FloatArray | Rows,
    p: Float64Array,
    q: Float64Array,
    u: FloatArray,
    v: FloatArray,
    work: ColumnSums,
    omega: float = 1.0,
    most: int = 1,
    tol: float = 0.0,
    n_threads: int = 1,
    scaling_map: ScalingMap | None = None,
) -> tuple[float, int]: ...
def normal_product(
    kernel: FloatArray | Rows,
    weights: Float64Array,
    x: FloatArray,
    row_sums: Float64Array,
    work: ColumnSums,
    n_threads: int = 1,
) -> None: ...
def rescale_columns(
    v: FloatArray, q: Float64Array, work: ColumnSums, omega: float = 1.0
) -> None: ...
def max_log_scaling(u: FloatArray, v: FloatArray, p: Float64Array, q: Float64Array) -> float: ...
def scale_to_plan(
    kernel: FloatArray,
    u: FloatArray,
    v: FloatArray,
    row_sums: Float64Array,
    col_sums: Float64Array,
    work: ColumnSums,
    n_threads: int = 1,
) -> None: ...
def marginals(
    plan: FloatArray,
    row_sums: Float64Array,
    col_sums: Float64Array,
    work: ColumnSums,
    n_threads: int = 1,
) -> None: ...
def dot(plan: FloatArray, cost: FloatArray, n_threads: int = 1) -> float: ...
def distance(a: FloatArray, b: FloatArray, n_threads: int = 1) -> tuple[float, float]: ...
def mass_entropy(masses: Float64Array) -> float: ...
def kept(sums: Float64Array, masses: Float64Array) -> tuple[float, float]: ...
def entropy(plan: FloatArray | Rows, n_threads: int = 1) -> float: ...
def copy_rows(rows: Rows, out: Float32Array, n_threads: int = 1) -> None: ...
def topk_rows(
    x: FloatArray | Rows, indices: NDArray[intp], values: FloatArray, n_threads: int = 1
) -> None: ...
