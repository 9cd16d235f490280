"""How many threads are taken, and that BLAS gets back what it had."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import run_python

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


@pytest.mark.process
@pytest.mark.parametrize("setting", [None, ""])
def test_default_is_at_most_the_processors(setting):
    default, every, *_ = map(int, in_new_process(ANSWERS, OMP_NUM_THREADS=setting))
    assert 1 <= default == every <= os.cpu_count()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_default_counts_only_the_processors_that_the_process_may_use():
    pin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    assert in_new_process(pin + ANSWERS, OMP_NUM_THREADS=None)[0] == "1"


@pytest.mark.parametrize(
    "text, granted",
    [
        ("150000 100000", 2),
        ("400000 100000", 4),
        ("30000 100000", 1),
        ("max 100000", os.cpu_count()),
        ("", os.cpu_count()),
        (None, os.cpu_count()),
    ],
)
def test_quota_of_a_container(text, granted, tmp_path, monkeypatch):
    path = tmp_path / "cpu.max"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(threads, "Path", lambda name: path)
    assert threads._quota.__wrapped__() == granted


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
    with threads._controller().limit(limits=3, user_api="blas"):
        if set(blas_threads()) != {3}:
            pytest.skip("the number of BLAS threads cannot be set here")
        yield


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

    def test_overlapping_python_threads_leave_nothing_behind(self):
        """Before threadpoolctl 3.8 the second to come found the limit of the first, and
        restored that for good."""
        first_inside, second_inside = threading.Event(), threading.Event()

        def first():
            with single_threaded_blas():
                first_inside.set()
                second_inside.wait(10)

        other = threading.Thread(target=first)
        other.start()
        assert first_inside.wait(10)
        with single_threaded_blas():
            second_inside.set()
            other.join(10)
        assert set(blas_threads()) == {3}
