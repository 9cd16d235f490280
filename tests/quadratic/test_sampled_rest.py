"""Sampled products: what thin ones leave out, made where plans have their mass; as
right as they promise, and without a trace in where solves end."""

import numpy as np
import pytest
from helpers.problems import distances, hops, masses, rotated_pair

import gwfast
from gwfast.problems.geometry import DenseCost
from gwfast.quadratic import low_rank_products, sampled_rest
from gwfast.quadratic.dense_terms import BilinearTerm
from gwfast.quadratic.low_rank_products import LeadingParts, LowRankProducts, Made
from gwfast.quadratic.sampled_rest import SampledRest, least_kept
from gwfast.utils.deadline import Deadline, OutOfTime

N, M = 640, 611


@pytest.fixture(scope="module")
def spaces():
    x, y, _ = rotated_pair(N, 3, 10, noise=0.05)
    return x, y[:M]


@pytest.fixture(scope="module")
def costs(spaces):
    return tuple(map(hops, spaces))


@pytest.fixture(scope="module")
def plan(spaces):
    """Concentrated, with uneven marginals, and rows and columns without mass."""
    x, _ = spaces
    near = np.exp(-(distances(np.sort(x, axis=0))[:, :M] ** 2) / 0.02)
    plan = near * np.outer(masses(N, 0), masses(M, 1))
    plan[7] = plan[:, 9] = 0.0
    return (plan / plan.sum()).astype(np.float32)


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    monkeypatch.setattr(low_rank_products, "SAMPLED_POINTS", 100)


def bilinear_of(costs, n_threads=2):
    return BilinearTerm(*(cost.astype(np.float32) for cost in costs), True, n_threads)


def left_out(factors, matrix, costs):
    """``A @ matrix @ B`` in float64."""
    vectors, others = factors.rows[: factors.rank].T, factors._others
    a = costs[0] - factors._vectors.astype(float) @ vectors.T
    b = costs[1] - (others.astype(float) * factors._weights) @ others.T
    return a @ matrix.astype(float) @ b


def nothing(factors):
    """A thin part that is zero."""
    rank, dtype = factors.rank, np.float32
    return factors.part(np.zeros((N, rank), dtype), np.zeros((rank, M), dtype))


@pytest.mark.parametrize("share", [0.3, 0.02])
def test_the_rest_is_made_where_the_plan_has_its_mass(share, costs, plan, monkeypatch):
    monkeypatch.setattr(sampled_rest, "MOST", 0.5)
    factors = LeadingParts(2).of(bilinear_of(costs))
    least = least_kept(plan, share, 2)
    kept = plan >= np.minimum.outer(*least)
    assert not kept[7].any() and not kept[:, 9].any()
    assert plan[~kept].sum() == pytest.approx(share, rel=0.3)
    expected = left_out(factors, np.where(kept, plan, 0), costs)
    some, made, size = factors.measured, {}, np.abs(expected).max()
    before = (size * np.random.default_rng(3).random((N, M))).astype(np.float32)
    for n_threads in (1, 2):
        rest = SampledRest(plan, least, factors, n_threads)
        rows = rest.measured(before[some].copy())
        np.testing.assert_allclose(
            rows, np.where(kept, expected, before)[some], rtol=0, atol=1e-4 * size
        )
        for other in (None, before):
            elsewhere = np.where(kept, 0, 0 if other is None else other)
            out = np.full((N, M), np.nan, np.float32)
            missing = rest.fill(nothing(factors), other, out)
            assert missing == pytest.approx(np.vdot(plan, elsewhere), rel=1e-5)
            np.testing.assert_allclose(
                out, elsewhere + np.where(kept, expected, 0), rtol=0, atol=1e-4 * size
            )
        made[n_threads] = out
    np.testing.assert_array_equal(made[1], made[2])


def test_blocks_of_rows_make_the_same(costs, plan, monkeypatch):
    factors = LeadingParts(2).of(bilinear_of(costs))
    rest = SampledRest(plan, least_kept(plan, 0.3, 2), factors, 2)
    before = np.random.default_rng(3).random((N, M), dtype=np.float32)
    whole, parts = np.empty((2, N, M), np.float32)
    given = nothing(factors), before
    missing = rest.fill(*given, whole)
    monkeypatch.setattr(sampled_rest, "MULTIPLICATIONS", 10**6)
    assert rest.fill(*given, parts) == pytest.approx(missing, rel=1e-6)
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-6)
    with pytest.raises(OutOfTime):
        rest.fill(*given, parts, Deadline(-np.inf))


def test_costs_in_float16_are_read_as_they_are(costs, plan):
    sides = [DenseCost(cost.astype(np.float16)).shifted(0.25, 2.0) for cost in costs]
    arrays = [2 * (cost.astype(np.float16).astype(float) - 0.25) for cost in costs]
    factors = LeadingParts(2).of(BilinearTerm(*sides, True, 2))
    least = least_kept(plan, 0.3, 2)
    kept = plan >= np.minimum.outer(*least)
    expected = left_out(factors, np.where(kept, plan, 0), arrays)
    made, size = np.empty((N, M), np.float32), np.abs(expected).max()
    SampledRest(plan, least, factors, 2).fill(nothing(factors), None, made)
    expected[~kept] = 0
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-4 * size)


def test_plans_without_few_large_entries_are_not_sampled(plan, monkeypatch):
    even = np.full((N, M), 1 / (N * M), np.float32)
    assert least_kept(even, 0.3, 2) is None
    assert least_kept(plan, 0.3, 2) is not None
    with monkeypatch.context() as patch:
        patch.setattr(sampled_rest, "MOST_KEPT", 100)
        assert least_kept(plan, 0.3, 2) is None
    assert least_kept(np.zeros_like(plan), 0.3, 2) is not None


def test_less_than_nothing_is_not_kept(plan):
    """As in plans that were put together of two others."""
    given = plan.copy()
    given[::50, ::7] = -0.0
    given[1::50, ::7] *= -1e-3
    for one in least_kept(given, 0.3, 2):
        assert (one > 0).all()
    kept = given >= np.minimum.outer(*least_kept(given, 0.3, 2))
    assert (given[kept] > 0).all() and kept.any()


def weighted_error(wrong, plan):
    """Mean over rows with mass, beside what is the same all over a row."""
    some = plan.sum(axis=1) > 0
    wrong, plan = wrong[some], plan[some].astype(float)
    weights = plan / plan.sum(axis=1, keepdims=True)
    wrong = wrong - (weights * wrong).sum(axis=1, keepdims=True)
    return (weights * np.abs(wrong)).sum(axis=1).mean()


def test_products_keep_their_promise(costs, plan):
    """Without a reference, and near one; so does the value."""
    thin = LowRankProducts(bilinear_of(costs), LeadingParts(2), 2)
    product = costs[0] @ plan.astype(float) @ costs[1]
    out = np.full((N, M), np.nan, np.float32)
    assert thin.fill(plan, out, np.inf, plan) == Made.THIN
    found = weighted_error(out - product, plan)
    asked = found / 5
    assert thin.fill(plan, out, asked, plan) == Made.SAMPLED
    # Sixteen rows are measured.
    assert weighted_error(out - product, plan) <= 2 * asked
    thin.refer(plan, out)
    assert not thin.is_fresh
    other = np.ascontiguousarray(0.9 * plan + 0.1 * np.roll(plan, 1, axis=1))
    product = costs[0] @ other.astype(float) @ costs[1]
    value = np.vdot(other.astype(float), product)
    for made in (Made.THIN, Made.SAMPLED):
        assert thin.fill(other, out, asked, other) == made
        assert weighted_error(out - product, other) <= 2 * asked
        corrected = np.vdot(other.astype(float), out) + thin.correction(other)
        assert corrected == pytest.approx(value, rel=1e-4)
        asked /= 4
    # What it leaves out is not made for plans of another precision, nor differences.
    wide = LowRankProducts(bilinear_of(costs), LeadingParts(2), 2)
    assert wide.fill(plan, out, asked, plan.copy()) == Made.WHOLE


def solve(costs, monkeypatch, **options):
    kinds = []

    def counted(self, *args):
        kinds.append(fill(self, *args))
        return kinds[-1]

    fill = LowRankProducts.fill
    with monkeypatch.context() as patch:
        patch.setattr(LowRankProducts, "fill", counted)
        epsilon = gwfast.Epsilon(relative=0.005)
        given = dict(epsilon=epsilon, init="product", n_threads=2) | options
        return gwfast.gromov_wasserstein(*costs, **given), kinds


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_solves_end_where_they_would_without(dtype, costs, monkeypatch):
    sampled, kinds = solve(costs, monkeypatch, dtype=dtype)
    assert Made.SAMPLED in kinds
    alone, _ = solve(costs, monkeypatch, dtype=dtype, n_threads=1)
    np.testing.assert_array_equal(alone.plan, sampled.plan)
    monkeypatch.setattr(low_rank_products, "SAMPLED_POINTS", 10**6)
    plain, kinds = solve(costs, monkeypatch, dtype=dtype)
    assert Made.SAMPLED not in kinds
    assert sampled.status == plain.status == "converged"
    assert sampled.gw_cost == pytest.approx(plain.gw_cost, rel=1e-4)
    assert np.abs(sampled.plan - plain.plan).sum() <= 1e-2
    # The objective is that of the plan.
    objective = gwfast.verify(gwfast.QuadraticProblem(*costs), sampled).objective
    assert objective.value <= objective.bound


RULES = {
    "kl": dict(loss="kl"),
    "fused": dict(alpha=0.6, linear_cost=np.random.default_rng(0).random((N, M))),
    "unbalanced": dict(marginals="unbalanced", rho=(0.5, 0.8)),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_other_problems_end_where_they_would_without(rule, costs, monkeypatch):
    positive = [cost + 0.1 for cost in costs]
    sampled, kinds = solve(positive, monkeypatch, **RULES[rule])
    assert Made.SAMPLED in kinds
    monkeypatch.setattr(low_rank_products, "SAMPLED_POINTS", 10**6)
    plain, _ = solve(positive, monkeypatch, **RULES[rule])
    assert sampled.status == plain.status == "converged"
    assert sampled.gw_cost == pytest.approx(plain.gw_cost, rel=1e-4)
