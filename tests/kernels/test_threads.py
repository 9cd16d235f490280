"""Facts of the build, how many threads are taken, that BLAS and OpenMP get back what they had, and
solves in forked and fresh processes. Imports from inside, since settings of a process show nowhere
else."""

import contextlib
import functools
import json
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.marks import ISAS, mostly_slow
from helpers.problems import settings
from helpers.processes import run_python
from threadpoolctl import threadpool_limits

import gwfast
from gwfast import kernels
from gwfast.kernels import _rows, threads
from gwfast.kernels.control_groups import groups
from gwfast.kernels.threads import resolve_n_threads, single_threaded_blas

needs_openmp = pytest.mark.skipif(not _rows.openmp_version(), reason="built without OpenMP")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
OF_ISAS = [parameter.values[0] for parameter in ISAS]


def facts(text):
    return dict(re.split("  +", line, maxsplit=1) for line in text.strip().splitlines())


def test_show_config_prints_the_facts_of_a_bug_report(isa, capsys):
    gwfast.show_config()
    found = facts(capsys.readouterr().out)
    assert found["gwfast"] == gwfast.__version__
    assert found["instruction set"].startswith(isa)
    assert all(found[name] for name in ("BLAS", "numpy", "scipy", "threads"))
    is_serial = os.environ.get("GWFAST_TEST_NO_OPENMP", "0") not in ("", "0")
    assert found["OpenMP"].startswith("NO" if is_serial else "yes"), (
        "gwfast was built without OpenMP; if that is meant, set GWFAST_TEST_NO_OPENMP=1"
    )


@pytest.mark.process
def test_environment_variable_forces_an_instruction_set():
    assert OF_ISAS[-1] in ("baseline", "neon") and len(set(OF_ISAS)) == len(OF_ISAS)
    forced = run_python("import gwfast; gwfast.show_config()", GWFAST_ISA=OF_ISAS[-1])
    assert facts(forced.stdout)["instruction set"].startswith(OF_ISAS[-1])
    refused = run_python("import gwfast", check=False, GWFAST_ISA="avx1024")
    last = refused.stderr.strip().splitlines()[-1]
    assert refused.returncode != 0 and last.startswith("ImportError: GWFAST_ISA")
    assert all(repr(name) in last for name in (*OF_ISAS, "avx1024"))


ONE, TWO, NO_LIMIT = "100000 100000\n", "200000 100000", 99


def version_1(folder, quota):
    names = f"{folder}/cpu.cfs_quota_us", f"{folder}/cpu.cfs_period_us"
    return dict(zip(names, (quota, "100000\n"), strict=True))


@pytest.mark.parametrize(
    "membership, files, expected",
    [
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/", {"cpu.max": "max 100000", "elsewhere/cpu.max": ONE}, NO_LIMIT),
        # The own group and the groups around it, and names of any characters.
        ("0::/a/b c:d\n", {"a/b c:d/cpu.max": TWO, "a/cpu.max": "max 1", "cpu.max": ONE}, 1),
        ("0::/a/b c:d\n", {"a/b c:d/cpu.max": ONE, "cpu.max": TWO}, 1),
        # A container that sees the path of its group, but that group as its root.
        ("0::/docker/1f", {"cpu.max": "30000 100000"}, 1),
        ("0::/../../a", {"cpu.max": TWO, "../cpu.max": "30000 100000"}, 2),
        ("4:cpu,cpuacct:/a", version_1("cpu,cpuacct/a", "50000\n"), 1),
        ("4:cpu,cpuacct:/a\n3:memory:/b", version_1("cpu", "100000"), 1),
        ("4:cpu:/a", version_1("cpu/a", "-1"), NO_LIMIT),
        ("4:cpu:/\n0::/s\n", {"s/cpu.max": ONE}, 1),
        (None, {"cpu.max": TWO} | version_1("cpu", "100000"), 1),
        ("nonsense\n\n7\n", {"cpu.max": ONE}, NO_LIMIT),
    ],
)
def test_threads_are_at_most_the_quota(membership, files, expected, tmp_path, monkeypatch):
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if membership is not None:
        (tmp_path / "membership").write_text(membership)
    where = dict(root=tmp_path / "fs", membership=tmp_path / "membership")
    monkeypatch.setattr(threads, "groups", functools.partial(groups, **where))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    expected = min(expected, os.cpu_count())
    threads._quota.cache_clear()
    assert threads._quota(int(time.monotonic())) == expected
    assert 1 <= resolve_n_threads() == resolve_n_threads(-1) <= expected < resolve_n_threads(999)
    threads._quota.cache_clear()


def test_numbers_of_threads_and_sizes_of_stacks_are_taken_as_told():
    for n_threads in (1, 1000, np.int64(3), np.uint8(4)):
        came = resolve_n_threads(n_threads)
        assert came == n_threads and type(came) is int
    assert resolve_n_threads(5, work=threads.SERIAL_BELOW - 1) == 1
    assert resolve_n_threads(5, work=threads.SERIAL_BELOW) == 5
    for environment, stack in (
        ({}, 0),
        ({"OMP_STACKSIZE": "100"}, 100 * 1024),
        ({"OMP_STACKSIZE": " 3 m ", "GOMP_STACKSIZE": "1G"}, 3 * 1024**2),
        ({"OMP_STACKSIZE": "large", "KMP_STACKSIZE": "70000B"}, 70000),
        ({"OMP_STACKSIZE": "9" * 40}, 2**40),
    ):
        assert threads._stack_bytes(environment) == stack


@pytest.mark.process
@needs_openmp
def test_limits_of_threadpoolctl_and_of_the_environment_are_obeyed(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = resolve_n_threads()
    with threadpool_limits(1, user_api="openmp"):
        assert resolve_n_threads() == resolve_n_threads(-1) == 1
        assert resolve_n_threads(3) == 3
    assert resolve_n_threads() == before
    code = "from gwfast.kernels.threads import resolve_n_threads as number\n"
    code += "print(number(), number(-1), number(-2), number(-99), number(7))"
    assert run_python(code, OMP_NUM_THREADS="67,2").stdout.split() == ["67", "67", "66", "1", "7"]


NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@pytest.mark.process
def test_import_leaves_the_environment_and_threads_follow_the_processors():
    """Children inherit what the C library has. Processors that the first thread lacks at the import
    count, and may be taken away and given back."""
    code = """
import json, os, subprocess
has_affinity, before = hasattr(os, "sched_setaffinity"), dict(os.environ)
if has_affinity:
    first = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(first)})
import gwfast
assert dict(os.environ) == before
inherited = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
from gwfast.kernels import allowed_processors, threads
if has_affinity:
    assert threads.resolve_n_threads() == 1
    os.sched_setaffinity(0, first)
cores = min(threads._physical_cores(allowed_processors()), threads._quota(0))
assert threads.resolve_n_threads() == threads.resolve_n_threads(-1) == cores
assert not [line for line in inherited.split() if line.startswith(("OMP", "GOMP", "KMP"))]
"""
    run_python(
        code, **{name: None for name in os.environ if name.startswith(("OMP", "GOMP", "KMP"))}
    )


@pytest.mark.parametrize("name", [None, *NAMES])
def test_patience_is_there_inside_only_unless_the_user_has_set_his(name, monkeypatch):
    for variable in NAMES:
        monkeypatch.delenv(variable, raising=False)
    if name:
        monkeypatch.setenv(name, "12345")
    before = dict(os.environ)
    with contextlib.suppress(ImportError), kernels._patient():
        assert dict(os.environ) == before | ({} if name else kernels.PATIENCE)
        raise ImportError
    assert dict(os.environ) == before


def blas_threads():
    return {library["num_threads"] for library in threads.libraries("blas")}


@pytest.fixture
def three_blas_threads():
    """Begin with several BLAS threads on any machine."""
    libraries = list(threads._blas(shared=True))
    before = [(library, library.num_threads) for library in libraries]
    threads._set_threads([(library, 3) for library in libraries])
    try:
        if blas_threads() != {3}:
            pytest.skip("the number of BLAS threads cannot be set here")
        yield
        assert blas_threads() == {3}
    finally:
        threads._set_threads(before)


@pytest.mark.usefixtures("three_blas_threads")
def test_blas_is_limited_inside_and_gets_back_what_it_had():
    with pytest.raises(ZeroDivisionError), single_threaded_blas():
        with single_threaded_blas():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
        raise ZeroDivisionError
    assert blas_threads() == {3}
    # BLAS takes one thread for so few points by itself.
    for n_points, inside in ((threads.FEW_POINTS, 3), (threads.FEW_POINTS + 1, 1)):
        with single_threaded_blas(n_points):
            assert blas_threads() == {inside}
    with contextlib.ExitStack() as ours:
        with threadpool_limits(2, user_api="blas"):
            with single_threaded_blas():
                assert blas_threads() == {1}
            assert blas_threads() == {2}
            ours.enter_context(single_threaded_blas())
            assert blas_threads() == {1}
        assert blas_threads() == {3}


@pytest.mark.usefixtures("three_blas_threads")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_overlapping_python_threads_leave_blas_as_it_was(order):
    """No thread has set a number before: threadpoolctl lets only one do that."""
    inside, leave = ([threading.Event() for _ in range(2)] for _ in range(2))

    def enter(k):
        with single_threaded_blas():
            inside[k].set()
            assert leave[k].wait(10)
            return blas_threads()

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(enter, k) for k in range(2)]
        assert all(event.wait(10) for event in inside)
        for k in order:
            leave[k].set()
            assert others[k].result(10) == {1}


class OwnNumber(threading.local):
    """Stands for a library of threadpoolctl that has a number for each thread."""

    user_api, internal_api, threading_layer, num_threads = "blas", "openblas", "openmp", 3

    def set_num_threads(self, n_threads):
        self.num_threads = n_threads


def test_blas_with_a_number_for_each_thread_gets_each_back(monkeypatch):
    """As OpenBLAS on OpenMP has it: each thread sets and restores its own."""
    library, inside = OwnNumber(), threading.Barrier(2, timeout=10)
    controller = SimpleNamespace(lib_controllers=[library])
    monkeypatch.setattr(threads, "_controller", lambda: controller)

    def enter(n_threads):
        library.set_num_threads(n_threads)
        with single_threaded_blas():
            inside.wait()
            within = library.num_threads
        return within, library.num_threads

    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(enter, (3, 5))] == [(1, 3), (1, 5)]


# `solve` is of a size that is shared out.
PREAMBLE = """
import hashlib, json, multiprocessing, os, threading, warnings
import numpy as np
import gwfast
from gwfast.kernels import _rows, threads

x, y = np.random.default_rng(0).random((2, 300, 300))
options = dict(epsilon=0.02, init="product", max_iter=3)
options["options"] = gwfast.SolverOptions(max_inner=20)

def solve(n_threads=2):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = gwfast.gromov_wasserstein(x, y, n_threads=n_threads, **options)
    n_warnings = sum(w.category is RuntimeWarning for w in caught)
    return hashlib.sha256(result.plan.tobytes()).hexdigest(), n_warnings

def forked(function):
    "What a function returns in a forked process; None if it hangs, False if it dies."
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe()
    process = context.Process(target=lambda: its.send(function()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own about threads and forks
        process.start()
    its.close()
    try:
        answer = ours.recv() if ours.poll(30) else None
    except EOFError:
        answer = False
    process.kill()
    process.join()
    return answer
"""


def printed_by(code, told=None, **environment):
    # joblib, which other tests import, sets this variable.
    return json.loads(run_python(PREAMBLE + code, KMP_INIT_AT_FORK=told, **environment).stdout)


@pytest.mark.process
@needs_fork
@needs_openmp
@pytest.mark.parametrize("told", mostly_slow([None, "FALSE"], fast=[None]))
def test_forks_before_and_after_a_solve_on_two_threads(told):
    """A child of a process with a team solves on one thread, to the same bits, and says once why;
    unless its OpenMP starts anew, which joblib tells LLVM's not to do. A child whose parent had no
    team, or a Python thread of its own, has its own team."""
    code = """
from concurrent.futures import ThreadPoolExecutor
def in_a_thread():
    return ThreadPoolExecutor(1).submit(lambda: [solve(), _rows.is_orphan()]).result()
read = lambda: result.coupling.topk(2).indices.tolist()
solve(n_threads=1)
before = forked(lambda: [solve(), _rows.is_orphan(), forked(solve)])
here, _ = solve()
after = forked(lambda: [solve(), solve(), solve(n_threads=1)])
thread = forked(in_a_thread)
libraries = list(threads._blas(shared=True))
threads._set_threads([(library, 3) for library in libraries])
numbers = lambda: sorted({library.num_threads for library in libraries})
with ThreadPoolExecutor(1) as pool:  # a child has the limits of the thread that forked alone
    limit = threads.single_threaded_blas()
    pool.submit(limit.__enter__).result()
    blas = [forked(numbers)]
    with threads.single_threaded_blas():
        blas.append(forked(numbers))
    pool.submit(limit.__exit__, None, None, None).result()
blas.append(numbers())
warnings.simplefilter("ignore")
clouds = [gwfast.PointCloud(p) for p in np.random.default_rng(0).random((2, 900, 4))]
options["options"] = gwfast.SolverOptions(tier="tiled")
result = gwfast.gromov_wasserstein(*clouds, n_threads=2, **options)
as_here = read() == forked(read)
print(json.dumps([here, before, after, thread, as_here, threads.STARTS_ANEW, blas]))
"""
    here, before, after, thread, as_here, anew, blas = printed_by(code, told)
    assert before == [[here, 0], False, [here, int(not anew)]]
    assert after == [[here, int(not anew)], [here, 0], [here, 0]]
    assert thread == [[here, 0], False]
    assert as_here  # a plan has its number of threads from the parent
    assert not (anew and told)
    assert blas == [[3], [1], [3]] or len(set(map(str, blas))) == 1  # it cannot be set here


@pytest.mark.process
@needs_fork
@needs_openmp
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="sizes are read as on Linux")
@pytest.mark.parametrize("stack", mostly_slow([None, "64M"], fast=[None]))
def test_a_solve_in_little_address_space_ends_with_its_result_or_a_memory_error(stack):
    code = """
import re, resource
from pathlib import Path
import gwfast.solvers.gromov
def with_left(megabytes):
    size = re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())
    limit = 1024 * int(size[1]) + 10**6 * megabytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        return solve(n_threads=4)[0]
    except MemoryError:
        return "MemoryError"
ends = [forked(lambda: with_left(megabytes)) for megabytes in (2, 12, 40, 70, 76, 90, 120, 1000)]
here, _ = solve(n_threads=1)
ends += [forked(lambda: with_left(megabytes)) for megabytes in (2, 12, 1000)]
print(json.dumps([here, ends]))
"""
    here, ends = printed_by(code, OMP_STACKSIZE=stack)
    assert set(ends) <= {here, "MemoryError"} and ends[7] == ends[-1] == here


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_concurrent_solves_have_the_bits_of_solves_alone():
    problems = [np.random.default_rng(k).random((2, 260 + k, 260 + k)) for k in range(4)]
    options = settings(epsilon=0.02, init="product", max_iter=3, max_inner=20)

    def solve(k, n_threads=2):
        return gwfast.gromov_wasserstein(*problems[k], n_threads=n_threads, **options).plan

    alone = [solve(k, n_threads=1) for k in range(4)]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_equal(list(pool.map(solve, range(4))), alone)
