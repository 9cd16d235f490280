"""The bound on what steps leave of small changes holds for all of them, and ends solves
as POT calls them only where it is below one."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost

import gwfast
from gwfast import pot
from gwfast.quadratic.dense import FEW_POINTS, Dense
from gwfast.quadratic.methods import PPA
from gwfast.utils.precision import DOUBLE

N, M = 7, 9


def problem_of(seed, loss="square", **more):
    costs = (distances(cloud(size, 2, seed + size)) for size in (N, M))
    return gwfast.QuadraticProblem(
        *costs, masses(N, seed), masses(M, seed + 1), loss=loss, **more
    )


def terms(problem):
    """`h1` of the first costs and `h2` of the second."""
    x, y = problem.x.matrix, problem.y.matrix
    return (x, 2 * y) if problem.loss == "square" else (x, np.log(y + 1e-18))


def step(problem, plan, epsilon):
    """The plan of an outer iteration, by plain Sinkhorn iterations."""
    left, right = terms(problem)
    kernel = np.exp((exponent := left @ plan @ right / epsilon) - exponent.max())
    v = np.ones(M)
    for _ in range(3000):
        u = problem.p / (kernel @ v)
        v = problem.q / (u @ kernel)
    return u[:, None] * kernel * v


def stationary(problem, epsilon):
    plan = np.outer(problem.p, problem.q)
    for _ in range(60):
        plan = step(problem, plan, epsilon)
    return plan


def bound_at(problem, plan, epsilon, **more):
    linearization = Dense(problem, 1, precision=DOUBLE, **more)
    linearization.start(plan)
    return linearization.contraction(epsilon / linearization.cost_scale)


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_no_small_change_is_multiplied_by_more(loss, epsilon, seed):
    problem = problem_of(seed, loss)
    plan = stationary(problem, epsilon)
    bound = bound_at(problem, plan, epsilon)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        # Steps turn changes ever more in the direction of the largest factor.
        change = rng.standard_normal((N, M)) * plan
        change -= np.outer(change.sum(axis=1), problem.q)
        change -= np.outer(problem.p, change.sum(axis=0))
        for _ in range(4):
            change *= 1e-5 / np.sqrt((change**2 / plan).sum())
            change = step(problem, plan + change, epsilon) - plan
            factor = np.sqrt((change**2 / plan).sum()) / 1e-5
            assert factor <= bound * (1 + 1e-4)


@pytest.mark.parametrize("loss", ["square", "kl"])
def test_it_is_the_norm_of_centered_costs(loss, seed):
    problem = problem_of(seed, loss)
    plan = stationary(problem, 1.0)
    squares = []
    for matrix, p in zip(terms(problem), (problem.p, problem.q), strict=True):
        mean = matrix @ p
        squares.append((matrix - mean[:, None] - mean + mean @ p) ** 2)
    left, right = squares
    expected = np.sqrt((plan * (left @ plan @ right)).sum())
    assert bound_at(problem, plan, 1.0) == pytest.approx(expected, rel=1e-12)


def test_nothing_is_known_of_other_steps(seed):
    symmetric = problem_of(seed)
    costs = random_cost(N, seed, symmetric=False), random_cost(M, seed)
    others = [
        (gwfast.QuadraticProblem(*costs), {}),
        (problem_of(seed, marginals="partial", mass=0.5), {}),
        (symmetric, {"method": PPA}),
    ]
    plan = np.outer(symmetric.p, symmetric.q)
    assert np.isfinite(bound_at(symmetric, plan, 1.0))
    for problem, more in others:
        assert bound_at(problem, plan, 1.0, **more) == np.inf
    many = random_cost(FEW_POINTS + 1, seed)
    problem = gwfast.QuadraticProblem(many, symmetric.y)
    assert bound_at(problem, np.outer(problem.p, problem.q), 1.0) == np.inf


def test_steps_that_contract_are_not_waited_for(seed):
    """POT looks at the change in every tenth iteration only."""
    gromov = pytest.importorskip("ot", reason="POT is not installed").gromov
    costs = [random_cost(size, seed + size) for size in (30, 40)]
    plan, log = pot.entropic_gromov_wasserstein(*costs, epsilon=0.5, log=True)
    assert len(log["err"]) < 10
    assert log["status"] == "converged"
    expected = gromov.entropic_gromov_wasserstein(*costs, epsilon=0.5, tol=1e-13)
    np.testing.assert_allclose(plan, expected, rtol=0, atol=1e-10)


def test_a_saddle_is_left():
    """Both begin at one, which rounding leads away from in some iterations."""
    x = np.linspace(0, 1, 12)
    cost = np.abs(np.subtract.outer(x, x))
    problem = gwfast.QuadraticProblem(cost, cost)
    plan, log = pot.entropic_gromov_wasserstein(cost, cost, epsilon=0.01, log=True)
    assert abs(plan - plan[::-1]).max() > 0.01
    assert len(log["err"]) > 10
    saddle = pot.entropic_gromov_wasserstein(cost, cost, epsilon=0.01, max_iter=3)
    assert abs(saddle - saddle[::-1]).max() < 1e-3
    assert bound_at(problem, saddle, 0.005) > 1
