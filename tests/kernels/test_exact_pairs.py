"""Descents between pairs: those of the twin, whatever they are cut into."""

import numpy as np
import pytest
from helpers.marks import ISAS, pairwise
from helpers.problems import masses, random_cost

from gwfast.kernels import _exact_pairs, reference
from gwfast.kernels._exact_pairs import ExactPairs, Space

SIZES = [1, 2, 7, 9, 5]


def spaces(module, number, symmetric=True, width=0):
    """One side of pairs, of costs without ties."""
    made = []
    for k, n in enumerate(SIZES):
        cost = random_cost(n, 10 * number + k, symmetric=symmetric) + 0.1
        weights, values = masses(n, k), cost if number else -2 * cost
        transposed = values if symmetric else np.ascontiguousarray(values.T)
        features = np.random.default_rng(k).random((n, width)) if width else None
        constants = cost**2 @ weights
        given = values, transposed, weights, weights @ constants
        sizes = np.abs(values).max(), constants.max()
        made.append(module.Space(*given, *sizes, features))
    return made


def found(module, *, pairs=None, symmetric=True, width=0, **options):
    descents = module.ExactPairs(rounding=1e-13, **options)
    xs, ys = (spaces(module, number, symmetric, width) for number in (0, 1))
    pairs = pairs or [(i, j) for i in range(len(xs)) for j in range(len(ys))]
    descents.begin([xs[i] for i, _ in pairs], [ys[j] for _, j in pairs])
    plans = []
    while not descents.go_on(one=True):
        plans.append(descents.plan)
    return descents.costs, descents.converged, [*plans, descents.plan]


@pairwise(symmetric=[True, False], width=[0, 3], n_starts=[0, 2], isa=ISAS)
def test_pairs_end_where_the_twin_does(symmetric, width, n_starts, isa):
    pairs = [(0, 2), (1, 2), (2, 4), (4, 1), (3, 0)]
    given = dict(symmetric=symmetric, width=width, n_starts=n_starts, linear=0.3)
    given["pairs"] = pairs
    ours, twin = found(_exact_pairs, **given), found(reference, **given)
    np.testing.assert_allclose(ours[0], twin[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ours[1], twin[1])
    for plan, other in zip(ours[2], twin[2], strict=True):
        np.testing.assert_allclose(plan, other, atol=1e-9)


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize("rule", ["least_change", "least_relative"])
def test_descents_from_one_space_to_all_begin_and_end_side_by_side(rule, resumes):
    ends, costs, duals = [], [], []
    for module in (_exact_pairs, reference):
        x, ys = spaces(module, 0, width=2)[3], spaces(module, 1, width=2)
        product = [np.outer(masses(SIZES[3], 3), masses(n, k)) for k, n in enumerate(SIZES)]
        product = np.hstack(product)
        plans = np.empty_like(product)
        potentials = np.empty(SIZES[3] * len(ys) + sum(SIZES))
        options = dict(tol=0.0, rounding=1e-13, linear=0.3) | {rule: 1e-4}
        descents = module.ExactPairs(resumes=resumes, **options)
        for from_plans in (False, True):
            descents.begin([x] * len(ys), ys, plans, from_plans, potentials=potentials)
            assert descents.go_on()
            ends.append(plans.copy())
            duals.append(_sums(potentials))
            costs.append(descents.costs)
            plans[:] = (plans + 2 * product) / 3
    for one, other in ((0, 2), (1, 3)):
        np.testing.assert_allclose(ends[one], ends[other], atol=1e-9)
        np.testing.assert_allclose(costs[one], costs[other], rtol=1e-9)
        np.testing.assert_allclose(duals[one], duals[other], rtol=1e-7, atol=1e-9)
    # From product plans they are what each is alone.
    ours = ExactPairs(**options)
    ours.begin(spaces(_exact_pairs, 0, width=2)[3:4], spaces(_exact_pairs, 1, width=2)[-1:])
    ours.go_on()
    np.testing.assert_array_equal(ends[0][:, -SIZES[-1] :], ours.plan)


def _sums(potentials):
    """Of those of each row and column of every pair, but where both have the same
    masses: there are several then.
    """
    pairs = np.split(potentials, np.cumsum([SIZES[3] + size for size in SIZES])[:-1])
    some = [np.split(one, SIZES[3:4]) for k, one in enumerate(pairs) if k != 3]
    return np.concatenate([np.add.outer(*one).ravel() for one in some])


@pytest.mark.parametrize("n_shares", [1, 2, 5])
def test_shares_of_the_pairs_go_on_together_as_all_do_alone(n_shares):
    xs, ys = (spaces(_exact_pairs, number, width=2) for number in (0, 1))
    some, right = [(xs[3], y) for y in ys], np.empty((SIZES[3], sum(SIZES)))
    descents = ExactPairs(rounding=1e-13, linear=0.3)
    descents.begin(*zip(*some, strict=True), right)
    descents.go_on()
    shares, plans = [], np.empty_like(right)
    for part in np.array_split(range(len(ys)), n_shares):
        shares.append(ExactPairs(rounding=1e-13, linear=0.3, resumes=True))
        first, pairs = sum(SIZES[: part[0]]), some[part[0] : part[-1] + 1]
        shares[-1].begin(*zip(*pairs, strict=True), plans, column=first)
    n_calls = 1
    while not ExactPairs.go_on_together(shares, 1.0):
        n_calls += 1
    assert n_calls > len(ys) // n_shares
    np.testing.assert_array_equal(plans, right)
    costs = np.concatenate([share.costs for share in shares])
    np.testing.assert_array_equal(costs, descents.costs)
    # What others do is not begun twice, and what one cannot do is said.
    assert ExactPairs.go_on_together(shares)
    heavy = Space(np.ones((1, 1)), np.ones((1, 1)), np.array([2.0]), 1.0, 1.0, 1.0)
    shares[0].begin(spaces(_exact_pairs, 0)[:1], [heavy])
    with pytest.raises(ValueError, match="masses of pair 0 must be positive"):
        ExactPairs.go_on_together(shares)


@pytest.mark.parametrize("resumes", [False, True])
def test_resumed_linear_programs_begin_where_they_ended(resumes):
    """All points of a ring are equally far from all others, and so vertices tie."""
    k, masses = np.arange(5), np.full(5, 0.2)
    apart = np.minimum((k - k[:, None]) % 5, (k[:, None] - k) % 5).astype(float)
    descents, turned = ExactPairs(linear=1.0, resumes=resumes), np.eye(5)[(k + 2) % 5]
    for weight in (1.0, 0.0):
        features = weight * turned, weight * np.eye(5)
        x, y = (
            Space(values, values, masses, 0.0, 1.0, 1.0, some)
            for values, some in zip((-2 * apart, apart), features, strict=True)
        )
        descents.begin([x], [y])
        descents.go_on()
        found = np.array_equal(descents.plan > 0, turned > 0)
        assert found == (weight > 0 or resumes)


def test_plans_side_by_side_have_the_shape_of_all():
    x, ys = spaces(_exact_pairs, 0)[3], spaces(_exact_pairs, 1)[:2]
    for shape, message in (((8, 3), "rows of plans"), ((9, 2), "columns of plans")):
        with pytest.raises(ValueError, match=message):
            ExactPairs().begin([x, x], ys, np.empty(shape))
    with pytest.raises(ValueError, match="potentials"):
        ExactPairs().begin([x, x], ys, potentials=np.empty(20))
    with pytest.raises(ValueError, match="plans must be given"):
        ExactPairs().begin([x, x], ys, None, True)


def test_no_cut_and_no_neighbor_changes_a_bit():
    """Calls that return after each step, and pairs in another order."""
    given = dict(symmetric=False, width=2, n_starts=3, seed=2**64 - 2, linear=0.5)
    costs, *_ = found(_exact_pairs, **given)
    pairs = [(i, j) for i in range(len(SIZES)) for j in range(len(SIZES))][::-1]
    again, *_ = found(_exact_pairs, pairs=pairs, **given)
    np.testing.assert_array_equal(again[::-1], costs)
    descents, n_calls = ExactPairs(3, 2**64 - 2, rounding=1e-13, linear=0.5), 1
    xs, ys = (spaces(_exact_pairs, number, False, 2) for number in (0, 1))
    descents.begin([xs[i] for i, _ in pairs], [ys[j] for _, j in pairs])
    while not descents.go_on(1.0):
        n_calls += 1
    assert n_calls > 4 * len(pairs)
    np.testing.assert_array_equal(descents.costs, again)


def test_a_pair_in_hand_has_the_best_of_what_has_ended():
    x, y = spaces(_exact_pairs, 0)[2], spaces(_exact_pairs, 1)[3]
    descents = ExactPairs(n_starts=5, max_outer=20)
    descents.begin([x], [y])
    descents.settle()
    assert descents.n_done == 0
    while descents.n_done == 0:
        descents.go_on(1.0)
        descents.settle()
    alone = ExactPairs(max_outer=20)
    alone.begin([x], [y])
    alone.go_on()
    assert descents.costs == alone.costs
    np.testing.assert_array_equal(descents.plan, alone.plan)


def test_what_makes_no_problem_is_refused():
    cost, weights = np.ones((3, 3)), np.full(3, 1 / 3)
    good = Space(cost, cost, weights, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="values"):
        Space(cost[:2], cost, weights, 1.0, 1.0, 1.0)
    for features in (np.ones((2, 1)), np.ones((3, 2))):
        with pytest.raises(ValueError, match="features"):
            other = Space(cost, cost, weights, 1.0, 1.0, 1.0, features)
            ExactPairs().begin([good], [other])
    heavy, descents = Space(cost, cost, 2 * weights, 1.0, 1.0, 1.0), ExactPairs()
    descents.begin([good, heavy], [good, good])
    with pytest.raises(ValueError, match="masses of pair 1 must be positive and have"):
        descents.go_on()
    with pytest.raises(RuntimeError, match="before a pair is solved"):
        ExactPairs().plan  # noqa: B018
