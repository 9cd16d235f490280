from typing import Any

from numpy.typing import DTypeLike, NDArray

from .arrays import Float32Array, Float64Array, FloatArray

CACHE_LINE: int
FLUSH_BITS: int
FLAGS: int
SUBNORMAL_SEEN: int

def aligned_empty(shape: int | tuple[int, ...], dtype: DTypeLike = ...) -> NDArray[Any]: ...
def openmp_version() -> int: ...
def openmp_max_threads() -> int: ...
def openmp_runtime() -> str: ...
def set_sizes(stack: int, blas: int) -> None: ...
def forked() -> None: ...
def is_orphan() -> bool: ...
def float_controls(n_threads: int = 1) -> list[int]: ...
def set_float_control(control: int) -> None: ...
def supported_isas() -> list[str]: ...
def current_isa() -> str: ...
def select_isa(name: str) -> None: ...

class Rows:
    n: int
    m: int
    strip: int

class Loop:
    n: int
    m: int
    is_float64: bool

class Shifted(Rows):
    matrix: NDArray[Any]
    shift: float
    factor: float
    def __init__(self, matrix: NDArray[Any], shift: float = 0.0, factor: float = 1.0) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice | NDArray[Any]) -> Shifted: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> Any: ...

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

class ColumnSums:
    n: int
    m: int
    is_float64: bool
    def __init__(self, n: int, m: int, dtype: DTypeLike = ...) -> None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def values(self) -> Float64Array: ...
    def prefers_one(self) -> bool: ...
    def took(self, one: bool, seconds: float) -> None: ...

class Rule:
    rows: Any
    columns: Any
    factor: float
    def __init__(
        self,
        rows: Float64Array | None = None,
        columns: Float64Array | None = None,
        row_power: float = 1.0,
        column_power: float = 1.0,
        mass: float = 0.0,
        rate: float = 0.0,
    ) -> None: ...
    def scale(self, factor: float) -> float: ...
