"""Fused, proximal, semi-relaxed and partial problems, in both precisions."""

import numpy as np
import pytest
import scipy.special
from helpers import twins
from helpers.problems import cloud, distances, gw_objective, masses, random_cost

import gwfast
from gwfast import PointCloud, gromov_wasserstein

# Where solves are quick plans match little, or keep one side's points from all mass.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")

N, M = 9, 7
P, Q = masses(N, 1), masses(M, 2)
BETWEEN = np.random.default_rng(3).random((N, M))
# Both limits of the tolerances, and how near plans are to those of the twins.
TIGHT = {
    "float32": dict(tol=1e-6, marginal_tol=1e-6),
    "float64": dict(tol=1e-11, marginal_tol=1e-11),
}
NEAR = {"float32": 1e-4, "float64": 1e-8}

FUSED = dict(linear_cost=BETWEEN, alpha=0.3)
SEMIRELAXED = dict(marginals="semirelaxed")
PARTIAL = dict(marginals="partial", mass=0.6)
VARIANTS = {
    "plain": {},
    "fused": FUSED,
    "ppa": dict(method="ppa"),
    "fused ppa": dict(method="ppa", **FUSED),
    "bapg": dict(method="bapg"),
    "fused bapg": dict(method="bapg", **FUSED),
    "semirelaxed": SEMIRELAXED,
    "fused semirelaxed": dict(**SEMIRELAXED, **FUSED),
    "semirelaxed ppa": dict(method="ppa", **SEMIRELAXED),
    "partial": PARTIAL,
    "fused partial": dict(**PARTIAL, **FUSED),
    "partial ppa": dict(method="ppa", **PARTIAL),
}


@pytest.fixture(params=VARIANTS)
def options(request):
    return VARIANTS[request.param]


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


def costs(symmetric=True, n=N, m=M):
    return tuple(
        random_cost(size, seed, symmetric=symmetric) + 0.1
        for size, seed in ((n, 4), (m, 5))
    )


def masses_of(options, p=P, q=Q):
    """What `gromov_wasserstein` takes of two marginals."""
    return (p, None) if options.get("marginals") == "semirelaxed" else (p, q)


def some_plan():
    """One without structure, whose entries and their sum are numbers of float32."""
    pairs = np.random.default_rng(6).integers(0, N * M, 1 << 12)
    return (np.bincount(pairs, minlength=N * M) / (1 << 12)).reshape(N, M)


def as_twin(options):
    """The same options in the words of the twins."""
    options = dict(options)
    if "linear_cost" in options:
        options["linear"] = options.pop("linear_cost")
    return options


# --- Steps and where they end -----------------------------------------------------


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_one_iteration_is_that_of_the_twin(options, dtype, loss, symmetric):
    cost_x, cost_y = costs(symmetric)
    start = some_plan()
    expected = twins.step(
        start, cost_x, cost_y, P, Q, epsilon=0.05, loss=loss, **as_twin(options)
    )
    result = gromov_wasserstein(
        cost_x,
        cost_y,
        *masses_of(options),
        epsilon=0.05,
        loss=loss,
        init=start,
        max_outer=1,
        dtype=dtype,
        **TIGHT[dtype],
        **options,
    )
    assert result.n_outer == 1
    assert np.abs(result.plan - expected).sum() < NEAR[dtype]


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_iterations_end_where_those_of_the_twin_stay(options, dtype, loss, symmetric):
    cost_x, cost_y = costs(symmetric)
    # Gradient steps where one side is free go to and fro at less.
    epsilon = 0.2 if options.get("marginals") == "semirelaxed" else 0.05
    result = gromov_wasserstein(
        cost_x,
        cost_y,
        *masses_of(options),
        epsilon=epsilon,
        loss=loss,
        init="product",
        max_outer=500,
        dtype=dtype,
        **TIGHT[dtype],
        **options,
    )
    assert result.plan.dtype == dtype
    plan = result.plan.astype(np.float64)
    again = twins.step(
        plan, cost_x, cost_y, P, Q, epsilon=epsilon, loss=loss, **as_twin(options)
    )
    # Proximal points go on with steps that become small slowly.
    slow = dtype == "float32" or options.get("method") == "ppa"
    assert np.abs(again - plan).sum() < (1e-3 if slow else 1e-6)


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_objective_is_the_fourfold_sum(options, dtype, loss, symmetric):
    if options.get("method") == "bapg":
        pytest.skip("its plan lacks the marginals that the objective is made of")
    cost_x, cost_y = costs(symmetric)
    result = gromov_wasserstein(
        cost_x,
        cost_y,
        *masses_of(options),
        epsilon=0.05,
        loss=loss,
        init="product",
        max_outer=20,
        dtype=dtype,
        **TIGHT[dtype],
        **options,
    )
    plan = result.plan.astype(np.float64)
    expected, linear = gw_objective(plan, cost_x, cost_y, loss), 0.0
    if "linear_cost" in options:
        linear = (plan * BETWEEN).sum()
        expected = options["alpha"] * expected + (1 - options["alpha"]) * linear
    rtol = 1e-4 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(result.gw_cost, expected, rtol=rtol)
    np.testing.assert_allclose(result.linear_cost, linear, rtol=rtol)
    entropy = scipy.special.entr(plan).sum()
    np.testing.assert_allclose(
        result.reg_cost, expected - 2 * 0.05 * entropy, rtol=10 * rtol
    )


@pytest.mark.parametrize(
    "variant", ["plain", "fused", "semirelaxed", "fused semirelaxed", "partial"]
)
def test_potentials_give_the_plan(variant, dtype):
    options = VARIANTS[variant]
    cost_x, cost_y = costs()
    result = gromov_wasserstein(
        cost_x,
        cost_y,
        *masses_of(options),
        epsilon=0.05,
        init="product",
        max_outer=500,
        dtype=dtype,
        **TIGHT[dtype],
        **options,
    )
    plan, twin = result.plan.astype(np.float64), as_twin(options)
    lin = twins.half_gradient(
        plan, cost_x, cost_y, "square", twin.get("linear"), twin.get("alpha", 0.5)
    )
    f, g = result.potentials
    made = np.exp((f[:, None] + g - lin) / result.epsilon)
    assert np.abs(made - plan).sum() < (1e-3 if dtype == "float32" else 1e-8)


# --- Fused ------------------------------------------------------------------------


def test_alpha_of_one_is_the_plain_problem(dtype):
    cost_x, cost_y = costs()
    solve = dict(epsilon=0.05, init="product", dtype=dtype)
    plain = gromov_wasserstein(cost_x, cost_y, P, Q, **solve)
    fused = gromov_wasserstein(
        cost_x, cost_y, P, Q, linear_cost=1e3 * BETWEEN, alpha=1, **solve
    )
    assert np.abs(fused.plan - plain.plan).sum() < 1e-5
    assert fused.gw_cost == pytest.approx(plain.gw_cost, rel=1e-5)
    assert fused.linear_cost == pytest.approx(1e3 * (fused.plan * BETWEEN).sum())


def test_alpha_of_zero_is_optimal_transport_at_twice_epsilon(dtype):
    cost_x, cost_y = costs()
    result = gromov_wasserstein(
        cost_x, cost_y, P, Q, linear_cost=BETWEEN, alpha=0, epsilon=0.02, dtype=dtype
    )
    transport = gwfast.sinkhorn(BETWEEN, P, Q, epsilon=0.04, tol=1e-6)
    assert np.abs(result.plan - transport.plan).sum() < 5e-5
    assert result.gw_cost == pytest.approx(transport.cost, rel=1e-4)
    assert result.linear_cost == pytest.approx(transport.cost, rel=1e-4)
    assert result.reg_cost == pytest.approx(transport.reg_cost, rel=1e-3)


def test_a_linear_cost_decides_between_symmetric_matches():
    """A regular polygon matches itself in many ways; features know one of them."""
    angles = 2 * np.pi * np.arange(12) / 12
    cost = distances(np.column_stack([np.cos(angles), np.sin(angles)]))
    where = np.roll(np.arange(12), 5)
    between = np.ones((12, 12))
    between[np.arange(12), where] = 0.0
    result = gromov_wasserstein(
        cost, cost, linear_cost=between, alpha=0.5, epsilon=0.005
    )
    np.testing.assert_array_equal(result.plan.argmax(axis=1), where)
    assert result.gw_cost < 1e-3


def test_fused_clouds_are_their_matrices():
    x, y = PointCloud(cloud(N, 3, 7)), PointCloud(cloud(M, 3, 8))
    solve = dict(linear_cost=BETWEEN, epsilon=0.05, init="product")
    clouds = gromov_wasserstein(x, y, P, Q, **solve)
    matrices = gromov_wasserstein(x.to_dense(), y.to_dense(), P, Q, **solve)
    np.testing.assert_allclose(clouds.plan, matrices.plan, atol=1e-6)


@pytest.mark.parametrize("init", ["auto", "product"])
def test_rows_of_a_linear_cost_are_permuted_with_the_points(init, dtype):
    cost_x, cost_y = costs(n=N, m=M)
    rows = np.random.default_rng(9).permutation(N)
    solve = dict(alpha=0.4, epsilon=0.05, init=init, dtype=dtype)
    plain = gromov_wasserstein(cost_x, cost_y, P, Q, linear_cost=BETWEEN, **solve)
    other = gromov_wasserstein(
        cost_x[np.ix_(rows, rows)], cost_y, P[rows], Q, linear_cost=BETWEEN[rows],
        **solve,
    )  # fmt: skip
    assert np.abs(other.plan - plain.plan[rows]).sum() < 1e-3


@pytest.mark.parametrize("offset", [-1e3, 1e3])
def test_an_offset_of_the_linear_cost_moves_the_objective_only(offset, dtype):
    cost_x, cost_y = costs()
    solve = dict(alpha=0.4, epsilon=0.05, init="product", dtype=dtype)
    plain = gromov_wasserstein(cost_x, cost_y, P, Q, linear_cost=BETWEEN, **solve)
    moved = gromov_wasserstein(
        cost_x, cost_y, P, Q, linear_cost=BETWEEN + offset, **solve
    )
    assert np.abs(moved.plan - plain.plan).sum() < 1e-4
    assert moved.gw_cost - 0.6 * offset == pytest.approx(plain.gw_cost, abs=1e-2)
    assert moved.linear_cost - offset == pytest.approx(plain.linear_cost, abs=1e-2)


@pytest.mark.parametrize("scale", [1e-20, 1e-10, 1e10, 1e18])
@pytest.mark.parametrize("variant", ["fused", "ppa", "fused ppa"])
def test_units_of_all_costs_together_do_not_matter(scale, variant, dtype):
    options = dict(VARIANTS[variant])
    cost_x, cost_y = costs()
    solve = dict(init="product", dtype=dtype)
    plain = gromov_wasserstein(cost_x, cost_y, P, Q, epsilon=0.05, **solve, **options)
    if "linear_cost" in options:
        options["linear_cost"] = scale**2 * BETWEEN
    scaled = gromov_wasserstein(
        scale * cost_x, scale * cost_y, P, Q, epsilon=0.05 * scale**2, **solve,
        **options,
    )  # fmt: skip
    assert np.abs(scaled.plan - plain.plan).sum() < 1e-4
    assert scaled.gw_cost == pytest.approx(plain.gw_cost * scale**2, rel=1e-4)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_terms_of_very_different_size(scale, dtype):
    """The larger one decides."""
    cost_x, cost_y = costs()
    alone = dict(alpha=1.0, epsilon=0.05)
    if scale > 1:
        alone = dict(alpha=0.0, epsilon=0.05 * scale)
    between = scale * BETWEEN
    fused = gromov_wasserstein(
        cost_x, cost_y, P, Q, linear_cost=between, alpha=0.5, init="product",
        epsilon=alone["epsilon"] / 2, dtype=dtype,
    )  # fmt: skip
    single = gromov_wasserstein(
        cost_x, cost_y, P, Q, linear_cost=between, init="product", dtype=dtype, **alone
    )
    assert np.abs(fused.plan - single.plan).sum() < 1e-4


# --- Semi-relaxed -----------------------------------------------------------------


@pytest.mark.parametrize("method", ["pgd", "ppa"])
def test_rows_of_a_semirelaxed_plan_have_their_masses_and_columns_any(method, dtype):
    cost_x, cost_y = costs()
    result = gromov_wasserstein(
        cost_x, cost_y, P, marginals="semirelaxed", method=method, epsilon=0.05,
        dtype=dtype,
    )  # fmt: skip
    exact = 1e-6 if dtype == "float32" else 1e-14
    plan = result.plan.astype(np.float64)
    np.testing.assert_allclose(plan.sum(axis=1), P, rtol=exact)
    assert result.marginal_error < exact
    assert np.abs(plan.sum(axis=0) - 1 / M).max() > 1e-2


def test_semirelaxed_finds_the_part_of_the_second_space_that_is_the_first():
    x = cloud(10, 3, 10)
    y = np.vstack([x, cloud(6, 3, 11) + 8.0])
    cost_x, cost_y = distances(x), distances(y)
    result = gromov_wasserstein(
        cost_x, cost_y, marginals="semirelaxed", epsilon=0.02, init=np.eye(10, 16)
    )
    np.testing.assert_array_equal(result.plan.argmax(axis=1), np.arange(10))
    assert result.gw_cost < 2e-3
    assert result.plan[:, 10:].sum() < 1e-5


@pytest.mark.parametrize("marginals", ["semirelaxed", "partial", "balanced"])
def test_proximal_steps_descend_to_less_than_the_regularized_plan(marginals):
    cost_x, cost_y = costs()
    options = dict(marginals=marginals, mass=0.6 if marginals == "partial" else None)
    solve = dict(epsilon=0.2, init="product", dtype="float64", **options)
    seen = []
    proximal = gromov_wasserstein(
        cost_x, cost_y, *masses_of(options), method="ppa", marginal_tol=1e-9,
        callback=lambda step: seen.append(step.gw_cost) or len(seen) == 60, **solve,
    )  # fmt: skip
    gradient = gromov_wasserstein(cost_x, cost_y, *masses_of(options), **solve)
    assert np.diff(seen).max() < 1e-6
    assert proximal.gw_cost <= gradient.gw_cost + 1e-9
    assert proximal.gw_cost < seen[0]


# --- Partial ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pgd", "ppa"])
@pytest.mark.parametrize("mass", [0.05, 0.5, 0.95])
def test_a_partial_plan_has_its_mass_and_stays_within_the_marginals(
    method, mass, dtype
):
    cost_x, cost_y = costs()
    result = gromov_wasserstein(
        cost_x, cost_y, P, Q, marginals="partial", mass=mass, method=method,
        epsilon=0.05, dtype=dtype, marginal_tol=1e-6, max_outer=50,
    )  # fmt: skip
    plan = result.plan.astype(np.float64)
    assert plan.sum() == pytest.approx(mass, abs=2e-6)
    assert (plan.sum(axis=1) - P).max() < 2e-6
    assert (plan.sum(axis=0) - Q).max() < 2e-6


@pytest.mark.parametrize("mass", [1.0, None])
def test_all_mass_is_the_balanced_problem(mass, dtype):
    cost_x, cost_y = costs()
    solve = dict(epsilon=0.05, init="product", dtype=dtype)
    partial = gromov_wasserstein(
        cost_x, cost_y, P, Q, marginals="partial", mass=mass, **solve
    )
    balanced = gromov_wasserstein(cost_x, cost_y, P, Q, **solve)
    assert np.abs(partial.plan - balanced.plan).sum() < 1e-3
    assert partial.gw_cost == pytest.approx(balanced.gw_cost, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_partial_solutions_of_both_domains_agree(epsilon, dtype, monkeypatch):
    cost_x, cost_y = costs()
    solve = dict(
        marginals="partial", mass=0.6, epsilon=epsilon, init="product", max_outer=1,
        dtype=dtype, **TIGHT[dtype],
    )  # fmt: skip
    scaled = gromov_wasserstein(cost_x, cost_y, P, Q, **solve)
    calls, relaxed = [], gwfast.linear.marginals.Partial
    in_logs = relaxed._iterate
    monkeypatch.setattr(relaxed, "_scale", None)
    monkeypatch.setattr(
        relaxed, "_iterate", lambda *args: calls.append(1) or in_logs(*args)
    )
    monkeypatch.setattr(
        relaxed, "solve", lambda self, kernel, epsilon, *, tol, max_iter: self._iterate(
            kernel, epsilon, tol, max_iter
        ),
    )  # fmt: skip
    logs = gromov_wasserstein(cost_x, cost_y, P, Q, **solve)
    assert calls
    assert np.abs(scaled.plan - logs.plan).sum() < NEAR[dtype]


# --- Alternating projections ------------------------------------------------------


def test_columns_of_a_bapg_plan_are_exact_and_rows_nearly_so_at_large_epsilon(dtype):
    cost_x, cost_y = costs()
    misses = []
    for epsilon in (0.1, 10.0):
        plan = gromov_wasserstein(
            cost_x, cost_y, P, Q, method="bapg", epsilon=epsilon, dtype=dtype,
        ).plan.astype(np.float64)  # fmt: skip
        exact = 1e-6 if dtype == "float32" else 1e-14
        np.testing.assert_allclose(plan.sum(axis=0), Q, rtol=exact)
        misses.append(np.abs(plan.sum(axis=1) - P).sum())
    assert misses[1] < misses[0] and misses[1] < 0.05


# --- All of them ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1), (2, 3), (17, 33)])
def test_awkward_sizes(shape, options, dtype):
    n, m = shape
    cost_x, cost_y = random_cost(n, 15), random_cost(m, 16)
    options = dict(options)
    if "linear_cost" in options:
        options["linear_cost"] = np.random.default_rng(17).random(shape)
    p, q = masses(n, 18), masses(m, 19)
    result = gromov_wasserstein(
        cost_x, cost_y, *masses_of(options, p, q), epsilon=0.5, dtype=dtype, **options
    )
    plan = result.plan.astype(np.float64)
    assert plan.shape == shape and np.isfinite(plan).all() and (plan >= 0).all()
    assert plan.sum() == pytest.approx(options.get("mass", 1.0), abs=1e-4)
    if options.get("method") != "bapg":  # which fits the columns only
        assert result.marginal_error < 1e-4


@pytest.mark.parametrize("convert", [np.asfortranarray, np.float32, "integers"])
def test_layouts_and_types_of_input(convert, options, dtype):
    cost_x, cost_y = (np.rint(9 * cost) for cost in costs())
    cost_x, cost_y = cost_x + cost_x.T, cost_y + cost_y.T
    options = dict(options)
    if "linear_cost" in options:
        options["linear_cost"] = np.rint(9 * BETWEEN)

    def solve(change):
        arrays = {k: change(v) for k, v in options.items() if k == "linear_cost"}
        return gromov_wasserstein(
            change(cost_x), change(cost_y), *masses_of(options), epsilon=5.0,
            init="product", dtype=dtype, **{**options, **arrays},
        )  # fmt: skip

    if convert == "integers":
        convert = lambda x: x.astype(np.int64)  # noqa: E731
    difference = np.abs(solve(convert).plan - solve(np.asarray).plan).sum()
    assert difference < (1e-5 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("init", ["auto", "product", "array"])
def test_input_is_left_as_it_is(options, dtype, init):
    arrays = [*costs(), P.copy(), Q.copy(), BETWEEN.copy(), some_plan()]
    for array in arrays:
        array.flags.writeable = False
    before = [array.copy() for array in arrays]
    options = dict(options)
    if "linear_cost" in options:
        options["linear_cost"] = arrays[4]
    gromov_wasserstein(
        *arrays[:2], *masses_of(options, *arrays[2:4]), epsilon=0.1, dtype=dtype,
        init=arrays[5] if init == "array" else init, **options,
    )  # fmt: skip
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_threads_change_no_bit(options, dtype):
    n, m = 83, 70
    cost_x, cost_y = costs(n=n, m=m)
    options = dict(options)
    if "linear_cost" in options:
        options["linear_cost"] = np.random.default_rng(20).random((n, m))
    solve = dict(epsilon=0.02, init="product", max_outer=10, dtype=dtype, **options)
    one, two = (
        gromov_wasserstein(cost_x, cost_y, n_threads=n_threads, **solve)
        for n_threads in (1, 3)
    )
    if dtype == "float64":
        np.testing.assert_array_equal(one.plan, two.plan)
        assert one.gw_cost == two.gw_cost
    else:
        assert np.abs(one.plan - two.plan).sum() < 1e-5


@pytest.mark.parametrize(
    "variant", [v for v in VARIANTS if v not in ("bapg", "fused bapg", "partial ppa")]
)
def test_points_without_mass_get_none(variant, dtype):
    options = VARIANTS[variant]
    cost_x, cost_y = costs()
    p = P.copy()
    p[[0, 4]] = 0.0
    p /= p.sum()
    options = {"epsilon": 0.05, **options}
    result = gromov_wasserstein(
        cost_x, cost_y, *masses_of(options, p, Q), dtype=dtype, init="product",
        **options,
    )  # fmt: skip
    assert np.isfinite(result.plan).all()
    assert result.plan[[0, 4]].max() == 0.0
    assert result.plan.sum() == pytest.approx(options.get("mass", 1.0), abs=1e-4)
    # What is left is the problem of the other points.
    rows = np.flatnonzero(p)
    if "linear_cost" in options:
        options = {**options, "linear_cost": BETWEEN[rows]}
    without = gromov_wasserstein(
        cost_x[np.ix_(rows, rows)], cost_y, *masses_of(options, p[rows], Q),
        dtype=dtype, init="product", **options,
    )  # fmt: skip
    assert np.abs(result.plan[rows] - without.plan).sum() < 2e-3


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_costs_that_tell_nothing(scale, options, dtype):
    if options.get("marginals") == "partial":
        scale = 0.0
    cost_x, cost_y = scale * np.ones((N, N)), scale * np.ones((M, M))
    result = gromov_wasserstein(
        cost_x, cost_y, *masses_of(options), dtype=dtype, **options
    )
    assert np.isfinite(result.plan).all() and np.isfinite(result.reg_cost)
    assert result.plan.sum() == pytest.approx(options.get("mass", 1.0), abs=1e-4)
    assert abs(result.gw_cost - 0.7 * result.linear_cost) < 1e-6


def test_duplicates_share(options, dtype):
    """Two points in one place get what one of their joint mass would."""
    if options.get("method") == "bapg":
        pytest.skip("its rows are not exact")
    cost_x, cost_y = costs()
    rows = np.array([*range(N), 2])
    p = P[rows].copy()
    p[[2, N]] /= 2
    options = dict(options)
    solve = dict(epsilon=0.1, init="product", dtype=dtype, tol=1e-6)
    plain = gromov_wasserstein(cost_x, cost_y, *masses_of(options), **solve, **options)
    if "linear_cost" in options:
        options["linear_cost"] = BETWEEN[rows]
    twice = gromov_wasserstein(
        cost_x[np.ix_(rows, rows)], cost_y, *masses_of(options, p), **solve, **options
    )
    np.testing.assert_allclose(twice.plan[2], twice.plan[N], rtol=1e-4, atol=1e-9)
    joint = twice.plan[:N].copy()
    joint[2] += twice.plan[N]
    assert np.abs(joint - plain.plan).sum() < 2e-3


@pytest.mark.parametrize("limit", [dict(max_outer=1), dict(max_outer=2, max_inner=1)])
@pytest.mark.parametrize("relative", [1e-5, 1e-2, 1e3])
def test_plans_are_finite_whatever_the_limits(limit, relative, options, dtype):
    cost_x, cost_y = costs()
    epsilon = gwfast.Epsilon(relative=relative)
    if options.get("marginals") == "partial" and relative < 1e-2:
        epsilon = gwfast.Epsilon(relative=1e-2)
    result = gromov_wasserstein(
        cost_x, cost_y, *masses_of(options), epsilon=epsilon, init="product",
        dtype=dtype, **limit, **options,
    )  # fmt: skip
    assert result.n_outer == limit["max_outer"] or result.n_outer == 1
    assert np.isfinite(result.plan).all() and (result.plan >= 0).all()
    assert np.isfinite([result.gw_cost, result.reg_cost, result.linear_cost]).all()


def test_callbacks_stop_and_progress_is_told(options, dtype):
    cost_x, cost_y = costs()
    steps, told = [], []

    def callback(step):
        assert step.coupling.toarray().dtype == dtype
        steps.append(step)
        return step.iteration == 2

    result = gromov_wasserstein(
        cost_x, cost_y, *masses_of(options), epsilon=0.02, init="product", dtype=dtype,
        callback=callback, progress=lambda *args: told.append(args), **options,
    )  # fmt: skip
    assert result.status == "stopped" and result.n_outer == len(steps) == 2
    assert told
    assert result.plan.dtype == dtype


# --- Errors -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad, error, message",
    [
        (dict(marginals="unbalanced"), ValueError, r"^marginals must be one of \['bal"),
        (dict(marginals=None), ValueError, "^marginals must be one of .* got None"),
        (dict(mass=0.5), ValueError, "^mass must be None unless marginals='partial'"),
        (
            dict(mass=0.5, marginals="semirelaxed", q=None),
            ValueError,
            "^mass must be None unless",
        ),
        (
            dict(mass=2, marginals="partial"),
            ValueError,
            r"^mass must be at most 1, got 2\.0",
        ),
        (dict(mass=0, marginals="partial"), ValueError, "^mass must be positive"),
        (dict(mass=np.nan, marginals="partial"), ValueError, "^mass .* got nan"),
        (dict(mass="1", marginals="partial"), TypeError, "^mass .* got str"),
        (dict(marginals="semirelaxed"), ValueError, "^q must be None with marginals="),
        (
            dict(marginals="partial", method="bapg"),
            ValueError,
            "^method must be 'pgd' or 'ppa' with marginals='partial', got 'bapg'",
        ),
        (
            dict(marginals="semirelaxed", method="bapg", q=None),
            ValueError,
            "^method must be 'pgd' or 'ppa' with marginals='semirelaxed', got 'bapg'",
        ),
        (dict(alpha=1.5), ValueError, r"^alpha must be at most 1, got 1\.5"),
        (dict(alpha=-0.1), ValueError, r"^alpha must be non-negative .* got -0\.1"),
        (dict(alpha=np.nan), ValueError, "^alpha .* got nan"),
        (dict(alpha=None), TypeError, "^alpha must be a number, got NoneType"),
        (dict(alpha=True), TypeError, "^alpha must be a number, got bool"),
        (
            dict(linear_cost=BETWEEN.T),
            ValueError,
            r"^linear_cost must have shape \(9, 7\), got \(7, 9\)",
        ),
        (dict(linear_cost=1.0), ValueError, "^linear_cost must be a 2-D array"),
        (
            dict(linear_cost=np.where(BETWEEN == BETWEEN[3, 2], np.nan, BETWEEN)),
            ValueError,
            r"^linear_cost must be finite, got nan at \[3, 2\] \(1 such",
        ),
        (dict(linear_cost=BETWEEN + 0j), TypeError, "^linear_cost must hold real"),
        (dict(method="xyz"), ValueError, r"^method must be one of .*, got 'xyz'"),
        (dict(method=1), ValueError, "^method must be one of .*, got 1"),
        (dict(dtype="float16"), ValueError, r"^dtype must be one of .*, got 'float16'"),
        (dict(dtype=int), ValueError, "^dtype must be one of .*, got 'int64'"),
        (dict(dtype="no such"), ValueError, "^dtype must be one of .*, got 'no such'"),
        (
            dict(linear_cost=BETWEEN, tier="tiled"),
            ValueError,
            "^tier must be 'dense' for costs that are not two point clouds",
        ),
    ],
)
def test_errors_say_what_is_wrong(bad, error, message):
    arguments = {"p": P, "q": Q, "epsilon": 0.1, **bad}
    with pytest.raises(error, match=message):
        gromov_wasserstein(*costs(), **arguments)


@pytest.mark.parametrize("options", [dict(method="ppa"), FUSED, PARTIAL])
def test_negative_costs_are_refused_under_kl(options):
    cost_x, cost_y = costs()
    with pytest.raises(ValueError, match=r"^cost_y must not be negative with loss='kl"):
        gromov_wasserstein(
            cost_x, -cost_y, P, Q, epsilon=0.1, loss="kl", init="product", **options
        )
