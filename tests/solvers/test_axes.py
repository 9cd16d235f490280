"""Starts along axes: independent components, their matches, and the starts of two clouds."""

import numpy as np
import pytest

import gwfast
from gwfast.problems.quadratic import QuadraticProblem
from gwfast.solvers.search.axes import axis_starts, components, matched


def skewed(n, d, seed):
    """Return independent sources (n, d) of unit variance, each skewed by another amount."""
    rng = np.random.default_rng(seed)
    sources = rng.gamma(np.linspace(0.5, 4.0, d), size=(n, d))
    return (sources - sources.mean(axis=0)) / sources.std(axis=0)


def rotated(points, d, seed):
    """Return the points in d dimensions, by a random map."""
    rng = np.random.default_rng(seed)
    return points @ rng.standard_normal((points.shape[1], d))


def even(n):
    return np.full(n, 1 / n)


def test_components_are_the_sources():
    sources = skewed(4000, 6, 0)
    found = components(rotated(sources, 9, 1), even(4000), np.random.default_rng(0))
    correlation = np.corrcoef(sources.T, found.T)[:6, 6:]
    assert found.shape == (4000, 6)  # of rank six
    assert np.sort(correlation.max(axis=1))[0] > 0.98  # and the sign is right


def test_components_weigh_points():
    points, weights = rotated(skewed(2000, 4, 4), 4, 5), np.ones(2000)
    weights[:500] = 2.0
    twice = np.vstack([points, points[:500]])
    one = components(points, weights / weights.sum(), np.random.default_rng(0))
    other = components(twice, even(2500), np.random.default_rng(0))[:2000]
    np.testing.assert_allclose(one, other, atol=0.02)


@pytest.mark.parametrize(("n", "d"), [(1, 3), (5, 3), (200, 1), (60, 60)])
def test_too_few_points_have_no_components(n, d):
    rng = np.random.default_rng(0)
    found = components(rng.standard_normal((n, d)), even(n), rng)
    assert found is None or (found.shape[1] <= n // 8 and np.isfinite(found).all())


@pytest.mark.parametrize("d", [8, 11])
def test_matches_are_permutations(d):
    rng = np.random.default_rng(d)
    matrix = rng.standard_normal((8, 8))
    order = rng.permutation(d)[:8]
    other = rng.standard_normal((d, d))
    other[np.ix_(order, order)] = matrix
    rows, columns = matched([matrix], [other], np.zeros((8, d)), rng)[0]
    assert rows.tolist() == list(range(8)) and columns.tolist() == order.tolist()


@pytest.mark.parametrize("metric", ["sqeuclidean", "dot"])
def test_starts_find_the_same_points_in_another_order(metric):
    sources = skewed(800, 7, 6)
    order = np.random.default_rng(7).permutation(800)
    turn = np.linalg.qr(np.random.default_rng(8).standard_normal((7, 7)))[0]
    clouds = [gwfast.PointCloud(x, metric) for x in (sources, (sources @ turn)[order])]
    problem = QuadraticProblem(*clouds)
    every = [np.arange(800)] * 2
    with pytest.warns(gwfast.ConvergenceWarning):
        epsilon = gwfast.gromov_wasserstein(problem, init="product", max_iter=1).epsilon
    starts = axis_starts(problem, problem, every, epsilon, range(2), 4)
    result = gwfast.gromov_wasserstein(problem, init=starts[0].plan(problem, 1))
    assert np.mean(result.plan.argmax(axis=0) == order) > 0.9


def test_clouds_without_axes_have_no_starts():
    clouds = [gwfast.PointCloud(np.random.default_rng(k).standard_normal((10, 2))) for k in (0, 1)]
    problem = QuadraticProblem(*clouds)
    assert axis_starts(problem, problem, [np.arange(10)] * 2, 0.01, [0], 4) == []
