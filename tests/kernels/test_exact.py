"""Exact transport, conditional gradient steps, and descents between pairs of small spaces: optima
and gaps by their definitions. Kernels are tested directly."""

import numpy as np
import pytest
from helpers.marks import ISAS, mostly_slow, pairwise
from helpers.problems import masses, random_cost

from gwfast.kernels import reference
from gwfast.kernels._exact_pairs import ExactPairs, Space
from gwfast.kernels._frank_wolfe import CONVERGED, MORE, STALLED, FrankWolfe
from gwfast.kernels._transport import ROUNDING, UNITS, Transport

SHAPES = [(1, 1), (1, 7), (7, 1), (2, 3), (3, 2), (31, 31), (17, 64), (65, 33), (300, 300)]
MASSES = {
    "uniform": lambda n, rng: np.full(n, 1 / n),
    "uneven": masses,
    "whole": lambda n, rng: rng.integers(1, 4, n) * 1.0,
    "of twelve orders": lambda n, rng: 10.0 ** rng.uniform(-12, 0, n),
    # Less than a unit of mass.
    "next to none": lambda n, rng: 10.0 ** rng.uniform(-30, 0, n),
}
COSTS = {
    "random": lambda n, m, rng: rng.random((n, m)),
    "signed": lambda n, m, rng: rng.standard_normal((n, m)),
    "ties": lambda n, m, rng: rng.integers(0, 3, (n, m)) * 1.0,
    "separable": lambda n, m, rng: rng.random((n, 1)) + rng.random(m),
    "rank one": lambda n, m, rng: rng.standard_normal((n, 1)) * rng.random(m),
    "offset": lambda n, m, rng: 1e6 + rng.random((n, m)),
    "huge": lambda n, m, rng: 1e290 * rng.random((n, m)),
    "tiny": lambda n, m, rng: 1e-290 * rng.random((n, m)),
    "of all orders": lambda n, m, rng: 10.0 ** rng.uniform(-15, 0, (n, m)),
}


def solved(transport, cost, p, q):
    """Return the plan and its value, certified by its marginals and potentials."""
    transport.solve(cost)
    rows, cols, flows = transport.entries()
    assert len(flows) == len(p) + len(q) - 1 and (flows >= 0).all()
    assert len({*zip(rows, cols, strict=True)}) == len(flows)
    plan = np.zeros(cost.shape)
    plan[rows, cols] = flows
    for sums, expected in ((plan.sum(axis=1), p), (plan.sum(axis=0), q)):
        np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-15 * p.sum())
    f, g = transport.potentials()
    slack, largest = cost - f[:, None] - g, np.abs(cost).max()
    assert slack.min() >= -4 * ROUNDING * largest
    assert np.abs(slack[rows, cols]).max() <= 4 * ROUNDING * largest
    value = np.vdot(cost, plan)
    assert abs(value - (f @ p + g @ q)) <= 1e-12 * largest * p.sum()
    return plan, value


@pairwise(shape=mostly_slow(SHAPES, fast=SHAPES[:-1]), of_mass=MASSES, of_cost=COSTS, isa=ISAS)
def test_optima_are_certified_by_their_potentials(shape, of_mass, of_cost, isa, seed):
    rng = np.random.default_rng(seed)
    p, q = (MASSES[of_mass](size, rng) for size in shape)
    p, q = p / p.sum(), q / q.sum()
    transport, twin, cost = Transport(p, q), reference.Transport(p, q), COSTS[of_cost](*shape, rng)
    _, value = solved(transport, cost, p, q)
    assert transport.solve(cost) == 0
    if shape != SHAPES[-1] and of_mass in ("uniform", "uneven", "whole"):
        twin.solve(cost)
        rows, cols, flows = twin.entries()
        assert abs(value - cost[rows, cols] @ flows) <= 1e-9 * np.abs(cost).max()
    for make in COSTS.values():  # the same tree serves all
        solved(transport, make(*shape, rng), p, q)


def test_near_costs_take_few_pivots_and_points_on_two_lines_none():
    rng = np.random.default_rng(0)
    p, q, cost = masses(80, rng), masses(90, rng), rng.random((80, 90))
    transport = Transport(p, q)
    first = transport.solve(cost)
    assert transport.solve(cost + 1e-3 * rng.random(cost.shape)) < first / 4
    assert Transport(p, q).solve((rng.random((80, 1)) - rng.random(90)) ** 2) == 0


@pytest.mark.parametrize("size", [1e-100, 0.3, 1e100])
def test_masses_of_any_sum_are_taken_and_equal_masses_stay_an_assignment(size):
    rng, n = np.random.default_rng(0), 37
    for p, q in ((masses(9, rng), masses(7, rng)), (np.full(n, 1 / n), np.full(n, 1 / n))):
        transport = Transport(size * p, size * q)
        assert transport.unit == pytest.approx(size / UNITS)
        plan, _ = solved(transport, rng.random((len(p), len(q))), size * p, size * q)
    assert np.count_nonzero(plan > 1e-12 * size) == n and (plan > 0).sum(axis=1).max() == 1


MASS = 0.6
KINDS = ["balanced", "semirelaxed", "partial"]


class Quadratic:
    """A quadratic function of plans by its definition, and steps down from the product plan."""

    def __init__(self, shape, kind, seed, *, symmetric, has_linear, has_losses):
        rng = np.random.default_rng(seed)
        self.kind, self.mass = kind, MASS if kind == "partial" else 1.0
        self.p, self.q = (masses(size, rng) for size in shape)
        x, y = (random_cost(size, rng.integers(1 << 30), symmetric=symmetric) for size in shape)
        self.given = dict(left=-2 * x, right=np.ascontiguousarray(y.T))
        if not symmetric:
            self.given["others"] = np.ascontiguousarray(-2 * x.T), y
        if has_losses:
            self.given["losses"] = (x + x.T) ** 2 / 4, (y + y.T) ** 2 / 4
        if has_linear:
            self.given["linear"] = rng.random(shape)

    def steps(self, n_threads):
        given = dict(kind=self.kind, mass=self.mass, p=self.p, q=self.q, **self.given)
        steps = FrankWolfe(n_threads=n_threads, **given)
        steps.start()
        return steps

    def value(self, plan):
        """Return the value at a plan, and half its gradient."""
        half = self.given["left"] @ plan @ self.given["right"]
        if "others" in self.given:
            half = (half + self.given["others"][0] @ plan @ self.given["others"][1]) / 2
        if "losses" in self.given:
            rows, cols = self.given["losses"]
            half += (rows @ plan.sum(axis=1))[:, None] + cols @ plan.sum(axis=0)
        linear = self.given.get("linear", np.zeros_like(plan))
        return np.vdot(half + 2 * linear, plan), half + linear

    def assert_feasible(self, plan):
        assert (plan >= 0).all() and plan.sum() == pytest.approx(self.mass, rel=1e-13)
        over_rows, over_cols = plan.sum(axis=1) - self.p, plan.sum(axis=0) - self.q
        assert over_rows.max() <= 1e-14 and (self.kind == "semirelaxed" or over_cols.max() <= 1e-14)


# The last has more rows than go through a product at a time, and no multiple of them.
@pairwise(
    shape=[(1, 1), (1, 6), (6, 1), (2, 3), (9, 7), (17, 24), (700, 20)],
    kind=KINDS,
    has_losses=[True, False],
    has_linear=[True, False],
    symmetric=[True, False],
    isa=ISAS,
)
def test_steps_go_down_are_certified_and_the_same_on_any_number_of_threads(
    shape, kind, has_losses, has_linear, symmetric, isa, seed
):
    given = dict(symmetric=symmetric, has_linear=has_linear, has_losses=has_losses)
    function = Quadratic(shape, kind, seed, **given)
    steps, *teams = (function.steps(n_threads) for n_threads in (1, 2, 3))
    status, first, (before, half) = MORE, steps.plan, function.value(steps.plan)
    while status == MORE and steps.n_steps < (5 if len(first) == 700 else 60):
        n_before, former = steps.n_steps, half
        status = steps.advance(1, tol=1e-6, floor=1e-13)
        function.assert_feasible(steps.plan)
        value, half = function.value(steps.plan)
        assert steps.value == pytest.approx(value, rel=1e-11, abs=1e-13)
        np.testing.assert_allclose(steps.gradient, half, rtol=0, atol=1e-12)
        assert value <= before + 1e-14 and steps.gap >= -1e-13
        if steps.n_steps > n_before:
            assert before - value == pytest.approx(steps.change, rel=1e-6, abs=1e-13)
            assert 0 < steps.step_size <= 1
        # The potentials bound the gain of any plan.
        f, g = steps.potentials()
        promised = half if kind == "semirelaxed" else former
        assert (promised - f[:, None] - g).min() >= -1e-12
        before = value
        for team in teams:
            assert team.advance(1, tol=1e-6, floor=1e-13) == status
            assert (team.value, team.gap) == (steps.value, steps.gap)
            np.testing.assert_array_equal(team.plan, steps.plan)
            np.testing.assert_array_equal(team.gradient, steps.gradient)
    assert status != STALLED
    if status == CONVERGED:
        assert steps.gap <= max(1e-6 * abs(steps.value), 1e-13)
    steps.start(first)  # with a vertex before it
    steps.advance(1)
    np.testing.assert_allclose(steps.gradient, function.value(steps.plan)[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seconds", [np.inf, 1e-6])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stack_of_plans_ends_as_each_plan_alone(kind, seconds):
    """Also in calls that make hardly a step each."""
    rng, mass = np.random.default_rng(1), MASS if kind == "partial" else 1.0
    p, q = masses(17, rng), masses(13, rng)
    sides = -2 * random_cost(17, 0), random_cost(13, 1)
    plans = mass * p[:, None] * rng.dirichlet(np.ones(13), (5, 17))
    alone, stack = (FrankWolfe(*sides, p, q, kind, mass) for _ in range(2))
    made, ends, done = plans.copy(), np.zeros((5, 2)), 0
    while done < 5:
        done = stack.descend_each(made, ends, done, 40, 1e-6, 1e-13, most_seconds=seconds)
    for plan, last, end in zip(plans, made, ends, strict=True):
        alone.start(plan)
        alone.advance(40, 1e-6, 1e-13)
        assert (alone.value, alone.n_steps) == tuple(end)
        np.testing.assert_array_equal(last, alone.plan)


def linear_steps(linear, p, q, kind="semirelaxed", mass=1.0):
    """Return steps of a function that is linear: one step is to a vertex."""
    zeros = (np.zeros((size, size)) for size in linear.shape)
    steps = FrankWolfe(*zeros, p, q, kind, mass, linear=linear)
    steps.start()
    return steps


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_long_ways_lose_nothing_to_rounding(kind, symmetric):
    """From a vertex to the product plan, the minimum of a convex function: hundreds of steps that
    no sum kept up to date may drift in."""
    rng, mass = np.random.default_rng(0), MASS if kind == "partial" else 1.0
    p, q = masses(20, rng), masses(15, rng)
    left, right = (np.cov(rng.standard_normal((size, 40))) for size in (20, 15))
    optimum = mass * np.multiply.outer(p, q)
    linear = -left @ optimum @ right
    start = linear_steps(rng.standard_normal((20, 15)), p, q, kind, mass)
    start.advance(1)
    others = None if symmetric else (left, right)
    steps = FrankWolfe(left, right, p, q, kind, mass, linear, others=others)
    steps.start(start.plan)
    assert steps.advance(700) == MORE and steps.n_steps == 700
    half = left @ steps.plan @ right + linear
    np.testing.assert_allclose(steps.gradient, half, rtol=0, atol=1e-15)
    assert steps.value == pytest.approx(np.vdot(half + linear, steps.plan), rel=1e-12)
    least = np.vdot(linear, optimum)
    assert 0 < steps.gap < 1e-2 * abs(least) and least < steps.value <= least + steps.gap


@pairwise(m=[1, 2, 3, 15, 31, 32, 33, 63, 64, 65, 127, 129, 1000], tied=[False, True], isa=ISAS)
def test_rows_go_to_their_first_least_entry(m, tied, isa, seed):
    rng, n = np.random.default_rng(seed), 9
    linear = rng.integers(0, 3, (n, m)) * 1.0 if tied else rng.standard_normal((n, m))
    p = masses(n, rng)
    steps = linear_steps(linear, p, np.full(m, 1 / m))
    if steps.advance(1) == MORE:  # else all is as good
        np.testing.assert_array_equal(steps.plan.argmax(axis=1), linear.argmin(axis=1))
        np.testing.assert_allclose(steps.plan.max(axis=1), p, rtol=1e-15)
        assert np.count_nonzero(steps.plan) == n
    assert steps.value == pytest.approx(2 * p @ linear.min(axis=1), rel=1e-12)


SIZES = [1, 2, 7, 9, 5]


def spaces(number, symmetric=True, width=0, n_directions=0):
    """Return spaces of one side of pairs, of costs without ties."""
    made = []
    for k, n in enumerate(SIZES):
        cost = random_cost(n, 10 * number + k, symmetric=symmetric) + 0.1
        weights, values = masses(n, k), cost if number else -2 * cost
        transposed = values if symmetric else np.ascontiguousarray(values.T)
        features = np.random.default_rng(k).random((n, width)) if width else None
        constants = cost**2 @ weights
        largest = np.abs(values).max(), constants.max()
        turns = np.random.default_rng(n).random((n_directions, n)) if n_directions else None
        given = features, turns
        made.append(Space(values, transposed, weights, weights @ constants, *largest, *given))
    return made


def begun(xs, ys, *places, **starts):
    descents = ExactPairs(rounding=1e-13, linear=0.5, **starts)
    descents.begin(xs, ys, *places)
    return descents


@pytest.mark.parametrize("n_directions", [0, 1, 2])
@pytest.mark.parametrize("n_shares", [1, 2, 5])
def test_pairs_side_by_side_are_what_each_is_alone(n_shares, n_directions):
    how, starts = dict(width=2, n_directions=n_directions), dict(from_product=n_directions == 1)
    x, ys, n = spaces(0, **how)[3], spaces(1, **how), SIZES[3]
    plans, shares, columns = np.empty((n, sum(SIZES))), [], np.cumsum([0, *SIZES])
    potentials = np.full(n * len(ys) + sum(SIZES), np.nan)
    for part in np.array_split(range(len(ys)), n_shares):
        first, last = columns[part[0]], columns[part[-1] + 1]
        share = [ys[k] for k in part]
        places = plans[:, first:last], False, potentials[n * part[0] + first :]
        shares.append(begun([x] * len(share), share, *places, **starts))
    n_calls = 1
    while not ExactPairs.go_on(shares, 0.0 if n_calls < 3 else 1e-6):
        n_calls += 1
    assert n_calls > 3 and np.isfinite(potentials).all()
    costs = np.concatenate([share.costs for share in shares])
    for k, y in enumerate(ys):
        alone = begun([x], [y], **starts)
        assert ExactPairs.go_on([alone])
        np.testing.assert_array_equal(plans[:, columns[k] : columns[k + 1]], alone.plan)
        assert costs[k] == alone.costs[0]
    again = begun([x] * len(ys), ys, plans, True)
    assert ExactPairs.go_on([again])
    np.testing.assert_allclose(again.costs, costs, rtol=1e-12)
