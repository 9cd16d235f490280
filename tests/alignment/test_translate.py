"""Rankings of translations and fits of maps against their formulas in float64."""

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair
from helpers.twins import retrieval_scores as scores
from scipy import linalg

import gwfast

METHODS = ["nn", "csls", "inverted_softmax"]


def assert_best(neighbors, expected, k):
    order = np.argsort(-expected, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(neighbors.indices, order)
    best = np.take_along_axis(expected, order, axis=1)
    np.testing.assert_allclose(neighbors.scores, best, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_nearest_neighbors(method):
    x, y, sources = cloud(30, 4, 18), cloud(40, 4, 19), cloud(50, 4, 20)
    for options in ({}, {"n_neighbors": 3, "inverse_temperature": 7.0}):
        neighbors = gwfast.nearest_neighbors(x, y, method=method, sources=sources, k=5, **options)
        assert_best(neighbors, scores(method, x, y, sources, **options), 5)
    neighbors = gwfast.nearest_neighbors(x, y, method=method, k=99)
    assert_best(neighbors, scores(method, x, y, x), 40)
    neighbors = gwfast.nearest_neighbors(x, y, method=method, inverse_temperature=1e6)
    assert np.isfinite(neighbors.scores).all()


@pytest.fixture(scope="module")
def aligned():
    x, y, _ = rotated_pair(120, 6, 0, noise=0.3)
    options = {"n_words": 80, "normalize": ("unit",), "epsilon": 0.003, "init": "profile"}
    # The fifth row has no mass.
    return gwfast.align(x, y[:110], p=1.0 * (np.arange(80) != 4), **options)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_translations_in_both_directions(aligned, direction):
    x, y = aligned.mapped_source, aligned.mapped_target
    points, plan = aligned.target.rows, aligned.plan.astype(np.float64)
    if direction == "backward":
        x, y, points, plan = y, x, aligned.source.rows, plan.T
    rows = [7, 3, 3, 79]
    for method in METHODS:
        found = aligned.translate(rows, method=method, k=4, direction=direction)
        assert_best(found, scores(method, x[rows], y, x), 4)
    found = aligned.translate(rows, method="plan", k=4, direction=direction)
    assert_best(found, plan[rows], 4)
    means = plan[rows] @ points[:80] / plan[rows].sum(axis=1, keepdims=True)
    found = aligned.translate(rows, method="barycentric", k=4, direction=direction)
    assert_best(found, scores("nn", means, points, points), 4)


def test_words_that_do_not_take_part_and_rows_without_mass(aligned):
    assert aligned.plan.shape == (80, 80) and aligned.match().shape == (80,)
    assert aligned.translate(k=999).indices.shape == (120, 110)
    assert aligned.translate(method="plan").indices.shape == (80, 10)
    np.testing.assert_array_equal(np.flatnonzero(aligned.match() < 0), [4])
    for method in ("plan", "barycentric"):
        found = aligned.translate([3, 4], method=method, k=2)
        assert (found.indices[0] >= 0).all() and found.scores[0, 0] > 0
        assert (found.indices[1] == -1).all() and (found.scores[1] == 0).all()


def test_best_matches_are_the_best_by_csls_on_either_side(aligned):
    x, y = aligned.mapped_source, aligned.mapped_target
    expected, found = scores("csls", x, y, x), aligned.best_matches(3)
    assert_best(found.forward, expected, 3)
    np.testing.assert_array_equal(found.backward, expected.argmax(axis=0))
    mutual = expected.argmax(axis=0)[expected.argmax(axis=1)] == np.arange(120)
    np.testing.assert_array_equal(found.mutual, mutual)
    assert 0 < mutual.sum() < 110


@pytest.mark.parametrize("d, e", [(5, 5), (6, 4), (4, 6)])
def test_procrustes_is_the_solution_of_schoenemann(d, e):
    x, y, counts = cloud(40, d, 2), cloud(40, e, 3), np.arange(40) % 4
    for weights in (None, counts):
        mapping = gwfast.procrustes(x, y, weights=weights)
        u, _, vt = np.linalg.svd(x.T @ (y if weights is None else y * counts[:, None]), False)
        np.testing.assert_allclose(mapping, u @ vt, atol=1e-4)


def test_refinement_uses_all_rows_and_finds_more():
    x, y, where = rotated_pair(250, 12, 23, noise=0.25)
    result = gwfast.align(x, y, n_words=100, normalize=("unit",), epsilon=0.004, init="profile")
    refined = result.refine(99)
    assert refined.seconds > result.seconds and refined.gw is result.gw
    before, after = ((a.translate(k=1).indices[:, 0] == where).mean() for a in (result, refined))
    assert after > before
    steps = refined.refinement
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    assert len(steps) < 99  # it ends when hardly any match changes
    assert steps[-1].objective > steps[0].objective and steps[-1].n_pairs > steps[0].n_pairs
    assert steps[0].change == 1.0 > steps[-1].change
    assert steps[0].objective == pytest.approx(result.best_matches().forward.scores.mean())
    # CSLS of a single pair is zero.
    x = np.array([[1.0, 2.0]])
    result = gwfast.align(x, x, normalize=("unit",))
    assert result.refine(2).refinement[0].n_pairs == 1


def by_hand(x, y, weights):
    """Return the maps of paired rows: whiten, rotate, weigh directions again, and color."""
    x, y = (np.sqrt(weights)[:, None] * z.astype(np.float64) for z in (x, y))
    white_x, white_y = (linalg.inv(linalg.sqrtm(z.T @ z)) for z in (x, y))
    u, correlations, vt = np.linalg.svd((x @ white_x).T @ (y @ white_y))
    roots = np.diag(np.sqrt(correlations / correlations[0]))
    source = white_x @ u @ roots @ u.T @ linalg.inv(white_x) @ u @ vt
    return source, white_y @ vt.T @ roots @ vt @ linalg.inv(white_y)


@pytest.mark.parametrize("n, d", [(40, 3), (20, 12)])
def test_a_round_fits_the_mutual_matches(n, d):
    """With fewer than two pairs a column an orthogonal map is fitted, else maps of both sides."""
    x, y, _ = rotated_pair(n, d, 23, noise=0.25)
    result = gwfast.align(x, y, normalize=("unit",), epsilon=0.02, init="profile")
    found, once = result.best_matches(), result.refine(1)
    best, csls = found.forward.indices[:, 0], found.forward.scores[:, 0]
    rows = np.flatnonzero(found.mutual & (csls > 0))
    assert once.refinement[0].n_pairs == len(rows)
    x, y = result.source.rows[rows], result.target.rows[best[rows]]
    if d == 12:
        assert once.target_mapping is None and len(rows) < 24
        expected = gwfast.procrustes(x, y, weights=csls[rows])
    else:
        expected, of_target = by_hand(x, y, csls[rows])
        np.testing.assert_allclose(once.target_mapping, of_target, atol=1e-4)
    np.testing.assert_allclose(once.mapping, expected, atol=1e-4)


def test_refined_maps_of_both_sides_no_rounds_and_rounds_ended_by_a_time_limit():
    (x, y, where), reports = rotated_pair(120, 5, 25, noise=0.1), []
    options = {"n_words": 90, "epsilon": 0.004, "init": "profile"}
    refined = gwfast.align(x, y, refine=3, progress=lambda *r: reports.append(r), **options)
    assert ("refinement 1", 0, 3) in reports
    np.testing.assert_array_equal(refined.mapping, gwfast.align(x, y, **options).refine(3).mapping)
    assert refined.target_mapping.shape == (5, 5)
    np.testing.assert_allclose(refined.transform_target(y), refined.mapped_target, atol=1e-5)
    np.testing.assert_allclose(refined.transform(x), refined.mapped_source, atol=1e-5)
    assert (refined.translate(k=1).indices[:, 0] == where).mean() > 0.95
    x, y, _ = rotated_pair(60, 5, 0, noise=0.05)
    plain = gwfast.align(x, y, epsilon=0.01, init="profile")
    np.testing.assert_array_equal(plain.refine(0).mapping, plain.mapping)
    with pytest.warns(gwfast.ConvergenceWarning) as caught:
        result = gwfast.align(x, y, refine=3, time_limit=1e-6)
    assert result.refinement == () and any("0 of 3" in str(w.message) for w in caught)
