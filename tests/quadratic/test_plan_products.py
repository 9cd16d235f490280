"""Thin products and their chain: as right as they promise, near a reference or not at
all, and without a trace in where solves end."""

import numpy as np
import pytest
from helpers.problems import (
    cloud,
    distances,
    masses,
    random_cost,
    rotated_pair,
)

import gwfast
from gwfast.quadratic import low_rank_products, plan_products
from gwfast.quadratic.dense_terms import BilinearTerm
from gwfast.quadratic.low_rank_products import LeadingParts, LowRankProducts, Made
from gwfast.quadratic.plan_products import (
    LEAST_FRACTION,
    MOST,
    NEAR_SLACK,
    THIN_SLACK,
    TIGHTER,
    PlanProducts,
)

N, M = 640, 610


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


def products(costs, dtype):
    bilinear = BilinearTerm(*(cost.astype(dtype) for cost in costs), True, 2)
    return bilinear, LowRankProducts(bilinear, LeadingParts(2), 2)


def weighted_error(wrong, plan):
    """Mean over the plan, beside what is the same all over a row."""
    weights = plan / plan.sum(axis=1, keepdims=True)
    wrong = wrong - (weights * wrong).sum(axis=1, keepdims=True)
    return (weights * np.abs(wrong)).sum(axis=1).mean()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_near_a_reference_they_are_right_to_their_promise(costs, dtype):
    _, thin = products(costs, dtype)
    plan = plan_of(2).astype(dtype)
    whole = costs[0] @ plan @ costs[1]
    out = np.full((N, M), 7, dtype)
    assert thin.fill(plan, out, 0.0, plan) == Made.WHOLE
    assert (out == 7).all()
    thin.refer(plan, whole.astype(dtype))
    for size in (1e-3, 1e-1):
        other = near(plan, size).astype(dtype)
        expected = costs[0] @ other.astype(float) @ costs[1]
        assert thin.fill(other, out, np.inf, other) == Made.THIN
        found = weighted_error(out - expected, other)
        rounding = 1e-5 if dtype == np.float32 else 1e-13
        # Sixteen rows are measured: half of the truth at least.
        assert thin.fill(other, out, 2 * found + rounding, other) == Made.THIN
        out[:] = 7
        if found > rounding:
            assert thin.fill(other, out, found / 2, other) == Made.WHOLE
            assert (out == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_value_is_right_to_second_order(costs, dtype):
    _, thin = products(costs, dtype)
    plan = plan_of(2).astype(dtype)
    thin.fill(plan, np.empty_like(plan), 0.0, plan)
    thin.refer(plan, (costs[0] @ plan @ costs[1]).astype(dtype))
    out, missed = np.empty_like(plan), []
    for size in (0.2, 0.02):
        other = near(plan, size).astype(dtype)
        assert thin.fill(other, out, np.inf, other) == Made.THIN
        value = np.vdot(other, costs[0] @ other.astype(float) @ costs[1])
        corrected = np.vdot(other.astype(float), out) + thin.correction(other)
        missed.append(abs(corrected - value) / value)
    rounding = 2e-6 if dtype == np.float32 else 1e-13
    assert missed[0] <= 1e-3
    assert missed[1] <= 0.02 * missed[0] + rounding


def test_costs_of_low_rank_need_no_reference():
    basis = cloud(N, 20, 3), cloud(M, 20, 4)
    costs = [one @ one.T / 20 for one in basis]
    _, thin = products(costs, np.float64)
    plan, out = plan_of(6), np.empty((N, M))
    assert thin.fill(plan, out, 1e-5, plan) == Made.THIN
    np.testing.assert_allclose(out, costs[0] @ plan @ costs[1], atol=1e-5)
    assert thin.correction(plan) == 0.0


def test_rows_without_mass_and_empty_plans_are_no_error(costs):
    _, thin = products(costs, np.float32)
    plan = plan_of(7).astype(np.float32)
    plan[::2] = 0
    out = np.empty_like(plan)
    assert np.isfinite(thin._parts.of(thin._bilinear).begin(plan)[1]).all()
    assert thin.fill(plan, out, np.inf, plan) == Made.THIN
    assert thin.fill(0 * plan, out, 1e-30, 0 * plan) == Made.THIN
    assert (out == 0).all()


def test_a_chain_makes_whole_what_is_wanted_whole(costs):
    bilinear, _ = products(costs, np.float64)
    chain, plan, out = PlanProducts(bilinear, 2), plan_of(2), np.empty((N, M))
    chain.fill(plan, out, 1.0, 1.0)
    expected = costs[0] @ plan @ costs[1]
    assert chain.value(plan, out) == pytest.approx(np.vdot(plan, expected), rel=1e-3)
    other = near(plan, 1e-6)
    chain.fill(other, out, 1.0, 1.0)
    assert chain.made == Made.THIN
    chain.want_whole()
    chain.fill(other, out, 1.0, 1.0)
    assert chain.made == Made.WHOLE
    np.testing.assert_allclose(out, costs[0] @ other @ costs[1], rtol=1e-12)
    chain.fill(near(plan, 2e-6), out, 1.0, 1.0)
    assert chain.made == Made.THIN
    other = chain.fork()
    other.fill(plan, out, 0.0, 1.0)
    assert other.made == Made.WHOLE
    np.testing.assert_allclose(out, expected, rtol=1e-12)


@pytest.mark.parametrize("change", [0.1, 1.0])
def test_tighter_ones_may_be_wrong_by_less(costs, change):
    """So they need a larger epsilon."""
    bilinear, _ = products(costs, np.float64)
    plan, leading, out = plan_of(2), LeadingParts(2), np.empty((N, M))

    def least_epsilon(times):
        for epsilon in 2.0 ** np.arange(-30, 10):
            chain = PlanProducts(bilinear, 2, leading)
            for _ in range(times):
                chain.tighten()
            chain.want_whole()
            chain.fill(plan, out, change, epsilon)
            chain.fill(near(plan, 1e-2), out, change, epsilon)
            if chain.made == Made.THIN:
                return epsilon

    assert least_epsilon(1) == TIGHTER * least_epsilon(0)
    assert least_epsilon(9) == least_epsilon(0) / LEAST_FRACTION


def test_rounding_alone_makes_no_second_product_whole(costs):
    """But every other one is."""
    costs = [one / np.abs(one).max() for one in costs]
    bilinear, _ = products(costs, np.float32)
    chain, out = PlanProducts(bilinear, 2), np.empty((N, M), np.float32)
    plans = [near(plan_of(2), size).astype(np.float32) for size in (0, 1e-6, 2e-6)]
    kinds = []
    for plan in (plans[0], *plans):
        chain.fill(plan, out, 0.0, 1.0)
        kinds.append(chain.made == Made.THIN)
        expected = costs[0] @ plan.astype(np.float64) @ costs[1]
        np.testing.assert_allclose(out, expected, atol=1e-6)
    assert kinds == [False, True, False, True]


def test_few_points_and_asymmetric_costs_have_no_thin_products():
    for n, symmetric in ((low_rank_products.MIN_POINTS - 1, True), (N, False)):
        cost = random_cost(n, 0, symmetric=symmetric).astype(np.float32)
        chain = PlanProducts(BilinearTerm(cost, cost, symmetric, 1), 1)
        plan = np.full((n, n), 1 / n**2, np.float32)
        chain.fill(plan, np.empty_like(plan), np.inf, 1.0)
        assert chain.made == Made.WHOLE


# --- In the solver ----------------------------------------------------------------

RULES = {
    "balanced": dict(),
    "kl": dict(loss="kl"),
    "fused": dict(alpha=0.6),
    "ppa": dict(method="ppa"),
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals="partial", mass=0.8, max_outer=30),
    "unbalanced": dict(marginals="unbalanced", rho=(0.5, 0.8)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
def test_solves_end_where_they_would_without(rule, dtype, monkeypatch):
    monkeypatch.setattr(low_rank_products, "MIN_POINTS", 200)
    n = 260
    x, y, _ = rotated_pair(n, 3, 10, noise=0.02)
    options = dict(
        epsilon=gwfast.Epsilon(relative=0.1), dtype=dtype, init="product", **RULES[rule]
    )
    if rule == "fused":
        options["linear_cost"] = np.random.default_rng(0).random((n, n))
    # Proximal steps are small where they end.
    tol = 1e-4 if dtype == "float32" or rule == "ppa" else 1e-6
    if rule == "ppa":
        # From some hundred iterations on the change is that at which rounding shows,
        # and which iteration is the last is a matter of that.
        options["max_outer"] = 300
    else:
        options["tol"] = tol
    costs = [cost + 0.1 for cost in (distances(x), distances(y))]
    given = *costs, masses(n, 11), None if rule == "semirelaxed" else masses(n, 12)
    count = []

    def counted(self, *args):
        made = fill(self, *args)
        count.append(made != Made.WHOLE)
        return made

    fill = LowRankProducts.fill
    monkeypatch.setattr(LowRankProducts, "fill", counted)
    thin = gwfast.gromov_wasserstein(*given, **options)
    assert any(count)
    for name in ("THIN_SLACK", "NEAR_SLACK", "ROUNDED"):
        monkeypatch.setattr(plan_products, name, 0.0)
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
        kept = ("loss", "alpha", "linear_cost", "marginals", "mass")
        problem = gwfast.QuadraticProblem(
            *given, **{key: options[key] for key in kept if key in options}
        )
        objective = gwfast.verify(problem, thin).objective
        assert objective.value <= objective.bound


@pytest.mark.parametrize("keeps_last, slack", [(True, NEAR_SLACK), (False, THIN_SLACK)])
def test_plans_that_move_far_may_not_be_wrong_as_far(
    keeps_last, slack, costs, monkeypatch
):
    """Early iterations decide where the descent ends."""
    bilinear, _ = products(costs, np.float32)
    made, epsilon, allowed = PlanProducts(bilinear, 2, keeps_last=keeps_last), 0.01, []

    def refused(self, plan, out, max_error, over, deadline):
        allowed.append(max_error / epsilon)
        return Made.WHOLE

    monkeypatch.setattr(LowRankProducts, "fill", refused)
    plan, out = plan_of(2).astype(np.float32), np.empty((N, M), np.float32)
    for change in (1.0, 0.5, 1e-3):
        made.fill(plan, out, change, epsilon)
    assert allowed == pytest.approx([MOST, MOST, slack * 1e-3])


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_product_of_a_plan_of_two_vectors(symmetric, dtype):
    sides = [random_cost(n, n, symmetric=symmetric).astype(dtype) for n in (45, 37)]
    products = PlanProducts(BilinearTerm(*sides, symmetric, 2), 2)
    rows, cols = masses(45, 0), masses(37, 1)
    plan = np.outer(rows, cols).astype(dtype)
    left, right = (side.astype(np.float64) for side in sides)
    exact = (left @ plan @ right.T + left.T @ plan @ right) / 2
    made = np.full((2, 45, 37), np.nan, dtype)
    products.expect_outer(rows, cols)
    products.fill(plan, made[0], 0.0, 1.0)
    products.fill(plan, made[1], 0.0, 1.0)
    for one in made:
        np.testing.assert_allclose(one, exact, rtol=0, atol=30 * np.finfo(dtype).eps)
    assert products.value(plan, made[0]) == pytest.approx(
        (plan * exact).sum(), rel=1e-5
    )
