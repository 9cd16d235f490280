"""How many threads, and who may use them."""

import contextlib
import functools
import os
from pathlib import Path

import scipy.linalg  # noqa: F401  loads the BLAS that the kernels call
from threadpoolctl import ThreadpoolController

from . import _rows

# Matrix entries below which waking a second thread costs more than it saves: a pass
# over this many takes about 10 microseconds on one core.
SERIAL_BELOW = 65_536
MOST_THREADS = 4096


def resolve_n_threads(n_threads=None, *, work=None):
    """Number of threads to use.

    None is ``OMP_NUM_THREADS`` where that is set, else the physical cores that this
    process may use (affinity and container quota counted). Negative numbers count back
    from that as in joblib: -1 is all, -2 all but one. A pass that touches only few
    matrix entries, its `work`, runs on one thread whatever `n_threads` is.
    """
    if n_threads is not None:
        if isinstance(n_threads, bool) or not hasattr(n_threads, "__index__"):
            raise TypeError(
                f"n_threads must be an integer or None, got {type(n_threads).__name__}"
            )
        n_threads = n_threads.__index__()
        if n_threads == 0:
            raise ValueError("n_threads must not be 0; use None for the default")
        if n_threads > MOST_THREADS:
            raise ValueError(
                f"n_threads must be at most {MOST_THREADS}, got {n_threads}"
            )
    if n_threads is None or n_threads < 0:
        default = _default_n_threads()
        n_threads = default if n_threads is None else max(1, default + 1 + n_threads)
    if work is not None and work < SERIAL_BELOW:
        return 1
    return n_threads


def _default_n_threads():
    available = _rows.openmp_max_threads()
    if os.environ.get("OMP_NUM_THREADS"):
        return available
    return max(1, min(available, _physical_cores(), _quota()))


@functools.cache
def _physical_cores():
    """Physical cores among the processors this process may run on."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
    cores = set()
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings")
        try:
            cores.add(siblings.read_text())
        except OSError:
            return len(allowed)
    return len(cores)


@functools.cache
def _quota():
    """Processors that the control group (a container's limit) grants."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, round(int(quota) / int(period)))
    except (OSError, ValueError):  # no such file, or "max": no limit
        return os.cpu_count() or 1


# Scanning the loaded libraries takes milliseconds: once is enough, since the only BLAS
# that matters, SciPy's, is loaded above.
_controller = functools.cache(ThreadpoolController)


@contextlib.contextmanager
def single_threaded_blas():
    """One BLAS thread inside the block, the former number after it, also on errors.

    The kernels call BLAS from their own threads; with OpenBLAS the limit holds for the
    whole process while the block runs.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


def libraries(kind):
    """Facts about the libraries in this process of a kind, "blas" or "openmp"."""
    return [lib for lib in ThreadpoolController().info() if lib["user_api"] == kind]
