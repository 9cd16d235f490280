from ._rows import ColumnSums, Rows
from .arrays import Float32Array, Float64Array, FloatArray

class Panels:
    k: int
    m: int
    is_float64: bool
    def __init__(
        self,
        matrix: FloatArray | Rows,
        transposed: bool = False,
        scale: FloatArray | None = None,
        n_threads: int = 1,
    ) -> None: ...
    @property
    def nbytes(self) -> int: ...

class Product(Rows):
    k: int
    def __init__(self, left: Float32Array, right: Panels) -> None: ...

class Gibbs(Product):
    def __init__(
        self, left: Float32Array, right: Panels, f: Float64Array, g: Float64Array, epsilon: float
    ) -> None: ...

def matmul(
    a: FloatArray | Rows,
    b: Panels,
    out: FloatArray,
    x: FloatArray | None = None,
    dots: Float64Array | None = None,
    plus: FloatArray | None = None,
    n_threads: int = 1,
) -> None: ...
def matmul_few(
    a: FloatArray,
    b: FloatArray | Rows,
    out: FloatArray,
    transposed: bool = False,
    n_threads: int = 1,
) -> None: ...
def gibbs_product(
    a: Float32Array,
    b: Panels,
    f: Float64Array,
    g: Float64Array,
    epsilon: float,
    out: Float32Array,
    work: ColumnSums,
    n_threads: int = 1,
) -> float: ...
def gram(x: Float32Array, y: Float32Array, out: Float64Array, n_threads: int = 1) -> None: ...
