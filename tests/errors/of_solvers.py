"""Refusals of solvers, clusters, and losses with gradients; torch and JAX have rows in
tests/gradients.
"""

from types import SimpleNamespace

import numpy as np

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


def row(call, name, value, shown=None, error=ValueError, **others):
    """A call with a bad argument, which the message shows, and with others."""
    argument, shown = name.partition("[")[0], value if shown is None else shown
    return lambda: call(**{argument: value}, **others), name, shown, error


def wrong_type(call, name, value, **others):
    return row(call, name, value, type(value).__name__, TypeError, **others)


def rare(name, value, **others):
    return lambda: solve(rare={name: value}, **others), name, value


VALUES = [
    (solve, "marginals", "unbalanced"), (solve, "epsilon", -1.0), (solve, "epsilon", np.nan),
    (solve, "dtype", "float16"), (solve, "dtype", "no such"), (solve, "seed", -1),
    (solve, "init", "best"), (solve, "checkpoint", "."), (solve, "checkpoint", "no/f"),
    (fused, "alpha", 1.5), (fused, "alpha", -0.1), (fused, "alpha", np.nan),
    (SolverOptions, "search_time", 0), (SolverOptions, "search_time", np.nan),
    (SolverOptions, "n_starts", -1), (SolverOptions, "marginal_tol", 0),
    (SolverOptions, "n_neighbors", 4), (batch, "n_threads", 0), (pairs, "loss", "cube"),
    (pairs, "epsilon", -1), (pairs, "k_nearest", 0), (pairs, "n_starts", -1),
    (pairs, "alpha", 0.3), (verify, "epsilon", -1.0),
    (verify, "epsilon", np.nan), (verify, "epsilon", np.inf), (verify, "method", "sgd"),
    (verify, "tol", 0), (verify, "marginal_tol", 0), (verify, "max_iter", 0),
]  # fmt: skip
SHOWN = [
    (solve, "alpha", 0.3, "linear_cost"), (fused, "linear_cost", LINEAR.T, "(2, 3)"),
    (fused, "linear_cost", 1.0, "2-D"), (fused, "linear_cost", LINEAR * np.nan, "nan at [0, 0]"),
    (solve, "init", [], "empty"), (solve, "init", ["auto"], "auto"),
    (solve, "init", PLAN.T, "(2, 3)"), (solve, "init", -PLAN, -0.16), (solve, "init", 0 * PLAN, 0),
    (exact, "dtype", "float32", "epsilon=0"), (exact, "init", ["product", "random"], "list"),
    (Seeds, "pairs", [[-1, 0]], -1), (Seeds, "pairs", [0, 1], "(2,)"),
    (Seeds, "pairs", np.empty((0, 2), int), "(0, 2)"), (known, "dictionary", {"a": "b"}, "none"),
    (batch, "problems[1]", [PROBLEM, (COST[:2], OTHER)], "x"),
    (batch, "problems[0]", [(COST, OTHER, None, [1.0])], "q"), (pairs, "spaces", [], "empty"),
    (pairs, "spaces[0]", [LINEAR], "(3, 2)"), (pairs, "masses", [None], 1),
    (pairs, "masses[1]", [None, [1.0]], "(1,)"), (pairs, "features", [LINEAR], 1),
    (pairs, "features[1]", [LINEAR, LINEAR], "(3, 2)"), (tune, "epsilons", [], "empty"),
    (tune, "epsilons", ["a"], "a"), (tune, "epsilons", [0.1, Epsilon(value=0)], 0),
    (verify, "result", np.ones((2, 2)), "(2, 2)"), (verify, "epsilon", None, ""),
    (fused, "linear_cost", LINEAR + 0j, "complex", TypeError), (batch, "loss", "kl"),
    (solve, "init", [3], "", (TypeError, ValueError)), (solve, "init", Seeds, "Seeds", TypeError),
    (solve, "init", ["product", None], "NoneType", TypeError),
    (Seeds, "pairs", [[0.0, 1.0]], "float64", TypeError),
    (SolverOptions, "max_inner", 1.5, "float", TypeError),
    (batch, "problems[1]", [PROBLEM, None], "NoneType", TypeError),
    (batch, "problems[0]", [(COST, OTHER, None)], "tuple of 3", TypeError),
    # This is known only when the problem is solved.
    (batch, "problems[0]", [QuadraticProblem(COST, -OTHER, loss="kl")], "y"),
    (tune, "key", lambda result: [], "list", TypeError), (verify, "result", None, "", TypeError),
    (exact, "memory_limit", 99, "3 x 2", MemoryError),
    (verify, "memory_limit", 99, "3 x 2", MemoryError),
]  # fmt: skip
TYPES = [
    (solve, "marginals", None), (solve, "tol", "small"), (solve, "callback", 3),
    (solve, "checkpoint", 3.5), (fused, "alpha", "1"), (fused, "alpha", True),
    (SolverOptions, "search_time", "soon"), (batch, "progress", "yes"), (batch, "problems", None),
    (batch, "problems", "ab"), (batch, "problems", PROBLEM), (pairs, "spaces", "ab"),
    (tune, "epsilons", 0.1), (tune, "key", 3), (verify, "problem", 3),
]  # fmt: skip
NO_DICTIONARIES = [
    {"haus": 3}, {"haus": ["house", 3]}, {3: ["house"]}, {"haus": None}, {"haus": b"house"},
    {("haus", "house")}, "haus", [("hut", 4)], [("hut", "hat", "cap")], [("haus", "x"), "ab"],
]  # fmt: skip
CALLS = solve, exact, batch, tune, pairs
ROWS = [
    *[row(*values) for values in VALUES + SHOWN],
    *[wrong_type(*values) for values in TYPES],
    *[row(call, "time_limit", value) for call in CALLS for value in (0, -1.0, np.nan, np.inf)],
    *[wrong_type(call, "time_limit", value) for call in CALLS for value in ("1", True)],
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
    *[row(known, "dictionary", wrong, "", TypeError) for wrong in NO_DICTIONARIES],
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
