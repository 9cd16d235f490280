"""Conditional gradient steps, by all terms of objectives and gradients."""

import numpy as np
import pytest
from helpers.marks import ISAS, mostly_slow, pairwise
from helpers.problems import masses, random_cost
from helpers.twins import half_gradient

from gwfast.kernels._frank_wolfe import CONVERGED, MORE, STALLED, FrankWolfe

KINDS = ["balanced", "semirelaxed", "partial"]
SHAPES = [(1, 1), (1, 6), (6, 1), (2, 3), (9, 7), (17, 24), (33, 31)]
AXES = dict(kind=KINDS, loss=["square", "kl"], alpha=[None, 0.3], symmetric=[True, False])
MASS = 0.6
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


class Problem:
    """A problem by the words of the solvers, and what it is in those of the kernel."""

    def __init__(self, shape, kind, seed, *, loss="square", symmetric=True, alpha=None):
        n, m = self.shape = shape
        rng = np.random.default_rng(seed)
        self.costs = x, y = tuple(
            random_cost(size, rng.integers(1 << 30), symmetric=symmetric) + 0.1 for size in shape
        )
        self.p, self.q = masses(n, rng), masses(m, rng)
        self.kind, self.loss = kind, loss
        self.linear = None if alpha is None else rng.random(shape)
        self.alpha = 1.0 if alpha is None else alpha
        self.mass = MASS if kind == "partial" else 1.0
        separate, left, right = x**2, -2 * x, y
        losses = separate, y**2
        if loss == "kl":
            left, right, losses = -x, np.log(y), (x * np.log(x) - x, y)
        self.given = dict(
            left=self.alpha * left,
            right=np.ascontiguousarray(right.T),
            losses=tuple(self.alpha * (one + one.T) / 2 for one in losses),
        )
        if self.linear is not None:
            self.given["linear"] = (1 - self.alpha) / 2 * self.linear
        if not symmetric:
            others = self.given["left"].T, self.given["right"].T
            self.given["others"] = tuple(map(np.ascontiguousarray, others))

    def make(self, n_threads=1):
        """Steps from the product plan."""
        given = dict(kind=self.kind, mass=self.mass, p=self.p, q=self.q, **self.given)
        steps = FrankWolfe(n_threads=n_threads, **given)
        steps.start()
        return steps

    def objective(self, plan):
        """By all n^2 m^2 terms, and half its gradient."""
        half = half_gradient(plan, *self.costs, self.loss, self.linear, self.alpha)
        value = np.vdot(half, plan)
        if self.linear is not None:
            value += (1 - self.alpha) / 2 * np.vdot(self.linear, plan)
        return value, half

    def assert_feasible(self, plan):
        assert (plan >= 0).all()
        rows, cols = plan.sum(axis=1), plan.sum(axis=0)
        if self.kind == "partial":
            assert (rows <= self.p + 1e-14).all() and (cols <= self.q + 1e-14).all()
            assert plan.sum() == pytest.approx(self.mass, rel=1e-13)
            return
        np.testing.assert_allclose(rows, self.p, rtol=1e-13)
        if self.kind == "balanced":
            np.testing.assert_allclose(cols, self.q, rtol=1e-13)


@pairwise(shape=mostly_slow(SHAPES[:-1], fast=SHAPES[:-2]), isa=ISAS, **AXES)
def test_the_way_goes_down_and_is_certified(shape, kind, loss, alpha, symmetric, isa, seed):
    """Gaps are told from all entries of the gradient."""
    options = dict(loss=loss, alpha=alpha, symmetric=symmetric)
    problem = Problem(shape, kind, seed, **options)
    steps = problem.make()
    status, (before, half) = MORE, problem.objective(steps.plan)
    while status == MORE and steps.n_steps < 100:
        made, former = steps.n_steps, half
        status = steps.advance(1, tol=1e-6, floor=1e-13)
        problem.assert_feasible(steps.plan)
        value, half = problem.objective(steps.plan)
        assert steps.value == pytest.approx(value, rel=1e-11, abs=1e-13)
        np.testing.assert_allclose(steps.gradient, half, rtol=0, atol=1e-12)
        assert value <= before + 1e-14
        if steps.n_steps > made:
            assert before - value == pytest.approx(steps.change, rel=1e-6, abs=1e-13)
            assert 0 < steps.step_size <= 1
        assert steps.gap >= -1e-13
        # What any plan promises at most, this one's own potentials say.
        f, g = steps.potentials()
        promised = half if kind == "semirelaxed" else former
        assert (promised - f[:, None] - g).min() >= -1e-12
        before = value
    assert status != STALLED
    if status == CONVERGED:
        assert steps.gap <= max(1e-6 * abs(steps.value), 1e-13)


@EVERY_KIND
def test_threads_change_no_bit(kind):
    problem = Problem((300, 250), kind, 0, alpha=0.7, symmetric=False)
    alone, *teams = (problem.make(n_threads=k) for k in (1, 2, 3))
    for _ in range(10):
        expected = alone.advance(1, 1e-6)
        for steps in teams:
            assert steps.advance(1, 1e-6) == expected
            assert (steps.value, steps.gap) == (alone.value, alone.gap)
            np.testing.assert_array_equal(steps.plan, alone.plan)
            np.testing.assert_array_equal(steps.gradient, alone.gradient)


@pytest.mark.parametrize(
    "kind, symmetric", [("balanced", False), ("semirelaxed", True), ("partial", True)]
)
def test_vertices_of_any_number_of_rows_are_multiplied(kind, symmetric):
    """More rows than go through a product at a time, and no multiple of them."""
    problem = Problem((700, 20), kind, 0, alpha=0.7, symmetric=symmetric)
    steps, first, given = problem.make(), None, problem.given
    for _ in range(2):  # from the first plan, with nothing and with a vertex before it
        first = steps.plan if first is None else first
        for _ in range(4):
            steps.advance(1)
            plan = steps.plan
            half = given["left"] @ plan @ given["right"]
            if not symmetric:
                half = (half + given["left"].T @ plan @ given["right"].T) / 2
            rows, cols = plan.sum(axis=1), plan.sum(axis=0)
            half += (given["losses"][0] @ rows)[:, None] + given["losses"][1] @ cols
            half += given["linear"]
            np.testing.assert_allclose(steps.gradient, half, rtol=0, atol=1e-12)
        assert steps.n_steps == 4
        steps.start(first)


def linear_steps(linear, p, q, kind="semirelaxed", mass=1.0):
    """Of a function that is linear: one step is to a vertex."""
    n, m = linear.shape
    zeros = np.zeros((n, n)), np.zeros((m, m))
    steps = FrankWolfe(*zeros, p, q, kind, mass, linear=linear)
    steps.start()
    return steps


@pytest.mark.parametrize("symmetric", [True, False])
@EVERY_KIND
def test_long_ways_lose_nothing_to_rounding(kind, symmetric):
    """From a vertex to the product plan, the minimum of a convex function: hundreds of
    steps that no sum kept up to date may drift in.
    """
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
    plan = steps.plan
    half = left @ plan @ right + linear
    np.testing.assert_allclose(steps.gradient, half, rtol=0, atol=1e-15)
    value = np.vdot(half + linear, plan)
    assert steps.value == pytest.approx(value, rel=1e-12)
    least = np.vdot(linear, optimum)
    assert least < steps.value and 0 < steps.gap < 1e-2 * abs(least)
    assert steps.value <= least + steps.gap
    assert plan.min() >= 0 and plan.sum() == pytest.approx(mass, rel=1e-13)
    np.testing.assert_array_less(plan.sum(axis=1), p + 1e-15)


@pairwise(
    m=[1, 2, 3, 15, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000], tied=[False, True], isa=ISAS
)
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


@EVERY_KIND
def test_nothing_to_gain_has_converged_at_once(kind):
    steps = linear_steps(np.zeros((4, 5)), masses(4, 1), masses(5, 2), kind)
    assert steps.advance(10) == CONVERGED
    assert steps.n_steps == 0 and steps.gap == 0 and steps.value == 0


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("left", np.zeros((8, 9)), "left"),
        ("right", np.zeros((8, 8)), "right"),
        ("linear", np.zeros((9, 9)), "linear"),
        ("losses", (np.zeros((9, 8)), None), "losses"),
        ("losses", (None, np.zeros((9, 9))), "losses"),
        ("others", (np.zeros((9, 9)), np.zeros((9, 9))), "others"),
        ("left", np.zeros((9, 9), np.float32), "dtype"),
        ("left", np.zeros((9, 9), int), "dtype"),
    ],
)
def test_matrices_of_another_shape_or_type_are_refused(name, value, message):
    problem = Problem((9, 7), "balanced", 0)
    problem.given[name] = value
    with pytest.raises(ValueError, match=message):
        FrankWolfe(p=problem.p, q=problem.q, **problem.given)


def test_plans_of_another_shape_are_refused():
    steps = Problem((9, 7), "balanced", 0).make()
    with pytest.raises(ValueError, match="broadcast"):
        steps.start(np.zeros((9, 6)))
