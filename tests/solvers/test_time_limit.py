"""Solvers end when time is up, with a plan; and let go at Ctrl-C."""

import numpy as np
import pytest
from helpers.deadlines import end_after, end_at_will
from helpers.marks import mostly_slow
from helpers.problems import cloud, distances, random_cost, rotated_pair
from helpers.processes import run_python
from helpers.settings import settings

import gwfast
from gwfast import PointCloud, QuadraticProblem

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def clouds(n=40, m=30):
    x, y, _ = rotated_pair(n, 3, 0, noise=0.05)
    return PointCloud(x), PointCloud(y[:m])


COSTS = random_cost(24, 0), random_cost(20, 1)
PROBLEM = QuadraticProblem(*COSTS)
# So that a solve that no limit of time ends takes a second at most.
FEW = dict(max_iter=4, max_inner=200)


def solve(**options):
    return gwfast.gromov_wasserstein(*COSTS, **settings(**options))


PARTIAL = dict(marginals=gwfast.Partial(0.6))
CALLS = {
    "race": lambda: solve(**FEW),
    "race of clouds": lambda: gwfast.gromov_wasserstein(*clouds()),
    "levels": lambda: gwfast.gromov_wasserstein(
        *(PointCloud(z) for z in rotated_pair(2000, 3, 0)[:2]), max_iter=2
    ),
    "float64": lambda: solve(dtype="float64"),
    "stages": lambda: gwfast.gromov_wasserstein(
        *(distances(cloud(620, 3, k)) for k in (0, 1)), init="product", dtype="float64", max_iter=60
    ),
    "product": lambda: solve(init="product"),
    "profile": lambda: solve(init="profile"),
    "tiled": lambda: gwfast.gromov_wasserstein(
        *clouds(), options=gwfast.SolverOptions(tier="tiled")
    ),
    "fused": lambda: solve(linear_cost=random_cost(24, 3)[:, :20], alpha=0.3),
    "semirelaxed": lambda: solve(marginals="semirelaxed", **FEW),
    "partial": lambda: solve(**PARTIAL, **FEW),
    "small epsilon": lambda: solve(epsilon=1e-4, **PARTIAL, **FEW),
    "cold": lambda: solve(init="product", epsilon=1e-5, **FEW),
    "ppa": lambda: solve(method="ppa", **FEW),
    "bapg": lambda: solve(method="bapg", **FEW),
    "several starts": lambda: solve(init=["random", "profile"]),
    "epsilons": lambda: gwfast.tune_epsilon(PROBLEM, epsilons=[0.1, 0.05]),
    "align": lambda: gwfast.align(cloud(60, 5, 0), cloud(50, 5, 1), refine=2).gw,
}
SLOW = {"levels", "stages"}


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in CALLS]
)
@pytest.mark.parametrize("looks", mostly_slow([0, 2, 7, 60], fast=[7]))
def test_whenever_time_is_up_there_is_a_plan(name, looks, monkeypatch):
    end_after(monkeypatch, looks)
    result = CALLS[name]()
    plan = result.plan.astype(np.float64)
    assert np.isfinite(plan).all() and plan.min() >= 0
    assert np.isfinite([result.gw_cost, result.reg_cost, result.epsilon]).all()
    assert all(np.isfinite(side).all() for side in result.potentials)
    assert result.n_iter == len(result.history)
    # One call makes all iterations of a small problem from one plan.
    if looks < (1 if name in ("ppa", "bapg") else 3):
        assert result.status == "time_limit"
        assert result.advice
    n, m = plan.shape
    if name in ("partial", "small epsilon"):
        error = abs(plan.sum() - 0.6)
        error += np.maximum(plan.sum(axis=1) - 1 / n, 0).sum()
        error += np.maximum(plan.sum(axis=0) - 1 / m, 0).sum()
    else:
        error = np.abs(plan.sum(axis=1) - 1 / n).sum()
        if name != "semirelaxed":
            error += np.abs(plan.sum(axis=0) - 1 / m).sum()
    assert result.marginal_error == pytest.approx(error, abs=2e-5)


@pytest.mark.parametrize("marginals", [gwfast.Partial(0.6), gwfast.Unbalanced(3.0)])
def test_annealing_that_is_cut_short_is_no_error(marginals):
    for time_limit in np.geomspace(1e-4, 0.03, 9):
        result = solve(marginals=marginals, time_limit=time_limit, **FEW)
        assert result.status in ("time_limit", "max_iter") and np.isfinite(result.plan).all()


@pytest.mark.parametrize("looks", [0, 1, 3, 9])
def test_sinkhorn_keeps_the_columns_when_time_is_up(looks, monkeypatch):
    end_after(monkeypatch, looks)
    cost = np.random.default_rng(0).random((30, 40))
    with pytest.warns(gwfast.ConvergenceWarning, match=r"\(time_limit\).*time_limit"):
        result = gwfast.sinkhorn(cost, epsilon=1e-3, tol=1e-6, max_iter=10**6)
    assert result.status == "time_limit"
    rows, cols = (result.plan.sum(axis=k, dtype=np.float64) for k in (1, 0))
    np.testing.assert_allclose(cols, 1 / 40, rtol=1e-5)
    assert result.marginal_error == pytest.approx(np.abs(rows - 1 / 30).sum(), abs=1e-5)


@pytest.mark.parametrize(
    "name",
    mostly_slow(
        ["race", "small epsilon", "stages", "tiled", "fused", "bapg", "several starts"],
        fast=["race", "small epsilon"],
    ),
)
def test_what_is_not_in_time_does_not_change_a_bit(name, monkeypatch):
    """Nor does a limit that is not reached."""
    expected = CALLS[name]()
    end_after(monkeypatch, 10**9)
    result = CALLS[name]()
    np.testing.assert_array_equal(result.plan, expected.plan)
    assert result.gw_cost == expected.gw_cost
    inner, same = ([step.n_inner for step in one.history] for one in (result, expected))
    assert inner == same
    assert result.status == expected.status


@pytest.mark.parametrize("looks", [0, 3, 10**9])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_batch_has_a_result_for_every_problem(looks, n_threads, monkeypatch):
    end_after(monkeypatch, looks)
    sizes = [4, 9, 2, 12] * 4
    problems = [(random_cost(n, n), random_cost(n + 3, 1)) for n in sizes]
    options = settings(init="product", n_threads=n_threads, max_iter=4, max_inner=50)
    results = gwfast.gromov_wasserstein_batch(problems, **options)
    assert [result.plan.shape for result in results] == [(n, n + 3) for n in sizes]
    late = [result.status == "time_limit" for result in results]
    if looks != 3:
        assert all(late) if looks == 0 else not any(late)


LIMITED = {
    "gromov_wasserstein": solve,
    "sinkhorn": lambda **kw: gwfast.sinkhorn(COSTS[0], epsilon=0.1, **kw),
    "gromov_wasserstein_batch": lambda **kw: gwfast.gromov_wasserstein_batch([], **kw),
    "tune_epsilon": lambda **kw: gwfast.tune_epsilon(PROBLEM, **kw),
    "align": lambda **kw: gwfast.align(cloud(9, 3, 0), cloud(9, 3, 1), **kw),
}


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("time_limit", [0, -1.0, np.nan, np.inf, "1", True])
def test_a_time_limit_is_a_positive_number(name, time_limit):
    error = TypeError if time_limit in ("1", True) else ValueError
    with pytest.raises(error, match="time_limit must be"):
        LIMITED[name](time_limit=time_limit)


def test_refinement_ends_when_time_is_up(monkeypatch):
    deadline = end_at_will(monkeypatch)

    def progress(text, done, total):
        if text == "refinement 2":
            deadline.stop()

    x, y = cloud(200, 5, 0), cloud(190, 5, 1)
    result = gwfast.align(x, y, init="product", tol=0.1, refine=50, progress=progress)
    assert 0 < len(result.refinement) <= 2


REAL = """
import os, signal, time, threading, warnings
import numpy as np, gwfast
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
def costs(n):
    return gwfast.PointCloud(rng.standard_normal((n, 40)))
def never(**rare):
    options = gwfast.SolverOptions(marginal_tol=1e-300, max_inner=10**9, **rare)
    return dict(tol=1e-300, max_iter=10**9, options=options)
cost = rng.random((2000, 2000))
calls = dict(
    sinkhorn=lambda **kw: gwfast.sinkhorn(
        cost, epsilon=1e-5, tol=1e-300, max_iter=10**9, **kw
    ),
    race=lambda **kw: gwfast.gromov_wasserstein(
        costs(2500), costs(2500), **never(), **kw
    ),
    tiled=lambda **kw: gwfast.gromov_wasserstein(
        costs(2500), costs(2500), **never(tier="tiled"), **kw
    ),
    products=lambda **kw: gwfast.gromov_wasserstein(
        *2 * [np.tile(cost, (2, 2))], init="product", **never(), **kw
    ),
    batch=lambda **kw: gwfast.gromov_wasserstein_batch(
        [(cost[:300, :300], cost[300:600, :300])] * 99, n_threads=3, **never(), **kw
    ),
)
before = threading.active_count()
# What was started in the background ignores the signal, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
for name, call in calls.items():
    began = time.perf_counter()
    result = call(time_limit=1.0)
    assert time.perf_counter() - began < 20.0, name
    # Small ones that come first end before.
    last = result[-1] if isinstance(result, list) else result
    assert last.status == "time_limit", (name, last)
    assert threading.active_count() == before, name
    if os.name == "nt":  # has no such signals
        continue
    timer = threading.Timer(0.7, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    began = time.perf_counter()
    try:
        call()
    except KeyboardInterrupt:
        pass
    assert 0.5 < time.perf_counter() - began < 20.0, name
    timer.join()
    assert threading.active_count() == before, name
"""


@pytest.mark.slow
@pytest.mark.process
def test_a_second_is_about_a_second_and_interrupts_are_heard_at_once():
    """Each call would take for ever; on a busy machine all takes its time."""
    done = run_python(REAL, check=False)
    assert done.returncode == 0, done.stderr
