"""Products of the last plans, kept in the room of what thin products lack near a
reference: each is that, and a thin part. To go on from where the last plans lead takes
their products, and thin products take the reference; together they take one matrix.
"""

import numpy as np

from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import Buffer
from .anderson import DEPTH

# Entries of products that are combined at a time.
COMBINED = 1 << 20


class KeptProduct:
    """The last products ``rest + part``, of one rest, in the room of one matrix. Forks
    take turns to keep theirs there.
    """

    def __init__(self, room=None):
        self._room = Buffer(None) if room is None else room
        # Parts, oldest first; None is nothing.
        self._turn, self._parts = None, []

    def fork(self):
        """Another, of nothing yet, in the same room."""
        return KeptProduct(self._room)

    @property
    def rest(self):
        """The matrix (n, m), or None where there is none, or another fork's."""
        return self._room.array if self._turn == self._room.turn else None

    @property
    def n_known(self):
        """How many of the last products are kept."""
        return 0 if self.rest is None else len(self._parts)

    def forget(self):
        """Forget the last products, but not the rest."""
        self._parts = []

    def advance(self, product, part, coefficients, *, is_near):
        """Keep a product, and overwrite it by its combination with the last ones; there
        are no `coefficients` where it is kept only.

        Parameters
        ----------
        product : (n, m) ndarray
        part : thin part of it or None
            Nothing, if it is None.
        coefficients : sequence of float
            Of the last products that are known, oldest first, and of this one.
        is_near : bool
            Whether the product is this part and the same `rest` as before.
        """
        if not is_near and not coefficients:
            self.take(product, part)
            return
        if coefficients:
            self._combine(product, None if is_near else part, coefficients, is_near)
        self._parts = [*self._parts[-DEPTH:], part] if is_near else [part]

    def take(self, product, part):
        """Keep a product, with a rest of its own."""
        self._take_room(product.shape, product.dtype)
        if part is None:
            np.copyto(self.rest, product)
        else:
            write = part.writer()
            for rows in _blocks(self.rest):
                write(rows, self.rest[rows])
                np.subtract(product[rows], self.rest[rows], out=self.rest[rows])
        self._parts = [part]

    def write(self, out):
        """Write the last product."""
        read = self._reader([1.0])
        for rows in _blocks(out):
            np.copyto(out[rows], read(rows))

    def _combine(self, product, part, coefficients, is_near):
        """Overwrite a product by its combination with the last ones; where that is not
        near, its rest takes the place of theirs.
        """
        *of_last, new = coefficients
        read, write = self._reader(of_last), part and part.writer()
        for rows in _blocks(product):
            made, rest = product[rows], self.rest[rows]
            before = read(rows)
            if not is_near:
                np.copyto(rest, made)
            made *= made.dtype.type(new)
            made += before
            if write is not None:
                write(rows, before)
                rest -= before

    def _reader(self, weights):
        """A function that makes some rows of the sum of the last products, multiplied
        by these, good until the next.
        """
        height = _blocks(self.rest)[0].stop
        scratch = aligned_empty((height, self.rest.shape[1]), self.rest.dtype)
        last, total = self._parts[-len(weights) :], scratch.dtype.type(sum(weights))
        write = last[-1] and last[-1].combined(last, weights).writer()

        def read(rows):
            made, rest = scratch[: rows.stop - rows.start], self.rest[rows]
            if write is None:
                return np.multiply(rest, total, out=made)
            write(rows, made)
            made += rest if total == 1 else rest * total
            return made

        return read

    def _take_room(self, shape, dtype):
        if self._room.array is None:
            self._room.array = aligned_empty(shape, dtype)
        self._turn = self._room.take()


def _blocks(matrix):
    n, m = matrix.shape
    step = max(COMBINED // m, 64)
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]
