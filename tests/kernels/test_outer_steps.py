"""Outer iterations of small problems: those of the twin, one by one or at once."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import masses, random_cost

from gwfast.kernels import _outer_steps, reference
from gwfast.kernels._outer_steps import DECIDE, FIELDS, MORE, OTHERWISE
from gwfast.kernels._rows import Panels

SHAPES = [(1, 1), (1, 6), (6, 1), (2, 3), (9, 7), (17, 24), (33, 31), (65, 40)]
DTYPES = ["float32", "float64"]
EPSILON = 0.05
# Error of the marginals that scalings are found to.
LEAST = {"float32": 1e-5, "float64": 1e-12}


class Problem:
    """A problem at its product plan, in arrays of its own."""

    def __init__(self, shape, dtype, seed=0, *, fused=False, empty=False):
        n, m = shape
        rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.p, self.q = masses(n, rng), masses(m, rng)
        if empty:
            self.p[0], self.q[-1] = 0.0, 0.0
            self.p, self.q = self.p / self.p.sum(), self.q / self.q.sum()
        x, y = (random_cost(size, rng.integers(1 << 30)) for size in shape)
        self.left, self.right = (one.astype(dtype) for one in (-x, y))
        self.linear = rng.random(shape).astype(dtype) if fused else None
        self.plan = np.multiply.outer(self.p, self.q).astype(dtype)
        self.cost = self.left @ self.plan @ self.right
        if fused:
            self.cost += self.linear
        self.f, self.g = np.zeros(n), np.zeros(m)
        self.separable = (x**2 @ self.p / 2, y**2 @ self.q / 2)
        self.rows, self.cols = np.empty(n), np.empty(m)

    def run(self, module, most=6, **options):
        """What `outer_steps` returns, and of each step what it has shown."""
        exact = module is reference
        as_given = np.float64 if exact else self.dtype
        if exact:
            self.plan, self.cost = self.plan.astype(float), self.cost.astype(float)
        made = reference.Panels if exact else Panels
        steps = np.full((most, len(FIELDS)), np.nan)
        done, status = module.outer_steps(
            self.left.astype(as_given),
            made(self.right, True),
            None if self.linear is None else self.linear.astype(as_given),
            *(self.plan, self.cost, self.f, self.g, self.p, self.q),
            *(*self.separable, self.rows, self.cols, steps, EPSILON),
            **{"change": 1.0, "least": 1e-6, "most_inner": 1000, **options},
        )
        assert np.isnan(steps[done:]).all()
        return done, status, steps[:done]

    @property
    def state(self):
        """All bytes that the next call goes on from."""
        return [one.tobytes() for one in (self.plan, self.cost, self.f, self.g)]


@pairwise(shape=SHAPES, dtype=DTYPES, fused=[False, True], empty=[False, True])
def test_steps_are_those_of_the_twin(shape, dtype, fused, empty):
    kind = dict(fused=fused, empty=empty and min(shape) > 2)
    # Between one point and some there is one plan; rounding moves it, or does not.
    most = 3 if min(shape) > 1 else 1
    # Scalings may take an iteration more or less where one is just near enough.
    least, off = LEAST[dtype], 20 * LEAST[dtype]
    ours, twin = Problem(shape, dtype, **kind), Problem(shape, dtype, **kind)
    given = dict(most=most, fraction=0.0, least=least)
    *came, steps = ours.run(_outer_steps, **given)
    *expected, others = twin.run(reference, **given)
    assert came == expected == [3, MORE] or most == 1
    np.testing.assert_allclose(ours.plan, twin.plan, rtol=0, atol=off * twin.plan.max())
    np.testing.assert_allclose(ours.cost, twin.cost, rtol=0, atol=off)
    for one, other in ((ours.rows, twin.rows), (ours.cols, twin.cols)):
        np.testing.assert_allclose(one, other, rtol=0, atol=off)
    exponents, same = (one.f[:, None] + one.g for one in (ours, twin))
    assert ((exponents == -np.inf) == (same == -np.inf)).all()
    with np.errstate(invalid="ignore"):
        assert np.nanmax(np.abs(exponents - same)) <= off
    np.testing.assert_allclose(steps[:, :-1], others[:, :-1], rtol=off, atol=off)
    assert (np.abs(steps[:, -1] - others[:, -1]) <= 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_by_one_they_are_the_same_bits(dtype):
    together, alone = (Problem((9, 7), dtype, fused=True) for _ in range(2))
    *_, steps = together.run(_outer_steps)
    change, value = 1.0, np.inf
    for step in steps:
        *_, (other,) = alone.run(_outer_steps, 1, change=change, value=value)
        assert other.tobytes() == step.tobytes()
        change, value = other[FIELDS.index("change")], other[0] + other[1] + other[2]
    assert together.state == alone.state


@pytest.mark.parametrize("module", [_outer_steps, reference])
def test_the_last_step_is_the_first_after_which_there_is_something_to_decide(module):
    *_, steps = Problem((9, 7), "float64").run(module)
    change, moved = (steps[:, FIELDS.index(name)] for name in ("change", "moved"))
    value = steps[:, :3].sum(axis=1)
    assert (np.diff(change) < 0).all() and (np.diff(moved) < 0).all()
    for ends in (dict(least_change=change[2]), dict(least_moved=moved[2])):
        done, status, _ = Problem((9, 7), "float64").run(module, **ends)
        assert (done, status) == (3, DECIDE), ends
    before = value[0] - 1.0
    for rounding, expected in ((0.9, (1, DECIDE)), (1.1, (6, MORE))):
        # The next ones fall, but for what inner solutions are rough.
        risen = dict(value=before, tol=0.1, rounding=rounding - 0.1 * abs(before))
        came = Problem((9, 7), "float64").run(module, **risen)
        assert came[:2] == expected


@pytest.mark.parametrize("module", [_outer_steps, reference])
@pytest.mark.parametrize(
    "limit", [dict(most_inner=1), dict(peak=-100.0), dict(drift=1e-3)]
)
def test_what_takes_another_way_is_left_as_it_was(module, limit):
    problem = Problem((9, 7), "float64")
    before = problem.state
    done, status, _ = problem.run(module, **limit)
    assert (done, status) == (0, OTHERWISE)
    assert problem.state == before


def test_a_step_is_not_made_by_halves():
    """Where the second one takes more inner iterations than the first."""
    rough_first = dict(change=1000.0, fraction=1e-3)
    *_, steps = Problem((9, 7), "float64").run(_outer_steps, **rough_first)
    first, second, *_ = steps[:, FIELDS.index("n_inner")].astype(int).tolist()
    assert first < second
    problem, one = (Problem((9, 7), "float64") for _ in range(2))
    came = problem.run(_outer_steps, most_inner=first, **rough_first)
    assert came[:2] == (1, OTHERWISE)
    one.run(_outer_steps, 1, **rough_first)
    assert problem.state == one.state


@pytest.mark.parametrize("name", ["f", "q", "plan", "cost", "rows"])
def test_shapes_are_checked(name):
    problem = Problem((9, 7), "float64")
    setattr(problem, name, getattr(problem, name)[:-1].copy())
    with pytest.raises(ValueError, match="must have"):
        problem.run(_outer_steps)


def test_types_are_checked():
    problem = Problem((9, 7), "float64")
    problem.right = problem.right.astype(np.float32)
    with pytest.raises(ValueError, match="panels must be of float64"):
        problem.run(_outer_steps)
