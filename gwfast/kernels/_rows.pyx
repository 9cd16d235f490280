"""What the OpenMP loops work on, and how rows are shared out among their threads.

- rows are cut into chunks by their number alone, never by the number of threads, and
  every chunk owns its partial sums, which are added in the order of the chunks: the
  result is the same to the last bit for any number of threads;
- a matrix is a `Rows`: stored, or made strip by strip when a loop asks for it;
- the right factor of a product is a `Panels`, packed as the kernels in C read it;
- each thread flushes subnormal numbers to zero from the beginning of its part of a
  kernel to the end, and has the setting of before then (flush.h): subnormal input
  counts as zero, and no output is subnormal;
- what is stored may be float32 or float64 (`is_float64`), all of it in one call; rows
  that are made when asked for are float32, since what is made of them need not fit
  memory.
"""
from cython.parallel cimport prange, threadid
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint16_t, uint64_t

import math
import os

import numpy as np

cdef extern from "teams.h" nogil:
    int gwf_openmp()
    int gwf_max_threads()
    const char *gwf_runtime()
    void gwf_set_sizes(size_t, size_t)
    void gwf_forked()
    int gwf_is_orphan()
    int gwf_team_of(int)
    int gwf_blas_team_of(int)
    double gwf_seconds()

isa = gwf_supported_isa(0)

CACHE_LINE = 64
# Floats that rows are padded to a multiple of, where each shall start at a cache line
# or be whole vectors of any instruction set that can be selected.
row_floats = max(CACHE_LINE // 4, gwf_supported_isa(0).f32.lanes)
cdef object FLOAT16 = np.dtype(np.float16)
cdef object FLOAT32 = np.dtype(np.float32), FLOAT64 = np.dtype(np.float64)
# Floats of a strip of rows that are made when asked for, at most, and its rows, at
# least: fewer, and reading the right factor anew for every strip shows.
cdef ptrdiff_t STRIP_FLOATS = 1 << 20
cdef ptrdiff_t LEAST_STRIP = 64
# Columns whose partial sums are added by one thread at a time (4 KB of each chunk).
cdef ptrdiff_t COLUMN_STRIPE = 512
cdef ptrdiff_t SERIAL_COLUMNS = 4096
# Entries of a matrix below which passes find out whether one thread is faster than a
# team: one reads as many in a tenth of a millisecond. Threads wait for each other after
# each pass, for microseconds or, where other work has taken a core, for milliseconds:
# 300 x 300 entries took two threads 10 to 90 microseconds a pass on idle virtual
# machines and one thread 13, and beside other work solves took ten times as long.
cdef ptrdiff_t COMPARED_BELOW = 1 << 20
# Passes by a team, then by one thread, that are compared; and from one such comparison
# to the next.
cdef ptrdiff_t COMPARED, COMPARED_EVERY
COMPARED, COMPARED_EVERY = 4, 256
# The room of threads that need none, a row each: to make it anew takes as long as a
# pass over few points.
cdef float[:, ::1] NOT_WRITTEN = np.empty((256, 1), dtype=np.float32)


def aligned_empty(shape, dtype=np.float32):
    """Uninitialized array that starts at a cache line.

    NumPy's own start anywhere that a multiple of 16 bytes does, and vector loads that straddle two
    lines cost a pass over a large matrix a tenth of its speed, over one in cache a quarter.
    """
    dtype = np.dtype(dtype)
    count = math.prod(shape) if isinstance(shape, tuple) else int(shape)
    raw = np.empty(int(count) * dtype.itemsize + CACHE_LINE, dtype=np.uint8)
    cdef unsigned char[::1] content = raw
    return np.ndarray(shape, dtype, raw, -<size_t>&content[0] % CACHE_LINE)


cdef unsigned char[::1] aligned_bytes(ptrdiff_t size):
    """The same of so many bytes, for what only kernels read."""
    cdef unsigned char[::1] content = np.empty(size + <ptrdiff_t>CACHE_LINE, np.uint8)
    cdef ptrdiff_t start = -<size_t>&content[0] % <size_t>CACHE_LINE
    return content[start:start + size]


# --- Facts about the build and the processor ---------------------------------------

def openmp_version():
    """Version date of OpenMP this was built with (``_OPENMP``), 0 without it."""
    return gwf_openmp()


def openmp_max_threads():
    """What OpenMP would use by itself: ``OMP_NUM_THREADS`` or all processors."""
    return gwf_max_threads()


def openmp_runtime():
    """File of the OpenMP library in use, "" where that is not known."""
    return os.fsdecode(gwf_runtime())


def set_sizes(size_t stack, size_t blas):
    """Say how many bytes the stack of each of OpenMP's threads has, 0 for the system's
    default, and how many BLAS takes for each thread that calls it."""
    gwf_set_sizes(stack, blas)


def forked():
    """Tell, in a forked process, that the threads of this thread's team, if it ever had
    one, stayed in the parent: its loops run on one thread from now on."""
    gwf_forked()


def is_orphan():
    """Whether that is so."""
    return bool(gwf_is_orphan())


cdef int team(int n_threads, ptrdiff_t chunks) noexcept nogil:
    return gwf_team_of(<int>max(min(<ptrdiff_t>n_threads, chunks), 1))


cdef int blas_team(int n_threads, ptrdiff_t chunks) noexcept nogil:
    return gwf_blas_team_of(<int>max(min(<ptrdiff_t>n_threads, chunks), 1))


cdef double seconds() noexcept nogil:
    """The time by a clock that always runs; 0 without OpenMP."""
    return gwf_seconds()


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


# --- Subnormal numbers ----------------------------------------------------------------

# Bits of the floating-point control register that flush subnormal numbers, the flags of
# past operations, and the flag for a subnormal operand. 0 if unknown.
FLUSH_BITS, FLAGS, SUBNORMAL_SEEN = GWF_FLUSH_BITS, GWF_FLAGS, GWF_SUBNORMAL_SEEN


def float_controls(int n_threads=1):
    """The floating-point control register of each thread of a team; the calling thread
    is the first.
    """
    cdef int k, size = team(n_threads, n_threads)
    cdef uint64_t[::1] found = np.zeros(size, dtype=np.uint64)
    with nogil:
        for k in prange(size, num_threads=size, schedule="static"):
            found[k] = gwf_float_control()
    return np.asarray(found).tolist()


def set_float_control(uint64_t control):
    """Set the floating-point control register of the calling thread."""
    gwf_set_float_control(control)


# --- Matrices by rows -----------------------------------------------------------------

cdef class Rows:
    """An (n, m) matrix whose rows can be read some at a time.

    Attributes
    ----------
    strip : int
        As many at a time as `scratch` has room for; 0 where all are stored.
    is_float64 : bool
        Whether it is of float64.
    """

    cdef const void *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        """Where rows i to i + rows are, `scratch` if they are made now."""
        return NULL

    cdef float[:, ::1] scratch(self, int n_threads):
        """Room for a strip of each thread."""
        n_threads = max(n_threads, 1)
        self.ready()
        if not self.strip:
            few = n_threads <= NOT_WRITTEN.shape[0]
            return NOT_WRITTEN if few else np.empty((n_threads, 1), dtype=np.float32)
        return aligned_empty((n_threads, self.strip * self.m))

    cdef int ready(self) except -1:
        """Raise a ValueError unless rows can be read."""
        return 0


cdef class Stored(Rows):
    """A matrix in memory."""

    def __init__(self, matrix):
        self.is_float64, self.strip = holds_float64(matrix), 0
        if self.is_float64:
            self.doubles = matrix
            self.n, self.m = self.doubles.shape[0], self.doubles.shape[1]
        else:
            self.floats = matrix
            self.n, self.m = self.floats.shape[0], self.floats.shape[1]

    cdef const void *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        if self.is_float64:
            return &self.doubles[i, 0]
        return &self.floats[i, 0]


cdef bint holds_float64(x) except -1:
    """Whether `x` is an array of float64. What is of neither type counts as float32,
    and is refused as such when it is read."""
    dtype = getattr(x, "dtype", None)
    return dtype is FLOAT64 or (dtype is not FLOAT32 and dtype == FLOAT64)


cdef Rows as_rows(matrix):
    return matrix if isinstance(matrix, Rows) else Stored(matrix)


cdef class Panels:
    """The right factor of products, (k, m), packed.

    Parameters
    ----------
    matrix : (k, m) float32 or float64 ndarray, or (m, k) if `transposed`
        Columns of a matrix will do; where it is `transposed`, and without `scale`, also
        `Rows` that are made when asked for.
    transposed : bool
    scale : (k,) ndarray or None
        Factors of its k rows, of the same type.
    n_threads : int
    """

    def __init__(self, matrix, bint transposed=False, scale=None, int n_threads=1):
        self.is_float64, self.packed_for = holds_float64(matrix), isa
        if isinstance(matrix, Rows):
            if not transposed or scale is not None:
                raise ValueError("rows must be transposed, and without a scale")
            pack_rows(self, matrix, n_threads)
        elif self.is_float64:
            pack[double](self, matrix, transposed, scale, n_threads)
        else:
            pack[float](self, matrix, transposed, scale, n_threads)

    cdef int check(self, bint is_float64) except -1:
        if self.packed_for != isa:
            raise ValueError("panels must be packed for the instruction set in use")
        if self.is_float64 != is_float64:
            expected, came = _of(is_float64), _of(self.is_float64)
            raise ValueError(f"panels must be of {expected}, got {came}")
        return 0

    @property
    def nbytes(self):
        return self.packed.nbytes


cdef pack(Panels self, const real[:, :] matrix, bint transposed,
          const real[::1] scale, int n_threads):
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    cdef ptrdiff_t k = matrix.shape[1] if transposed else matrix.shape[0]
    cdef ptrdiff_t m = matrix.shape[0] if transposed else matrix.shape[1]
    cdef ptrdiff_t width = table.panel, lanes = table.lanes, j, panel
    cdef ptrdiff_t stride = row_stride[real](matrix)
    cdef ptrdiff_t row = 1 if transposed else stride
    cdef ptrdiff_t col = stride if transposed else 1
    cdef ptrdiff_t panels = count_chunks(m, width)
    cdef const real *factors = NULL
    cdef real *packed
    if k == 0 or m == 0:
        raise ValueError(f"matrix must not be empty, got shape {(k, m)}")
    if scale is not None:
        check("scale", scale.shape[0], k)
        factors = &scale[0]
    size = k * ((m + lanes - 1) // lanes * lanes) * sizeof(real)
    self.k, self.m, self.packed = k, m, aligned_bytes(size)
    packed = <real *>&self.packed[0]
    cdef uint64_t before
    with nogil:
        for panel in prange(panels, num_threads=team(n_threads, panels),
                            schedule="static"):
            before = begin_flush()
            j = panel * width
            table.pack_panel(&matrix[0, 0] + j * col, row, col, factors, k,
                             min(width, m - j), packed + j * k)
            end_flush(before)


cdef pack_rows(Panels self, Rows source, int n_threads):
    """`pack` of float32 rows that are made when asked for, transposed."""
    cdef ptrdiff_t k = source.m, m = source.n, width = isa.f32.panel, j, panel
    cdef ptrdiff_t lanes = isa.f32.lanes, panels = count_chunks(m, width)
    cdef float *packed
    cdef const float *made
    if not source.strip >= width:
        raise ValueError("rows must be made when asked for")
    size = k * ((m + lanes - 1) // lanes * lanes) * sizeof(float)
    self.k, self.m, self.packed = k, m, aligned_bytes(size)
    packed = <float *>&self.packed[0]
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    cdef uint64_t before
    with nogil:
        for panel in prange(panels, num_threads=team(n_threads, panels),
                            schedule="static"):
            before = begin_flush()
            j = panel * width
            made = <const float *>source.at(j, min(width, m - j),
                                            &scratch[threadid(), 0])
            isa.f32.pack_panel(made, 1, k, NULL, k, min(width, m - j), packed + j * k)
            end_flush(before)


cdef ptrdiff_t strip_for(ptrdiff_t m) noexcept:
    """Rows of m columns that are made at a time."""
    return max(STRIP_FLOATS // m // 8 * 8, LEAST_STRIP)


cdef class Shifted(Rows):
    """``(matrix - shift) * factor`` in float32, made when asked for; neither copied nor
    held in memory where it is a file.

    Parameters
    ----------
    matrix : (n, m) float16, float32 or float64 ndarray
        C-contiguous, of finite numbers.
    shift, factor : float
        Rounded to float32 where the matrix is not of float64.
    """

    def __init__(self, matrix, double shift=0.0, double factor=1.0):
        dtype = matrix.dtype
        if dtype != FLOAT16 and dtype != FLOAT32 and dtype != FLOAT64:
            raise ValueError(
                f"matrix must be of float16, float32 or float64, got {dtype}"
            )
        self.matrix, self.shift, self.factor = matrix, shift, factor
        self.n, self.m = matrix.shape
        check("columns of matrix", self.m, max(self.m, 1))
        self.itemsize, self.is_float64 = dtype.itemsize, False
        self.content = matrix.view(np.uint8)
        self.strip = strip_for(self.m)

    def __len__(self):
        return self.n

    def __getitem__(self, rows):
        """Some of the rows: a slice of them, or their numbers."""
        return Shifted(self.matrix[rows], self.shift, self.factor)

    @property
    def shape(self):
        return self.n, self.m

    @property
    def dtype(self):
        return FLOAT32

    cdef const void *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        cdef const void *given = &self.content[i, 0]
        cdef ptrdiff_t size = rows * self.m
        cdef float shift = <float>self.shift, factor = <float>self.factor
        if self.itemsize == 2:
            isa.shift_f16(<const uint16_t *>given, shift, factor, scratch, size)
        elif self.itemsize == 4:
            isa.shift_f32(<const float *>given, shift, factor, scratch, size)
        else:
            isa.shift_f64(<const double *>given, self.shift, self.factor, scratch,
                          size)
        return scratch


cdef class Product(Rows):
    """``left @ right``, made when asked for."""

    def __init__(self, const float[:, ::1] left, Panels right not None):
        check("inner side of right", right.k, left.shape[1])
        right.check(False)
        self.left, self.right, self.is_float64 = left, right, False
        self.n, self.m, self.k = left.shape[0], right.m, right.k
        self.strip = strip_for(self.m)

    cdef const void *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        isa.f32.product_rows(&self.left[i, 0], self.k,
                             <const float *>&self.right.packed[0], self.k, scratch,
                             self.m, rows, self.m, False)
        return scratch

    cdef int ready(self) except -1:
        return self.right.check(False)


cdef class Gibbs(Product):
    """``exp((f_i + g_j - (left @ right)_ij) / epsilon)``, made when asked for, by
    default; with the `logarithms` of scalings, u (n,) and v (m,) in float64, that
    kernel scaled by these, rounded as it is without them.
    """

    def __init__(
        self, const float[:, ::1] left, Panels right not None, const double[::1] f,
        const double[::1] g, double epsilon, logarithms=None,
    ):
        Product.__init__(self, left, right)
        check("f", f.shape[0], self.n)
        check("g", g.shape[0], self.m)
        self.f, self.f_rest, self.g, self.g_rest = in_parts(f, g, epsilon, logarithms)
        self.inv_epsilon = <float>(1.0 / epsilon)

    cdef const void *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil:
        isa.gibbs_product_rows(&self.left[i, 0],
                               <const float *>&self.right.packed[0], self.k,
                               &self.f[i], &self.f_rest[i], &self.g[0],
                               &self.g_rest[0], self.inv_epsilon, scratch, NULL, rows,
                               self.m)
        return scratch


# --- Sharing out rows -----------------------------------------------------------------

cdef class ColumnSums:
    """Scratch for the column sums of an (n, m) matrix, made once for many passes.

    Every chunk of rows adds into a row of the type of the matrix for a few rows at a
    time and folds it into its float64 row; `reduce` adds these up in the order of the
    chunks. It also knows what passes took lately, by a team and by one thread.

    Parameters
    ----------
    n, m : int
    dtype : dtype, default=np.float32
        Of the matrix, float32 or float64.
    """
    def __init__(self, ptrdiff_t n, ptrdiff_t m, dtype=np.float32):
        dtype = np.dtype(dtype)
        if dtype != FLOAT32 and dtype != FLOAT64:
            raise ValueError(f"dtype must be float32 or float64, got {dtype}")
        chunks = max(count_chunks(n, chunk_rows(n)), 1)
        padded = (m + row_floats - 1) // row_floats * row_floats
        self.n, self.m, self.is_float64 = n, m, dtype == FLOAT64
        self.totals = aligned_empty((chunks, padded), np.float64)
        self.blocks = aligned_empty((chunks, padded * dtype.itemsize), np.uint8)

    @property
    def nbytes(self):
        return self.totals.nbytes + self.blocks.nbytes

    @property
    def values(self):
        """What `reduce` has left, (m,) float64."""
        return np.asarray(self.totals)[0, :self.m]

    cdef int check(self, ptrdiff_t n, ptrdiff_t m, bint is_float64) except -1:
        check_matrix("work", self.n, self.m, n, m)
        if self.is_float64 != is_float64:
            expected, came = _of(is_float64), _of(self.is_float64)
            raise ValueError(f"work must be for {expected}, got {came}")
        return 0

    cpdef bint prefers_one(self) noexcept nogil:
        """Whether one thread makes the next pass, rather than a team."""
        cdef ptrdiff_t turn = self.n_passes % COMPARED_EVERY
        if self.n * self.m >= COMPARED_BELOW or turn < COMPARED:
            return False
        return turn < 2 * COMPARED or self.spent[1] < self.spent[0]

    cpdef void took(self, bint one, double seconds) noexcept nogil:
        """Note what a pass took."""
        cdef ptrdiff_t turn = self.n_passes % COMPARED_EVERY
        if turn == 0:
            self.spent[0] = self.spent[1] = 0.0
        if turn < 2 * COMPARED:
            self.spent[one] += seconds
        self.n_passes += 1

    cdef void reduce(self, int n_threads, ptrdiff_t chunks=-1) noexcept nogil:
        """Leave the sums over so many chunks, by default all, in ``totals[0]``."""
        cdef ptrdiff_t stripe, stripes = count_chunks(self.m, COLUMN_STRIPE)
        cdef int threads = team(n_threads, stripes)
        if chunks < 0:
            chunks = self.totals.shape[0]
        # Few columns are added up in the time that waking a thread takes.
        if threads == 1 or self.m <= SERIAL_COLUMNS:
            self.add_up(0, self.m, chunks)
            return
        for stripe in prange(stripes, num_threads=threads, schedule="static"):
            self.add_up(
                stripe * COLUMN_STRIPE, (stripe + 1) * COLUMN_STRIPE, chunks)

    cdef void add_up(
        self, ptrdiff_t first, ptrdiff_t last, ptrdiff_t chunks
    ) noexcept nogil:
        """`reduce` for some of the columns."""
        cdef ptrdiff_t chunk, j
        cdef double *into = &self.totals[0, 0]
        cdef double *more
        cdef uint64_t before = begin_flush()
        last = min(last, self.m)
        for chunk in range(1, chunks):
            more = &self.totals[chunk, 0]
            for j in range(first, last):
                into[j] += more[j]
        end_flush(before)


def _of(bint is_float64):
    return "float64" if is_float64 else "float32"


def _refuse(name, expected, came):
    raise ValueError(f"{name} must have shape {expected}, got {came}")


cdef ptrdiff_t row_stride(const real[:, :] matrix) except -1:
    """Numbers from row to row of a matrix each of whose rows is contiguous."""
    cdef ptrdiff_t n = matrix.shape[0], m = matrix.shape[1], size = sizeof(real)
    # Where there is but one the stride says nothing.
    if m > 1 and matrix.strides[1] != size:
        raise ValueError("ndarray must have C-contiguous rows")
    if n > 1 and (matrix.strides[0] < m * size or matrix.strides[0] % size):
        raise ValueError("ndarray must have C-contiguous rows, one after the other")
    return matrix.strides[0] // size if n > 1 else m


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


cdef double middle(const double[::1] g) noexcept nogil:
    """Mean of the finite part of `g`, 0.0 without any."""
    cdef ptrdiff_t j, finite = 0
    cdef double total = 0.0
    for j in range(g.shape[0]):
        if g[j] > -GWF_HUGE:
            total += g[j]
            finite += 1
    return total / finite if finite else 0.0


cdef tuple centered(const double[::1] f, const double[::1] g, bint is_float64):
    """`f + shift` and `g - shift` with the finite part of `g` around zero, the latter
    in float32 unless `is_float64`.

    The sum f_i + g_j is what counts; with small g_j the difference f_i - c_ij is small
    as well wherever there is mass, and little is lost to rounding.
    """
    shifted = np.empty(f.shape[0])
    low = np.empty(g.shape[0], FLOAT64 if is_float64 else FLOAT32)
    if is_float64:
        center[double](f, g, shifted, low)
    else:
        center[float](f, g, shifted, low)
    return shifted, low


cdef void center(const double[::1] f, const double[::1] g, double[::1] shifted,
                 real[::1] low) noexcept nogil:
    """Write what `centered` makes."""
    cdef ptrdiff_t i, j
    cdef uint64_t before = begin_flush()
    cdef double shift = middle(g), less
    for i in range(f.shape[0]):
        shifted[i] = f[i] + shift
    for j in range(g.shape[0]):
        less = g[j] - shift
        low[j] = <real>(-GWF_HUGE if less < -GWF_HUGE else less)
    end_flush(before)


cdef tuple in_parts(
    const double[::1] f, const double[::1] g, double epsilon, logarithms=None
):
    """What exponents are made of, all float32: `f` as `centered` makes it, what is to
    be added in units of `epsilon`, and the same of `g`.

    What is added is what rounding took from a potential, which is small beside that
    but not beside epsilon, so that the kernel keeps the marginals that its potentials
    were made for; and the logarithms of scalings where there are such. Scalings moved
    into the potentials would have every sum of these with a cost rounded otherwise.
    """
    shift = middle(g)
    logs_f, logs_g = (None, None) if logarithms is None else logarithms
    return (*rounded(np.add(f, shift), epsilon, logs_f),
            *rounded(np.subtract(g, shift), epsilon, logs_g))


cdef tuple rounded(const double[::1] x, double epsilon, const double[::1] logarithms):
    """`x` in float32, and the rest of it in units of `epsilon` with the logarithms."""
    made, rest = np.empty((2, x.shape[0]), FLOAT32)
    cdef float[::1] low = made, out = rest
    cdef double left
    cdef ptrdiff_t j
    if logarithms is not None:
        check("logarithms", logarithms.shape[0], x.shape[0])
    cdef uint64_t before = begin_flush()
    for j in range(x.shape[0]):
        low[j] = <float>(-GWF_HUGE if x[j] < -GWF_HUGE else x[j])
        left = (x[j] - low[j]) / epsilon if x[j] > -GWF_HUGE else 0.0
        out[j] = <float>(left if logarithms is None else left + logarithms[j])
    end_flush(before)
    return made, rest
