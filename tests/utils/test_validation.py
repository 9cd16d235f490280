"""Checks of arguments, through every public function: harmless input is converted and not changed,
and errors name the argument.
"""

import functools
from itertools import product

import numpy as np
import pytest
import scipy.sparse
from helpers.problems import distances

import gwfast
import gwfast.singlecell
from gwfast.problems.dense_cost import DenseCost

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 4)), RNG.normal(size=(9, 3))
COST_X, COST_Y = np.abs(X @ X.T), np.abs(Y @ Y.T)
COST = RNG.random((12, 9))
PLAN = np.full((12, 9), 1 / 108)


def spoiled(x, value):
    x = np.array(x, dtype=np.float64)
    x[-1, 0] = value
    return x


# Options of the solvers beside the checked argument.
LOOSE = {"tol": 1e-3, "max_iter": 1000, "epsilon": 0.5}
ROUGH = {"tol": 1e-2, "init": "product"}
solve = functools.partial(gwfast.gromov_wasserstein, epsilon=0.5, **ROUGH)
align = functools.partial(gwfast.align, epsilon=0.05, **ROUGH)
SOLVERS = {
    "sinkhorn": functools.partial(gwfast.sinkhorn, COST, **LOOSE),
    "gromov_wasserstein": functools.partial(solve, COST_X, COST_Y),
    "align": functools.partial(align, X, Y),
    "SolverOptions": gwfast.SolverOptions,
    "nearest_neighbors": functools.partial(
        gwfast.nearest_neighbors, queries=X, targets=X, sources=X
    ),
}

# Every public function, as a function of one array argument: its name, a good value and the call.
MATRICES = {
    "sinkhorn-cost": (COST, lambda c: gwfast.sinkhorn(c, **LOOSE)),
    "gromov_wasserstein-x": (COST_X, lambda c: solve(c, COST_Y)),
    "gromov_wasserstein-y": (COST_Y, lambda c: solve(COST_X, c)),
    "gromov_wasserstein-init": (PLAN, lambda t: solve(COST_X, COST_Y, init=t)),
    "align-x": (X, lambda x: align(x, Y)),
    "align-y": (Y, lambda y: align(X, y)),
    "PointCloud-x": (X, gwfast.PointCloud),
    "DenseCost-cost": (COST_X, DenseCost),
    "cosine_similarity-x": (X, lambda x: gwfast.cosine_similarity(x, X)),
    "cosine_similarity-y": (X, lambda y: gwfast.cosine_similarity(X, y)),
    "nearest_neighbors-queries": (X, lambda x: gwfast.nearest_neighbors(x, X)),
    "nearest_neighbors-targets": (X, lambda x: gwfast.nearest_neighbors(X, x)),
    "nearest_neighbors-sources": (X, lambda x: gwfast.nearest_neighbors(X, X, sources=x)),
}
GRAPHS = ["gromov_wasserstein-x", "gromov_wasserstein-y"]
SQUARE = [*GRAPHS, "DenseCost-cost"]
ANGLES = [name for name, (good, _) in MATRICES.items() if good is X or good is Y]


@pytest.fixture(params=MATRICES)
def door_of(request):
    """Name of the argument, a good value for it, and the function."""
    return request.param.split("-")[1], *MATRICES[request.param]


def content(result):
    """Return the arrays in the result of a public function."""
    if hasattr(result, "plan"):
        return [result.plan]
    if hasattr(result, "indices"):
        return [result.indices, result.scores]
    if isinstance(result, gwfast.PointCloud):
        return [result.features]
    if isinstance(result, DenseCost):
        return [result.matrix]
    return list(result) if isinstance(result, tuple) else [result]


def assert_same(came, expected, tolerance):
    for left, right in zip(content(came), content(expected), strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        np.ndarray.tolist,
        lambda x: np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(x.dtype.newbyteorder()),
    ],
    ids="fortran list strided reversed byte-order".split(),
)
def test_other_layouts_give_the_same_answer(convert, door_of):
    _, good, call = door_of
    assert_same(call(convert(good)), call(good), 1e-5)


def test_integers_and_float32_are_taken(door_of):
    name, good, call = door_of
    whole = np.rint(good * 4) + 1 if name != "init" else np.ones(good.shape)
    assert_same(call(whole.astype(np.int64)), call(whole), 1e-5)
    assert_same(call(whole.astype(np.float32)), call(whole), 1e-5)


def test_read_only_input_is_taken_and_left_alone(door_of):
    _, good, call = door_of
    frozen = good.copy()
    frozen.flags.writeable = False
    call(frozen)
    np.testing.assert_array_equal(frozen, good)


NOT_FINITE = r"finite, got {} at \[(11|8), 0\] \(1 such"
# An initial plan has a shape to keep to.
EMPTY = "(not be empty|have shape).*{}, {}"


@pytest.mark.parametrize(
    "convert, error, message",
    [
        (lambda x: x[0], ValueError, "be a 2-D array, got 1-D"),
        (lambda x: x[None], ValueError, "be a 2-D array, got 3-D"),
        (lambda x: 1.0, ValueError, "be a 2-D array, got 0-D"),
        (lambda x: np.zeros((0, 0)), ValueError, EMPTY.format(0, 0)),
        (lambda x: np.zeros((0, 4)), ValueError, EMPTY.format(0, 4)),
        (lambda x: np.zeros((4, 0)), ValueError, EMPTY.format(4, 0)),
        (lambda x: spoiled(x, np.nan), ValueError, NOT_FINITE.format("nan")),
        (lambda x: spoiled(x, np.inf), ValueError, NOT_FINITE.format("inf")),
        (lambda x: spoiled(x, -np.inf), ValueError, NOT_FINITE.format("-inf")),
        (lambda x: x.astype(complex), TypeError, "real numbers, got dtype complex128"),
        (lambda x: x.astype(object), TypeError, "real numbers, got dtype object"),
        (lambda x: x.astype(str), TypeError, "real numbers, got dtype <U"),
        (lambda x: x.astype("m8[s]"), TypeError, "real numbers, got dtype timedelta"),
        (lambda x: None, TypeError, "got (dtype object|NoneType)"),
        (scipy.sparse.csr_array, TypeError, "dense array, got a sparse matrix"),
        (scipy.sparse.coo_matrix, TypeError, "dense array, got a sparse matrix"),
    ],
)
def test_what_is_not_a_real_matrix_is_refused(convert, error, message, door_of, request):
    name, good, call = door_of
    if name in ("y", "sources") and convert(good) is None:
        pytest.skip("None has a meaning here")
    if scipy.sparse.issparse(convert(good)) and request.node.callspec.params["door_of"] in GRAPHS:
        pytest.skip("a graph")
    with pytest.raises(error, match=rf"^{name} must .*{message}"):
        call(convert(good))


@pytest.mark.parametrize("key", SQUARE)
def test_costs_that_are_not_square_are_refused(key):
    good, call = MATRICES[key]
    name = key.split("-")[1]
    with pytest.raises(ValueError, match=rf"^{name} must be square, got shape"):
        call(good[:, :-1])


@pytest.mark.parametrize("key", ANGLES)
def test_zero_rows_are_refused_by_name_and_number(key):
    good, call = MATRICES[key]
    name = key.split("-")[1]
    bad = np.array(good)
    bad[5] = 0.0
    with pytest.raises(ValueError, match=rf"^{name} must have no zero .*\(row 5\)"):
        call(bad)


# --- Marginals ------------------------------------------------------------------------


@pytest.fixture(params=product(["sinkhorn", "gromov_wasserstein"], "pq"))
def marginal_of(request):
    solver, name = request.param
    size = {"p": 12, "q": 9}[name]
    return name, size, lambda given: SOLVERS[solver](**{name: given})


def test_marginals_are_taken_up_to_rounding(marginal_of):
    name, size, call = marginal_of
    weights = np.arange(1.0, size + 1)
    exact = weights / weights.sum()
    for given in (exact, exact.tolist(), exact.astype(np.float32), exact * 1.00009):
        plan = call(given).plan
        sums = plan.sum(axis=1 if name == "p" else 0, dtype=np.float64)
        np.testing.assert_allclose(sums, exact, atol=1e-2 * exact.max())


def test_no_marginal_is_the_uniform_one(marginal_of):
    _, size, call = marginal_of
    np.testing.assert_array_equal(call(None).plan, call(np.full(size, 1 / size)).plan)


@pytest.mark.parametrize(
    "spoil, error, message",
    [
        (lambda p: p[:-1], ValueError, r"must have shape \({n},\), got \({less},\)"),
        (lambda p: p[None], ValueError, r"must have shape \({n},\), got \(1, {n}\)"),
        (lambda p: p * 1.001, ValueError, "must sum to 1, got 1.001"),
        (lambda p: p * 0, ValueError, "must have a positive sum, got 0"),
        (lambda p: np.r_[p[:-2], -p[-1], 3 * p[-1]], ValueError, "must not be neg"),
        (lambda p: np.r_[np.nan, p[1:]], ValueError, r"must be finite, got nan at \[0"),
        (lambda p: np.r_[p[:-1], np.inf], ValueError, "must be finite, got inf at"),
        (lambda p: p * 1j, TypeError, "must hold real numbers, got dtype complex"),
        (lambda p: "uniform", TypeError, "must hold real numbers, got dtype <U7"),
        (lambda p: 0.5, ValueError, r"must have shape \({n},\), got \(\)"),
    ],
    ids="short 2-D sum zero negative nan inf complex str scalar".split(),
)
def test_bad_marginals_are_refused(spoil, error, message, marginal_of):
    name, size, call = marginal_of
    message = message.replace("{n}", str(size)).replace("{less}", str(size - 1))
    with pytest.raises(error, match=f"^{name} {message}"):
        call(spoil(np.full(size, 1 / size)))


# --- Numbers, choices, functions ------------------------------------------------------

SETTINGS = {
    "sinkhorn": ("epsilon", "tol"),
    "gromov_wasserstein": ("epsilon", "tol"),
    "align": ("epsilon", "tol"),
    "SolverOptions": ("marginal_tol",),
}
LIMITS = {
    "sinkhorn": ("max_iter",),
    "gromov_wasserstein": ("max_iter",),
    "align": ("n_words",),
    "SolverOptions": ("max_inner", "n_neighbors"),
}


def pairs(table):
    return [(solver, name) for solver, names in table.items() for name in names]


POSITIVE = "be (positive|non-negative) and finite, got"
REFUSED = [
    *((*key, x, POSITIVE) for key in pairs(SETTINGS) for x in (-0.1, np.nan, np.inf, -np.inf)),
    *((*key, 0, POSITIVE) for key in pairs(SETTINGS) if key != ("gromov_wasserstein", "epsilon")),
    *(
        (*key, x, "be a number, got")
        for key in pairs(SETTINGS)
        for x in (True, np.True_, None, [0.1], 1j, np.array([0.1]))
    ),
    *((*key, x, f"be at least 1, got {x}") for key in pairs(LIMITS) for x in (0, -5)),
    *((*key, x, "be an integer, got") for key in pairs(LIMITS) for x in (2.0, "3", True)),
    ("sinkhorn", "epsilon", "0.1", ""),
    ("gromov_wasserstein", "epsilon", "small", ""),
    ("gromov_wasserstein", "loss", "l2", ""),
    ("gromov_wasserstein", "loss", ["square"], ""),
    ("gromov_wasserstein", "init", "best", ""),
    ("align", "metric", "l1", ""),
    ("align", "metric", None, ""),
    ("align", "normalize", ("unit", "whiten"), ""),
    ("align", "p", "pareto", ""),
    ("align", "callback", 3, ""),
    ("gromov_wasserstein", "callback", "print", ""),
    ("align", "n_threads", 0, ""),
    ("align", "n_threads", 1.5, ""),
    ("sinkhorn", "n_threads", 0, ""),
    ("gromov_wasserstein", "n_threads", "2", ""),
    ("gromov_wasserstein", "options", "ppa", ""),
    ("SolverOptions", "method", "xyz", ""),
    ("SolverOptions", "method", 1, ""),
    ("SolverOptions", "tier", "fast", ""),
    ("nearest_neighbors", "method", "best", ""),
    ("nearest_neighbors", "k", 0, ""),
    ("nearest_neighbors", "k", 1.0, ""),
    ("nearest_neighbors", "n_neighbors", 0, ""),
    ("nearest_neighbors", "n_neighbors", None, ""),
]


@pytest.mark.parametrize("solver, name, value, message", REFUSED)
def test_wrong_values_are_refused_by_name(solver, name, value, message):
    error = (ValueError, TypeError) if not message else ValueError
    if "a number" in message or "an integer" in message:
        error = TypeError
    with pytest.raises(error, match=f"^{name} must {message}"):
        SOLVERS[solver](**{name: value})


@pytest.mark.parametrize("name", ["queries", "targets", "sources"])
def test_neighbors_have_one_width(name):
    with pytest.raises(ValueError, match=r"^(queries|targets|sources) must have"):
        SOLVERS["nearest_neighbors"](**{name: X[:, :3]})


def test_initial_plan_must_fit():
    call = MATRICES["gromov_wasserstein-init"][1]
    with pytest.raises(ValueError, match=r"^init must have shape \(12, 9\), got \(9"):
        call(PLAN.T)
    with pytest.raises(ValueError, match=r"^init must not be negative, got -1"):
        call(spoiled(PLAN, -1))
    with pytest.raises(ValueError, match=r"^init must have mass"):
        call(0 * PLAN)


def test_weights_of_words_may_be_counts_but_not_negative():
    counts = np.arange(12, 0, -1)
    total = align(X, Y, p=counts).plan.sum(axis=1)
    np.testing.assert_allclose(total, counts / counts.sum(), atol=1e-2)
    with pytest.raises(ValueError, match=r"^p must not be negative, got -1.0 at \[11"):
        gwfast.align(X, Y, p=np.r_[counts[:-1], -1], epsilon=1.0)
    with pytest.raises(ValueError, match=r"^q must have shape \(9,\), got \(8,\)"):
        gwfast.align(X, Y, q=np.ones(8), epsilon=1.0)


# --- One point ------------------------------------------------------------------------


def test_one_point_takes_all_the_mass():
    assert gwfast.sinkhorn([[3.0]], epsilon=0.1).plan.tolist() == [[1.0]]
    one = gwfast.gromov_wasserstein([[0.0]], COST_Y, epsilon=1.0)
    np.testing.assert_allclose(one.plan, np.full((1, 9), 1 / 9), rtol=1e-6)
    assert one.converged and np.isfinite(one.gw_cost)
    cloud = gwfast.PointCloud([[1.0, 2.0]])
    one = gwfast.gromov_wasserstein(cloud, gwfast.PointCloud(Y), epsilon="auto")
    np.testing.assert_allclose(one.plan, np.full((1, 9), 1 / 9), rtol=1e-6)
    found = gwfast.nearest_neighbors(X[:1], X[:1])
    assert found.indices.tolist() == [[0]] and found.scores.shape == (1, 1)


def test_one_row_has_no_angle_once_it_is_centered():
    with pytest.raises(ValueError, match=r"^x after centering must have no zero rows"):
        gwfast.align(X[:1], Y)


def test_two_rows_a_side_are_aligned():
    """Centered, they are opposite, and their mean A under the product plan is zero."""
    result = gwfast.align(X[:2], Y[:2], epsilon=1.0)
    assert np.isfinite(result.plan).all() and np.isfinite(result.gw.gw_cost)
    np.testing.assert_allclose(result.plan.sum(), 1.0, rtol=1e-6)
    assert all(np.isfinite(step.change) for step in result.gw.history)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_tensors_are_refused_by_name():
    torch = pytest.importorskip("torch")
    costs = torch.rand(5, 5, requires_grad=True)
    points, masses = torch.rand(5, 2, requires_grad=True), costs[0]
    plain = distances(RNG.normal(size=(5, 2)))
    solve, result = gwfast.gromov_wasserstein, gwfast.gromov_wasserstein(plain, plain)
    calls = [
        ("x", lambda: solve(costs, plain)),
        ("y", lambda: solve(plain, costs)),
        ("p", lambda: solve(plain, plain, p=masses)),
        ("linear_cost", lambda: solve(plain, plain, linear_cost=costs)),
        ("init", lambda: solve(plain, plain, init=costs)),
        ("x", lambda: gwfast.PointCloud(points)),
        ("cost", lambda: gwfast.sinkhorn(costs, epsilon=0.1)),
        (r"spaces\[1\]", lambda: gwfast.pairwise_gromov_wasserstein([plain, costs])),
        ("adata_x", lambda: gwfast.singlecell.align(points, points)),
        ("y", lambda: result.transform(points, projection="match")),
        ("labels", lambda: result.transfer_labels(masses)),
        ("epsilon", lambda: solve(plain, plain, epsilon=costs.mean())),
    ]
    for name, call in calls:
        with pytest.raises(TypeError, match=rf"^{name} must .*gwfast\.gradients"):
            call()
    with pytest.raises(TypeError, match=r"^x must .*got Tensor of torch; gwfast\.gradients"):
        solve(costs.detach(), plain)


def test_values_that_jax_traces_are_refused_by_name():
    jax = pytest.importorskip("jax")
    plain = distances(RNG.normal(size=(5, 2)))

    def x(costs):
        return gwfast.gromov_wasserstein(costs, plain).gw_cost

    def epsilon(costs):
        return gwfast.gromov_wasserstein(plain, plain, epsilon=costs[0, 0]).gw_cost

    for call in (x, epsilon):
        for traced in (jax.jit, jax.grad, jax.vmap):
            costs = plain[None] if traced is jax.vmap else plain
            with pytest.raises(TypeError, match=rf"^{call.__name__} must .*gwfast\.gradients"):
                traced(call)(costs)
