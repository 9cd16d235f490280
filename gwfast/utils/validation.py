"""Checks and conversions of arguments: every public function passes its input through here once.
Messages name the argument, the condition and the value.
"""

import math
import numbers
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels._costs import extent
from ..kernels.digits import shown
from .memory import free_memory
from .types import Float64Array

T = TypeVar("T")

# Masses that sum to one up to this are taken as rounding and renormalized.
MASS_TOLERANCE = 1e-4
# Larger counts are this many, as kernels count in 64 bits, and loops add.
NO_LIMIT = 2**31 - 1


def as_any_array(x: Any, name: str) -> NDArray[Any]:
    """Return `x` as an array of any dtype; nullable columns of pandas as floats."""
    refuse_tensor(x, name)
    try:
        dtypes = np.atleast_1d(x.dtypes) if hasattr(x, "iloc") else ()
        if any(hasattr(dtype, "na_value") and dtype.kind in "biuf" for dtype in dtypes):
            if x.ndim == 1 and not x.isna().any():
                return x.to_numpy(dtype=x.dtype.numpy_dtype)
            return x.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(x)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array: {error}") from None
    except Exception as error:  # torch raises RuntimeError, and JAX errors of its own
        raise TypeError(f"{name} must be an array, got a {type(x).__name__}: {error}") from None


def refuse_tensor(x: Any, name: str, expected: str = "an array of NumPy") -> None:
    """Raise a TypeError for a tensor of torch or JAX, traced or not: its gradient would be lost."""
    library = type(x).__module__.partition(".")[0]
    if library in ("torch", "jax", "jaxlib"):
        way = f"{name}.detach().cpu().numpy()" if library == "torch" else f"numpy.asarray({name})"
        if expected == "a number":
            way = f"float({name})"
        raise TypeError(
            f"{name} must be {expected}, got {type(x).__name__} of {library}: pass {way}; "
            "gwfast.gradients has losses of tensors"
        )


def as_array(x: ArrayLike, name: str) -> NDArray[Any]:
    """Return `x` as an array of real numbers."""
    if type(x) is np.ndarray and x.dtype.kind in "biuf":
        return x
    if hasattr(x, "tocsr"):
        raise TypeError(f"{name} must be a dense array, got a sparse matrix")
    if hasattr(x, "vectors") and hasattr(x, "words"):
        raise TypeError(f"{name} must be an array, got {type(x).__name__}: pass its vectors")
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked one")
    x = as_any_array(x, name)
    if x.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {x.dtype}")
    return x


def in_memory(x: Any) -> Any:
    """Return `x`, read from its file if it is a backed matrix of AnnData, or computed by dask."""
    x = x.to_memory() if hasattr(x, "to_memory") else x
    return x.compute() if hasattr(x, "compute") else x


def as_matrix(x: ArrayLike, name: str, *, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """Return `x` as a 2-D array of finite real numbers, its float dtype kept, integers as float64.

    Any memory order is taken, read-only arrays too; no rows or no columns are refused.
    """
    x = as_table(x, name, shape=shape)
    # A finite sum proves finite entries without an n x m mask.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(x.sum(dtype=np.float64))
    check_finite(x, name, total)
    return x


def as_table(x: ArrayLike, name: str, *, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """Return `x` as `as_matrix` does, but its numbers may be infinite or NaN."""
    x = as_array(x, name)
    if x.dtype.kind in "biu" or x.dtype.itemsize > 8:
        x = x.astype(np.float64)
    if x.ndim != 2:
        raise ValueError(f"{name} must be a 2-D array, got {x.ndim}-D")
    if shape is not None and x.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {x.shape}")
    if 0 in x.shape:
        raise ValueError(f"{name} must not be empty, got shape {x.shape}")
    # Views may be of any size: before one is looked through there has to be memory for a copy.
    if x.size > 1 << 31 and (free := free_memory()) is not None and 4.0 * x.size > free:
        raise MemoryError(
            f"{name} of shape {x.shape} takes {4.0 * x.size / 1e9:.3g} GB in float32, and "
            f"{free / 1e9:.3g} GB are free"
        )
    return x


def check_finite(x: NDArray[Any], name: str, total: float) -> None:
    """Raise a ValueError unless `x` is finite; only a `total` that is not makes it look closer."""
    if not math.isfinite(total) and len(bad := np.argwhere(~np.isfinite(x))):
        index = tuple(map(int, bad[0]))
        raise ValueError(
            f"{name} must be finite, got {x[index]} at {list(index)} ({len(bad)} such entries)"
        )


def as_square(x: ArrayLike, name: str) -> NDArray[Any]:
    """Return `x` as `as_matrix` does, if it is square."""
    x = as_matrix(x, name)
    check_square(x, name)
    return x


def check_square(x: NDArray[Any], name: str) -> None:
    """Raise a ValueError unless a matrix is square."""
    if x.shape[0] != x.shape[1]:
        raise ValueError(f"{name} must be square, got shape {x.shape}")


def as_vector(x: ArrayLike, name: str, size: int) -> Float64Array:
    """Return `x` as a 1-D float64 array of `size` finite numbers."""
    x = as_array(x, name)
    if x.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {x.shape}")
    x = x.astype(np.float64, order="C")
    check_finite(x, name, extent(x)[2])
    return x


def as_weights(x: ArrayLike, name: str, size: int) -> Float64Array:
    """Return `x` as masses that sum to one exactly; any positive total is taken."""
    return _weights_of(x, name, size)[0]


def as_marginal(x: ArrayLike | None, name: str, size: int) -> Float64Array:
    """Return a marginal: None is uniform, else masses that sum to one (up to rounding)."""
    weights, total = _weights_of(x, name, size)
    if abs(total - 1.0) > MASS_TOLERANCE:
        raise ValueError(f"{name} must sum to 1, got {total:.6g}")
    return weights


def as_masses(x: ArrayLike | None, name: str, size: int) -> Float64Array:
    """Return masses of any positive total; None is uniform, with a total of one."""
    weights, total = _weights_of(x, name, size)
    return weights * total


def _weights_of(x: ArrayLike | None, name: str, size: int) -> tuple[Float64Array, float]:
    """Return weights that sum to one, and the total of the masses; None is uniform."""
    if x is None:
        return np.full(size, 1.0 / size), 1.0
    x = as_vector(x, name, size)
    low, high, total = check_masses(x, name)
    # Masses below this share of the largest are none: float32 plans have no room for them.
    kept, least = total, 1e-30 * high
    if low < least:
        x[x < least] = 0.0
        kept = extent(x)[2]
    x /= kept
    return x, total


def check_masses(x: Float64Array, name: str) -> tuple[float, float, float]:
    """Return the least, the largest and the sum of finite numbers; raise a ValueError unless they
    are masses of a finite total.
    """
    low, high, total = extent(x)
    if low < 0:
        index = int(np.flatnonzero(x < 0)[0])
        raise ValueError(f"{name} must not be negative, got {x[index]} at [{index}]")
    if not 0 < total < np.inf:
        raise ValueError(f"{name} must have a positive sum that is finite, got {total}")
    return low, high, total


def as_positive(x: float, name: str, *, zero: bool = False) -> float:
    """Return `x` as a finite float above zero (or not below it, if `zero`)."""
    # The check of the type takes longer than all else here, and a float needs none.
    if type(x) is not float and (isinstance(x, bool) or not isinstance(x, numbers.Real)):
        refuse_tensor(x, name, "a number")
        raise TypeError(f"{name} must be a number, got {type(x).__name__}")
    try:
        x = float(x)
    except OverflowError:
        x = math.inf
    if not (math.isfinite(x) and (x > 0 or (zero and x == 0))):
        expected = "non-negative" if zero else "positive"
        raise ValueError(f"{name} must be {expected} and finite, got {x}")
    return x


def as_count(x: int, name: str, *, least: int = 1, most: float = NO_LIMIT) -> int:
    """Return `x` as an int not below `least`; `most` if it is larger."""
    try:
        if isinstance(x, bool | np.bool_):  # NumPy's counted as integers before 2.3
            raise TypeError
        x = operator.index(x)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(x).__name__}") from None
    if x < least:
        raise ValueError(f"{name} must be at least {least}, got {shown(x)}")
    return int(min(x, most))


def as_mapping(x: T, name: str) -> T:
    """Return `x` if it has items."""
    if not isinstance(x, Mapping):
        came = type(x).__name__
        raise TypeError(f"{name} must be a mapping of words to their translations, got {came}")
    return x


def as_translations(x: Iterable[str], word: str, name: str) -> list[str]:
    """Return the translations of a word in the dictionary `name`: words, not a lone string."""
    is_lone = isinstance(x, str) or not isinstance(x, Iterable)
    translations = [] if is_lone else list(x)
    if is_lone or not all(isinstance(each, str) for each in (word, *translations)):
        came = f"{'the string ' * isinstance(x, str)}{x!r} for {word!r}"
        raise TypeError(f"{name} must map words to sets of words, got {came}")
    return translations


def one_of(x: T, name: str, choices: Collection[str]) -> T:
    """Return `x` if it is among `choices`."""
    if not isinstance(x, str) or x not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}, got {x!r}")
    return x
