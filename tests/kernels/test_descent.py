"""Outer iterations of small problems in one call: those that are written out here."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import masses, random_cost
from scipy.special import logsumexp

from gwfast.kernels._descent import (
    FIELDS,
    MORE,
    OTHERWISE,
    SETTLED,
    outer_steps,
)
from gwfast.kernels._rows import Panels

SHAPES = [(1, 1), (1, 6), (6, 1), (2, 3), (9, 7), (17, 24), (33, 31), (65, 40)]
EPSILON = 0.05
# Error of the marginals that scalings are found to.
LEAST = {"float32": 1e-5, "float64": 1e-12}
KINDS = {
    "plain": {},
    "fused": dict(fused=True),
    "asymmetric": dict(symmetric=False),
    "proximal": dict(proximal=True),
    "points without mass": dict(empty=True),
    "all of these": dict(fused=True, symmetric=False, proximal=True, empty=True),
}


class Problem:
    """A problem at its product plan, in arrays of its own."""

    def __init__(
        self, shape=(9, 7), dtype="float64", *, fused=False, symmetric=True,
        proximal=False, empty=False,
    ):  # fmt: skip
        rng, self.dtype = np.random.default_rng(0), np.dtype(dtype)
        self.p, self.q = (masses(size, rng) for size in shape)
        if empty and min(shape) > 2:
            self.p[0], self.q[-1] = 0.0, 0.0
            self.p, self.q = self.p / self.p.sum(), self.q / self.q.sum()
        x, y = (
            random_cost(size, rng.integers(1 << 30), symmetric=symmetric)
            for size in shape
        )
        self.left, self.right = (one.astype(dtype) for one in (-x, y))
        self.linear = rng.random(shape).astype(dtype) if fused else None
        self.symmetric, self.proximal = symmetric, proximal
        self.plan = np.multiply.outer(self.p, self.q).astype(dtype)
        self.cost = self.cost_of(self.plan).astype(dtype)
        self.f, self.g = (np.zeros(size) for size in shape)
        self.separable = (x**2 @ self.p / 2, y**2 @ self.q / 2)
        self.rows, self.cols = (np.empty(size) for size in shape)

    def cost_of(self, plan):
        left, right = (one.astype(float) for one in (self.left, self.right))
        made = left @ plan @ right.T + left.T @ plan @ right
        return made / 2 + (0.0 if self.linear is None else self.linear)

    def run(self, most=6, done=0, steps=None, **options):
        """What `outer_steps` returns, and of each step what it has shown."""
        if steps is None:
            steps = np.full((most, len(FIELDS)), np.nan)
        transposes = np.ascontiguousarray(self.left.T), Panels(self.right)
        done, *ended = outer_steps(
            (self.left, Panels(self.right, True)),
            None if self.symmetric else transposes,
            *(self.linear, self.plan, self.cost, self.f, self.g, self.p, self.q),
            *(*self.separable, self.rows, self.cols, steps[: done + most], done),
            EPSILON,
            proximal=self.proximal,
            **{"exact": 1e-6, "peak": 600.0, "drift": 25.0, **options},
        )
        return done, *ended, steps[:done]

    def stepped(self, plan):
        """The plan that one iteration leads to."""
        cost = self.cost_of(plan)
        with np.errstate(divide="ignore", invalid="ignore"):
            base = -cost / EPSILON + (np.log(plan) if self.proximal else 0.0)
            log_p, log_q, g = np.log(self.p), np.log(self.q), np.zeros(len(self.q))
            for _ in range(300):
                f = log_p - logsumexp(base + g, axis=1)
                f[self.p == 0] = -np.inf
                g = log_q - logsumexp(base + f[:, None], axis=0)
                g[self.q == 0] = -np.inf
            return np.exp(base + f[:, None] + g)

    @property
    def state(self):
        """All that the next call goes on from."""
        return self.plan, self.cost, self.f, self.g


def column(steps, name):
    return steps[:, FIELDS.index(name)]


@pairwise(shape=SHAPES, dtype=LEAST, kind=KINDS)
def test_steps_are_those_that_are_written_out(shape, dtype, kind):
    problem, least = Problem(shape, dtype, **KINDS[kind]), LEAST[dtype]
    plan, costs = problem.plan.astype(float), []
    moves = []
    for _ in range(3):
        before, plan = plan, problem.stepped(plan)
        costs.append((problem.cost_of(plan) * plan).sum())
        moves.append(np.abs(plan - before).sum())
    # Between one point and some there is one plan; rounding moves it, or does not.
    most = 3 if min(shape) > 1 else 1
    options = dict(fraction=0.0, exact=least, rounding=1.0, most_inner=3000)
    done, status, settled, _, steps = problem.run(most, **options)
    assert (done, status, settled) == (most, MORE, False) or most == 1
    off = 50 * least
    if most == 3:
        np.testing.assert_allclose(problem.plan, plan, rtol=0, atol=off * plan.max())
        assert np.abs(problem.cost - problem.cost_of(plan)).max() <= off
        np.testing.assert_allclose(column(steps, "product"), costs, atol=off)
        np.testing.assert_allclose(column(steps, "change"), moves, atol=off)
        if problem.linear is not None:
            linear = (problem.linear * plan).sum()
            assert column(steps, "linear")[-1] == pytest.approx(linear, abs=off)
    sums = problem.plan.sum(axis=1), problem.plan.sum(axis=0)
    pairs = zip((problem.rows, problem.cols), sums, strict=True)
    for kept, expected in pairs:
        np.testing.assert_allclose(kept, expected, atol=1e-6)
    missed = np.abs(problem.rows - problem.p).sum()
    missed += np.abs(problem.cols - problem.q).sum()
    assert column(steps, "error")[-1] == pytest.approx(missed, abs=1e-6)
    assert missed <= off
    assert (problem.f == -np.inf).tolist() == (problem.p == 0).tolist()


@pytest.mark.parametrize("dtype", LEAST)
def test_one_by_one_they_are_the_same_bits(dtype):
    together, alone = (Problem(dtype=dtype, fused=True) for _ in range(2))
    *_, steps = together.run()
    found, value, fraction = np.full_like(steps, np.nan), np.inf, 0.01
    for done in range(len(steps)):
        *_, fraction, _ = alone.run(1, done, found, value=value, fraction=fraction)
        value = found[done, :3].sum()
    assert found.tobytes() == steps.tobytes()
    for one, other in zip(together.state, alone.state, strict=True):
        assert one.tobytes() == other.tobytes()


def test_they_end_with_the_first_plan_that_has_settled():
    exact = dict(fraction=0.0, exact=1e-10, rounding=1.0)
    *_, steps = Problem().run(12, **exact)
    tol = column(steps, "change")[7]
    assert (column(steps, "change")[:7] > tol).all()
    assert Problem().run(12, tol=tol, **exact)[:3] == (8, SETTLED, True)
    # An objective that still falls has not settled.
    assert Problem().run(1, value=1e6, tol=2.0, exact=1e-10)[1] == MORE
    # Marginals that are wrong by more have to be mended first.
    rough = dict(fraction=1.0, exact=1e-3, rounding=1.0, tol=tol, marginal=1e-8)
    _, status, settled, _, steps = Problem().run(30, **rough)
    assert (status, settled) == (SETTLED, True)
    assert column(steps, "error")[-1] <= 1e-8 < column(steps, "error")[-2]


def test_by_the_norm_only_some_iterations_are_looked_at():
    exact = dict(fraction=1e-9, exact=1e-10, rounding=1.0, least=1e-15)
    *_, steps = Problem().run(12, **exact)
    kind = dict(frobenius=True, tol=column(steps, "moved")[4], **exact)
    assert Problem().run(12, every=10, **kind)[:2] == (11, SETTLED)
    assert Problem().run(12, every=3, **kind)[:2] == (7, SETTLED)
    assert Problem().run(10, every=10, **kind)[:2] == (10, MORE)
    # What moves by more than before is about to leave.
    grows = Problem()
    steps[0, FIELDS.index("moved")] = 0.0
    assert grows.run(1, 1, steps, every=1, **kind | dict(tol=1.0))[1] == MORE


def test_the_last_of_all_is_solved_as_well_as_the_end():
    for last, expected in ((False, 1e-3), (True, 1e-9)):
        options = dict(fraction=1e-3, exact=1e-9, last=last)
        *_, steps = Problem().run(1, **options)
        assert (column(steps, "error")[0] <= 2 * expected) and (
            last or column(steps, "error")[0] > 1e-9
        )


def test_where_the_objective_rises_inner_solutions_get_tighter():
    value = Problem().run(1)[-1][0, :3].sum()
    risen = dict(value=value - 1.0, fraction=0.01)
    assert Problem().run(1, **risen)[:4] == (1, MORE, False, 0.005)
    assert Problem().run(1, **risen, least_fraction=0.008)[3] == 0.008
    assert Problem().run(1, **risen, rounding=1.1)[3] == 0.01


def test_what_hardly_falls_is_for_another_solver():
    for before, expected in ((1e3, (41, MORE)), (1e-9, (40, OTHERWISE))):
        steps = np.full((42, len(FIELDS)), before)
        assert Problem().run(2, 39, steps, rounding=1.0)[:2] == expected


@pytest.mark.parametrize("limit", [dict(most_inner=1), dict(peak=-100.0)])
def test_what_takes_another_way_is_left_as_it_was(limit):
    problem = Problem()
    before = [one.tobytes() for one in problem.state]
    assert problem.run(**limit)[:2] == (0, OTHERWISE)
    assert [one.tobytes() for one in problem.state] == before


def test_scalings_that_wander_are_absorbed():
    far, near = Problem(), Problem()
    options = dict(fraction=0.0, exact=1e-12)
    assert far.run(3, drift=2.0, **options)[:2] == (3, MORE)
    near.run(3, **options)
    np.testing.assert_allclose(far.plan, near.plan, atol=1e-12)


@pytest.mark.parametrize("name", ["f", "q", "plan", "cost", "rows"])
def test_shapes_are_checked(name):
    problem = Problem()
    setattr(problem, name, getattr(problem, name)[:-1].copy())
    with pytest.raises(ValueError, match="must have"):
        problem.run()


def test_types_are_checked():
    problem = Problem()
    problem.right = problem.right.astype(np.float32)
    with pytest.raises(ValueError, match="panels must be of float64"):
        problem.run()
