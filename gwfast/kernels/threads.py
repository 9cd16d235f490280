"""How many threads, and who may use them."""

import contextlib
import functools
import mmap
import os
import re
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.linalg  # loads the BLAS that the kernels call
from threadpoolctl import ThreadpoolController

from . import BOUND, PROCESSORS, _rows, allowed_processors
from .control_groups import groups
from .digits import shown

# Matrix entries below which waking a second thread costs more than it saves: a pass over this many
# takes about 10 microseconds on one core.
SERIAL_BELOW = 65_536


def resolve_n_threads(n_threads=None, *, work=None, team=True):
    """Return the number of threads to use.

    None is ``OMP_NUM_THREADS`` where that is set, else the physical cores that this process may use
    now (affinity and container quota counted). Negative numbers count back from that as in joblib:
    -1 is all, -2 all but one. A pass that touches only few matrix entries, its `work`, runs on one
    thread for any `n_threads`.

    A process that was forked from a process with a team of OpenMP's threads gets one thread and a
    RuntimeWarning, as OpenMP would hang there; unless the threads are Python's, no `team`.
    """
    if n_threads is not None:
        # NumPy's own truth values counted as integers before 2.3.
        if isinstance(n_threads, bool | np.bool_) or not hasattr(n_threads, "__index__"):
            raise TypeError(f"n_threads must be an integer or None, got {type(n_threads).__name__}")
        n_threads = n_threads.__index__()
        if n_threads == 0:
            raise ValueError("n_threads must not be 0; use None for the default")
        if n_threads > _rows.MOST_THREADS:
            most = _rows.MOST_THREADS
            raise ValueError(f"n_threads must be at most {most}, got {shown(n_threads)}")
    if work is not None and work < SERIAL_BELOW:
        return 1
    if n_threads is None or n_threads < 0:
        default = _default_n_threads()
        n_threads = default if n_threads is None else max(1, default + 1 + n_threads)
    if team and n_threads > 1 and _rows.is_orphan():
        _warn_of_fork()
        return 1
    return n_threads


def _default_n_threads():
    available = _rows.openmp_max_threads()
    if os.environ.get("OMP_NUM_THREADS"):
        return available
    cores = _physical_cores(PROCESSORS if BOUND else allowed_processors())
    if available == _UNASKED:  # the processors at import, which may have changed
        available = cores
    # A quota may change, but reading its files takes a tenth of a millisecond.
    return max(1, min(available, cores, _quota(int(time.monotonic()))))


# Threads that OpenMP takes by default; None if the environment has asked for another number.
_UNASKED = len(PROCESSORS) if _rows.openmp_max_threads() == len(PROCESSORS) else None


@functools.lru_cache(maxsize=8)
def _physical_cores(processors):
    """Return how many cores these processors are on."""
    cores = set()
    for cpu in processors:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings")
        try:
            cores.add(siblings.read_text())
        except OSError:
            return len(processors)
    return len(cores)


@functools.lru_cache(maxsize=1)
def _quota(second):
    """Return the processors that the control groups (a container's limits) grant, this second."""
    granted = [os.cpu_count() or 1]
    for version, folder in groups("cpu"):
        try:
            if version == 2:
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota = (folder / "cpu.cfs_quota_us").read_text()
                period = (folder / "cpu.cfs_period_us").read_text()
            share = int(quota) / int(period)
        except (OSError, ValueError, ZeroDivisionError):
            continue  # no such file, or "max": no limit
        if share > 0:  # -1: no limit
            granted.append(max(1, round(share)))
    return min(granted)


# --- Stacks and forks -----------------------------------------------------------------


def _stack_bytes(environment):
    """Return the bytes of a stack that these variables ask for, 0 where they don't."""
    for name in ("OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"):
        found = re.fullmatch(r"\s*(\d+)\s*([BKMG]?)\s*", environment.get(name, "").upper())
        if found:
            return min(int(found[1]) * 1024 ** "BKMG".index(found[2] or "K"), 2**40)
    return 0


_STACK = _stack_bytes(os.environ)
_rows.set_sizes(_STACK, 0)


def _starts_anew():
    """Return whether OpenMP does in a forked process: LLVM's and Intel's, unless the
    environment forbids it (joblib sets it); GNU's waits there for threads of the parent.
    """
    told = os.environ.get("KMP_INIT_AT_FORK", "").strip().lower().lstrip(".")
    library = Path(_rows.openmp_runtime()).name
    return library.startswith(("libomp", "libiomp")) and not told.startswith(
        ("0", "f", "n", "of", "d")
    )


# As OpenMP read it when it was loaded.
STARTS_ANEW = _starts_anew()


def _in_forked_process():
    if not STARTS_ANEW:
        _rows.forked()
    _blas_limit.in_forked_process()


@functools.lru_cache(maxsize=1)
def _warn_once(process):
    warnings.warn(
        "this process was forked from one in which gwfast had run on several threads; OpenMP would "
        "hang here, so everything runs on one thread. Start processes by 'spawn' or 'forkserver' "
        "(multiprocessing.get_context), or ask for one thread on purpose: n_threads=1, or "
        "OMP_NUM_THREADS=1 in the environment",
        RuntimeWarning,
        stacklevel=4,
    )


def _warn_of_fork():
    _warn_once(os.getpid())


# --- BLAS -----------------------------------------------------------------------------

# Scanning the loaded libraries takes milliseconds: once is enough, since the only BLAS that
# matters, SciPy's, is loaded above.
_controller = functools.cache(ThreadpoolController)


class _BlasLimit:
    """One thread for each of some BLAS libraries while anybody is inside.

    Such a library has one number of threads for the whole process: who comes first sets it, who
    goes last restores it. A number that was set from outside meanwhile stays.
    """

    def __init__(self):
        # `has_buffers`: whether BLAS has been called, for whose buffers there was room.
        self._lock, self.has_buffers = threading.RLock(), False
        self._inside, self._former = {}, []  # how often each Python thread is; what to restore

    def __enter__(self):
        me = threading.get_ident()
        with self._lock:
            if not self._inside:
                # An interrupt just here may have left what is to be restored.
                self._former = self._former or _to_limit(_blas(shared=True))
                _set_threads([(library, 1) for library, _ in self._former])
                self._take_buffers()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_):
        me = threading.get_ident()
        with self._lock:
            self._inside[me] -= 1
            if self._inside[me] == 0:
                del self._inside[me]
                self._restore()

    def _restore(self):
        if not self._inside:
            _set_threads([pair for pair in self._former if pair[0].num_threads == 1])
            self._former = []

    def in_forked_process(self):
        """Go on with the thread that forked; another may have held the lock."""
        self._lock, me = threading.RLock(), threading.get_ident()
        if self._inside:
            self._inside = {k: n for k, n in self._inside.items() if k == me}
            self._restore()

    def _take_buffers(self):
        """Call BLAS for the first time, where there is room for that."""
        if self.has_buffers:
            return
        sizes = [_buffer_bytes(library) for library in _blas(shared=True)]
        if not _has_room(sum(sizes)):
            self._restore()
            raise MemoryError(
                f"the BLAS of NumPy and SciPy takes {sum(sizes) / 1e9:.3g} GB of address space, "
                "more than limits of this process (ulimit -v) leave"
            )
        small = np.ones((2, 2), dtype=np.float32)
        scipy.linalg.blas.sgemm(1.0, small @ small, small)
        _rows.set_sizes(_STACK, max(sizes, default=0))
        self.has_buffers = True


_blas_limit = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_process)


def _blas(shared):
    """Yield the BLAS libraries that have one number of threads for the whole process, or the
    libraries that have a number for each thread.
    """
    for library in _controller().lib_controllers:
        if library.user_api == "blas":
            of_openmp = getattr(library, "threading_layer", None) == "openmp"
            if shared != (of_openmp and library.internal_api == "openblas"):
                yield library


def _buffer_bytes(library):
    """Return the address space that OpenBLAS takes when it is first called, for each thread that
    calls it at once; it ends the process if it gets none.
    """
    if library.internal_api != "openblas":
        return 0
    of_wheels = library.prefix == "libscipy_openblas"
    return (32 if of_wheels else 128) * 1024**2


def _has_room(n_bytes):
    """Return whether `n_bytes` of address space are free."""
    if n_bytes == 0 or not hasattr(mmap, "MAP_ANONYMOUS"):
        return True
    try:
        mmap.mmap(-1, n_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError):
        return False
    return True


def _set_threads(settings):
    # threadpoolctl lets only that thread set OpenBLAS which set it first, whether that is done with
    # it or not, and ignores the others. It is released for all of them.
    releases = [
        library.clear_controlling_thread
        for library, _ in settings
        if hasattr(library, "clear_controlling_thread")
    ][:1]
    for release in releases:
        release(force=True)
    for library, n_threads in settings:
        library.set_num_threads(n_threads)
    for release in releases:
        release(force=True)


def _to_limit(libraries):
    """Return pairs of a library with more than one thread and this number."""
    return [(library, library.num_threads) for library in libraries if library.num_threads != 1]


# Points of problems that OpenBLAS multiplies on one thread anyway (interface/gemm.c: up to 4 *
# 65536 multiplications), so that there is nothing to limit.
FEW_POINTS = 64


def single_threaded_blas(n_points=None):
    """Limit BLAS to one thread inside the block, and restore the previous number after it.
    Do nothing if there are so few points that BLAS takes one thread by itself.

    The kernels call BLAS from their own threads. With OpenBLAS the limit holds for the whole
    process while anybody is inside: blocks may overlap in several Python threads.
    """
    if n_points is not None and n_points <= FEW_POINTS and _blas_limit.has_buffers:
        return contextlib.nullcontext()
    return _limited_blas()


@contextlib.contextmanager
def _limited_blas():
    own = _to_limit(_blas(shared=False))
    with _blas_limit:
        try:
            _set_threads([(library, 1) for library, _ in own])
            yield
        finally:
            _set_threads(own)


def libraries(kind):
    """Return facts about the libraries in this process of a kind, "blas" or "openmp"."""
    return [lib for lib in ThreadpoolController().info() if lib["user_api"] == kind]
