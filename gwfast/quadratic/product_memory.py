"""The memory of a product operator: the reference of low-rank updates, and the last products,
which acceleration combines. Operators whose descents take turns share one room of matrices.
"""

from typing import NamedTuple

import numpy as np

from ..kernels._rows import aligned_empty
from .acceleration import DEPTH
from .low_rank_update import LowRankPart

# Entries of a product that are combined at a time.
COMBINED = 1 << 20


class Known(NamedTuple):
    """A product as the sum of a matrix (n, m) and a `LowRankPart`; None is zero."""

    base: np.ndarray | None
    part: LowRankPart | None = None


class Reference(NamedTuple):
    """A whole product, and the `LowRankPart` of its plan."""

    base: np.ndarray
    part: LowRankPart


class Room:
    """Matrices, and the token of the `ProductMemory` that owns them. (A reference to
    the memory itself would be a cycle, which the garbage collector frees late.)
    """

    def __init__(self):
        self.owner, self.matrices = None, []


class ProductMemory:
    """The memory of one operator in at most `most` matrices. When another memory takes
    the room, this one is empty.
    """

    def __init__(self, most, room=None):
        self.most, self._room, self._token = most, room or Room(), object()
        self._kept, self._reference = [], None

    def fork(self):
        """Another memory in the same room."""
        return ProductMemory(self.most, self._room)

    @property
    def reference(self):
        """The `Reference`, or None."""
        return self._reference if self._is_here else None

    @reference.setter
    def reference(self, reference):
        self._reference = reference

    @property
    def n_kept(self):
        """Number of the last products that are kept."""
        return len(self._kept) if self._is_here else 0

    def keep(self, known):
        """Append a `Known` to the last products."""
        self._take_room()
        self._kept = [*self._kept[-DEPTH:], known]

    def forget_kept(self):
        """Forget the last products, but not the reference."""
        self._kept = []

    def copied(self, product):
        """A copy of a product in a free matrix of the room; the oldest of the last
        products are dropped to free one.
        """
        self._take_room()
        while len(needed := self._needed()) >= self.most and self._kept:
            self._kept.pop(0)
        matrices = self._room.matrices
        free = next((one for one in matrices if id(one) not in needed), None)
        if free is None:
            free = aligned_empty(product.shape, product.dtype)
            matrices.append(free)
        np.copyto(free, product)
        return free

    def combine(self, coefficients, out):
        """Write the sum of the last products times these coefficients, oldest first."""
        kept = self._kept[-len(coefficients) :]
        weights, parts = {}, []
        for weight, (base, part) in zip(coefficients, kept, strict=True):
            if base is not None:
                _, before = weights.get(id(base), (base, 0.0))
                weights[id(base)] = base, before + weight
            if part is not None:
                parts.append((part, weight))
        write = None
        if parts:
            some, factors = zip(*parts, strict=True)
            write = some[0].combined(some, factors).writer()
        step = max(COMBINED // out.shape[1], 64)
        for start in range(0, len(out), step):
            rows = slice(start, start + step)
            made = None
            for base, weight in weights.values():
                weight = out.dtype.type(weight)
                # Products near one reference have it in common.
                term = base[rows] if weight == 1 else weight * base[rows]
                made = term if made is None else made + term
            if write is None:
                out[rows] = made
            else:
                write(rows, out[rows], made)

    @property
    def _is_here(self):
        return self._room.owner is self._token

    def _take_room(self):
        if not self._is_here:
            self._room.owner = self._token
            self._kept, self._reference = [], None

    def _needed(self):
        """Ids of the matrices in use."""
        known = [*self._kept, *([self._reference] if self._reference else [])]
        return {id(one.base) for one in known} & set(map(id, self._room.matrices))
