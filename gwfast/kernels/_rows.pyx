"""What the OpenMP loops work on, and how rows are shared out among their threads.

- rows are cut into chunks by their number alone, never by the number of threads, and
  every chunk owns its partial sums, which are added in the order of the chunks: the
  result is the same to the last bit for any number of threads;
- a matrix is a `Rows`: stored, or made strip by strip when a loop asks for it;
- the right factor of a product is a `Panels`, packed as the kernels in C read it.
"""
from cython.parallel cimport prange
from libc.stddef cimport ptrdiff_t

import numpy as np

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    static int gwf_openmp(void) { return _OPENMP; }
    static int gwf_max_threads(void) { return omp_get_max_threads(); }
    #else
    static int gwf_openmp(void) { return 0; }
    static int gwf_max_threads(void) { return 1; }
    #endif
    """
    int gwf_openmp() nogil
    int gwf_max_threads() nogil

isa = gwf_supported_isa(0)

CACHE_LINE = 64
# Floats of a strip of rows that are made when asked for, at most, and its rows, at
# least: fewer, and reading the right factor anew for every strip shows.
cdef ptrdiff_t STRIP_FLOATS = 1 << 20
cdef ptrdiff_t LEAST_STRIP = 64
# Columns whose partial sums are added by one thread at a time (4 KB of each chunk).
cdef ptrdiff_t COLUMN_STRIPE = 512
cdef ptrdiff_t SERIAL_COLUMNS = 4096


def aligned_empty(shape, dtype=np.float32):
    """Uninitialized array that starts at a cache line.

    NumPy's own start anywhere that a multiple of 16 bytes does, and vector loads that
    straddle two lines cost a pass over a large matrix a tenth of its speed, over one in
    cache a quarter.
    """
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(size + CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start:start + size].view(dtype).reshape(shape)


# --- Facts about the build and the processor ---------------------------------------

def openmp_version():
    """Version date of OpenMP this was built with (``_OPENMP``), 0 without it."""
    return gwf_openmp()


def openmp_max_threads():
    """What OpenMP would use by itself: ``OMP_NUM_THREADS`` or all processors."""
    return gwf_max_threads()


def supported_isas():
    """Names of the instruction sets this processor can run, widest first."""
    names = []
    while gwf_supported_isa(len(names)) != NULL:
        names.append(gwf_supported_isa(len(names)).name.decode())
    return names


def current_isa():
    """Name of the instruction set in use."""
    return isa.name.decode()


def select_isa(name):
    """Use the row kernels of instruction set `name` from now on, in the whole process.

    Raises
    ------
    ValueError
        If this processor or this build does not have it.
    """
    global isa
    names = supported_isas()
    if name not in names:
        raise ValueError(f"instruction set must be one of {names}, got {name!r}")
    isa = gwf_supported_isa(names.index(name))


# --- Matrices by rows -----------------------------------------------------------------

cdef class Rows:
    """An (n, m) float32 matrix whose rows can be read some at a time.

    Attributes
    ----------
    strip : int
        As many at a time as `scratch` has room for; 0 where all are stored.
    """

    cdef const float *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        """Where rows i to i + rows are, `scratch` if they are made now."""
        return NULL

    cdef float[:, ::1] scratch(self, int n_threads):
        """Room for a strip of each thread."""
        n_threads = max(n_threads, 1)
        if not self.strip:
            return np.empty((n_threads, 1), dtype=np.float32)
        return aligned_empty((n_threads, self.strip * self.m))


cdef class Stored(Rows):
    """A matrix in memory."""

    def __init__(self, const float[:, ::1] matrix):
        self.matrix, self.strip = matrix, 0
        self.n, self.m = matrix.shape[0], matrix.shape[1]

    cdef const float *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        return &self.matrix[i, 0]


cdef Rows as_rows(matrix):
    return matrix if isinstance(matrix, Rows) else Stored(matrix)


cdef class Panels:
    """The right factor of products, (k, m), packed.

    Parameters
    ----------
    matrix : (k, m) float32 ndarray, or (m, k) if `transposed`
    transposed : bool
    scale : (k,) float32 ndarray or None
        Factors of its k rows.
    n_threads : int
    """

    def __init__(
        self, const float[:, ::1] matrix, bint transposed=False,
        const float[::1] scale=None, int n_threads=1,
    ):
        cdef ptrdiff_t k = matrix.shape[1] if transposed else matrix.shape[0]
        cdef ptrdiff_t m = matrix.shape[0] if transposed else matrix.shape[1]
        cdef ptrdiff_t width = isa.panel, lanes = isa.lanes, j, panel
        cdef ptrdiff_t row = 1 if transposed else matrix.shape[1]
        cdef ptrdiff_t col = matrix.shape[1] if transposed else 1
        cdef ptrdiff_t panels = count_chunks(m, width)
        cdef const float *factors = NULL
        if k == 0 or m == 0:
            raise ValueError(f"matrix must not be empty, got shape {(k, m)}")
        if scale is not None:
            check("scale", scale.shape[0], k)
            factors = &scale[0]
        self.k, self.m, self.packed_for = k, m, isa
        self.packed = aligned_empty(k * ((m + lanes - 1) // lanes * lanes))
        with nogil:
            for panel in prange(panels, num_threads=team(n_threads, panels),
                                schedule="static"):
                j = panel * width
                isa.pack_panel(&matrix[0, 0] + j * col, row, col, factors, k,
                               min(width, m - j), &self.packed[j * k])

    cdef int check(self) except -1:
        if self.packed_for != isa:
            raise ValueError("panels must be packed for the instruction set in use")
        return 0

    @property
    def nbytes(self):
        return self.packed.nbytes


cdef class Product(Rows):
    """``left @ right``, made when asked for."""

    def __init__(self, const float[:, ::1] left, Panels right not None):
        check("inner side of right", right.k, left.shape[1])
        self.left, self.right = left, right
        self.n, self.m, self.k = left.shape[0], right.m, right.k
        self.strip = max(STRIP_FLOATS // self.m // 8 * 8, LEAST_STRIP)

    cdef const float *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        isa.product_rows(&self.left[i, 0], &self.right.packed[0], self.k, scratch, rows,
                         self.m)
        return scratch

    cdef float[:, ::1] scratch(self, int n_threads):
        self.right.check()
        return Rows.scratch(self, n_threads)


cdef class Gibbs(Product):
    """``exp((f_i + g_j - (left @ right)_ij) / epsilon)``, made when asked for."""

    def __init__(
        self, const float[:, ::1] left, Panels right not None, const double[::1] f,
        const double[::1] g, double epsilon,
    ):
        Product.__init__(self, left, right)
        check("f", f.shape[0], self.n)
        check("g", g.shape[0], self.m)
        self.f, low = centered(f, g)
        self.g, self.g_rest = low, rounded_off(g, low, epsilon)
        self.inv_epsilon = <float>(1.0 / epsilon)

    cdef const float *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        isa.gibbs_product_rows(&self.left[i, 0], &self.right.packed[0], self.k,
                               &self.f[i], &self.g[0], &self.g_rest[0],
                               self.inv_epsilon, scratch, NULL, rows, self.m)
        return scratch


# --- Sharing out rows -----------------------------------------------------------------

cdef class ColumnSums:
    """Scratch for the column sums of an (n, m) matrix, made once for many passes.

    Every chunk of rows adds into a float32 row for a few rows at a time and folds it
    into its float64 row; `reduce` adds these up in the order of the chunks.
    """
    def __init__(self, ptrdiff_t n, ptrdiff_t m):
        chunks = max(count_chunks(n, chunk_rows(n)), 1)
        padded = (m + 15) // 16 * 16  # every row starts at a cache line
        self.n, self.m = n, m
        self.totals = aligned_empty((chunks, padded), np.float64)
        self.blocks = aligned_empty((chunks, padded), np.float32)

    @property
    def nbytes(self):
        return self.totals.nbytes + self.blocks.nbytes

    @property
    def values(self):
        """What `reduce` has left, (m,) float64."""
        return np.asarray(self.totals)[0, :self.m]

    cdef void reduce(self, int n_threads) noexcept nogil:
        """Leave the sums over all chunks in ``totals[0]``."""
        cdef ptrdiff_t stripe, chunk, j, j0, j1
        cdef ptrdiff_t chunks = self.totals.shape[0]
        cdef ptrdiff_t stripes = count_chunks(self.m, COLUMN_STRIPE)
        cdef double *into
        cdef double *more
        # Few columns are added up in the time that waking a thread takes.
        if self.m <= SERIAL_COLUMNS:
            n_threads = 1
        for stripe in prange(stripes, num_threads=team(n_threads, stripes),
                             schedule="static"):
            j0 = stripe * COLUMN_STRIPE
            j1 = min(j0 + COLUMN_STRIPE, self.m)
            into = &self.totals[0, 0]
            for chunk in range(1, chunks):
                more = &self.totals[chunk, 0]
                for j in range(j0, j1):
                    into[j] += more[j]


def _refuse(name, expected, came):
    raise ValueError(f"{name} must have shape {expected}, got {came}")


cdef int check(str name, ptrdiff_t came, ptrdiff_t expected) except -1:
    if came != expected:
        _refuse(name, (expected,), (came,))
    return 0


cdef int check_matrix(
    str name, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t n, ptrdiff_t m
) except -1:
    if rows != n or cols != m:
        _refuse(name, (n, m), (rows, cols))
    return 0


cdef tuple centered(const double[::1] f, const double[::1] g):
    """`f + shift` and float32 `g - shift` with the finite part of `g` around zero.

    The sum f_i + g_j is what counts; with small g_j the float32 difference f_i - c_ij
    is small as well wherever there is mass, and little is lost to rounding.
    """
    g_array = np.asarray(g)
    finite = g_array[g_array > -GWF_HUGE]
    shift = finite.mean() if finite.size else 0.0
    low = np.maximum(g_array - shift, -GWF_HUGE).astype(np.float32)
    return np.asarray(f) + shift, low


cdef rounded_off(const double[::1] g, centered_g, double epsilon):
    """What rounding took from `g` in `centered`, in units of `epsilon`, float32.

    Small beside the potentials but not beside epsilon: with it the kernel keeps the
    marginals that its potentials were made for.
    """
    g_array, low = np.asarray(g), np.asarray(centered_g, dtype=np.float64)
    finite = g_array > -GWF_HUGE
    rest = np.zeros(len(low), dtype=np.float32)
    if finite.any():
        shift = g_array[finite].mean()
        rest[finite] = ((g_array[finite] - shift) - low[finite]) / epsilon
    return rest
