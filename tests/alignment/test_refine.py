"""Maps from pairs, and their refinement from matches."""

import numpy as np
import pytest
from helpers.problems import cloud, orthogonal, rotated_pair

import gwfast


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def csls(x, y, hood):
    """Plain float64 CSLS of all pairs."""
    cosine = unit(x.astype(np.float64)) @ unit(y.astype(np.float64)).T
    rows = np.sort(cosine, axis=1)[:, -hood:].mean(axis=1, keepdims=True)
    columns = np.sort(cosine, axis=0)[-hood:].mean(axis=0, keepdims=True)
    return 2 * cosine - rows - columns


@pytest.mark.parametrize("d, e", [(5, 5), (6, 4), (4, 6)])
def test_procrustes_is_the_best_of_all_rotations(d, e):
    x, y = cloud(40, d, 2), cloud(40, e, 3)
    mapping = gwfast.procrustes(x, y).astype(np.float64)
    assert mapping.shape == (d, e)
    small = mapping @ mapping.T if d <= e else mapping.T @ mapping
    np.testing.assert_allclose(small, np.eye(min(d, e)), atol=1e-5)
    reached = np.vdot(x @ mapping, y)
    for seed in range(50):
        assert np.vdot(x @ orthogonal(max(d, e), seed)[:d, :e], y) <= reached + 1e-6


def test_maps_want_pairs():
    with pytest.raises(ValueError, match="y must have 5 rows, a counterpart of each row of x"):
        gwfast.procrustes(cloud(5, 3, 7), cloud(4, 3, 8))
    with pytest.raises(ValueError, match="weights must have shape"):
        gwfast.procrustes(cloud(5, 3, 7), cloud(5, 3, 8), weights=np.ones(4))


def test_weights_count_pairs():
    x, y = cloud(30, 4, 4), cloud(30, 5, 5)
    counts = np.random.default_rng(6).integers(0, 4, 30)
    weighted = gwfast.procrustes(x, y, weights=counts)
    repeated = gwfast.procrustes(np.repeat(x, counts, 0), np.repeat(y, counts, 0))
    np.testing.assert_allclose(weighted, repeated, atol=1e-4)


def test_inverted_softmax_agrees_with_its_formula():
    x, y, sources = cloud(30, 4, 18), cloud(40, 4, 19), cloud(50, 4, 20)
    found = gwfast.nearest_neighbors(
        x, y, method="inverted_softmax", inverse_temperature=7, sources=sources, k=5
    )
    cosine, all_of_them = unit(x) @ unit(y).T, unit(sources) @ unit(y).T
    share = np.exp(7 * cosine) / np.exp(7 * all_of_them).sum(axis=0)
    np.testing.assert_allclose(np.exp(7 * found.scores), -np.sort(-share, axis=1)[:, :5], rtol=1e-4)
    np.testing.assert_array_equal(found.indices, np.argsort(-share, axis=1)[:, :5])
    # Nothing overflows.
    found = gwfast.nearest_neighbors(x, y, method="inverted_softmax", inverse_temperature=1e6)
    assert np.isfinite(found.scores).all()


@pytest.fixture(scope="module")
def noisy():
    x, y, where = rotated_pair(250, 12, 23, noise=0.25)
    return gwfast.align(x, y, n_words=100, normalize=("unit",)), where


def test_refinement_uses_all_rows_and_finds_more(noisy):
    result, where = noisy
    refined = result.refine()
    assert refined.seconds > result.seconds
    before = (result.translate(k=1).indices[:, 0] == where).mean()
    after = (refined.translate(k=1).indices[:, 0] == where).mean()
    assert after > before
    steps = refined.refinement
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    assert steps[-1].objective > steps[0].objective
    assert steps[-1].n_pairs > steps[0].n_pairs
    assert refined.gw is result.gw and result.refinement == ()


def test_a_round_with_few_pairs_is_weighted_procrustes_on_the_mutual_matches():
    """A round has few pairs with fewer than two mutual matches for each column."""
    x, y, _ = rotated_pair(20, 12, 23, noise=0.25)
    result = gwfast.align(x, y, normalize=("unit",), epsilon=0.02)
    x, y = result.source.rows, result.target.rows
    scores = csls(x @ result.mapping, y, 10)
    forward, backward = scores.argmax(axis=1), scores.argmax(axis=0)
    rows = np.flatnonzero(backward[forward] == np.arange(len(x)))
    rows = rows[scores.max(axis=1)[rows] > 0]
    assert 0 < len(rows) < 24
    once = result.refine(1)
    weights = scores.max(axis=1)[rows]
    expected = gwfast.procrustes(x[rows], y[forward[rows]], weights=weights)
    np.testing.assert_allclose(once.mapping, expected, atol=1e-4)
    assert once.target_mapping is None
    assert once.refinement[0].n_pairs == len(rows)
    assert once.refinement[0].change == 1.0


def test_matches_without_a_positive_csls_are_weighed_alike():
    """CSLS of a single pair is zero."""
    x = np.array([[1.0, 2.0]])
    result = gwfast.align(x, x, normalize=("unit",))
    assert result.refine(2).refinement[0].n_pairs == 1


@pytest.mark.slow
def test_align_refines_where_asked():
    x, y, _ = rotated_pair(120, 5, 24, noise=0.1)
    plain = gwfast.align(x, y, n_words=60)
    refined = gwfast.align(x, y, n_words=60, refine=3)
    again = plain.refine(3)
    np.testing.assert_array_equal(refined.mapping, again.mapping)
    assert len(refined.refinement) >= 1
    said = []
    gwfast.align(x, y, n_words=60, refine=2, progress=lambda *what: said.append(what))
    assert ("refinement 1", 0, 2) in said


def test_whitened_refinement_maps_both_sides():
    x, y, where = rotated_pair(300, 6, 25, noise=0.1)
    result = gwfast.align(x, y, refine=5)
    assert result.target_mapping.shape == (6, 6)
    np.testing.assert_allclose(result.transform_target(y), result.mapped_target, atol=1e-5)
    np.testing.assert_allclose(result.transform(x), result.mapped_source, atol=1e-5)
    assert (result.translate(k=1).indices[:, 0] == where).mean() > 0.95
    nearest = gwfast.nearest_neighbors(result.transform(x), result.transform_target(y))
    np.testing.assert_array_equal(nearest.indices, result.translate().indices)


def test_no_rounds_leave_the_mapping_as_it_is():
    x, y, _ = rotated_pair(40, 3, 24)
    plain = gwfast.align(x, y)
    unrefined = plain.refine(0)
    np.testing.assert_array_equal(unrefined.mapping, plain.mapping)
    assert unrefined.refinement == () == plain.refinement
    assert unrefined.target_mapping is None
    with pytest.raises(ValueError, match="rounds must be at least 0, got -1"):
        plain.refine(-1)


def test_barycentric_translation_agrees_with_the_plan(noisy):
    result, _ = noisy
    target = result.target.rows
    means = result.plan @ target[:100] / result.plan.sum(axis=1, keepdims=True)
    cosine = unit(means) @ unit(target).T
    found = result.translate([3, 99], method="barycentric", k=4)
    np.testing.assert_array_equal(found.indices, np.argsort(-cosine[[3, 99]])[:, :4])
    with pytest.raises(ValueError, match="items must be among the first 100 rows, got rows 100"):
        result.translate([100], method="barycentric")


def test_a_time_limit_that_ends_the_refinement_is_told():
    x, y, _ = rotated_pair(60, 5, 0, noise=0.05)
    with pytest.warns(gwfast.ConvergenceWarning) as caught:
        result = gwfast.align(x, y, refine=3, time_limit=1e-6)
    said = "time_limit ended the refinement after 0 of 3 rounds; try a larger time_limit"
    assert result.refinement == () and said in [str(one.message) for one in caught]
