"""Products of matrices of any size, with scratch for a few packed columns."""

import numpy as np

from ..kernels import _products
from ..kernels._rows import Panels, Shifted
from ..utils.deadline import NEVER

# Largest number of bytes of a right factor that are packed at a time (the left factor
# is read once for each such part), and the least number of its columns.
PACKED_BYTES, LEAST_COLUMNS = 8 << 20, 64
# Largest number of rows of a left factor with which the right one is packed while it is
# read: these rows are read again for each panel of columns.
FEW_ROWS = 256
# Multiplications between two checks of a deadline: a tenth of a second, or half a
# second on one thread. Rows of a product do not depend on those computed with them.
MULTIPLICATIONS = 10**10
# Multiplications, a millisecond, of a product that is made without such a check.
UNSEEN = 10**8


def multiply(a, b, out, n_threads, deadline=NEVER):
    """Write ``a @ b`` to `out`, which may be `b` itself; OutOfTime after the deadline,
    with `out` incomplete.

    Parameters
    ----------
    a : (n, k) ndarray or Rows
    b : (k, m) ndarray, Panels, or symmetric `Shifted`
    out : (n, m) ndarray
    n_threads : int
    deadline : Deadline, default=NEVER
    """
    packed = isinstance(b, Panels) or out is b
    if not packed and isinstance(a, np.ndarray) and len(a) <= FEW_ROWS:
        deadline.check()
        transposed = isinstance(b, Shifted)  # symmetric, its columns are rows
        _products.matmul_few(a, b, out, transposed, n_threads=n_threads)
        return
    if isinstance(b, np.ndarray) and b.nbytes <= PACKED_BYTES:
        b = Panels(b, n_threads=n_threads)
    if isinstance(b, Panels) and (size := len(a) * b.k * b.m) <= MULTIPLICATIONS:
        if size > UNSEEN:
            deadline.check()
        _products.matmul(a, b, out, n_threads=n_threads)
        return
    for cols, panels in _packed(b, out.dtype.itemsize, n_threads):
        step = max(MULTIPLICATIONS // (panels.k * panels.m), 1)
        for i in range(0, len(a), step):
            deadline.check()
            rows = slice(i, min(i + step, len(a)))
            _products.matmul(a[rows], panels, out[rows, cols], n_threads=n_threads)
        del panels  # before the next are made


def _packed(b, itemsize, n_threads):
    """Pairs of a slice of columns and its `Panels`."""
    if isinstance(b, Panels):
        yield slice(0, b.m), b
        return
    k, m = b.shape
    step = max(PACKED_BYTES // (itemsize * k * LEAST_COLUMNS), 1) * LEAST_COLUMNS
    for j in range(0, m, step):
        cols = slice(j, min(j + step, m))
        if isinstance(b, Shifted):
            # Symmetric, its columns are rows.
            yield cols, Panels(b[cols], True, n_threads=n_threads)
        else:
            yield cols, Panels(b[:, cols], n_threads=n_threads)


def nbytes(k, m, itemsize):
    """Bytes of scratch of a product with a right factor (k, m)."""
    return min(itemsize * k * m, PACKED_BYTES + itemsize * k * LEAST_COLUMNS)
