"""The last product, kept as a rest and a thin part in the room of one matrix."""

import numpy as np
import pytest

from gwfast.quadratic import kept_product
from gwfast.quadratic.anderson import DEPTH
from gwfast.quadratic.kept_product import KeptProduct

N, M, RANK = 70, 50, 3


class Part:
    """A thin part, as a matrix."""

    def __init__(self, seed=None, matrix=None):
        rng = np.random.default_rng(seed)
        left, right = rng.normal(size=(N, RANK)), rng.normal(size=(RANK, M))
        self.matrix = left @ right if matrix is None else matrix

    @staticmethod
    def combined(parts, weights):
        pairs = zip(parts, weights, strict=True)
        return Part(matrix=sum(weight * one.matrix for one, weight in pairs))

    def writer(self):
        return lambda rows, out: np.copyto(out, self.matrix[rows])

    def export(self):
        return (self.matrix,)


def product(seed):
    return np.random.default_rng(seed).normal(size=(N, M))


def last(kept):
    out = np.empty((N, M))
    kept.write(out)
    return out


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    """Several of them."""
    monkeypatch.setattr(kept_product, "COMBINED", 1)


@pytest.mark.parametrize("part", [None, Part(1)], ids=["whole", "with a part"])
@pytest.mark.parametrize("before", [None, Part(2)], ids=["after whole", "after a part"])
def test_a_product_takes_the_place_of_the_last_and_is_combined_with_it(part, before):
    kept, first, second = KeptProduct(), product(0), product(1)
    assert not kept.n_known
    kept.advance(first, before, (), is_near=False)
    np.testing.assert_allclose(last(kept), first, atol=1e-12)
    out = second.copy()
    kept.advance(out, part, (-0.5, 1.5), is_near=False)
    np.testing.assert_allclose(out, 1.5 * second - 0.5 * first, atol=1e-12)
    np.testing.assert_allclose(last(kept), second, atol=1e-12)
    rest = second if part is None else second - part.matrix
    np.testing.assert_allclose(kept.rest, rest, atol=1e-12)


def test_near_the_reference_only_the_part_is_new():
    kept, first, before, part = KeptProduct(), product(0), Part(2), Part(3)
    kept.advance(first, before, (), is_near=False)
    rest = kept.rest.copy()
    second = rest + part.matrix
    out = second.copy()
    kept.advance(out, part, (-2.0, 3.0), is_near=True)
    np.testing.assert_allclose(out, 3.0 * second - 2.0 * first, atol=1e-12)
    np.testing.assert_allclose(last(kept), second, atol=1e-12)
    np.testing.assert_array_equal(kept.rest, rest)
    kept.advance(second, before, (), is_near=True)
    np.testing.assert_allclose(last(kept), rest + before.matrix, atol=1e-12)


@pytest.mark.parametrize("is_near", [True, False])
def test_more_of_the_last_products_are_combined(is_near):
    kept, parts = KeptProduct(), [Part(seed) for seed in range(4)]
    kept.advance(product(0), parts[0], (), is_near=False)
    rest = kept.rest.copy()
    before = [rest + part.matrix for part in parts[:3]]
    for made, part in zip(before[1:], parts[1:], strict=False):
        kept.advance(made.copy(), part, (), is_near=True)
    assert kept.n_known == 3
    # Two of the three.
    weights = (0.5, -1.25, 1.75)
    made = rest + parts[3].matrix if is_near else product(1)
    out = made.copy()
    kept.advance(out, parts[3], weights, is_near=is_near)
    expected = np.tensordot(weights, [*before[1:], made], axes=1)
    np.testing.assert_allclose(out, expected, atol=1e-12)
    np.testing.assert_allclose(last(kept), made, atol=1e-12)
    assert kept.n_known == (4 if is_near else 1)


def test_only_so_many_are_kept():
    kept, part = KeptProduct(), Part(1)
    kept.advance(product(0), part, (), is_near=False)
    for _ in range(2 * DEPTH):
        kept.advance(product(0), part, (), is_near=True)
    assert kept.n_known == DEPTH + 1


def test_forks_take_turns_in_one_room():
    kept = KeptProduct()
    other = kept.fork()
    kept.advance(product(0), Part(1), (), is_near=False)
    room = kept.rest
    assert kept.n_known and not other.n_known
    other.advance(product(1), None, (), is_near=False)
    assert other.rest is room
    assert other.n_known and not kept.n_known and kept.rest is None
    np.testing.assert_array_equal(last(other), product(1))
