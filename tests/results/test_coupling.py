"""Plans in all forms answer as the same plan in an array does."""

import numpy as np
import pytest
from helpers.problems import cloud, masses
from scipy import sparse

from gwfast.results import coupling
from gwfast.results.coupling import ArrayCoupling, FactoredCoupling, SparseCoupling

SHAPES = [(1, 1), (1, 6), (7, 1), (37, 53), (130, 70)]
FORMS = ["array", "sparse", "factors"]
# The exponents of the factors are made in float32.
RTOL, ATOL = 2e-5, 1e-9


def factors(n, m, seed=0):
    """Arguments of a `FactoredCoupling`, some of its rows and columns without mass."""
    left = cloud(n, 5, seed).astype(np.float32)
    right = cloud(m, 5, seed + 1).astype(np.float32)
    f, g = np.log(masses(n, seed)), np.log(masses(m, seed)) - np.log(n)
    if min(n, m) > 5:
        f[3] = g[-2] = -np.inf
    return left, right, f, g, 0.8


def made(form, shape, n_threads=1, seed=0):
    """A coupling, and what it is in float64."""
    left, right, f, g, epsilon = factors(*shape, seed)
    cost = left.astype(np.float64) @ right.T
    plan = np.exp((f[:, None] + g - cost) / epsilon)
    plan /= plan.sum()
    if form == "factors":
        f = f - epsilon * np.log(np.exp((f[:, None] + g - cost) / epsilon).sum())
        return FactoredCoupling(left, right, f, g, epsilon, n_threads), plan
    if form == "array":
        return ArrayCoupling(plan.astype(np.float32), n_threads), plan
    plan[plan < np.quantile(plan, 0.7)] = 0.0
    csr = sparse.csr_array(plan.astype(np.float32))
    return SparseCoupling(csr, n_threads), plan


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(params=SHAPES, ids=str)
def pair(form, request):
    return made(form, request.param)


def assert_close(came, expected):
    np.testing.assert_allclose(came, expected, rtol=RTOL, atol=ATOL)


def rows_without(csr):
    """Dense rows of what `tocsr` made; no entry stands there twice or as a zero."""
    assert isinstance(csr, sparse.csr_array) and csr.dtype == np.float32
    assert csr.has_canonical_format or csr.copy().nnz == csr.nnz
    return csr.toarray()


# --- Answers --------------------------------------------------------------------------


def test_array(pair):
    plan, expected = pair
    came = plan.toarray()
    assert came.dtype == np.float32 and came.shape == plan.shape == expected.shape
    assert_close(came, expected)


@pytest.mark.parametrize("left_out", [None, 0, 1e-6, 1e-2, 0.5, 0.999])
def test_csr_leaves_out_the_smallest_entries_of_a_row(left_out, pair):
    plan, _ = pair
    whole = plan.toarray()
    csr = plan.tocsr() if left_out is None else plan.tocsr(left_out)
    share = coupling.LEFT_OUT if left_out is None else left_out
    kept = rows_without(csr)
    assert ((kept == 0) | (kept == whole)).all()
    sums = whole.sum(axis=1, dtype=np.float64)
    lost = sums - kept.sum(axis=1, dtype=np.float64)
    assert (lost <= share * sums * (1 + 1e-6) + 1e-15).all()
    for row, rest in zip(kept, np.where(kept > 0, 0, whole), strict=True):
        assert not row.any() or row[row > 0].min() >= rest.max()
    if left_out == 0:
        np.testing.assert_array_equal(kept, whole)
    if left_out == 0.999:
        # One more could not have been left out.
        smallest = np.where(kept > 0, kept, np.inf).min(axis=1)
        some = np.isfinite(smallest)
        assert (lost + smallest > share * sums * (1 - 1e-6))[some].all()


def test_csr_does_not_depend_on_the_rows_made_at_a_time(form, monkeypatch):
    plan, _ = made(form, (37, 53))
    expected, best = plan.tocsr(1e-3), plan.topk(3)
    for floats in (1, 53 * 5, 53 * 36):
        monkeypatch.setattr(coupling, "BLOCK_FLOATS", floats)
        came = plan.tocsr(1e-3)
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(came, part), getattr(expected, part))
        for came, part in zip(plan.topk(3), best, strict=True):
            np.testing.assert_array_equal(came, part)


@pytest.mark.parametrize("k", [1, 3, 1000])
@pytest.mark.parametrize("rows", [None, [0], [5, 2, 2], [], [True, False] * 18 + [1]])
def test_topk(k, rows, form):
    plan, _ = made(form, (37, 53))
    whole = plan.toarray()
    if rows is not None:
        rows = np.asarray(rows, dtype=bool if len(rows) == 37 else np.int64)
        whole = whole[rows]
    indices, scores = plan.topk(k, rows)
    k = min(k, 53)
    assert indices.shape == scores.shape == (len(whole), k)
    assert indices.dtype == np.int64 and scores.dtype == np.float32
    np.testing.assert_array_equal(scores, -np.sort(-whole, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(whole, indices, axis=1), scores)
    assert all(len(set(row)) == k for row in indices)


def test_topk_takes_rows_as_a_list_and_from_the_end(form):
    plan, _ = made(form, (37, 53))
    every = plan.topk(2)
    for came, part in zip(plan.topk(2, [4, -1]), every, strict=True):
        np.testing.assert_array_equal(came, part[[4, -1]])


@pytest.mark.parametrize("shape", SHAPES)
def test_topk_of_any_shape(form, shape):
    plan, _ = made(form, shape)
    indices, scores = plan.topk(2)
    best = plan.toarray().max(axis=1)
    np.testing.assert_array_equal(scores[:, 0], best)
    assert indices.shape == (shape[0], min(2, shape[1]))


@pytest.mark.parametrize("width", [None, 1, 3, 16, 17])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_apply(width, dtype, pair):
    plan, expected = pair
    m = plan.shape[1]
    y = 10 * cloud(m, width or 1, 3)
    y = y.astype(dtype)[:, 0] if width is None else np.asfortranarray(y.astype(dtype))
    came = plan.apply(y)
    assert came.dtype == np.float32 and came.shape == plan.shape[:1] + y.shape[1:]
    scale = expected @ np.abs(y).astype(np.float64)
    assert (np.abs(came - expected @ y) <= 3e-5 * scale + ATOL).all()


@pytest.mark.parametrize("width", [None, 4])
def test_transform_is_the_mean_of_where_the_mass_goes(width, pair):
    plan, expected = pair
    y = cloud(plan.shape[1], width or 1, 4)
    y = y[:, 0] if width is None else y
    came = plan.transform(y)
    assert came.shape == plan.shape[:1] + y.shape[1:]
    sums = expected.sum(axis=1)
    share = np.divide(expected.T, sums, out=np.zeros(expected.T.shape), where=sums > 0)
    np.testing.assert_allclose(came, share.T @ y, rtol=1e-4, atol=1e-4)
    if sums.min() == 0:
        assert (came[sums == 0] == 0).all()


def test_transform_stays_among_the_points(pair):
    plan, _ = pair
    ones = plan.transform(np.ones(plan.shape[1]))
    some = plan.marginals[0] > 0
    np.testing.assert_allclose(ones[some], 1.0, rtol=1e-5)


def test_marginals(pair):
    plan, _ = pair
    whole = plan.toarray().astype(np.float64)
    for came, expected in zip(
        plan.marginals, (whole.sum(1), whole.sum(0)), strict=True
    ):
        assert came.dtype == np.float64 and came.shape == expected.shape
        np.testing.assert_allclose(came, expected, rtol=2e-6, atol=1e-12)


def test_marginals_of_many_entries_are_summed_in_float64(form):
    n, m = (30_000, 3) if form != "factors" else (5000, 3)
    if form == "factors":
        plan, _ = made(form, (n, m))
        whole = plan.toarray()
    else:
        whole = np.random.default_rng(0).random((n, m), dtype=np.float32)
        plan = ArrayCoupling(whole, 1)
        if form == "sparse":
            plan = SparseCoupling(sparse.csr_array(whole), 1)
    for one, other, exact in (
        (plan, plan.T, whole.astype(np.float64)),
        (plan.T, plan, whole.T.astype(np.float64)),
    ):
        rtol = 2e-5 if form == "factors" else 5e-7
        np.testing.assert_allclose(one.marginals[0], exact.sum(1), rtol=rtol)
        np.testing.assert_allclose(one.marginals[1], exact.sum(0), rtol=rtol)
        np.testing.assert_allclose(other.marginals[0], exact.sum(0), rtol=rtol)


def test_transpose(pair, form):
    plan, expected = pair
    turned = plan.T
    assert type(turned) is type(plan) and turned.form == form
    assert turned.shape == plan.shape[::-1] and turned.n_threads == plan.n_threads
    assert_close(turned.toarray(), expected.T)
    assert_close(turned.T.toarray(), expected)
    x = cloud(plan.shape[0], 2, 5)
    np.testing.assert_allclose(turned.apply(x), expected.T @ x, rtol=1e-4, atol=1e-5)
    indices, _ = turned.topk(1)
    best = turned.toarray().max(axis=1)
    at = np.arange(len(indices)), indices[:, 0]
    np.testing.assert_array_equal(turned.toarray()[at], best)


def test_entropy(pair):
    plan, expected = pair
    some = expected[expected > 0]
    np.testing.assert_allclose(
        plan.entropy(), -(some * np.log(some)).sum(), rtol=2e-5, atol=1e-6
    )


def test_size_in_memory(form):
    plan, whole = made(form, (130, 70))
    if form == "array":
        assert plan.nbytes == 4 * 130 * 70
    elif form == "sparse":
        stored = (whole > 0).sum()
        assert 8 * stored <= plan.nbytes <= 12 * stored + 8 * 131
    else:
        # Both factors, the right one packed once more, and potentials.
        assert 4 * 5 * (130 + 70) <= plan.nbytes <= 4 * 5 * (130 + 2 * 96) + 8 * 400
        assert plan.nbytes < 4 * 130 * 70
    assert repr(plan) == f"{type(plan).__name__}(130 x 70, {plan.nbytes / 1e6:.3g} MB)"


def test_copy_is_safe_from_later_solves(form):
    plan, _ = made(form, (37, 53))
    copy, before = plan.copy(), plan.toarray().copy()
    if form == "array":
        plan.array[:] = 0.0
    np.testing.assert_array_equal(copy.toarray(), before)


def test_answers_can_be_changed_without_changing_the_plan(form):
    plan, _ = made(form, (37, 53))
    before = plan.toarray().copy()
    plan.apply(cloud(53, 2, 6))[:] = 0.0
    plan.topk(2).scores[:] = 0.0
    for sums in plan.marginals:
        sums[:] = 0.0
    np.testing.assert_array_equal(plan.toarray(), before)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_change_no_bit(form, n_threads):
    one, _ = made(form, (300, 400))
    other, _ = made(form, (300, 400), n_threads)
    y = cloud(400, 7, 7)
    for ask in (
        lambda plan: plan.toarray(),
        lambda plan: plan.apply(y),
        lambda plan: plan.transform(y[:, 0]),
        lambda plan: plan.T.apply(y[:300]),
        lambda plan: plan.entropy(),
        lambda plan: np.concatenate(plan.marginals),
        lambda plan: np.stack(plan.topk(4)),
        lambda plan: plan.tocsr().data,
    ):
        np.testing.assert_array_equal(ask(one), ask(other))


# --- Refusals -------------------------------------------------------------------------


def test_array_beyond_the_limit_is_refused(form):
    size = 4 * 37 * 53
    whole, expected = made(form, (37, 53))
    plan = whole.with_limit(size - 1)
    with pytest.raises(MemoryError, match=r"37 x 53 takes .* GB, .* use tocsr"):
        plan.toarray()
    with pytest.raises(MemoryError):
        plan.T.toarray()
    assert_close(plan.apply(np.ones(53)), expected.sum(axis=1))
    assert plan.tocsr().shape == (37, 53) and plan.topk(1).indices.shape == (37, 1)
    for same in (whole, plan.with_limit(size), plan.with_limit(None)):
        assert_close(same.toarray(), expected)


def test_wrong_numbers_are_refused(form):
    plan, _ = made(form, (37, 53))
    for bad in (0, -1):
        with pytest.raises(ValueError, match="k must be at least 1"):
            plan.topk(bad)
    with pytest.raises(TypeError, match="k must be an integer"):
        plan.topk(1.5)
    with pytest.raises(IndexError):
        plan.topk(1, [37])


def test_rows_have_to_be_integers(form):
    plan, _ = made(form, (37, 53))
    with pytest.raises(IndexError):
        plan.topk(1, [0.0])


@pytest.mark.parametrize("bad", [-1e-9, 1.0, 2, np.nan])
def test_shares_that_cannot_be_left_out_are_refused(bad, form):
    plan, _ = made(form, (37, 53))
    with pytest.raises(ValueError, match=r"left_out must be in \[0, 1\), got "):
        plan.tocsr(bad)


@pytest.mark.parametrize(
    "shape", [(52,), (54,), (37,), (52, 2), (53, 1, 1), (), (1, 53)]
)
@pytest.mark.parametrize("method", ["apply", "transform"])
def test_vectors_of_another_length_are_refused(shape, method, form):
    plan, _ = made(form, (37, 53))
    with pytest.raises(ValueError, match=r"y must have shape \(53,\) or \(53, e\)"):
        getattr(plan, method)(np.zeros(shape))


@pytest.mark.parametrize("y", [np.ones(53, dtype=complex), ["a"] * 53])
def test_vectors_of_another_type_are_refused(y, form):
    plan, _ = made(form, (37, 53))
    with pytest.raises(TypeError, match="y must hold real numbers"):
        plan.apply(y)
