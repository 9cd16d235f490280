"""Plans in all forms answer as an array does; made directly, as solves have few of their shapes."""

import itertools
import pickle

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, masses
from scipy import sparse

from gwfast.results.coupling import ArrayCoupling, FactoredCoupling, SparseCoupling

SHAPES = [(1, 1), (1, 6), (7, 1), (37, 53), (20_000, 9)]
FORMS = ["array", "sparse", "factors"]


def coupling_of(form, shape, n_threads=1):
    """A coupling with rows and columns without mass, and what it is in float64."""
    n, m = shape
    left, right = cloud(n, 5, 0).astype(np.float32), cloud(m, 5, 1).astype(np.float32)
    f, g, epsilon = np.log(masses(n, 0)), np.log(masses(m, 0)) - np.log(n), 0.8
    if min(shape) > 5:
        f[3] = g[-2] = -np.inf
    plan = np.exp((f[:, None] + g - left.astype(np.float64) @ right.T) / epsilon)
    f, plan = f - epsilon * np.log(plan.sum()), plan / plan.sum()
    if form == "factors":
        u, v = masses(n, 2), masses(m, 3)  # logarithms of scalings
        factors = FactoredCoupling(left, right, f, g, epsilon, n_threads, (u, v))
        return factors, plan * np.exp(u[:, None] + v)
    if form == "array":
        return ArrayCoupling(plan.astype(np.float32), n_threads), plan
    plan[plan < np.quantile(plan, 0.7)] = 0.0
    return SparseCoupling(sparse.csr_array(plan.astype(np.float32)), n_threads), plan


@pairwise(form=FORMS, shape=SHAPES)
def test_array_entropy_sums_and_transpose(form, shape):
    plan, expected = coupling_of(form, shape)
    array, turned = plan.toarray(), plan.T
    assert array.dtype == np.float32 and array.shape == plan.shape == shape
    # The exponents of the factors are made in float32.
    np.testing.assert_allclose(array, expected, rtol=2e-5, atol=1e-9)
    kept = expected[expected > 0]
    np.testing.assert_allclose(plan.entropy(), -(kept * np.log(kept)).sum(), rtol=2e-5, atol=1e-6)
    assert turned.form == form and turned.shape == shape[::-1]
    np.testing.assert_allclose(turned.toarray(), expected.T, rtol=2e-5, atol=1e-9)
    np.testing.assert_allclose(turned.T.toarray(), expected, rtol=2e-5, atol=1e-9)
    x = cloud(shape[0], 2, 5)
    np.testing.assert_allclose(turned.apply(x), expected.T @ x, rtol=1e-4, atol=1e-5)
    best = turned.topk(1).indices
    found = np.take_along_axis(turned.toarray(), best, axis=1)[:, 0]
    np.testing.assert_array_equal(found, turned.toarray().max(axis=1))
    for sums, axis in zip(plan.marginals, (1, 0), strict=True):
        assert sums.dtype == np.float64  # so that many entries lose nothing
        rtol = 2e-5 if form == "factors" else 5e-7
        np.testing.assert_allclose(sums, array.sum(axis=axis, dtype=np.float64), rtol=rtol)
        np.testing.assert_allclose(turned.marginals[axis], sums, rtol=rtol)


@pairwise(left_out=[None, 0, 1e-6, 1e-2, 0.5, 0.999], form=FORMS, shape=SHAPES)
def test_csr_leaves_out_the_smallest_entries_of_a_row(left_out, form, shape):
    plan, _ = coupling_of(form, shape)
    whole = plan.toarray()
    csr = plan.tocsr() if left_out is None else plan.tocsr(left_out)
    share = 1e-4 if left_out is None else left_out
    assert csr.dtype == np.float32 and (csr.data > 0).all() and csr.has_canonical_format
    kept = csr.toarray()
    assert ((kept == 0) | (kept == whole)).all()
    sums = whole.sum(axis=1, dtype=np.float64)
    lost = sums - kept.sum(axis=1, dtype=np.float64)
    assert (lost <= share * sums * (1 + 1e-6) + 1e-15).all()
    smallest = np.where(kept > 0, kept, np.inf).min(axis=1)
    assert (np.where(kept > 0, 0, whole).max(axis=1) <= smallest).all()
    # One more could not have been left out.
    assert (lost + smallest > share * sums * (1 - 1e-6)).all()


@pytest.mark.parametrize("form", FORMS)
def test_topk(form):
    for shape, k in itertools.product(SHAPES[:-1], (1, 3, 1000)):
        plan, _ = coupling_of(form, shape)
        whole = plan.toarray()
        indices, scores = plan.topk(k)
        k = min(k, shape[1])
        assert indices.dtype == np.int64
        np.testing.assert_array_equal(scores, -np.sort(-whole, axis=1)[:, :k], strict=True)
        np.testing.assert_array_equal(np.take_along_axis(whole, indices, axis=1), scores)
        assert all(len(set(row)) == k for row in indices)
    plan, _ = coupling_of(form, (37, 53))
    for rows in ([4, -1], np.array([5, 2, 2]), np.array([], int), [True, False] * 18 + [True]):
        for found, whole in zip(plan.topk(2, rows), plan.topk(2), strict=True):
            np.testing.assert_array_equal(found, whole[np.asarray(rows)], strict=True)
    assert len(plan.topk(2, []).indices) == 0


@pairwise(
    width=[None, 1, 3, 17], dtype=[np.float64, np.float32, np.int64], form=FORMS, shape=SHAPES
)
def test_apply_and_transform(width, dtype, form, shape):
    plan, expected = coupling_of(form, shape)
    y = np.asfortranarray((10 * cloud(shape[1], width or 1, 3)).astype(dtype))
    y = y[:, 0] if width is None else y
    moved, means = plan.apply(y), plan.transform(y)
    assert moved.dtype == np.float32 and moved.shape == means.shape == shape[:1] + y.shape[1:]
    scale = expected @ np.abs(y).astype(np.float64)
    assert (np.abs(moved - expected @ y) <= 3e-5 * scale + 1e-9).all()
    sums = expected.sum(axis=1)
    share = np.divide(expected.T, sums, out=np.zeros(expected.T.shape), where=sums > 0)
    np.testing.assert_allclose(means, share.T @ y, rtol=1e-4, atol=1e-3)
    assert (means[sums == 0] == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_answers_copies_and_pickles_are_not_the_plan(form):
    plan, _ = coupling_of(form, (37, 53))
    copy, before = plan.copy(), plan.toarray().copy()
    for answer in (plan.apply(cloud(53, 2, 6)), plan.topk(2).scores, *plan.marginals):
        answer[:] = 0.0
    np.testing.assert_array_equal(plan.toarray(), before)
    pickled = pickle.loads(pickle.dumps(plan))
    # The array, 30 % of the entries with an index each, or factors and potentials.
    size = {"array": 7844, "sparse": 8 * 588, "factors": 4 * 5 * (37 + 53)}[form]
    assert size <= plan.nbytes <= 3 * size
    if form == "array":
        plan.array[:] = 0.0  # as a later solve does
    for same in (copy, pickled):
        np.testing.assert_array_equal(same.toarray(), before)
        assert repr(same) == repr(plan)


@pytest.mark.parametrize("form", FORMS)
def test_a_limit_refuses_the_array_alone(form):
    whole, expected = coupling_of(form, (37, 53))
    plan = whole.replace(limit=4 * 37 * 53 - 1)
    for refusing in (plan, plan.T):
        with pytest.raises(MemoryError, match=r"37.* GB"):
            refusing.toarray()
    np.testing.assert_allclose(plan.apply(np.ones(53)), expected.sum(axis=1), rtol=2e-5, atol=1e-9)
    assert plan.tocsr().shape == (37, 53) and plan.topk(1).indices.shape == (37, 1)
    for limit in (4 * 37 * 53, None):
        np.testing.assert_array_equal(plan.replace(limit=limit).toarray(), whole.toarray())
