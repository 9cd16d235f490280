"""Solves in forked and in fresh processes, in several Python threads, and where threads
cannot be started."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.processes import run_python
from helpers.settings import settings

import gwfast
from gwfast.kernels import _rows

needs_openmp = pytest.mark.skipif(not _rows.openmp_version(), reason="built without OpenMP")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")

# In every process of this file. `solve` is of a size that is shared out.
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
    said = [str(w.message) for w in caught if w.category is RuntimeWarning]
    return hashlib.sha256(result.plan.tobytes()).hexdigest(), said

def forked(function):
    "What a function says in a forked process; None if it hangs, False if it dies."
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


# joblib sets it, which other tests here import.
UNTOLD = {"KMP_INIT_AT_FORK": None}


def said_by(code, **environment):
    return json.loads(run_python(PREAMBLE + code, **UNTOLD | environment).stdout)


# --- Forks ----------------------------------------------------------------------------


@pytest.mark.process
@needs_fork
@needs_openmp
@pytest.mark.parametrize("told", mostly_slow([None, "FALSE"], fast=[None]))
def test_forks_before_and_after_a_solve_on_two_threads(told):
    """A child of a process with a team solves on one thread, to the same bits, and says
    once why; unless its OpenMP starts anew, which LLVM's is told not to as joblib does
    it. One whose parent had no team, or a Python thread of its own, has its own team.
    """
    code = """
from concurrent.futures import ThreadPoolExecutor
def in_a_thread():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: [solve(), _rows.is_orphan()]).result()
def read():
    return result.coupling.topk(2).indices.tolist()
solve(n_threads=1)
before = forked(lambda: [solve(), _rows.is_orphan(), forked(solve)])
here, _ = solve()
after = forked(lambda: [solve(), solve(), solve(n_threads=1)])
thread = forked(in_a_thread)
warnings.simplefilter("ignore")
clouds = [gwfast.PointCloud(p) for p in np.random.default_rng(0).random((2, 900, 4))]
result = gwfast.gromov_wasserstein(*clouds, n_threads=2, epsilon=0.1, init="product", max_iter=2,
                                   options=gwfast.SolverOptions(tier="tiled"))
as_here = read() == forked(read)
print(json.dumps([here, before, after, thread, as_here, threads.STARTS_ANEW]))
"""
    here, before, after, thread, as_here, anew = said_by(code, KMP_INIT_AT_FORK=told)
    assert before[:2] == [[here, []], False]
    assert before[2][0] == here and len(before[2][1]) == (not anew)
    assert after is not None, "the child hangs"
    assert [plan for plan, _ in after] == [here] * 3
    assert thread == [[here, []], False]
    # A plan has its number of threads from the parent.
    assert as_here
    assert not (anew and told)
    said = [said for _, said in after]
    if anew:
        assert said == [[]] * 3
        return
    (warned,), *others = said
    assert others == [[], []]
    for word in ("forked", "spawn", "forkserver", "n_threads=1", "OMP_NUM_THREADS=1"):
        assert word in warned


@pytest.mark.slow
@pytest.mark.process
@needs_fork
def test_fork_inside_a_solve_of_another_thread_gives_blas_back():
    code = """
from gwfast.kernels import threads
libraries = list(threads._blas(shared=True))
threads._set_threads([(library, 3) for library in libraries])
numbers = lambda: sorted({library.num_threads for library in libraries})
inside, leave = threading.Event(), threading.Event()
def enter():
    with threads.single_threaded_blas():
        inside.set()
        leave.wait(60)
other = threading.Thread(target=enter)
other.start()
inside.wait(60)
def child():
    seen = [numbers()]
    with threads.single_threaded_blas():
        seen.append(numbers())
    return [*seen, numbers()]
seen = [forked(child)]
with threads.single_threaded_blas():
    seen.append(forked(child))
leave.set()
other.join()
print(json.dumps([*seen, numbers()]))
"""
    other_inside, both_inside, after = said_by(code)
    if after != [3]:
        pytest.skip("the number of BLAS threads cannot be set here")
    assert other_inside == [[3], [1], [3]]
    assert both_inside == [[1], [1], [1]]


# --- Where threads cannot be started --------------------------------------------------


@pytest.mark.process
@needs_fork
@needs_openmp
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="sizes are read as on Linux")
@pytest.mark.parametrize("stack", mostly_slow([None, "64M"], fast=[None]))
def test_little_address_space_is_no_end(stack):
    """A solve ends with its result or with a MemoryError, never with the process."""
    code = """
import re, resource
from pathlib import Path
import gwfast.solvers.gromov, gwfast.alignment.align
def with_left(megabytes):
    size = re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())
    limit = 1024 * int(size[1]) + 10**6 * megabytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        return solve(n_threads=4)[0]
    except MemoryError as error:
        return "MemoryError"
left = [2, 5, 12, 20, 40, 68, 70, 73, 76, 82, 90, 120, 1000]
fresh = [forked(lambda: with_left(megabytes)) for megabytes in left]
here, _ = solve(n_threads=1)
left = left[:5] + left[-1:]  # a sanitizer keeps what was given back
after_a_solve = [forked(lambda: with_left(megabytes)) for megabytes in left]
print(json.dumps([here, fresh, after_a_solve]))
"""
    here, fresh, after_a_solve = said_by(code, OMP_STACKSIZE=stack)
    assert set(fresh + after_a_solve) <= {here, "MemoryError"}, (fresh, after_a_solve)
    assert fresh[-1] == after_a_solve[-1] == here


# --- Fresh processes, and Python's threads --------------------------------------------

POOLS = {
    "multiprocessing": """
for method in ("spawn", "forkserver"):
    with multiprocessing.get_context(method).Pool(1) as pool:
        made.append(pool.apply_async(solver, (x, y), options).get(60))
""",
    "joblib": """
import joblib
call = joblib.delayed(solver)(x, y, **options)
for backend in ("loky", "multiprocessing", "threading"):
    made += joblib.Parallel(2, backend=backend)([call] * 2)
""",
    "distributed": """
from distributed import Client
with Client(n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
    runs = [client.submit(solver, x, y, **options, pure=False) for _ in range(2)]
    made += [run.result() for run in runs]
""",
}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("library", POOLS)
def test_pools_solve_after_a_solve_here(library):
    pytest.importorskip(library)  # joblib sets KMP_INIT_AT_FORK
    before = """
warnings.simplefilter("ignore")
solver, made, options = gwfast.gromov_wasserstein, [], {**options, "n_threads": 2}
here = solver(x, y, **options).plan
"""
    after = "\nprint(json.dumps([bool(np.all(one.plan == here)) for one in made]))"
    same = said_by(before + POOLS[library] + after, KMP_INIT_AT_FORK="FALSE")
    assert all(same) and len(same) >= 2


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_concurrent_solves_have_the_bits_of_solves_alone():
    problems = [np.random.default_rng(k).random((2, 260 + k, 260 + k)) for k in range(4)]
    options = settings(epsilon=0.02, init="product", max_iter=3, max_inner=20)

    def solve(k, n_threads=2):
        result = gwfast.gromov_wasserstein(*problems[k], n_threads=n_threads, **options)
        return result.plan

    alone = [solve(k, n_threads=1) for k in range(4)]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_equal(list(pool.map(solve, range(4))), alone)
