"""The product of the last plan, kept in the room of what thin products lack near a
reference: it is that, and a thin part. To go on from where the last plans lead takes
the last product, and thin products take the reference; together they take one matrix.
"""

import numpy as np

from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import Buffer
from ..utils.trees import as_saved

# Entries of products that are combined at a time.
COMBINED = 1 << 20


class KeptProduct:
    """The last product ``rest + part``, in the room of one matrix. Forks take turns to
    keep theirs there.
    """

    def __init__(self, room=None):
        self._room = Buffer(None) if room is None else room
        self._turn, self._part, self._is_last = None, None, False

    def fork(self):
        """Another, of nothing yet, in the same room."""
        return KeptProduct(self._room)

    @property
    def rest(self):
        """The matrix (n, m), or None where there is none, or another fork's."""
        return self._room.array if self._turn == self._room.turn else None

    @property
    def is_known(self):
        """Whether that and the part are the last product."""
        return self._is_last and self.rest is not None

    def export(self):
        """A tree from which `restore` takes what is kept."""
        part = self._part.export() if self._part and self.is_known else None
        return dict(rest=self.rest, part=part, is_last=self.is_known)

    def restore(self, saved, shape, dtype, as_part):
        """Take what another kept, of this shape and dtype; `as_part` makes a part of
        what that exported.
        """
        self._turn, self._is_last = None, bool(saved["is_last"])
        if saved["rest"] is not None:
            self._take_room(shape, dtype)
            np.copyto(self.rest, as_saved(saved["rest"], shape, dtype))
        self._part = None if saved["part"] is None else as_part(saved["part"])

    def forget(self):
        """Forget the last product, but not the rest."""
        self._part, self._is_last = None, False

    def advance(self, product, part, coefficients, *, is_near):
        """Keep a product, and overwrite it by its combination with the last one; there
        are no `coefficients` where it is kept only.

        Parameters
        ----------
        product : (n, m) ndarray
        part : thin part of it or None
            Nothing, if it is None.
        coefficients : sequence of 2 float
            Of the last product, and of this one.
        is_near : bool
            Whether the product is this part and the same `rest` as before.
        """
        if not is_near and not coefficients:
            self.take(product, part)
            return
        if coefficients:
            self._combine(product, None if is_near else part, *coefficients, is_near)
        self._part, self._is_last = part, True

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
        self._part, self._is_last = part, True

    def write(self, out):
        """Write the last product."""
        read = self._reader()
        for rows in _blocks(out):
            np.copyto(out[rows], read(rows))

    def _combine(self, product, part, last, new, is_near):
        """Overwrite a product by ``last * (the last one) + new * product``; where that
        is not near, its rest takes the place of the last one's.
        """
        read, write = self._reader(), part and part.writer()
        for rows in _blocks(product):
            made, rest = product[rows], self.rest[rows]
            before = read(rows)
            if not is_near:
                np.copyto(rest, made)
            made *= made.dtype.type(new)
            before *= made.dtype.type(last)
            made += before
            if write is not None:
                write(rows, before)
                rest -= before

    def _reader(self):
        """A function that makes some rows of the last product, good until the next."""
        height = _blocks(self.rest)[0].stop
        scratch = aligned_empty((height, self.rest.shape[1]), self.rest.dtype)
        write = self._part and self._part.writer()

        def read(rows):
            made, rest = scratch[: rows.stop - rows.start], self.rest[rows]
            if write is None:
                np.copyto(made, rest)
            else:
                write(rows, made)
                made += rest
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
