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


def as_array(x: ArrayLike, name: str) -> NDArray[Any]:
    """`x` as an array of real numbers."""
    if type(x) is np.ndarray and x.dtype.kind in "biuf":
        return x
    if hasattr(x, "tocsr"):
        raise TypeError(f"{name} must be a dense array, got a sparse matrix")
    if hasattr(x, "vectors") and hasattr(x, "words"):
        raise TypeError(
            f"{name} must be an array, got {type(x).__name__}: pass its vectors"
        )
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked one")
    try:
        x = np.asarray(x)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array: {error}") from None
    if x.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {x.dtype}")
    return x


def as_matrix(
    x: ArrayLike, name: str, *, shape: tuple[int, ...] | None = None
) -> NDArray[Any]:
    """`x` as a 2-D array of finite real numbers, its float dtype kept.

    Integers and booleans become float64. Any memory order is taken, read-only arrays
    too; no rows or no columns are refused.
    """
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
    # A finite sum proves finite entries without an n x m mask; only where it is not
    # finite (an overflowing sum, perhaps) is it worth looking closer.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(x.sum(dtype=np.float64))
    if suspicious:
        bad = np.argwhere(~np.isfinite(x))
        if len(bad):
            i, j = bad[0]
            raise ValueError(
                f"{name} must be finite, got {x[i, j]} at [{i}, {j}]"
                f" ({len(bad)} such entries)"
            )
    return x


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
    if x.shape[0] != x.shape[1]:
        raise ValueError(f"{name} must be square, got shape {x.shape}")
    return x


def as_vector(x: ArrayLike, name: str, size: int) -> Float64Array:
    """`x` as a 1-D float64 array of `size` finite numbers."""
    x = as_array(x, name)
    if x.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {x.shape}")
    x = x.astype(np.float64)
    if not np.isfinite(x).all():
        at = int(np.flatnonzero(~np.isfinite(x))[0])
        raise ValueError(f"{name} must be finite, got {x[at]} at [{at}]")
    return x


def as_weights(x: ArrayLike, name: str, size: int) -> Float64Array:
    """`x` as masses that sum to one exactly; any positive total is taken."""
    x = as_vector(x, name, size)
    check_masses(x, name)
    x[x < LEAST_MASS * x.max()] = 0.0
    return x / x.sum()


def check_masses(x: Float64Array, name: str) -> None:
    """Raise a ValueError unless these finite numbers are masses of a finite total."""
    if x.min(initial=0.0) < 0:
        at = int(np.flatnonzero(x < 0)[0])
        raise ValueError(f"{name} must not be negative, got {x[at]} at [{at}]")
    total = x.sum()
    if not 0 < total < np.inf:
        raise ValueError(f"{name} must have a positive sum, got {total}")


def as_marginal(x: ArrayLike | None, name: str, size: int) -> Float64Array:
    """A marginal: None is uniform, else masses that sum to one (up to rounding)."""
    if x is None:
        return np.full(size, 1.0 / size)
    total = as_vector(x, name, size).sum()
    weights = as_weights(x, name, size)
    if abs(total - 1.0) > MASS_TOLERANCE:
        raise ValueError(f"{name} must sum to 1, got {total:.6g}")
    return weights


def as_masses(x: ArrayLike | None, name: str, size: int) -> Float64Array:
    """Masses of any positive total; None is uniform, with a total of one."""
    if x is None:
        return np.full(size, 1.0 / size)
    total = as_vector(x, name, size).sum()
    return as_weights(x, name, size) * total


def as_positive(x: float, name: str, *, zero: bool = False) -> float:
    """`x` as a finite float above zero (or not below it, if `zero`)."""
    # That a float is a number takes longer to ask than all else here.
    if type(x) is not float and (
        isinstance(x, bool) or not isinstance(x, numbers.Real)
    ):
        raise TypeError(f"{name} must be a number, got {type(x).__name__}")
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
            f"{name} must be a mapping of words to their translations, got "
            f"{type(x).__name__}"
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
