"""Parts of a kernel: what is chosen, and that the certified bound is one."""

import numpy as np
import pytest
from helpers.marks import ISAS, pairwise
from helpers.problems import cloud, masses
from scipy import sparse

from gwfast.kernels._rows import Panels, aligned_empty
from gwfast.linear.gibbs_kernel import Buffer, ProductKernel, SparseKernel, TiledKernel
from gwfast.linear.log_domain import Potentials
from gwfast.linear.marginals import Balanced
from gwfast.linear.sinkhorn_solver import SinkhornSolver
from gwfast.linear.truncation import MAX_BOUND, Support, padded

FRACTION = 1e-7
# What the kernels of float32 know of an entry, relatively.
ROUNDING = 1.01
SHAPES = [(90, 70), (64, 128), (33, 200), (200, 17)]


class Solved:
    """A linear problem, solved, and what of its kernel is kept."""

    def __init__(
        self, n, m, seed, *, scale=1.0, fraction=FRACTION, empty=0, tiled=False
    ):
        rng = np.random.default_rng(seed)
        self.left = (scale * rng.standard_normal((n, 6))).astype(np.float32)
        self.right = rng.standard_normal((m, 6)).astype(np.float32)
        self.epsilon = 0.12 * scale
        self.p, self.q = masses(n, seed), masses(m, seed + 1)
        self.p[:empty] = self.q[:empty] = 0.0
        self.p, self.q = self.p / self.p.sum(), self.q / self.q.sum()
        self.solver = SinkhornSolver(self.p, self.q, 1)
        panels = Panels(self.right, True)
        if tiled:
            self.kernel = TiledKernel(self.left, panels, self.right, 1)
        else:
            buffer = Buffer(aligned_empty((n, m)))
            self.kernel = ProductKernel(self.left, panels, buffer, 1)
        self.potentials = self.solver.solve(
            self.kernel, self.epsilon, tol=1e-6, max_iter=5000
        ).potentials
        self.f, self.g = self.potentials.f, self.potentials.g
        # A support is chosen from the kernel around the potentials that there are.
        given = self.potentials, self.epsilon, self.q, self.solver.scalings
        self.kernel.make(*given)
        self.support = self.chosen(self.solver, fraction)

    def chosen(self, solver, fraction):
        lengths = np.linalg.norm(self.right.astype(np.float64), axis=1)
        return Support(self.kernel, self.potentials, solver, lengths, fraction)

    def plan(self, left=None, potentials=None):
        """The whole one in float64, by default as it was solved."""
        left = self.left if left is None else left
        moved = self.potentials if potentials is None else potentials
        cost = left.astype(np.float64) @ self.right.T.astype(np.float64)
        return np.exp((moved.f[:, None] + moved.g - cost) / self.epsilon)

    def csr(self):
        """What is kept, as ones."""
        start, index = self.support.start, self.support.index
        return sparse.csr_array((np.ones(len(index)), index, start), self.support.shape)

    def kept(self):
        return self.csr().toarray() > 0

    def outside(self, plan):
        """Largest share of a row's or column's mass that is not kept."""
        lost = np.where(self.kept(), 0.0, plan)
        return max(
            (lost.sum(axis=axis)[weights > 0] / weights[weights > 0]).max()
            for axis, weights in ((1, self.p), (0, self.q))
        )

    def check_bound(self, left, potentials):
        """That it is one, of costs and potentials that have moved; returns it and what
        it bounds."""
        bound = self.support.bound(self.support.moved(left), potentials)
        truth = self.outside(self.plan(left, potentials))
        assert truth <= bound * ROUNDING
        return bound, truth


# --- Choice ---------------------------------------------------------------------------


@pairwise(shape=SHAPES, tiled=[False, True], fraction=[1e-9, 1e-7, 1e-3], isa=ISAS)
def test_entries_that_matter_are_kept(shape, tiled, fraction, isa):
    solved = Solved(*shape, 0, fraction=fraction, tiled=tiled)
    support, plan = solved.support, solved.plan()
    assert support.index is None and support.choose() is support
    mask = solved.kept()
    assert support.kept == mask.sum() == len(support.index) == support.start[-1]
    assert support.start.dtype == np.int64 and support.index.dtype == np.int32
    assert solved.csr().has_canonical_format  # in order, none twice
    least = fraction * np.minimum(solved.p[:, None], solved.q)
    clear = np.abs(plan / least - 1) > 1e-3  # but for rounding
    np.testing.assert_array_equal(mask[clear], (plan >= least)[clear])


@pytest.mark.parametrize("tiled", [False, True])
def test_points_without_mass_keep_nothing_and_do_not_matter(tiled):
    solved = Solved(90, 70, 1, empty=15, tiled=tiled)
    solved.support.choose()
    assert (solved.f[:15] == -np.inf).all() and (solved.g[:15] == -np.inf).all()
    mask = solved.kept()
    assert not mask[:15].any() and not mask[:, :15].any()
    assert mask[15:].any(axis=1).all() and mask[:, 15:].any(axis=0).all()
    left = solved.left.copy()
    left[15:] += np.float32(1e-3)
    f = solved.f + 1e-3 * cloud(90, 1, 0)[:, 0]
    assert solved.check_bound(left, Potentials(f, solved.g))[0] < np.inf


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_pays_where_few_are_kept_and_little_is_lost(shape):
    support = Solved(*shape, 2).support
    density = support.kept / np.prod(shape)
    assert support.pays(density) and support.pays(1.0)
    assert not support.pays(density * 0.99)
    assert not Solved(*shape, 2, fraction=0.05).support.pays(1.0)


def test_threads_change_nothing():
    one = Solved(300, 400, 3)
    moved, support = Potentials(one.f + 1e-3, one.g), one.support.choose()
    bound = support.bound(support.moved(one.left), moved)
    for n_threads in (2, 3):
        other = one.chosen(SinkhornSolver(one.p, one.q, n_threads), FRACTION).choose()
        np.testing.assert_array_equal(other.start, support.start)
        np.testing.assert_array_equal(other.index, support.index)
        assert other.bound(other.moved(one.left), moved) == bound


# --- The certificate ------------------------------------------------------------------


def test_bound_of_what_has_not_moved_is_what_was_left_out(seed):
    for shape in SHAPES:
        solved = Solved(*shape, seed, fraction=1e-4)
        support = solved.support.choose()
        lost = support.bound(support.moved(solved.left), solved.potentials)
        truth = solved.outside(solved.plan())
        assert truth > 0
        np.testing.assert_allclose(lost, truth, rtol=0.01)


@pairwise(shape=SHAPES, size=[1e-3, 0.1, 1.0, 10.0], scale=[1e-6, 1.0, 1e6])
def test_bound_holds_wherever_potentials_and_costs_move(shape, size, scale, seed):
    """`size`: of the moves of exponents."""
    rng = np.random.default_rng(seed)
    solved = Solved(*shape, seed, scale=scale, fraction=1e-5)
    solved.support.choose()
    n, m = shape
    step = size * solved.epsilon
    draws = [  # of all, of some, and of one number for all
        lambda *shape: rng.standard_normal(shape),
        lambda *shape: 5.0 * (rng.random(shape) < 2.0 / shape[0]),
        lambda *shape: np.full(shape, rng.standard_normal()),
    ]
    nearest = np.inf
    for _ in range(30):
        which = rng.choice(["f", "g", "left"], rng.integers(1, 4), replace=False)
        f, g, left = solved.f.copy(), solved.g.copy(), solved.left.copy()
        draw = draws[rng.integers(3)]
        if "f" in which:
            f += step * draw(n)
        if "g" in which:
            g += step * draw(m)
        if "left" in which:
            # Along rows of the other side, the direction that matters most.
            towards = solved.right[rng.integers(m, size=n)]
            towards = towards / np.linalg.norm(towards, axis=1, keepdims=True) ** 2
            left += (step * draw(n, 1) * towards).astype(np.float32)
        bound, truth = solved.check_bound(left, Potentials(f, g))
        nearest = min(nearest, bound / truth)
    assert nearest < 1e3  # not an idle bound


def test_bound_holds_along_the_iterations_of_a_solve(seed):
    """Where costs move and Sinkhorn follows, as in an outer loop."""
    rng = np.random.default_rng(seed)
    for _ in range(5):
        solved = Solved(90, 70, seed)
        support, solver, left = solved.support.choose(), solved.solver, solved.left
        certified, potentials = 0, solved.potentials
        for _ in range(6):
            left = left + (1e-3 * rng.standard_normal(left.shape)).astype(np.float32)
            kernel = SparseKernel(left, padded(solved.right), support, 1)
            potentials = solver.solve(
                kernel, solved.epsilon, potentials, tol=1e-5, max_iter=500
            ).potentials
            bound, _ = solved.check_bound(left, potentials)
            certified += bound <= MAX_BOUND
        assert certified


def test_bound_of_what_has_moved_far_is_no_number_that_passes():
    solved = Solved(90, 70, 5)
    support = solved.support.choose()
    for exponent in (100.0, 1e3, 1e6):
        moved = Potentials(solved.f + exponent * solved.epsilon, solved.g)
        bound = support.bound(support.moved(solved.left), moved)
        assert not np.isnan(bound) and bound > MAX_BOUND


# --- Solving on a part ----------------------------------------------------------------


@pairwise(shape=[(90, 70), (64, 128), (200, 180)], empty=[0, 7])
def test_sparse_solution_is_the_dense_one_but_for_what_is_outside(shape, empty, seed):
    solved = Solved(*shape, seed, empty=empty)
    support = solved.support.choose()
    rng = np.random.default_rng(seed)
    left = solved.left + (1e-3 * rng.standard_normal(solved.left.shape)).astype("f4")
    part = SparseKernel(left, padded(solved.right), support, 1)
    panels = Panels(solved.right, True)
    whole = ProductKernel(left, panels, Buffer(aligned_empty(shape)), 1)
    sides = {}
    for name, kernel in (("part", part), ("whole", whole)):
        solver = SinkhornSolver(solved.p, solved.q, 1)
        found = solver.solve(
            kernel, solved.epsilon, solved.potentials, tol=1e-6, max_iter=5000
        )
        state, rows = kernel.contract(left, solved.right, found.scalings)
        assert Balanced(solved.p, solved.q).error(rows, found.scalings.cols) <= 3e-6
        sides[name] = found.potentials, state, kernel.coupling(found)
    with np.errstate(invalid="ignore"):  # of points without mass
        lost = support.bound(support.moved(left), sides["part"][0])
    assert lost <= MAX_BOUND
    assert sides["part"][2].form == "sparse" and sides["whole"][2].form == "array"
    plans = [sides[name][2].toarray() for name in ("part", "whole")]
    assert np.abs(plans[0] - plans[1]).sum(dtype=np.float64) <= 4 * lost + 2e-5
    assert (plans[0][~solved.kept()] == 0).all()
    size = np.linalg.norm(sides["whole"][1])
    assert np.linalg.norm(sides["part"][1] - sides["whole"][1]) <= 1e-4 * size


@pytest.mark.parametrize("d", [1, 16, 17])
def test_padding_adds_columns_of_zeros(d):
    x = cloud(5, d, 0).astype(np.float32)
    came = padded(x)
    assert came.shape == (5, -(-d // 16) * 16) and came.dtype == np.float32
    np.testing.assert_array_equal(came[:, :d], x)
    assert not came[:, d:].any()
    assert (came is x) == (d % 16 == 0)
