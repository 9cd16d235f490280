"""Checks and conversions at the door: every public function passes its input through
here once, and what is inside may rely on it.

Messages name the argument, what was expected and what came.
"""

import math
import numbers
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels._costs import extent
from .memory import free_memory
from .types import Float64Array

T = TypeVar("T")

# Masses that sum to one up to this are taken as rounding and renormalized.
MASS_TOLERANCE = 1e-4
# Entries from which on an array is not even looked through before there is known to be
# memory for it.
MANY_ENTRIES = 1 << 31
# Masses below this share of the largest are none: float32 plans have no room for them.
LEAST_MASS = 1e-30


def as_any_array(x: Any, name: str) -> NDArray[Any]:
    """Return `x` as an array of any dtype."""
    try:
        return np.asarray(x)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array: {error}") from None
    except Exception as error:  # torch raises RuntimeError, and JAX errors of its own
        came = type(x).__name__
        if is_differentiated(x) or "requires grad" in str(error):
            raise TypeError(
                f"{name} must not be traced or require gradients, got a {came}; "
                "gwfast.gradients has losses to train with"
            ) from None
        raise TypeError(f"{name} must be an array, got a {came}: {error}") from None


def is_differentiated(x: Any) -> bool:
    """Return whether `x` is a tensor of torch that requires gradients, or traced by JAX."""
    return bool(getattr(x, "requires_grad", False)) or type(x).__name__.endswith("Tracer")


def as_array(x: ArrayLike, name: str) -> NDArray[Any]:
    """`x` as an array of real numbers."""
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
    """Return `x`, read from its file if it is a backed matrix of AnnData."""
    return x.to_memory() if hasattr(x, "to_memory") else x


def as_matrix(x: ArrayLike, name: str, *, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """`x` as a 2-D array of finite real numbers, its float dtype kept.

    Integers and booleans become float64. Any memory order is taken, read-only arrays
    too; no rows or no columns are refused.
    """
    x = as_table(x, name, shape=shape)
    # A finite sum proves finite entries without an n x m mask.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(x.sum(dtype=np.float64))
    check_finite(x, name, total)
    return x


def as_table(x: ArrayLike, name: str, *, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """`as_matrix` of numbers that may be infinite or NaN."""
    x = as_array(x, name)
    if x.dtype.kind in "biu" or x.dtype.itemsize > 8:
        x = x.astype(np.float64)
    if x.ndim != 2:
        raise ValueError(f"{name} must be a 2-D array, got {x.ndim}-D")
    if shape is not None and x.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {x.shape}")
    if 0 in x.shape:
        raise ValueError(f"{name} must not be empty, got shape {x.shape}")
    if x.size > MANY_ENTRIES:
        _check_size(x, name)
    return x


def check_finite(x: NDArray[Any], name: str, total: float) -> None:
    """Raise a ValueError unless a matrix with this sum is finite: only where the sum is
    not (an overflowing one, perhaps) is it worth looking closer.
    """
    if math.isfinite(total):
        return
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        i, j = bad[0]
        raise ValueError(
            f"{name} must be finite, got {x[i, j]} at [{i}, {j}] ({len(bad)} such entries)"
        )


def _check_size(x: NDArray[Any], name: str) -> None:
    """Refuse an array that no copy of fits memory: views may be of any size."""
    free, size = free_memory(), 4.0 * x.size
    if free is not None and size > free:
        raise MemoryError(
            f"{name} of shape {x.shape} takes {size / 1e9:.3g} GB in float32, and "
            f"{free / 1e9:.3g} GB are free"
        )


def as_square(x: ArrayLike, name: str) -> NDArray[Any]:
    """`as_matrix` for a square matrix."""
    x = as_matrix(x, name)
    check_square(x, name)
    return x


def check_square(x: NDArray[Any], name: str) -> None:
    """Raise a ValueError unless a matrix is square."""
    n, m = x.shape
    if n != m:
        raise ValueError(f"{name} must be square, got shape {x.shape}")


def as_vector(x: ArrayLike, name: str, size: int) -> Float64Array:
    """`x` as a 1-D float64 array of `size` finite numbers."""
    return _measured(x, name, size)[0]


def _measured(x: ArrayLike, name: str, size: int) -> tuple[Float64Array, float, float, float]:
    """`as_vector`, the least and the largest number, and the sum."""
    x = as_array(x, name)
    if x.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {x.shape}")
    x = x.astype(np.float64, order="C")
    low, high, total = extent(x)
    # Only where the sum is not finite (an overflowing one, perhaps) may a number be.
    if not math.isfinite(total) and not (finite := np.isfinite(x)).all():
        at = int(np.flatnonzero(~finite)[0])
        raise ValueError(f"{name} must be finite, got {x[at]} at [{at}]")
    return x, low, high, total


def as_weights(x: ArrayLike, name: str, size: int) -> Float64Array:
    """`x` as masses that sum to one exactly; any positive total is taken."""
    return _weights_of(x, name, size)[0]


def _weights_of(x: ArrayLike, name: str, size: int) -> tuple[Float64Array, float]:
    """`as_weights`, and the total."""
    x, low, high, total = _measured(x, name, size)
    _check_masses(x, name, low, total)
    kept = total
    if low < LEAST_MASS * high:
        x[x < LEAST_MASS * high] = 0.0
        kept = extent(x)[2]
    x /= kept
    return x, total


def check_masses(x: Float64Array, name: str) -> None:
    """Raise a ValueError unless these finite numbers are masses of a finite total."""
    low, _, total = extent(x)
    _check_masses(x, name, low, total)


def _check_masses(x: Float64Array, name: str, low: float, total: float) -> None:
    if low < 0:
        at = int(np.flatnonzero(x < 0)[0])
        raise ValueError(f"{name} must not be negative, got {x[at]} at [{at}]")
    if not 0 < total < np.inf:
        raise ValueError(f"{name} must have a positive sum, got {total}")


def _uniform(size: int) -> Float64Array:
    weights = np.empty(size)
    weights.fill(1.0 / size)
    return weights


def as_marginal(x: ArrayLike | None, name: str, size: int) -> Float64Array:
    """A marginal: None is uniform, else masses that sum to one (up to rounding)."""
    if x is None:
        return _uniform(size)
    weights, total = _weights_of(x, name, size)
    if abs(total - 1.0) > MASS_TOLERANCE:
        raise ValueError(f"{name} must sum to 1, got {total:.6g}")
    return weights


def as_masses(x: ArrayLike | None, name: str, size: int) -> Float64Array:
    """Masses of any positive total; None is uniform, with a total of one."""
    if x is None:
        return _uniform(size)
    weights, total = _weights_of(x, name, size)
    return weights * total


def as_positive(x: float, name: str, *, zero: bool = False) -> float:
    """`x` as a finite float above zero (or not below it, if `zero`)."""
    # That a float is a number takes longer to ask than all else here.
    if type(x) is not float and (isinstance(x, bool) or not isinstance(x, numbers.Real)):
        more = "; gwfast.gradients has losses to train with" * is_differentiated(x)
        raise TypeError(f"{name} must be a number, got {type(x).__name__}{more}")
    try:
        x = float(x)
    except OverflowError:
        x = math.inf
    if not (math.isfinite(x) and (x > 0 or (zero and x == 0))):
        expected = "non-negative" if zero else "positive"
        raise ValueError(f"{name} must be {expected} and finite, got {x}")
    return x


def as_count(x: int, name: str, *, least: int = 1) -> int:
    """`x` as an int not below `least`."""
    try:
        if isinstance(x, bool | np.bool_):  # NumPy's counted as integers before 2.3
            raise TypeError
        x = operator.index(x)
    except TypeError:
        came = type(x).__name__
        raise TypeError(f"{name} must be an integer, got {came}") from None
    if x < least:
        raise ValueError(f"{name} must be at least {least}, got {x}")
    return x


def as_mapping(x: T, name: str) -> T:
    """`x` if it has items."""
    if not isinstance(x, Mapping):
        raise TypeError(
            f"{name} must be a mapping of words to their translations, got {type(x).__name__}"
        )
    return x


def as_translations(x: Iterable[str], word: str, name: str) -> list[str]:
    """The translations of a word in the dictionary `name`: words, not a lone one."""
    alone = isinstance(x, str) or not isinstance(x, Iterable)
    made = [] if alone else list(x)
    if alone or not all(isinstance(one, str) for one in (word, *made)):
        came = f"{'the string ' * isinstance(x, str)}{x!r} for {word!r}"
        raise TypeError(f"{name} must map words to sets of words, got {came}")
    return made


def one_of(x: T, name: str, choices: Collection[str]) -> T:
    """`x` if it is among `choices`."""
    if not isinstance(x, str) or x not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}, got {x!r}")
    return x
