"""Labels of pandas objects: rows are matched by label, not by position; and rows by words."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
# A range stands for an index that only numbers the rows, None for arrays without an index.
Labels: TypeAlias = Sequence[Any] | None


class ByWord(dict[str, T]):
    """A dict that finds a word that it lacks in another Unicode form, such as letters with accents
    apart (NFD); words are not added after the first look.
    """

    @functools.cached_property
    def _spelt(self) -> dict[str, str]:
        return {unicodedata.normalize("NFC", word): word for word in reversed(self)}

    def __contains__(self, word: object) -> bool:
        return super().__contains__(word) or (
            isinstance(word, str) and unicodedata.normalize("NFC", word) in self._spelt
        )

    def __missing__(self, word: str) -> T:
        return self[self._spelt[unicodedata.normalize("NFC", word)]]


def first_rows(words: Iterable[str]) -> ByWord[int]:
    """Return the first row of each word."""
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        rows.setdefault(word, row)
    return ByWord(rows)


def labels_of(x: Any, axis: int = 0) -> Labels:
    """Return the labels of a pandas object along an axis; None for other arrays."""
    if not hasattr(x, "iloc") or axis >= x.ndim:
        return None
    index = x.axes[axis]
    if type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1:
        return range(len(index))
    return tuple(index)


def in_order(x: T, name: str, *orders: Labels, of: str) -> T:
    """Return `x` with the axes of a pandas object in the order of the labels of each axis in
    `orders`, see `positions`. Anything but a pandas object is returned as it is.
    """
    for axis, order in enumerate(orders):
        places = positions(labels_of(x, axis), order, name, of)
        if places is not None:
            x = x.take(places, axis=axis)  # type: ignore[attr-defined]
    return x


def positions(labels: Labels, order: Labels, name: str, of: str) -> NDArray[Any] | None:
    """Return where the labels of `order`, the argument `of`, are among `labels`, the argument
    `name`.

    None if there is nothing to move: labels are the same, or missing on a side, or differ from an
    index that only numbers rows, or are of another number (which is checked where the array is
    read). Raise a ValueError if labels differ otherwise, or repeat in another order.
    """
    if labels is None or order is None or len(labels) != len(order):
        return None
    place_of = {label: k for k, label in enumerate(labels)}
    pairs = list(zip(labels, order, strict=True))
    if all(ours is theirs or ours == theirs for ours, theirs in pairs):
        return None
    if len(place_of) == len(labels) and place_of.keys() == set(order):
        return np.array([place_of[label] for label in order])
    if isinstance(labels, range) or isinstance(order, range):
        return None
    ours, theirs = next((ours, theirs) for ours, theirs in pairs if ours != theirs)
    raise ValueError(
        f"{name} must have the labels of {of}, got {ours!r} for {theirs!r}; arrays go by position"
    )
