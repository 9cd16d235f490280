"""Refusals of solvers, clusters, and losses with gradients; torch and JAX have rows in
tests/gradients.
"""

from types import SimpleNamespace

import numpy as np
from helpers.refusals import refused, row

import gwfast
from gwfast import Epsilon, Partial, PointCloud, QuadraticProblem, Seeds, SolverOptions, Unbalanced
from gwfast.distributed import cluster
from gwfast.gradients import gromov_wasserstein_loss as loss_of

COST = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
OTHER = 1.0 - np.eye(2)
LINEAR, PLAN = np.ones((3, 2)), np.full((3, 2), 1 / 6)
CLOUDS = dict(x=PointCloud(np.eye(3)), y=PointCloud(np.eye(2) + 1.0))
LARGE = {name: PointCloud(np.ones((n, 3))) for name, n in (("x", 2500), ("y", 2000))}
PROBLEM = QuadraticProblem(COST, OTHER)
RESULT = gwfast.gromov_wasserstein(PROBLEM, epsilon=0, init="product")
CLIENT, LATE = (SimpleNamespace(scheduler_info=None, asynchronous=x) for x in (False, True))
HALF, SEMIRELAXED = dict(marginals=Partial(0.5)), dict(marginals="semirelaxed")


def solve(x=COST, y=OTHER, p=None, q=None, rare=None, **options):
    rare = rare and SolverOptions(**rare)
    return gwfast.gromov_wasserstein(x, y, p, q, options=rare, **options)


def fused(linear_cost=LINEAR, **options):
    return solve(linear_cost=linear_cost, **options)


def exact(**options):
    return solve(epsilon=0, **options)


def batch(problems=(PROBLEM,), **options):
    options = {"epsilon": 0.1, "init": "product"} | options
    return gwfast.gromov_wasserstein_batch(problems, **options)


def pairs(spaces=(COST, OTHER), **options):
    return gwfast.pairwise_gromov_wasserstein(spaces, **options)


def verify(problem=PROBLEM, result=PLAN, epsilon=1.0, **options):
    return gwfast.verify(problem, result, epsilon=epsilon, **options)


def tune(**options):
    return gwfast.tune_epsilon(PROBLEM, **options)


def connect(client=CLIENT, **options):
    cluster(client, **options).__enter__()


def known(dictionary):
    return Seeds.known(dictionary, ["haus"], ["house"])


def rare(name, value, **others):
    return lambda: solve(rare={name: value}, **others), name, value


WORDS = {"haus": 3}, {"haus": ["house", 3]}, {3: ["house"]}, {"haus": None}, {"haus": b"house"}
PAIRS = "haus", {("haus", "house")}, [("hut", 4)], [("hut", "hat", "cap")], [("haus", "x"), "ab"]
CALLS = solve, exact, batch, tune, pairs
TIMES = dict(time_limit=[0, -1.0, np.nan, np.inf])
ROWS = [
    *refused(solve, marginals=["unbalanced"], epsilon=[-1.0, np.nan], dtype=["float16", "no such"]),
    *refused(solve, seed=[-1], init=["best"], checkpoint=[".", "no/f"], alpha={"linear_cost": 0.3}),
    *refused(solve, init={"empty": [], "auto": ["auto"]}),
    *refused(solve, init={"(2, 3)": PLAN.T, -0.16: -PLAN, 0: 0 * PLAN}),
    *refused(solve, TypeError, marginals=[None], tol=["small"], callback=[3], checkpoint=[3.5]),
    *refused(solve, TypeError, init={"Seeds": Seeds, "NoneType": ["product", None]}),
    row(solve, "init", [3], "", (TypeError, ValueError)),
    *refused(fused, alpha=[1.5, -0.1, np.nan], linear_cost={"(2, 3)": LINEAR.T, "2-D": 1.0}),
    *refused(fused, linear_cost={"nan at [0, 0]": LINEAR * np.nan}),
    *refused(fused, TypeError, alpha=["1", True], linear_cost={"complex": LINEAR + 0j}),
    *refused(exact, dtype={"epsilon=0": "float32"}, init={"list": ["product", "random"]}),
    *refused(SolverOptions, search_time=[0, np.nan], n_starts=[-1], marginal_tol=[0]),
    *refused(SolverOptions, n_neighbors=[4]),
    *refused(SolverOptions, TypeError, search_time=["soon"], max_inner=[1.5]),
    *refused(Seeds, pairs={-1: [[-1, 0]], "(2,)": [0, 1], "(0, 2)": np.empty((0, 2), int)}),
    *refused(Seeds, TypeError, pairs={"float64": [[0.0, 1.0]]}),
    *refused(known, dictionary={"none": {"a": "b"}}),
    *[row(known, "dictionary", wrong, "", TypeError) for wrong in WORDS + PAIRS],
    *refused(batch, n_threads=[0], loss={"kl": "kl"}),
    *refused(batch, TypeError, progress=["yes"], problems=[None, "ab", PROBLEM]),
    row(batch, "problems[1]", [PROBLEM, (COST[:2], OTHER)], "x"),
    row(batch, "problems[0]", [(COST, OTHER, None, [1.0])], "q"),
    row(batch, "problems[1]", [PROBLEM, None], "NoneType", TypeError),
    row(batch, "problems[0]", [(COST, OTHER, None)], "tuple of 3", TypeError),
    # This is known only when the problem is solved.
    row(batch, "problems[0]", [QuadraticProblem(COST, -OTHER, loss="kl")], "y"),
    *refused(pairs, loss=["cube"], epsilon=[-1], k_nearest=[0], n_starts=[-1], alpha=[0.3]),
    *refused(pairs, spaces={"empty": []}, masses={1: [None]}, features={1: [LINEAR]}),
    *refused(pairs, TypeError, spaces=["ab"]),
    row(pairs, "spaces[0]", [LINEAR], "(3, 2)"),
    row(pairs, "masses[1]", [None, [1.0]], "(1,)"),
    row(pairs, "features[1]", [LINEAR, LINEAR], "(3, 2)"),
    *refused(tune, epsilons={"empty": [], "a": ["a"], 0: [0.1, Epsilon(value=0)]}),
    *refused(tune, TypeError, epsilons=[0.1], key={"int": 3, "list": lambda result: []}),
    *refused(verify, epsilon=[-1.0, np.nan, np.inf], method=["sgd"], tol=[0], max_iter=[0]),
    *refused(verify, marginal_tol=[0], result={"(2, 2)": np.ones((2, 2))}, epsilon={"": None}),
    *refused(verify, TypeError, problem=[3], result={"": None}),
    *[row(call, "memory_limit", 99, "3 x 2", MemoryError) for call in (exact, verify)],
    *[each for call in CALLS for each in refused(call, **TIMES)],
    *[each for call in CALLS for each in refused(call, TypeError, time_limit=["1", True])],
    # Problems.
    row(solve, "q", [1.0, 0.0], "semirelaxed", **SEMIRELAXED),
    row(solve, "y", -OTHER, "kl", loss="kl", **HALF),
    row(solve, "marginals", Partial(0.5), "QuadraticProblem", x=PROBLEM, y=None),
    row(solve, "y", None, "QuadraticProblem", TypeError, x=(COST, OTHER)),
    *[rare("method", "bapg", **marginals) for marginals in (HALF, SEMIRELAXED)],
    rare("tier", "tiled", linear_cost=LINEAR),
    row(SolverOptions, "n_starts", 3, method="ppa"),
    *[
        row(solve, "memory_limit", "1MB", "2500 x 2000", MemoryError, rare=dict(tier=tier), **LARGE)
        for tier in ("auto", "dense", "tiled", "neighbors")
    ],
    # Exact problems.
    *[rare("method", value, epsilon=0) for value in ("ppa", "bapg")],
    *[rare("tier", value, epsilon=0) for value in ("tiled", "neighbors")],
    row(solve, "epsilon", 0, marginals=Unbalanced(1.0)),
    (lambda folder: exact(checkpoint=folder / "file"), "checkpoint", "epsilon=0"),
    row(gwfast.sinkhorn, "epsilon", 0, cost=COST),
    row(gwfast.sinkhorn, "epsilon", Epsilon(value=0), "Epsilon", TypeError, cost=COST),
    row(gwfast.align, "epsilon", 0, x=COST, y=COST),
    # Starts.
    row(solve, "init", RESULT, "(3, 2)", x=OTHER),
    *[
        row(solve, "init", init, tier, MemoryError, rare=dict(tier=tier), **CLOUDS)
        for init, tier in (("profile", "tiled"), ("random", "neighbors"))
    ],
    (lambda: solve(init=Seeds([[0, 99]])), "pairs", "3 and 2"),
    (lambda: solve(p=[0, 0.5, 0.5], init=Seeds([[0, 1]])), "pairs", 0),
    row(Seeds.identical, "words_x", "abc", "str", TypeError, words_y=["b"]),
    row(Seeds.known, "words_y", "un", "str", TypeError, dictionary={}, words_x=["uno"]),
    row(Seeds.identical, "words_x", ["c"], "none", words_y=["b"]),
    (lambda folder: pairs(plans=True, checkpoint=folder / "x"), "checkpoint", "plans"),
    row(verify, "method", "bapg", epsilon=0),
    row(verify, "memory_limit", 99, "", MemoryError, problem=QuadraticProblem(*CLOUDS.values())),
    row(connect, "client", "tcp://here:8786", "str", TypeError),
    row(connect, "client", LATE, "asynchronous"),
    row(connect, "n_shards", 0),
    row(connect, "min_points", 1.5, "integer", TypeError),
    (lambda: loss_of(COST, COST, options=SolverOptions(method="bapg")), "method", "bapg"),
    (lambda: loss_of(COST, COST, n_start=3), "n_start", None, TypeError),
]
