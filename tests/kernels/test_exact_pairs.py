"""Descents between pairs of small spaces, side by side, in shares and one by one."""

import numpy as np
import pytest
from helpers.problems import masses, random_cost

from gwfast.kernels._exact_pairs import ExactPairs, Space

SIZES = [1, 2, 7, 9, 5]


def spaces(number, symmetric=True, width=0):
    """One side of pairs, of costs without ties."""
    made = []
    for k, n in enumerate(SIZES):
        cost = random_cost(n, 10 * number + k, symmetric=symmetric) + 0.1
        weights, values = masses(n, k), cost if number else -2 * cost
        transposed = values if symmetric else np.ascontiguousarray(values.T)
        features = np.random.default_rng(k).random((n, width)) if width else None
        constants = cost**2 @ weights
        largest = np.abs(values).max(), constants.max()
        made.append(Space(values, transposed, weights, weights @ constants, *largest, features))
    return made


def solved(xs, ys, **options):
    descents = ExactPairs(rounding=1e-13, linear=0.5, **options)
    descents.begin(xs, ys)
    assert ExactPairs.go_on([descents])
    return descents


@pytest.mark.parametrize("n_shares", [1, 2, 5])
def test_pairs_side_by_side_are_what_each_is_alone(n_shares):
    """They may be shared out over any calls and threads, and begin at plans found before."""
    x, ys = spaces(0, width=2)[3], spaces(1, width=2)
    plans, shares, columns = np.empty((SIZES[3], sum(SIZES))), [], np.cumsum([0, *SIZES])
    potentials = np.empty(SIZES[3] * len(ys) + sum(SIZES))
    for part in np.array_split(range(len(ys)), n_shares):
        some = [ys[k] for k in part]
        first = columns[part[0]]
        shares.append(ExactPairs(rounding=1e-13, linear=0.5))
        shares[-1].begin(
            [x] * len(some), some, plans[:, first : columns[part[-1] + 1]],
            potentials=potentials[SIZES[3] * part[0] + first :],
        )  # fmt: skip
    n_calls = 1
    while not ExactPairs.go_on(shares, 0.0 if n_calls < 3 else 1e-6):
        n_calls += 1
    assert n_calls > 3
    costs = np.concatenate([share.costs for share in shares])
    for k, y in enumerate(ys):
        alone = solved([x], [y])
        np.testing.assert_array_equal(plans[:, columns[k] : columns[k + 1]], alone.plan)
        assert costs[k] == alone.costs[0]
        made = potentials[SIZES[3] * k + columns[k] :][: SIZES[3] + SIZES[k]]
        assert np.isfinite(made).all()
    again = ExactPairs(rounding=1e-13, linear=0.5)
    again.begin([x] * len(ys), ys, plans, from_plans=True)
    assert ExactPairs.go_on([again])
    np.testing.assert_allclose(again.costs, costs, rtol=1e-12)


def test_no_cut_and_no_neighbor_changes_a_bit():
    """Calls that return after each step, and pairs in another order."""
    xs, ys = (spaces(number, False, 2) for number in (0, 1))
    pairs = [(x, y) for x in xs for y in ys]
    given = dict(n_starts=3, seed=2**64 - 2)
    costs = solved(*zip(*pairs, strict=True), **given).costs
    again = solved(*zip(*pairs[::-1], strict=True), **given).costs
    np.testing.assert_array_equal(again[::-1], costs)


def test_a_pair_in_hand_has_the_best_of_what_has_ended():
    x, y = spaces(0)[2], spaces(1)[3]
    descents = ExactPairs(n_starts=10**9, max_outer=20)
    descents.begin([x], [y])
    descents.settle()
    assert descents.n_done == 0
    assert not ExactPairs.go_on([descents], 1e-3)
    descents.settle()
    assert descents.n_done == 1
    assert descents.costs <= solved([x], [y], max_outer=20).costs


def test_what_makes_no_problem_is_refused():
    cost, weights = np.ones((3, 3)), np.full(3, 1 / 3)
    good = Space(cost, cost, weights, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="values"):
        Space(cost[:2], cost, weights, 1.0, 1.0, 1.0)
    for features in (np.ones((2, 1)), np.ones((3, 2))):
        with pytest.raises(ValueError, match="features"):
            other = Space(cost, cost, weights, 1.0, 1.0, 1.0, features)
            ExactPairs().begin([good], [other])
    for shape, message in (((4, 3), "rows of plans"), ((3, 2), "columns of plans")):
        with pytest.raises(ValueError, match=message):
            ExactPairs().begin([good], [good], np.empty(shape))
    with pytest.raises(ValueError, match="potentials"):
        ExactPairs().begin([good], [good], potentials=np.empty(5))
    with pytest.raises(ValueError, match="plans must be given"):
        ExactPairs().begin([good], [good], None, True)
    heavy, descents = Space(cost, cost, 2 * weights, 1.0, 1.0, 1.0), ExactPairs()
    descents.begin([good, heavy], [good, good])
    with pytest.raises(ValueError, match="masses of pair 1 must be positive and have"):
        ExactPairs.go_on([descents])
    with pytest.raises(RuntimeError, match="before a pair is solved"):
        ExactPairs().plan  # noqa: B018
