"""How many threads are taken, and that BLAS gets back what it had."""

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import environment, run_python
from threadpoolctl import threadpool_limits

from gwfast.kernels import _rows, threads
from gwfast.kernels.threads import resolve_n_threads, single_threaded_blas

ROOT = Path(__file__).resolve().parents[2]


def in_new_process(code, **environment):
    """What `code` prints in a process with these environment variables."""
    return run_python(code, **environment).stdout.split()


ANSWERS = """
from gwfast.kernels.threads import resolve_n_threads as resolve
print(resolve(), resolve(-1), resolve(-2), resolve(-99), resolve(7))
"""
needs_openmp = pytest.mark.skipif(
    not _rows.openmp_version(), reason="built without OpenMP"
)


@pytest.mark.process
@needs_openmp
def test_omp_num_threads_is_obeyed_also_above_the_cores():
    assert in_new_process(ANSWERS, OMP_NUM_THREADS="67") == ["67", "67", "66", "1", "7"]


@pytest.mark.process
@needs_openmp
def test_first_of_nested_omp_num_threads_counts():
    assert in_new_process(ANSWERS, OMP_NUM_THREADS="3,2")[0] == "3"


OPENMP_ALONE = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]).omp_get_max_threads()
"""


@pytest.mark.process
@pytest.mark.parametrize("setting", [None, ""])
def test_default_is_at_most_the_processors(setting):
    alone = [sys.executable, "-c", OPENMP_ALONE, _rows.openmp_runtime()]
    variables = environment(OMP_NUM_THREADS=setting)
    if _rows.openmp_runtime() and subprocess.run(alone, env=variables).returncode < 0:
        pytest.skip("this OpenMP ends every process with such an OMP_NUM_THREADS")
    default, every, *_ = map(int, in_new_process(ANSWERS, OMP_NUM_THREADS=setting))
    assert 1 <= default == every <= os.cpu_count()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_default_counts_only_the_processors_that_the_process_may_use():
    pin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    assert in_new_process(pin + ANSWERS, OMP_NUM_THREADS=None)[0] == "1"


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_affinity_counts_as_it_is_when_asked():
    """Of a process whose processors are taken away, and given back."""
    code = """
import os
from gwfast.kernels.threads import resolve_n_threads as resolve
every, first = resolve(), os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(first)})
one = resolve()
os.sched_setaffinity(0, first)
print(every, one, resolve(), resolve(every))
"""
    every, one, again, asked = in_new_process(code, OMP_NUM_THREADS=None)
    assert one == "1" and every == again == asked


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_processors_given_after_the_import_count():
    code = """
import os
first = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(first)})
import gwfast.kernels.threads as threads
os.sched_setaffinity(0, first)
print(threads.resolve_n_threads(), threads._physical_cores(frozenset(first)))
"""
    given, cores = map(int, in_new_process(code, OMP_NUM_THREADS=None))
    assert given == min(cores, threads._quota(0))


@pytest.mark.slow
@pytest.mark.process
@needs_openmp
def test_thread_that_openmp_bound_is_not_all_that_there_is():
    """OMP_PROC_BIND: the affinity of the first thread is then OpenMP's doing."""
    bound, free = (
        in_new_process(ANSWERS, OMP_NUM_THREADS=None, OMP_PROC_BIND=setting)
        for setting in ("true", None)
    )
    assert bound == free


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


@pytest.mark.parametrize("n_threads", [4097, 2**31, 2**70])
def test_more_threads_than_any_machine_has_are_refused(n_threads):
    with pytest.raises(ValueError, match=f"at most 4096, got {n_threads}"):
        resolve_n_threads(n_threads, work=1)


def test_zero_is_refused():
    with pytest.raises(ValueError, match="n_threads must not be 0"):
        resolve_n_threads(0)


@pytest.mark.parametrize("n_threads", [True, np.True_, 2.0, np.float64(2), "2", [2]])
def test_what_is_not_an_integer_is_refused(n_threads):
    with pytest.raises(TypeError, match=f"n_threads .* {type(n_threads).__name__}"):
        resolve_n_threads(n_threads)


def test_little_work_runs_on_one_thread():
    assert resolve_n_threads(5, work=threads.SERIAL_BELOW - 1) == 1
    assert resolve_n_threads(5, work=threads.SERIAL_BELOW) == 5
    with pytest.raises(ValueError, match="n_threads"):
        resolve_n_threads(0, work=1)


# --- BLAS -----------------------------------------------------------------------------


def blas_threads():
    return [library["num_threads"] for library in threads.libraries("blas")]


@pytest.fixture
def three_blas_threads():
    """More than one BLAS thread to begin with, whatever the machine."""
    libraries = list(threads._blas(shared=True))
    before = threads._now(libraries)
    threads._set_threads([(library, 3) for library in libraries])
    try:
        if set(blas_threads()) != {3}:
            pytest.skip("the number of BLAS threads cannot be set here")
        yield
    finally:
        threads._set_threads(before)


@pytest.mark.usefixtures("three_blas_threads")
class TestSingleThreadedBlas:
    def test_limits_and_restores(self):
        with single_threaded_blas():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {3}

    def test_restores_after_an_exception(self):
        with pytest.raises(ZeroDivisionError), single_threaded_blas():
            raise ZeroDivisionError
        assert set(blas_threads()) == {3}

    def test_nests(self):
        with single_threaded_blas():
            with single_threaded_blas():
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {3}

    @pytest.mark.parametrize("first_out", ["first in", "last in"])
    def test_overlapping_python_threads_leave_nothing_behind(self, first_out):
        """No thread has set a number before: threadpoolctl lets only one do that."""
        inside = [threading.Event(), threading.Event()]
        leave = [threading.Event(), threading.Event()]
        seen = []

        def enter(k):
            with single_threaded_blas():
                inside[k].set()
                assert leave[k].wait(10)
                seen.append(set(blas_threads()))

        others = [threading.Thread(target=enter, args=(k,)) for k in range(2)]
        for other, event in zip(others, inside, strict=True):
            other.start()
            assert event.wait(10)
        for k in (0, 1) if first_out == "first in" else (1, 0):
            leave[k].set()
            others[k].join(10)
        assert seen == [{1}, {1}]
        assert set(blas_threads()) == {3}

    def test_many_python_threads_leave_nothing_behind(self):
        def enter(k):
            for _ in range(4):
                with contextlib.suppress(ZeroDivisionError), single_threaded_blas():
                    with single_threaded_blas():
                        pass
                    seen.append(set(blas_threads()))
                    _ = 1 // (k % 2)

        for _ in range(10):
            seen = []
            others = [threading.Thread(target=enter, args=(k,)) for k in range(6)]
            for other in others:
                other.start()
            for other in others:
                other.join(30)
            assert seen == [{1}] * 24
            assert set(blas_threads()) == {3}

    def test_limit_of_the_user_that_ends_meanwhile_stays_ended(self):
        with contextlib.ExitStack() as ours:
            with threadpool_limits(2, user_api="blas"):
                ours.enter_context(single_threaded_blas())
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {3}
        assert set(blas_threads()) == {3}

    def test_limit_of_the_user_around_it_is_restored(self):
        with threadpool_limits(2, user_api="blas"):
            with single_threaded_blas():
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {2}
        assert set(blas_threads()) == {3}

    def test_library_with_a_number_for_each_thread(self, monkeypatch):
        """As OpenBLAS on OpenMP has it: each thread sets and restores its own."""
        library = OwnNumber()
        monkeypatch.setattr(threads, "_controller", lambda: library)
        inside, leave, seen = threading.Event(), threading.Event(), []

        def enter():
            library.set_num_threads(5)
            with single_threaded_blas():
                inside.set()
                assert leave.wait(10)
                seen.append(library.num_threads)
            seen.append(library.num_threads)

        other = threading.Thread(target=enter)
        other.start()
        assert inside.wait(10)
        with single_threaded_blas():
            assert library.num_threads == 1
        assert library.num_threads == 3
        leave.set()
        other.join(10)
        assert seen == [1, 5]


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
