"""The product operator: as right as it promises, near a reference or not at all, and
without a trace in where solves end."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost, rotated_pair

import gwfast
from gwfast.quadratic import low_rank_update, products
from gwfast.quadratic.dense_terms import BilinearTerm
from gwfast.quadratic.low_rank_update import error_over
from gwfast.quadratic.products import MOST, ProductOperator

N, M = 640, 610
# An epsilon at which updates may be wrong by anything.
ANY = 1e30


def plan_of(seed, n=N, m=M):
    plan = np.random.default_rng(seed).random((n, m)) ** 8
    return plan / plan.sum()


def near(plan, size, seed=5):
    """A plan that differs from this by so much, in L1."""
    return (1 - size / 2) * plan + size / 2 * plan_of(seed, *plan.shape)


@pytest.fixture(scope="module", params=["smooth", "rough"])
def costs(request):
    if request.param == "smooth":
        return distances(cloud(N, 3, 0)), distances(cloud(M, 4, 1))
    return random_cost(N, 0, symmetric=True), random_cost(M, 1, symmetric=True)


def operator(costs, dtype, constant=None, **kind):
    bilinear = BilinearTerm(*(cost.astype(dtype) for cost in costs), True, 2)
    return ProductOperator(bilinear, 2, constant, **kind)


def applied(made, plan, epsilon, change=1.0, **more):
    out = np.full(plan.shape, np.nan, plan.dtype)
    made.apply(plan, out, change, epsilon, **more)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("has_constant", [False, True])
def test_updates_are_right_to_their_promise(costs, dtype, has_constant):
    """And values to second order."""
    constant = plan_of(9).astype(dtype) if has_constant else None
    made, plan = operator(costs, dtype, constant), plan_of(2).astype(dtype)
    rounding = 1e-5 if dtype == np.float32 else 1e-13
    made.want_whole()
    made.value(plan, applied(made, plan, ANY))
    assert made.is_whole
    missed = []
    for size in (0.2, 0.02, 1e-3):
        other = near(plan, size).astype(dtype)
        expected = costs[0] @ other.astype(float) @ costs[1]
        if has_constant:
            expected += constant
        out = applied(made, other, ANY)
        assert not made.is_whole
        value, exact = made.value(other, out), np.vdot(other, expected)
        missed.append(abs(value - exact) / exact)
        found = error_over(other.astype(float), out - expected)
        # Sixteen rows are measured: half of the truth at least.
        epsilon = (2 * found + rounding) / MOST
        applied(made, other, epsilon)
        assert not made.is_whole
    assert missed[0] <= 1e-3
    few = 2e-6 if dtype == np.float32 else 1e-13
    assert missed[1] <= 0.02 * missed[0] + few
    if found > rounding:
        made.tighten()  # by four times
        out = applied(made, other, epsilon)
        np.testing.assert_allclose(out, expected, rtol=1e-5)
        assert made.is_whole and made.is_correction


def test_costs_of_low_rank_need_no_reference():
    basis = cloud(N, 20, 3), cloud(M, 20, 4)
    costs = [one @ one.T / 20 for one in basis]
    made, plan = operator(costs, np.float64), plan_of(6)
    out = applied(made, plan, 1e-5)
    assert not made.is_whole
    np.testing.assert_allclose(out, costs[0] @ plan @ costs[1], atol=1e-5)
    assert made.value(plan, out) == pytest.approx(np.vdot(plan, out))


def test_rows_without_mass_and_empty_plans_are_no_error(costs):
    made, plan = operator(costs, np.float32), plan_of(7).astype(np.float32)
    plan[::2] = 0
    assert np.isfinite(applied(made, plan, ANY)).all()
    assert (applied(made, 0 * plan, ANY) == 0).all()


def test_operators_that_take_turns_do_not_see_each_other(costs):
    one, plan = operator(costs, np.float64), plan_of(2)
    other = one.fork()
    expected = costs[0] @ plan @ costs[1]
    for made in (one, other, one, other):
        made.want_whole()
        np.testing.assert_allclose(applied(made, plan, 1.0), expected, rtol=1e-12)
        # What the other had kept in the common room is not taken for its own.
        turned = one if made is other else other
        turned.apply(near(plan, 1e-6), np.empty((N, M)), 1.0, 1e-9)
        assert turned.memory.n_kept == 0


@pytest.mark.parametrize("n_points", [60, N])
def test_the_last_products_are_kept_and_combined(n_points):
    costs = [distances(cloud(n_points, 3, seed)) for seed in (0, 1)]
    made = operator(costs, np.float64, followed=True)
    plan = plan_of(2, n_points, n_points)
    plans = [near(plan, size) for size in (0.0, 1e-3, 2e-3)]
    for number, one in enumerate(plans):
        if not number:
            made.want_whole()
        made.keep(applied(made, one, 1e-3))
    assert made.memory.n_kept == 3
    weights, out = [0.5, -1.0, 1.5], np.empty((n_points, n_points))
    made.memory.combine(weights, out)
    led = sum(weight * one for weight, one in zip(weights, plans, strict=True))
    expected = costs[0] @ led @ costs[1]
    assert error_over(plan, out - expected) <= 1e-4
    made.memory.combine([1.0], out)
    assert error_over(plan, out - costs[0] @ plans[-1] @ costs[1]) <= 1e-4


def test_rounding_alone_makes_no_product_whole(costs):
    costs = [one / np.abs(one).max() for one in costs]
    made, kinds = operator(costs, np.float32), []
    plans = [near(plan_of(2), size).astype(np.float32) for size in (0, 1e-6, 2e-6)]
    for plan in (plans[0], *plans[:2]):
        out = applied(made, plan, 1.0, change=0.0)
        kinds.append(made.is_whole)
        assert made.is_exact
        expected = costs[0] @ plan.astype(np.float64) @ costs[1]
        np.testing.assert_allclose(out, expected, atol=1e-6)
    assert kinds == [True, False, False]
    for size in (1e-6, 1e-4, 0.02):
        other = near(plan_of(2), size)
        out = applied(made, other.astype(np.float32), ANY)
        expected = costs[0] @ other @ costs[1]
        assert error_over(other, out - expected) <= 2e-7 or not made.is_exact


def test_few_points_and_asymmetric_costs_have_no_updates():
    for n, symmetric in ((low_rank_update.MIN_POINTS - 1, True), (N, False)):
        cost = random_cost(n, 0, symmetric=symmetric).astype(np.float32)
        made = ProductOperator(BilinearTerm(cost, cost, symmetric, 1), 1)
        applied(made, np.full((n, n), 1 / n**2, np.float32), ANY)
        assert made.is_whole


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_product_of_a_plan_of_two_vectors(symmetric, dtype):
    sides = [random_cost(n, n, symmetric=symmetric).astype(dtype) for n in (45, 37)]
    made = ProductOperator(BilinearTerm(*sides, symmetric, 2), 2)
    rows, cols = masses(45, 0), masses(37, 1)
    plan = np.outer(rows, cols).astype(dtype)
    left, right = (side.astype(np.float64) for side in sides)
    exact = (left @ plan @ right.T + left.T @ plan @ right) / 2
    for outer in ((rows, cols), None):
        out = applied(made, plan, 1.0, change=0.0, outer=outer)
        np.testing.assert_allclose(out, exact, rtol=0, atol=30 * np.finfo(dtype).eps)
    assert made.value(plan, out) == pytest.approx((plan * exact).sum(), rel=1e-5)


# --- In the solver ----------------------------------------------------------------

RULES = {
    "balanced": dict(),
    "kl": dict(loss="kl"),
    "fused": dict(alpha=0.6),
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals="partial", mass=0.8, max_outer=30),
    "unbalanced": dict(marginals="unbalanced", rho=(0.5, 0.8)),
    "ppa": dict(method="ppa"),  # the last, of which float64 takes a minute
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize(
    "rule, dtype", [(rule, dtype) for rule in RULES for dtype in ("float32", "float64")][:-1]
)
def test_solves_end_where_they_would_without(rule, dtype, monkeypatch):
    monkeypatch.setattr(low_rank_update, "MIN_POINTS", 200)
    monkeypatch.setattr(products, "KEPT_ENTRIES", 200**2)
    n = 260
    x, y, _ = rotated_pair(n, 3, 10, noise=0.02)
    epsilon = gwfast.Epsilon(relative=0.1)
    options = dict(epsilon=epsilon, dtype=dtype, init="product", **RULES[rule])
    if rule == "fused":
        options["linear_cost"] = np.random.default_rng(0).random((n, n))
    # Proximal steps are small where they end.
    tol = 1e-4 if dtype == "float32" else 1e-6
    if rule == "ppa":
        # From some hundred iterations on the change is that at which rounding shows,
        # and which iteration is the last is a matter of that.
        options["max_outer"] = 300
    else:
        options["tol"] = tol
    costs = [cost + 0.1 for cost in (distances(x), distances(y))]
    given = *costs, masses(n, 11), None if rule == "semirelaxed" else masses(n, 12)
    count, apply = [], ProductOperator.apply

    def counted(self, *args, **kind):
        apply(self, *args, **kind)
        count.append(not self.is_whole)

    monkeypatch.setattr(ProductOperator, "apply", counted)
    thin = gwfast.gromov_wasserstein(*given, **options)
    assert any(count)
    for name in ("SLACK", "SLACK_FOLLOWED", "ROUNDED"):
        monkeypatch.setattr(products, name, 0.0)
    count.clear()
    plain = gwfast.gromov_wasserstein(*given, **options)
    assert not any(count)
    assert thin.gw_cost == pytest.approx(plain.gw_cost, rel=10 * tol)
    assert thin.status == plain.status
    # Each is within the tolerance of its last step only.
    assert np.abs(thin.plan - plain.plan).sum() <= 1e-2
    # The objective is that of the plan, whatever products it was made of.
    if rule == "unbalanced":
        plan = thin.plan.astype(np.float64)
        rows, cols = plan.sum(axis=1), plan.sum(axis=0)
        expected = rows @ costs[0] ** 2 @ rows + cols @ costs[1] ** 2 @ cols
        expected -= 2 * np.vdot(plan, costs[0] @ plan @ costs[1])
        assert thin.gw_cost - thin.penalty == pytest.approx(expected, rel=3 * tol)
    else:
        kept = {"loss", "alpha", "linear_cost", "marginals", "mass"} & options.keys()
        problem = gwfast.QuadraticProblem(*given, **{key: options[key] for key in kept})
        objective = gwfast.verify(problem, thin).objective
        assert objective.value <= objective.bound
