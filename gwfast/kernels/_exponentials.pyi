from ._rows import Rows
from .arrays import Float64Array, FloatArray

def absorb(f: Float64Array, u: FloatArray, epsilon: float, out: Float64Array) -> None: ...
def logsumexp_rows(
    cost: FloatArray | Rows,
    f: Float64Array,
    g: Float64Array,
    epsilon: float,
    out: Float64Array,
    n_threads: int = 1,
) -> None: ...
def logsumexp_cols(
    cost: FloatArray | Rows,
    f: Float64Array,
    g: Float64Array,
    epsilon: float,
    out: Float64Array,
    n_threads: int = 1,
) -> None: ...
def gibbs_kernel(
    cost: FloatArray,
    f: Float64Array,
    g: Float64Array,
    epsilon: float,
    out: FloatArray,
    n_threads: int = 1,
) -> float: ...
def proximal_cost(
    cost: FloatArray, plan: FloatArray, weight: float, n_threads: int = 1
) -> None: ...
