"""Results as tables of pandas, where that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..utils.labels import in_order
from ..utils.types import IntArray
from ..utils.validation import as_any_array

if TYPE_CHECKING:
    import pandas as pd


def frame(columns: Mapping[Any, Any], index: Any = None) -> pd.DataFrame:
    """A DataFrame of columns by name.

    Raises
    ------
    ImportError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError('to_frame needs pandas: pip install "gwfast-ot[pandas]"') from error
    return pd.DataFrame(dict(columns), index=index)


def of_tuples(names: tuple[str, ...], rows: Any, index: Any = None) -> pd.DataFrame:
    """A DataFrame of named tuples, which may be none."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return frame(dict(zip(names, map(list, columns), strict=True)), index)


def as_names(names: ArrayLike | None, name: str, size: int) -> NDArray[Any]:
    """What to call so many points; None numbers them."""
    if names is None:
        return np.arange(size)
    made = as_any_array(names, name)
    if made.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {made.shape}")
    return made


def named(labels: Sequence[Any] | None, numbers: NDArray[Any]) -> list[Any]:
    """What points of these numbers are called; their numbers without labels."""
    found = numbers.tolist()
    return found if labels is None else [labels[number] for number in found]


def names(
    name: str,
    given: ArrayLike | None,
    size: int,
    labels: Sequence[Any] | None,
    numbers: NDArray[Any],
) -> Any:
    """Names of the points of these numbers among so many: those that a caller has given
    as the argument `name`, or else their labels.
    """
    if given is None:
        return named(labels, numbers)
    given = in_order(given, name, labels, of="the points")
    return as_names(given, name, size)[numbers]


def taken(values: NDArray[Any], at: IntArray) -> NDArray[Any]:
    """Return `values` at these indices; NaN, or None where there is no NaN, at -1."""
    found, missing = values[at], at < 0
    if missing.any():
        if found.dtype.kind in "iu":
            found = found.astype(np.float64)
        elif found.dtype.kind not in "fcmM":
            found = found.astype(object)
        found[missing] = None if found.dtype == object else np.array("nan", found.dtype)
    return found


def as_labels(labels: ArrayLike, name: str, size: int) -> NDArray[Any]:
    """Labels of so many points, each of which has one."""
    made = as_names(labels, name, size)
    missing = np.zeros(size, dtype=bool)
    if made.dtype == object:  # None, NaN and pandas.NA
        missing = np.array([one is None or _differs(one) for one in made])
    elif made.dtype.kind == "f":
        missing = np.isnan(made)
    if missing.any():
        raise ValueError(
            f"{name} must have one for each point, got {missing.sum()} of {size} that "
            "are missing; give these a label of their own"
        )
    return made


def _differs(value):
    """Whether it is not even itself, as NaN, or nobody knows, as pandas.NA."""
    try:
        return not bool(value == value)
    except TypeError:
        return True
