"""Plans in all forms answer as the same plan in an array does."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from helpers.marks import pairwise
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


# --- Answers --------------------------------------------------------------------------


def test_array(pair):
    plan, expected = pair
    came = plan.toarray()
    assert came.dtype == np.float32 and came.shape == plan.shape == expected.shape
    assert_close(came, expected)


@pairwise(left_out=[None, 0, 1e-6, 1e-2, 0.5, 0.999], form=FORMS, shape=SHAPES)
def test_csr_leaves_out_the_smallest_entries_of_a_row(left_out, form, shape):
    plan, _ = made(form, shape)
    whole = plan.toarray()
    csr = plan.tocsr() if left_out is None else plan.tocsr(left_out)
    share = coupling.LEFT_OUT if left_out is None else left_out
    assert isinstance(csr, sparse.csr_array) and csr.dtype == np.float32
    assert csr.has_canonical_format or csr.copy().nnz == csr.nnz
    kept = csr.toarray()
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


@pairwise(k=[1, 3, 1000], form=FORMS, shape=SHAPES)
def test_topk(k, form, shape):
    plan, _ = made(form, shape)
    whole = plan.toarray()
    indices, scores = plan.topk(k)
    k = min(k, shape[1])
    assert indices.shape == scores.shape == (len(whole), k)
    assert indices.dtype == np.int64 and scores.dtype == np.float32
    np.testing.assert_array_equal(scores, -np.sort(-whole, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(whole, indices, axis=1), scores)
    assert all(len(set(row)) == k for row in indices)


@pytest.mark.parametrize(
    "rows", [[0], [4, -1], np.array([5, 2, 2]), [], [True, False] * 18 + [True]]
)
def test_topk_of_some_rows(rows, form):
    plan, _ = made(form, (37, 53))
    some = np.arange(37)[np.asarray(rows, dtype=None if len(rows) else int)]
    for came, part in zip(plan.topk(2, rows), plan.topk(2), strict=True):
        assert came.dtype == part.dtype
        np.testing.assert_array_equal(came, part[some])


@pairwise(
    width=[None, 1, 3, 16, 17], dtype=[np.float64, np.float32, np.int64], form=FORMS, shape=SHAPES
)
def test_apply(width, dtype, form, shape):
    plan, expected = made(form, shape)
    m = plan.shape[1]
    y = 10 * cloud(m, width or 1, 3)
    y = y.astype(dtype)[:, 0] if width is None else np.asfortranarray(y.astype(dtype))
    came = plan.apply(y)
    assert came.dtype == np.float32 and came.shape == plan.shape[:1] + y.shape[1:]
    scale = expected @ np.abs(y).astype(np.float64)
    assert (np.abs(came - expected @ y) <= 3e-5 * scale + ATOL).all()


@pairwise(width=[None, 4], form=FORMS, shape=SHAPES)
def test_transform_is_the_mean_of_where_the_mass_goes(width, form, shape):
    plan, expected = made(form, shape)
    y = cloud(plan.shape[1], width or 1, 4)
    y = y[:, 0] if width is None else y
    came = plan.transform(y)
    assert came.shape == plan.shape[:1] + y.shape[1:]
    sums = expected.sum(axis=1)
    share = np.divide(expected.T, sums, out=np.zeros(expected.T.shape), where=sums > 0)
    np.testing.assert_allclose(came, share.T @ y, rtol=1e-4, atol=1e-4)
    if sums.min() == 0:
        assert (came[sums == 0] == 0).all()


@pytest.mark.parametrize("shape", [*SHAPES, (20_000, 3)])
def test_marginals(shape, form):
    """Also of many entries they are summed in float64."""
    plan, _ = made(form, shape)
    whole = plan.toarray().astype(np.float64)
    rtol = 2e-5 if form == "factors" else 5e-7
    for one, its in ((plan, whole), (plan.T, whole.T)):
        for came, axis in zip(one.marginals, (1, 0), strict=True):
            expected = its.sum(axis=axis)
            assert came.dtype == np.float64 and came.shape == expected.shape
            np.testing.assert_allclose(came, expected, rtol=rtol, atol=1e-12)


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
    np.testing.assert_allclose(plan.entropy(), -(some * np.log(some)).sum(), rtol=2e-5, atol=1e-6)


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


def test_answers_and_copies_are_not_the_plan(form):
    plan, _ = made(form, (37, 53))
    copy, before = plan.copy(), plan.toarray().copy()
    plan.apply(cloud(53, 2, 6))[:] = 0.0
    plan.topk(2).scores[:] = 0.0
    for sums in plan.marginals:
        sums[:] = 0.0
    np.testing.assert_array_equal(plan.toarray(), before)
    if form == "array":
        plan.array[:] = 0.0  # as a later solve does
    np.testing.assert_array_equal(copy.toarray(), before)


def test_plans_can_be_pickled(form):
    plan, _ = made(form, (37, 53))
    plan.topk(1)
    for same in (pickle.loads(pickle.dumps(plan)), deepcopy(plan)):
        assert repr(same) == repr(plan)
        np.testing.assert_array_equal(same.toarray(), plan.toarray())
        np.testing.assert_array_equal(same.topk(3).indices, plan.topk(3).indices)


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
    plan = whole.replace(limit=size - 1)
    with pytest.raises(MemoryError, match=r"37 x 53 takes .* GB, .* use tocsr"):
        plan.toarray()
    with pytest.raises(MemoryError):
        plan.T.toarray()
    assert_close(plan.apply(np.ones(53)), expected.sum(axis=1))
    assert plan.tocsr().shape == (37, 53) and plan.topk(1).indices.shape == (37, 1)
    for same in (whole, plan.replace(limit=size), plan.replace(limit=None)):
        assert_close(same.toarray(), expected)


K_TOO_SMALL, SHARE = "k must be at least 1", r"left_out must be in \[0, 1\), got "
LENGTH, TYPE = r"y must have shape \(53,\) or \(53, e\)", "y must hold real numbers"
REFUSED = [
    ("topk", (0,), ValueError, K_TOO_SMALL),
    ("topk", (-1,), ValueError, K_TOO_SMALL),
    ("topk", (1.5,), TypeError, "k must be an integer"),
    ("topk", (1, [37]), IndexError, None),
    ("topk", (1, [0.0]), IndexError, None),
    *(("tocsr", (share,), ValueError, SHARE) for share in (-1e-9, 1.0, 2, np.nan)),
    *(
        (method, (np.zeros(shape),), ValueError, LENGTH)
        for method in ("apply", "transform")
        for shape in [(52,), (54,), (37,), (52, 2), (53, 1, 1), (), (1, 53)]
    ),
    ("apply", (np.ones(53, dtype=complex),), TypeError, TYPE),
    ("apply", (["a"] * 53,), TypeError, TYPE),
]


@pytest.mark.parametrize("method, given, error, message", REFUSED)
def test_wrong_arguments_are_refused(method, given, error, message, form):
    plan, _ = made(form, (37, 53))
    with pytest.raises(error, match=message):
        getattr(plan, method)(*given)
