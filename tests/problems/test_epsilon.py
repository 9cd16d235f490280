"""Relative and annealed epsilon."""

import numpy as np
import pytest
from helpers.problems import distances, rotated_pair

import gwfast
from gwfast import Epsilon
from gwfast.problems.epsilon import AUTO_RELATIVE, Schedule, as_epsilon


def spaces():
    x, y, where = rotated_pair(60, 3, 0)
    return distances(x), distances(y), where


def product_objective(cost_x, cost_y):
    means = cost_x.mean() * cost_y.mean()
    return (cost_x**2).mean() + (cost_y**2).mean() - 2 * means


@pytest.mark.parametrize("factor", [1.0, 7.0, 1e-3])
def test_relative_epsilon_is_a_share_of_the_product_objective(factor):
    cost_x, cost_y, _ = spaces()
    product = product_objective(cost_x, cost_y) * factor**2
    for epsilon, share in ((Epsilon(relative=0.03), 0.03), ("auto", AUTO_RELATIVE)):
        result = gwfast.gromov_wasserstein(
            factor * cost_x, factor * cost_y, epsilon=epsilon, init="profile"
        )
        np.testing.assert_allclose(result.epsilon, share * product, rtol=1e-5)


def test_annealing_goes_down_and_ends_at_epsilon():
    cost_x, cost_y, where = spaces()
    epsilon = Epsilon(relative=0.002, anneal_from=30, anneal_by=0.8)
    result = gwfast.gromov_wasserstein(
        cost_x,
        cost_y,
        epsilon=epsilon,
        init="profile",
        tol=1e-4,
        options=gwfast.SolverOptions(marginal_tol=1e-4),
    )
    used = np.array([step.epsilon for step in result.history])
    np.testing.assert_allclose(used[0], 30 * result.epsilon)
    np.testing.assert_allclose(used[1] / used[0], 0.8)
    assert (np.diff(used) <= 0).all() and (used[-2:] == result.epsilon).all()
    np.testing.assert_allclose(result.epsilon, 0.002 * product_objective(cost_x, cost_y), rtol=1e-5)
    # Sharp enough to match all points, which are the same up to rotation.
    assert (result.plan.argmax(axis=1) == where).mean() > 0.95


def test_annealing_and_the_search_go_together():
    cost_x, cost_y, _ = spaces()
    epsilon = Epsilon(relative=0.01, anneal_from=5)
    result = gwfast.gromov_wasserstein(cost_x, cost_y, epsilon=epsilon)
    assert {row.epsilon for row in result.candidates} == {result.epsilon}


def test_schedule_never_goes_below_its_end():
    schedule = Schedule(0.1, 1.0, 0.5)
    assert [schedule.at(k) for k in (0, 1, 3, 4, 10_000)] == [1, 0.5, 0.125, 0.1, 0.1]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "one of value and relative"),
        ({"value": 1.0, "relative": 1.0}, "one of value and relative"),
        ({"value": -1.0}, "^value must be non-negative"),
        ({"relative": -1.0}, "^relative must be positive"),
        ({"relative": 0.1, "anneal_from": 0.5}, "^anneal_from must be at least 1"),
        ({"relative": 0.1, "anneal_by": 1.0}, "^anneal_by must be below 1"),
    ],
)
def test_bad_values_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Epsilon(**arguments)


@pytest.mark.parametrize(
    "text, expected",
    [("2%", Epsilon(relative=0.02)), ("0.001", Epsilon(value=0.001)), (0.1, Epsilon(0.1))],
)
def test_texts_and_numbers_are_taken(text, expected):
    assert as_epsilon(text) == expected
    cost = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0) ** 1.5))
    cost = cost + cost.T
    given = gwfast.gromov_wasserstein(cost, cost, epsilon=text, init="product")
    same = gwfast.gromov_wasserstein(cost, cost, epsilon=expected, init="product")
    assert given.epsilon == same.epsilon > 0
    np.testing.assert_array_equal(given.plan, same.plan)


def test_bad_types_are_refused():
    with pytest.raises(TypeError, match=r"^relative must be a number, got str"):
        Epsilon(relative="0.1")
    with pytest.raises(ValueError, match=r"epsilon must be a number .* got 'small'$"):
        as_epsilon("small")
    with pytest.raises(ValueError, match=r"a percentage .* got '-2%'$"):
        as_epsilon("-2%")
