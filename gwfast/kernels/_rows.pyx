"""Matrices and vectors of the OpenMP loops, and the division of rows among their threads.

- A `Loop` cuts rows into chunks by their number alone, never by the number of threads, and every
  chunk owns its partial sums, which are added in the order of the chunks: the result is the same
  to the last bit for any number of threads.
- A matrix is stored, or it is `Rows`, made in float32 strip by strip when a loop reads them, so
  that the matrix need not fit memory.
- Each thread flushes subnormal numbers to zero from the beginning of its part of a kernel to the
  end, and has the setting of before then (flush.h): subnormal input counts as zero, and no output
  is subnormal.
"""
cimport cython
cimport numpy as cnp
from cython.parallel cimport prange
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t
from libc.string cimport memset

import math
import os

import numpy as np

cdef extern from "teams.h" nogil:
    const int GWF_MOST_THREADS
    int gwf_openmp()
    int gwf_max_threads()
    const char *gwf_runtime()
    void gwf_set_sizes(size_t, size_t)
    void gwf_forked()
    int gwf_is_orphan()
    int gwf_team_of(int)
    int gwf_blas_team_of(int)
    double gwf_seconds()

cnp.import_array()
isa = gwf_supported_isa(0)

MOST_THREADS = GWF_MOST_THREADS
CACHE_LINE = 64
# Floats that rows are padded to a multiple of, where each shall start at a cache line or be whole
# vectors of any instruction set that can be selected.
row_floats = max(CACHE_LINE // 4, gwf_supported_isa(0).f32.lanes)
cdef object FLOAT32 = np.dtype(np.float32), FLOAT64 = np.dtype(np.float64)
cdef enum:
    # Floats of a strip of rows that are made when asked for, at most, and its rows, at least:
    # fewer, and reading the right factor anew for every strip shows.
    STRIP_FLOATS = 1 << 20
    LEAST_STRIP = 64
    # Columns whose partial sums are added by one thread at a time (4 KB of each chunk), and
    # columns that are added up in the time that waking a thread takes.
    COLUMN_STRIPE = 512
    SERIAL_COLUMNS = 4096
    # Entries of a matrix below which passes find out whether one thread is faster than a team.
    # Threads wait for each other after each pass, for microseconds or, where other work has taken
    # a core, for milliseconds: 300 x 300 entries took two threads 10 to 90 microseconds a pass on
    # idle virtual machines and one thread 13; beside other work solves took ten times as long.
    COMPARED_BELOW = 1 << 20
    # Passes by a team, then by one thread, that are compared; and passes between comparisons.
    COMPARED = 4
    COMPARED_EVERY = 256


def aligned_empty(shape, dtype=np.float32):
    """Return an uninitialized array that starts at a cache line.

    NumPy's own start anywhere that a multiple of 16 bytes does, and vector loads that straddle two
    lines cost a pass over a large matrix a tenth of its speed, over one in cache a quarter.
    """
    dtype = np.dtype(dtype)
    count = math.prod(shape) if isinstance(shape, tuple) else int(shape)
    raw = np.empty(count * dtype.itemsize + CACHE_LINE, dtype=np.uint8)
    return np.ndarray(shape, dtype, raw, -<ptrdiff_t>cnp.PyArray_DATA(raw) % CACHE_LINE)


# --- Facts about the build and the processor ---------------------------------------

def openmp_version():
    """Return the date of the OpenMP this was built with (``_OPENMP``), 0 if there is none."""
    return gwf_openmp()


def openmp_max_threads():
    """Return the number of threads that OpenMP would use: ``OMP_NUM_THREADS`` or all processors."""
    return gwf_max_threads()


def openmp_runtime():
    """Return the file of the OpenMP library in use, "" where that is not known."""
    return os.fsdecode(gwf_runtime())


def set_sizes(size_t stack, size_t blas):
    """Set the bytes of the stack of each thread of OpenMP, 0 for the system's default, and the
    bytes that BLAS takes for each thread that calls it.
    """
    gwf_set_sizes(stack, blas)


def forked():
    """Note, in a forked process, that the threads of this thread's team, if it ever had one,
    stayed in the parent: its loops run on one thread from now on.
    """
    gwf_forked()


def is_orphan():
    """Return whether `forked` has left this thread without its team."""
    return bool(gwf_is_orphan())


cdef int team(int n_threads, ptrdiff_t chunks) noexcept nogil:
    return gwf_team_of(<int>max(min(<ptrdiff_t>n_threads, chunks), 1))


cdef int blas_team(int n_threads, ptrdiff_t chunks) noexcept nogil:
    return gwf_blas_team_of(<int>max(min(<ptrdiff_t>n_threads, chunks), 1))


cdef double seconds() noexcept nogil:
    """The time by a clock that always runs; 0 without OpenMP."""
    return gwf_seconds()


def supported_isas():
    """Return the names of the instruction sets this processor can run, widest first."""
    names = []
    while gwf_supported_isa(len(names)) != NULL:
        names.append(gwf_supported_isa(len(names)).name.decode())
    return names


def current_isa():
    """Return the name of the instruction set in use."""
    return isa.name.decode()


def select_isa(name):
    """Use the kernels of instruction set `name` from now on, in the whole process."""
    global isa
    names = supported_isas()
    if name not in names:
        raise ValueError(f"instruction set must be one of {names}, got {name!r}")
    isa = gwf_supported_isa(names.index(name))


# Bits of the floating-point control register that flush subnormal numbers, and the flags of past
# operations. 0 if unknown.
FLUSH_BITS, FLAGS = GWF_FLUSH_BITS, GWF_FLAGS


def float_controls(int n_threads=1):
    """Return the floating-point control register of each thread of a team; the calling thread is
    the first.
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


# --- Arguments ------------------------------------------------------------------------

cdef bint holds_float64(x) except -1:
    """Return whether `x` is an array of float64. Arrays of further types count as float32, and are
    refused when they are read."""
    dtype = getattr(x, "dtype", None)
    return dtype is FLOAT64 or (dtype is not FLOAT32 and dtype == FLOAT64)


cdef void *floats(str name, x, int ndim, bint is_float64, bint writes=False) except NULL:
    """Return the address of the numbers of a C-contiguous array."""
    check_array(name, x, ndim, is_float64)
    if not cnp.PyArray_IS_C_CONTIGUOUS(x) or (writes and not cnp.PyArray_ISWRITEABLE(x)):
        raise ValueError(f"{name} must be C-contiguous{', and not read-only' if writes else ''}")
    return cnp.PyArray_DATA(x)


cdef void *strided(str name, x, bint is_float64, ptrdiff_t *stride, bint writes=False) except NULL:
    """Return the address of a matrix with contiguous rows, and set its row stride in numbers: the
    matrix may be some columns of a wider matrix."""
    check_array(name, x, 2, is_float64)
    cdef ptrdiff_t n = cnp.PyArray_DIM(x, 0), m = cnp.PyArray_DIM(x, 1)
    cdef ptrdiff_t size = 8 if is_float64 else 4, step = cnp.PyArray_STRIDE(x, 0)
    # The stride of a single row or column may be anything.
    if m > 1 and cnp.PyArray_STRIDE(x, 1) != size or n > 1 and (step < m * size or step % size):
        raise ValueError(f"{name} must have C-contiguous rows, one after the other")
    if writes and not cnp.PyArray_ISWRITEABLE(x):
        raise ValueError(f"{name} must not be read-only")
    stride[0] = step // size if n > 1 else m
    return cnp.PyArray_DATA(x)


cdef int check_array(str name, x, int ndim, bint is_float64) except -1:
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{name} must be an ndarray, got {type(x).__name__}")
    if cnp.PyArray_NDIM(x) != ndim or x.dtype != (FLOAT64 if is_float64 else FLOAT32):
        expected, came = f"{ndim}-D of {type_of(is_float64)}", f"{x.ndim}-D of {x.dtype}"
        raise ValueError(f"{name} must be {expected}, got {came}")
    return 0


cdef str type_of(bint is_float64):
    return "float64" if is_float64 else "float32"


cdef int check(str name, ptrdiff_t came, ptrdiff_t expected) except -1:
    if came != expected:
        raise ValueError(f"{name} must have shape {(expected,)}, got {(came,)}")
    return 0


cdef int check_matrix(
    str name, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t n, ptrdiff_t m
) except -1:
    if rows != n or cols != m:
        raise ValueError(f"{name} must have shape {(n, m)}, got {(rows, cols)}")
    return 0


@cython.final
cdef class Loop:
    """A loop over the rows of a matrix, an array or, if they may be `made`, `Rows`: chunks of
    `size` rows, read `strip` rows at a time, or whole if the matrix is stored.
    """

    def __cinit__(self, str name, matrix, int n_threads, bint made=False, bint writes=False):
        if made and isinstance(matrix, Rows):
            self.source = matrix
            self.source.ready()
            self.n, self.m, self.is_float64 = self.source.n, self.source.m, False
        else:
            self.is_float64 = holds_float64(matrix)
            self.data = <const char *>floats(name, matrix, 2, self.is_float64, writes)
            self.n, self.m = cnp.PyArray_DIM(matrix, 0), cnp.PyArray_DIM(matrix, 1)
        self.table = isa.f64 if self.is_float64 else isa.f32
        self.row_bytes = self.m * (8 if self.is_float64 else 4)
        self.size = self.strip = chunk_rows(self.n)
        self.chunks = count_chunks(self.n, self.size)
        self.threads = team(n_threads, self.chunks)
        if self.source is not None:
            self.strip = min(self.source.strip, self.size)
            self.room = aligned_empty((max(n_threads, 1), self.source.strip * self.m))
            self.scratch = <float *>cnp.PyArray_DATA(self.room)

    cdef const void *at(self, ptrdiff_t i, ptrdiff_t rows, int thread) noexcept nogil:
        """Return the address of rows i to i + rows, made for `thread` unless stored."""
        if self.source is None:
            return self.data + i * self.row_bytes
        return self.source.at(i, rows, self.scratch + thread * self.source.strip * self.m)

    cdef ptrdiff_t end(self, ptrdiff_t chunk) noexcept nogil:
        return min(chunk * self.size + self.size, self.n)

    cdef ptrdiff_t parts(self) noexcept nogil:
        """Return the number of strips, for loops that add nothing up."""
        return count_chunks(self.n, self.strip)

    cdef void *beside(self, str name, x, bint writes=False) except NULL:
        """The numbers of another matrix of this shape and type."""
        cdef void *found = floats(name, x, 2, self.is_float64, writes)
        check_matrix(name, cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1), self.n, self.m)
        return found

    cdef void *vector(self, str name, x, ptrdiff_t size, bint writes=False) except NULL:
        """The numbers of a vector of the type of the matrix."""
        cdef void *found = floats(name, x, 1, self.is_float64, writes)
        check(name, cnp.PyArray_DIM(x, 0), size)
        return found


# --- Matrices that are made by rows ---------------------------------------------------

cdef class Rows:
    """An (n, m) matrix of float32 whose rows are made when they are asked for, at most `strip` at
    a time.
    """

    cdef const void *at(self, ptrdiff_t i, ptrdiff_t rows, float *scratch) noexcept nogil:
        """Make rows i to i + rows in `scratch`."""
        return NULL

    cdef int ready(self) except -1:
        """Raise a ValueError unless rows can be read."""
        return 0


cdef ptrdiff_t strip_for(ptrdiff_t m) noexcept:
    """Rows of m columns that are made at a time."""
    return max(STRIP_FLOATS // m // 8 * 8, LEAST_STRIP)


cdef class Shifted(Rows):
    """``(matrix - shift) * factor`` in float32, neither copied nor held in memory where it is a
    file.

    Parameters
    ----------
    matrix : (n, m) float16, float32 or float64 ndarray
        C-contiguous, of finite numbers.
    shift, factor : float
        Rounded to float32 unless the matrix is of float64.
    """

    def __init__(self, matrix, double shift=0.0, double factor=1.0):
        if matrix.dtype not in (np.dtype(np.float16), FLOAT32, FLOAT64):
            raise ValueError(f"matrix must be of float16, float32 or float64, got {matrix.dtype}")
        if matrix.ndim != 2 or not matrix.shape[1] or not cnp.PyArray_ISCARRAY_RO(matrix):
            raise ValueError("matrix must be 2-D, not empty and C-contiguous")
        self.matrix, self.shift, self.factor = matrix, shift, factor
        (self.n, self.m), self.itemsize = matrix.shape, matrix.itemsize
        self.content, self.strip = cnp.PyArray_BYTES(matrix), strip_for(self.m)

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

    cdef const void *at(self, ptrdiff_t i, ptrdiff_t rows, float *scratch) noexcept nogil:
        cdef const char *source = self.content + i * self.m * self.itemsize
        cdef ptrdiff_t size = rows * self.m
        cdef const gwf_kernels *table = isa.f64 if self.itemsize == 8 else isa.f32
        if self.itemsize == 2:
            isa.shift_half_row(source, <float>self.shift, <float>self.factor, scratch, size)
        else:
            table.shift_row(source, self.shift, self.factor, scratch, size)
        return scratch


# --- Scaling maps, and column sums --------------------------------------------------

@cython.final
cdef class ScalingMap:
    """The map of a marginal rule in Sinkhorn iterations on one kernel.

    Parameters
    ----------
    rows, columns : (n,) and (m,) float64 ndarray or None
        Anchors: with a power of one the largest scalings, else what powers of the scalings that
        fit the masses are multiplied by. None if the masses of the side are given.
    row_power, column_power : float
    mass : float
        If positive, the mass that each iteration scales `u`, and the anchors of rows, to.
    rate : float
        If positive, each iteration multiplies `u` and divides `v` by the power ``1 / rate`` of the
        quotient of the masses of rows and columns.
    """

    def __init__(
        self, rows=None, columns=None, double row_power=1.0, double column_power=1.0,
        double mass=0.0, double rate=0.0,
    ):
        self.map = gwf_scaling_map(NULL, NULL, row_power, column_power, mass, rate, 1.0)
        if rows is not None:
            self.map.rows = <double *>floats("rows", rows, 1, True)
            self.rows = rows.copy()  # iterations change it
            self.map.rows = <double *>floats("rows", self.rows, 1, True)
        if columns is not None:
            self.columns = columns
            self.map.columns = <const double *>floats("columns", columns, 1, True)

    @property
    def factor(self):
        """Product of the factors of the anchors of rows."""
        return self.map.factor

    def scale(self, double factor):
        """Multiply the anchors of rows by a factor, which is returned."""
        self.map.factor *= factor
        if self.rows is not None:
            self.rows *= factor
        return factor

    cdef gwf_scaling_map *of(self, ptrdiff_t n, ptrdiff_t m) except NULL:
        if self.rows is not None:
            check("rows of the scaling map", len(self.rows), n)
        if self.columns is not None:
            check("columns of the scaling map", len(self.columns), m)
        return &self.map


@cython.final
cdef class ColumnSums:
    """Scratch for the column sums of an (n, m) matrix, made once for many passes.

    Every chunk of rows adds into a row of the type of the matrix for a few rows at a time and
    folds it into its float64 row; `reduce` adds these up in the order of the chunks. It also knows
    what passes took lately, by a team and by one thread.

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
        self.n, self.m, self.is_float64 = n, m, dtype == FLOAT64
        self.chunks = max(count_chunks(n, chunk_rows(n)), 1)
        self.stride = (m + row_floats - 1) // row_floats * row_floats
        # Rows of float64, then equally many rows of the type of the matrix.
        self.memory = aligned_empty(self.chunks * self.stride * (8 + dtype.itemsize), np.uint8)
        self.totals = <double *>cnp.PyArray_DATA(self.memory)
        self.blocks = <char *>(self.totals + self.chunks * self.stride)

    @property
    def nbytes(self):
        return self.memory.nbytes

    @property
    def values(self):
        """Return the sums that `reduce` has left, (m,) float64."""
        return self.memory[:8 * self.m].view(np.float64)

    cdef double *total(self, ptrdiff_t chunk) noexcept nogil:
        return self.totals + chunk * self.stride

    cdef void *block(self, ptrdiff_t chunk) noexcept nogil:
        """Scratch of a chunk, whose total becomes zero."""
        memset(self.total(chunk), 0, self.m * sizeof(double))
        return self.blocks + chunk * self.stride * (8 if self.is_float64 else 4)

    cdef int check(self, ptrdiff_t n, ptrdiff_t m, bint is_float64) except -1:
        check_matrix("work", self.n, self.m, n, m)
        if self.is_float64 != is_float64:
            made = type_of(self.is_float64)
            raise ValueError(f"work must be for {type_of(is_float64)}, got {made}")
        return 0

    cpdef bint prefers_one(self) noexcept nogil:
        """Return whether one thread makes the next pass, rather than a team."""
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
        """Leave the sums over the first `chunks` chunks, by default all, in ``total(0)``."""
        cdef ptrdiff_t stripe, stripes = count_chunks(self.m, COLUMN_STRIPE)
        cdef int threads = 1 if self.m <= SERIAL_COLUMNS else team(n_threads, stripes)
        if chunks < 0:
            chunks = self.chunks
        if threads == 1:
            add_up(self.totals, self.stride, self.m, chunks)
            return
        for stripe in prange(stripes, num_threads=threads, schedule="static"):
            add_up(self.totals + stripe * COLUMN_STRIPE, self.stride,
                   min(COLUMN_STRIPE, self.m - stripe * COLUMN_STRIPE), chunks)


cdef void add_up(double *totals, ptrdiff_t stride, ptrdiff_t m, ptrdiff_t chunks) noexcept nogil:
    cdef ptrdiff_t chunk, j
    cdef double *more
    cdef uint64_t before = begin_flush()
    for chunk in range(1, chunks):
        more = totals + chunk * stride
        for j in range(m):
            totals[j] += more[j]
    end_flush(before)
