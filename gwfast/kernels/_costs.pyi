from .arrays import Float64Array, FloatArray

def moments(
    matrix: FloatArray,
    shift: float,
    p: Float64Array,
    first: Float64Array,
    second: Float64Array,
    out: FloatArray | None = None,
    factor: float = 1.0,
    n_threads: int = 1,
) -> None: ...
def survey(
    a: FloatArray, b: FloatArray | None = None, n_threads: int = 1
) -> tuple[float, float, float, float]: ...
def extent(x: Float64Array) -> tuple[float, float, float]: ...
