"""What the default starts find on graphs that are one another's copies, in another
order: nothing is better than that order, or as good under any marginals."""

import numpy as np
import pytest
from helpers.marks import mostly_slow, pairwise
from scipy.sparse import csgraph

import gwfast

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
RULES = {
    "balanced": {},
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals="partial", mass=0.7),
    "unbalanced": dict(marginals="unbalanced", rho=3.0),
}


def graph(n, seed):
    """Steps between the nodes of a connected random graph."""
    rng = np.random.default_rng(seed)
    linked = np.zeros((n, n))
    for node in range(1, n):
        linked[node, rng.integers(node)] = 1
    linked[rng.integers(n, size=n // 2), rng.integers(n, size=n // 2)] = 1
    return csgraph.shortest_path(linked, directed=False, unweighted=True)


def copies(n, seed):
    """A graph, the same in another order, and the plan that matches them."""
    cost, order = graph(n, seed), np.random.default_rng(seed + 1).permutation(n)
    plan = np.zeros((n, n))
    plan[order, np.arange(n)] = 1 / n
    return cost, cost[np.ix_(order, order)], plan


def assert_found(n, seed, slack=1e-3, **options):
    """The default is no worse than to start from the match."""
    cost, other, match = copies(n, seed)
    result = gwfast.gromov_wasserstein(cost, other, **options)
    match = match * options.get("mass", 1.0)
    known = gwfast.gromov_wasserstein(
        cost, other, **{**options, "epsilon": result.epsilon}, init=match
    )
    rounding = 1e-5 * cost.mean() ** 2
    assert result.gw_cost <= known.gw_cost * (1 + slack) + rounding
    return result


@pairwise(rule=RULES, n=mostly_slow([12, 34], fast=[12]))
def test_the_order_is_found_by_default(rule, n):
    for seed in range(2):
        result = assert_found(n, seed, **RULES[rule])
        labels = {row.start for row in result.candidates}
        if rule != "balanced":
            assert labels == {"product", "balanced"}
        assert ("exact" in labels) == (rule == "balanced")


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule, dtype", [*zip(RULES, ["float32", "float64"] * 2, strict=True)]
)
def test_large_problems_begin_with_a_race(rule, dtype):
    result = assert_found(120, 3, dtype=dtype, **RULES[rule])
    assert result.plan.dtype == dtype


@pytest.mark.parametrize("rule", ["semirelaxed", "partial"])
def test_exact_plans_find_it_too(rule):
    cost, other, _ = copies(30, 1)
    options = dict(epsilon=0, **RULES[rule])
    result = gwfast.gromov_wasserstein(cost, other, **options)
    alone = gwfast.gromov_wasserstein(cost, other, init="product", **options)
    assert result.gw_cost <= min(1e-9 + 0.1 * alone.gw_cost, alone.gw_cost + 1e-12)
    tried = {row.start for row in result.candidates}
    # Nothing is below a plan that costs nothing.
    assert tried >= {"product", "balanced"} or result.gw_cost < 1e-12


@pytest.mark.parametrize("rule", ["semirelaxed", "unbalanced"])
def test_a_search_goes_on_from_its_checkpoint(rule, tmp_path):
    cost, other, _ = copies(20, 2)
    options = dict(checkpoint=tmp_path / "kept.npz", **RULES[rule])
    whole = gwfast.gromov_wasserstein(cost, other, **options)
    again = gwfast.gromov_wasserstein(cost, other, **options)
    np.testing.assert_allclose(again.plan, whole.plan, atol=1e-3)
    assert again.status == whole.status
    tolerance = dict(rel=1e-4, abs=2e-3 * whole.epsilon)
    assert again.gw_cost == pytest.approx(whole.gw_cost, **tolerance)
    starts = [{row.start for row in found.candidates} for found in (again, whole)]
    assert starts[0] == starts[1]


def test_where_memory_is_short_there_is_no_search():
    cost, other, _ = copies(150, 2)
    kind = dict(marginals="semirelaxed", max_outer=3)
    alone = gwfast.gromov_wasserstein(cost, other, init="product", **kind)
    for limit in np.geomspace(1e6, 3e6, 12):
        try:
            result = gwfast.gromov_wasserstein(cost, other, memory_limit=limit, **kind)
        except MemoryError:
            continue
        if not result.candidates:
            np.testing.assert_array_equal(result.plan, alone.plan)
            return
    raise AssertionError("no limit is enough for one descent and not for two")
