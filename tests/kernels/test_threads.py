"""How many threads are taken, and that BLAS gets back what it had."""

import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.processes import environment, run_python
from threadpoolctl import threadpool_limits

from gwfast.kernels import _rows, threads
from gwfast.kernels.threads import resolve_n_threads, single_threaded_blas

needs_openmp = pytest.mark.skipif(not _rows.openmp_version(), reason="built without OpenMP")
needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")


def in_new_process(code, **environment):
    """Numbers that `code` prints in a process with these environment variables."""
    return [*map(int, run_python(code, **environment).stdout.split())]


@pytest.mark.process
@needs_openmp
def test_omp_num_threads_is_obeyed_also_above_the_cores():
    """And the first one where it has those of nested teams."""
    code = """
from gwfast.kernels.threads import resolve_n_threads as resolve
print(resolve(), resolve(-1), resolve(-2), resolve(-99), resolve(7))
"""
    assert in_new_process(code, OMP_NUM_THREADS="67,2") == [67, 67, 66, 1, 7]


OPENMP_ALONE = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]).omp_get_max_threads()
"""


@pytest.mark.process
@pytest.mark.parametrize("setting", mostly_slow([None, ""], fast=[None]))
def test_default_is_at_most_the_processors_that_the_process_may_use(setting):
    """When it is asked: they may be taken away, and given back."""
    alone = [sys.executable, "-c", OPENMP_ALONE, _rows.openmp_runtime()]
    variables = environment(OMP_NUM_THREADS=setting)
    if setting == "" and _rows.openmp_runtime():
        if subprocess.run(alone, env=variables).returncode < 0:
            pytest.skip("this OpenMP ends every process with such an OMP_NUM_THREADS")
    code = """
import os
from gwfast.kernels.threads import resolve_n_threads as resolve
every = one = resolve()
if hasattr(os, "sched_setaffinity"):
    first = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(first)})
    one = resolve()
    os.sched_setaffinity(0, first)
print(every, resolve(), resolve(-1), resolve(every), one)
"""
    every, *again, one = in_new_process(code, OMP_NUM_THREADS=setting)
    assert 1 <= every <= os.cpu_count() and again == [every] * 3
    assert one == (1 if hasattr(os, "sched_setaffinity") else every)


@pytest.mark.slow
@pytest.mark.process
@needs_affinity
@pytest.mark.parametrize("bind, pinned", [(None, True), ("true", False)])
def test_processors_that_the_first_thread_lacks_at_the_import_count(bind, pinned):
    """OMP_PROC_BIND: its affinity is then OpenMP's doing."""
    code = f"""
import os
first = os.sched_getaffinity(0)
if {pinned}:
    os.sched_setaffinity(0, {{min(first)}})
import gwfast.kernels.threads as threads
if {pinned}:
    os.sched_setaffinity(0, first)
print(threads.resolve_n_threads(), threads._physical_cores(frozenset(first)))
"""
    given, cores = in_new_process(code, OMP_NUM_THREADS=None, OMP_PROC_BIND=bind)
    assert given == min(cores, threads._quota(0))


@needs_openmp
def test_limits_of_threadpoolctl_are_obeyed(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = resolve_n_threads()
    with threadpool_limits(1, user_api="openmp"):
        assert resolve_n_threads() == resolve_n_threads(-1) == 1
        assert resolve_n_threads(3) == 3
    assert resolve_n_threads() == before


@pytest.mark.parametrize("n_threads", [1, 2, 1000, np.int64(3), np.uint8(4)])
def test_positive_number_is_taken_as_it_is(n_threads):
    came = resolve_n_threads(n_threads)
    assert came == n_threads and type(came) is int


@pytest.mark.parametrize(
    "n_threads, error, message",
    [
        *((k, ValueError, f"at most 4096, got {k}") for k in (4097, 2**31, 2**70)),
        (0, ValueError, "n_threads must not be 0"),
        *(
            (x, TypeError, f"n_threads must be an integer .* {type(x).__name__}")
            for x in (True, np.True_, 2.0, np.float64(2), "2", [2])
        ),
    ],
)
def test_other_numbers_of_threads_are_refused(n_threads, error, message):
    for work in (None, 1):
        with pytest.raises(error, match=message):
            resolve_n_threads(n_threads, work=work)


def test_little_work_runs_on_one_thread():
    assert resolve_n_threads(5, work=threads.SERIAL_BELOW - 1) == 1
    assert resolve_n_threads(5, work=threads.SERIAL_BELOW) == 5


# --- BLAS -----------------------------------------------------------------------------


def blas_threads():
    return [library["num_threads"] for library in threads.libraries("blas")]


@pytest.fixture
def three_blas_threads():
    """More than one BLAS thread to begin with, whatever the machine."""
    libraries = list(threads._blas(shared=True))
    before = [(library, library.num_threads) for library in libraries]
    threads._set_threads([(library, 3) for library in libraries])
    try:
        if set(blas_threads()) != {3}:
            pytest.skip("the number of BLAS threads cannot be set here")
        yield
    finally:
        threads._set_threads(before)


@pytest.mark.usefixtures("three_blas_threads")
class TestSingleThreadedBlas:
    def test_it_limits_and_restores_nested_and_after_an_exception(self):
        with pytest.raises(ZeroDivisionError), single_threaded_blas():
            with single_threaded_blas():
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {1}
            raise ZeroDivisionError
        assert set(blas_threads()) == {3}

    def test_it_leaves_alone_what_has_one_thread_for_so_few_points(self):
        with single_threaded_blas():  # BLAS has its buffers from now on
            pass
        for n_points, inside in ((threads.FEW_POINTS, 3), (threads.FEW_POINTS + 1, 1)):
            with single_threaded_blas(n_points):
                assert set(blas_threads()) == {inside}

    @pytest.mark.parametrize("first_out", ["first in", "last in"])
    def test_overlapping_python_threads_leave_nothing_behind(self, first_out):
        """No thread has set a number before: threadpoolctl lets only one do that."""
        inside, leave = ([threading.Event() for _ in range(2)] for _ in range(2))

        def enter(k):
            with single_threaded_blas():
                inside[k].set()
                assert leave[k].wait(10)
                return set(blas_threads())

        with ThreadPoolExecutor(2) as pool:
            others = [pool.submit(enter, k) for k in range(2)]
            assert all(event.wait(10) for event in inside)
            for k in (0, 1) if first_out == "first in" else (1, 0):
                leave[k].set()
                assert others[k].result(10) == {1}
        assert set(blas_threads()) == {3}

    def test_many_python_threads_leave_nothing_behind(self):
        def enter(k):
            seen = []
            for _ in range(4):
                with contextlib.suppress(ZeroDivisionError), single_threaded_blas():
                    with single_threaded_blas():
                        pass
                    seen.append(set(blas_threads()))
                    _ = 1 // (k % 2)
            return seen

        for _ in range(3):
            with ThreadPoolExecutor(6) as pool:
                assert list(pool.map(enter, range(6))) == 6 * [4 * [{1}]]
            assert set(blas_threads()) == {3}

    def test_limit_of_the_user_is_restored_unless_it_has_ended_meanwhile(self):
        with contextlib.ExitStack() as ours:
            with threadpool_limits(2, user_api="blas"):
                with single_threaded_blas():
                    assert set(blas_threads()) == {1}
                assert set(blas_threads()) == {2}
                ours.enter_context(single_threaded_blas())
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {3}
        assert set(blas_threads()) == {3}

    def test_library_with_a_number_for_each_thread(self, monkeypatch):
        """As OpenBLAS on OpenMP has it: each thread sets and restores its own."""
        library = OwnNumber()
        monkeypatch.setattr(threads, "_controller", lambda: library)
        inside, leave = threading.Event(), threading.Event()

        def enter():
            library.set_num_threads(5)
            with single_threaded_blas():
                inside.set()
                assert leave.wait(10)
                within = library.num_threads
            return within, library.num_threads

        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(enter)
            assert inside.wait(10)
            with single_threaded_blas():
                assert library.num_threads == 1
            assert library.num_threads == 3
            leave.set()
            assert other.result(10) == (1, 5)


class OwnNumber(threading.local):
    """Stands for a controller of threadpoolctl and its one library."""

    user_api, internal_api, threading_layer = "blas", "openblas", "openmp"
    num_threads = 3

    @property
    def lib_controllers(self):
        return [self]

    def set_num_threads(self, n_threads):
        self.num_threads = n_threads


# --- Stacks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, 0),
        ({"OMP_STACKSIZE": "100"}, 100 * 1024),
        ({"OMP_STACKSIZE": " 3 m "}, 3 * 1024**2),
        ({"GOMP_STACKSIZE": "1G"}, 1024**3),
        ({"KMP_STACKSIZE": "70000B"}, 70000),
        ({"OMP_STACKSIZE": "2M", "GOMP_STACKSIZE": "1G"}, 2 * 1024**2),
        ({"OMP_STACKSIZE": "large"}, 0),
        ({"OMP_STACKSIZE": "9" * 40}, 2**40),
    ],
)
def test_stack_of_a_thread_is_what_openmp_was_told(environment, expected):
    assert threads._stack_bytes(environment) == expected
