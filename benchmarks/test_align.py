"""The main job against other solvers, on the same problem in the same run.

Whatever a solver says of itself is ignored: every plan is judged by one float64
evaluation written here. Times are compared at an equal objective only, so the report
says how far each objective is from gwfast's; nothing here fails for being slow.
"""

import os

import numpy as np
import pytest
from contenders import CONTENDERS, Problem
from pairs import language_pair
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from gwfast import words

N_WORDS = int(os.environ.get("GWFAST_BENCH_WORDS", "2000"))
GRAPH_SIZE, GRAPH_NEIGHBORS = N_WORDS // 2, 10


@pytest.fixture(scope="module")
def pair():
    """Vectors of two languages and a dictionary: name, x, y, dictionary, epsilon."""
    try:
        return "es-en (ubilexat)", *language_pair("es-en"), 1e-3
    except FileNotFoundError:
        return "es-fr (bundled sample)", *words.load_sample(), 3e-4


@pytest.fixture(scope="module")
def word_problem(pair):
    """Cosine similarities of the most frequent words."""
    name, source, target, dictionary, epsilon = pair
    x, y = (_unit_center_unit(side.vectors)[:N_WORDS] for side in (source, target))
    return Problem(
        f"{name}, {len(x)} x {len(y)} x {x.shape[1]}, epsilon {epsilon:g}",
        x @ x.T,
        y @ y.T,
        epsilon,
        points=(x, y),
        raw=(source.vectors, target.vectors),
        gold=words.gold_standard(
            dictionary, source.words[:N_WORDS], target.words[:N_WORDS]
        ),
    )


@pytest.fixture(scope="module")
def graph_problem(word_problem):
    """Shortest paths along the nearest neighbors of the same points: dense costs."""
    costs = [_shortest_paths(points[:GRAPH_SIZE]) for points in word_problem.points]
    n = len(costs[0])
    # 2 % of the objective of the product plan.
    epsilon = float(f"{0.02 * evaluate(np.full((n, n), 1 / n**2), *costs)[0]:.1g}")
    return Problem(f"graph distances, {n} x {n}, epsilon {epsilon:g}", *costs, epsilon)


def _unit_center_unit(x):
    x = x.astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x -= x.mean(axis=0)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _shortest_paths(points):
    """Distances in the symmetric graph of nearest neighbors, at most one."""
    n, k = len(points), GRAPH_NEIGHBORS
    lengths, neighbors = cKDTree(points).query(points, k + 1)
    graph = np.zeros((n, n))
    np.put_along_axis(graph, neighbors[:, 1:], lengths[:, 1:], axis=1)
    paths = csgraph.shortest_path(graph, directed=False)
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max()
    return paths / paths.max()


def evaluate(plan, cost_x, cost_y):
    """Objective ``sum_ijkl (C1_ik - C2_jl)^2 T_ij T_kl`` and the L1 marginal error.

    In float64 on dense matrices, with the plan's own marginals: exactly the sum, also
    for a plan that is no coupling.
    """
    plan = np.asarray(plan, dtype=np.float64)
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    gw_cost = rows @ (cost_x**2) @ rows + cols @ (cost_y**2) @ cols
    gw_cost -= 2 * np.vdot(cost_x @ plan @ cost_y, plan)
    error = np.abs(rows - 1 / len(rows)).sum() + np.abs(cols - 1 / len(cols)).sum()
    return float(gw_cost), float(error)


def run(bench, problem, name, n_threads):
    contender = CONTENDERS[name]
    pytest.importorskip(contender.package, reason="not installed")
    bench.group = problem.name
    bench.extra_info.update(contender=name, settings=contender.settings)
    plan = bench.pedantic(
        contender.prepare(problem, n_threads),
        rounds=contender.rounds,
        warmup_rounds=contender.warmups,
    )
    gw_cost, error = evaluate(plan, problem.cost_x, problem.cost_y)
    bench.extra_info.update(gw_cost=gw_cost, marginal_error=error)
    if problem.gold is not None:
        best = np.asarray(plan).argmax(axis=1)[problem.gold.rows, None]
        precision = words.precision_at_k(best, problem.gold, (1,))
        bench.extra_info["p_at_1"] = precision.at[1]
    assert np.isfinite(gw_cost), f"{name} returned a plan that is not finite"


@pytest.mark.parametrize("name", CONTENDERS)
def test_words(bench, word_problem, n_threads, name):
    run(bench, word_problem, name, n_threads)


@pytest.mark.parametrize("name", CONTENDERS)
def test_graph(bench, graph_problem, n_threads, name):
    run(bench, graph_problem, name, n_threads)
