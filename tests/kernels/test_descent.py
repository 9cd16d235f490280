"""Descents of small problems in one call: iterations are those that are written out here."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import masses, random_cost

from gwfast.kernels._descent import FIELDS, MORE, OTHERWISE, RULES, SETTLED, Descent
from gwfast.kernels._rows import Panels

SHAPES = [(1, 1), (1, 6), (6, 1), (2, 3), (9, 7), (17, 24), (33, 31), (65, 40)]
EPSILON, MASS = 0.05, 0.6
# Error of the marginals that scalings are found to.
LEAST = {"float32": 1e-5, "float64": 1e-12}
KINDS = {
    "plain": {},
    "fused": dict(fused=True),
    "asymmetric": dict(symmetric=False),
    "proximal": dict(proximal=True),
    "points without mass": dict(empty=True),
    "all of these": dict(fused=True, symmetric=False, proximal=True, empty=True),
    "semirelaxed": dict(rule="semirelaxed"),
    "semirelaxed, fused": dict(rule="semirelaxed", fused=True, empty=True),
    "semirelaxed, proximal": dict(rule="semirelaxed", proximal=True),
    "partial": dict(rule="partial"),
    "partial, fused": dict(rule="partial", fused=True, symmetric=False),
    "partial, all of the columns": dict(rule="partial", whole=True),
    "alternating": dict(alternating=True, proximal=True),
    "unbalanced": dict(rule="unbalanced"),
    "unbalanced, columns given": dict(rule="unbalanced", rho=(0.3, np.inf), empty=True),
    "unbalanced, fused": dict(rule="unbalanced", rho=(2.0, 0.1), fused=True),
}


def logsumexp(x, axis=None):
    """SciPy's takes ten times as long."""
    top = x.max(axis=axis, keepdims=True)
    top[top == -np.inf] = 0.0
    made = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return made.item() if axis is None else made.squeeze(axis)


class Problem:
    """A problem at its product plan, in arrays of its own."""

    def __init__(
        self, shape=(9, 7), dtype="float64", *, fused=False, symmetric=True,
        proximal=False, empty=False, rule="balanced", alternating=False,
        rho=(0.3, 0.3), whole=False,
    ):  # fmt: skip
        rng, self.dtype, self.rule = np.random.default_rng(0), np.dtype(dtype), rule
        self.p, self.q = (masses(size, rng) for size in shape)
        if empty and min(shape) > 2:
            self.p[0], self.q[-1] = 0.0, 0.0
            self.p, self.q = self.p / self.p.sum(), self.q / self.q.sum()
        x, y = (random_cost(size, rng.integers(1 << 30), symmetric=symmetric) for size in shape)
        self.left, self.right = (one.astype(dtype) for one in (-x, y))
        self.linear = rng.random(shape).astype(dtype) if fused else None
        self.shift = 0.25 if fused else 0.0
        self.symmetric, self.proximal, self.alternating = (
            symmetric, proximal, alternating
        )  # fmt: skip
        self.mass = MASS if rule == "partial" else 1.0
        self.losses, self.rho = None, rho
        self.halves = [(one**2 + one.T**2) / 4 for one in (x, y)]
        if rule != "balanced":
            self.losses = [(2 * one.astype(dtype), 0.5) for one in self.halves]
        self.start = self.mass * np.multiply.outer(self.p, self.q)
        # Whether all mass of the columns moves, which then have no cap.
        self.q, self.cap = (MASS * self.q, np.inf) if whole else (self.q, 0.0)
        self.limits = dict(
            epsilon=EPSILON, first_epsilon=0.0, cooling=1.0, mass=self.mass,
            rule=RULES[rule], proximal=proximal,
            alternating=alternating, marginal_terms=True, accelerates=False,
            peak=600.0 if dtype == "float64" else 60.0, drift=np.exp(25.0),
            direct=0.0, standstill=LEAST[dtype], floor=0.0, stalled=0.0, rounding=1.0,
            marginal=np.inf, exact=1e-6, least=0.0, rough=np.inf, relative=False,
            rho_x=rho[0], rho_y=rho[1], least_error=0.0, max_inner=3000,
            first_limit=3000, tol=0.0, still=0.0, frobenius=False, every=1,
            max_outer=1000,
        )  # fmt: skip

    def separable(self, plan):
        """The terms of either side."""
        sums = (plan.sum(axis=1), plan.sum(axis=0))
        if self.rule == "balanced":
            sums = self.p, self.q
        rows, cols = (2 * half @ one for half, one in zip(self.halves, sums, strict=True))
        return rows / 2 + self.shift, cols / 2

    def cost_of(self, plan):
        left, right = (one.astype(float) for one in (self.left, self.right))
        made = left @ plan @ right.T + left.T @ plan @ right
        return made / 2 + (0.0 if self.linear is None else self.linear)

    def descent(self, fraction=0.01, stride=0, potentials=None, rounded=False, **limits):
        transposes = np.ascontiguousarray(self.left.T), Panels(self.right)
        self.limits |= limits
        return Descent(
            (self.left, Panels(self.right, True)),
            None if self.symmetric else transposes,
            self.linear,
            self.start.astype(self.dtype),
            self.cost_of(self.start).astype(self.dtype),
            *(self.p, self.q, *self.separable(self.start), potentials, self.losses),
            shift=self.shift,
            stride=stride,
            fraction=fraction,
            rounded=rounded,
            limits=self.limits,
        )

    def stepped(self, plan):
        """The plan that one iteration leads to."""
        if not self.alternating:
            return self._solved(plan)
        return self._solved(self._solved(plan, 0), 1)

    def _solved(self, plan, side=None):
        rows, cols = self.separable(plan)
        base = self.cost_of(plan) + rows[:, None] + cols
        with np.errstate(divide="ignore", invalid="ignore"):
            base = -base / EPSILON + (np.log(plan) if self.proximal else 0.0)
            log_p, log_q = np.log(self.p), np.log(self.q)
            base[self.p == 0], base[:, self.q == 0] = -np.inf, -np.inf
            if side == 0 or self.rule == "semirelaxed":
                made = np.exp(base + (log_p - logsumexp(base, axis=1))[:, None])
                return np.nan_to_num(made, nan=0.0)
            if side == 1:
                return np.exp(base + log_q - logsumexp(base, axis=0))
            if self.rule == "unbalanced":
                return self._priced(plan, base, log_p, log_q)
            if self.rule == "partial":
                return self._capped(base, log_p, log_q)
            g = np.where(self.q > 0, 0.0, -np.inf)
            for _ in range(300):
                f = log_p - logsumexp(base + g, axis=1)
                f[self.p == 0] = -np.inf
                g = log_q - logsumexp(base + f[:, None], axis=0)
                g[self.q == 0] = -np.inf
            return np.exp(base + f[:, None] + g)

    def _priced(self, plan, base, log_p, log_q):
        sums, masses = (plan.sum(axis=1), plan.sum(axis=0)), (self.p, self.q)
        mass, alive = plan.sum(), [one > 0 for one in masses]
        relative = [
            (one[some] * np.log(one[some] / aim[some])).sum()
            for one, aim, some in zip(sums, masses, alive, strict=True)
        ]
        shift = (plan[plan > 0] * np.log(plan[plan > 0])).sum()
        for one, aim, some in zip(sums, masses, alive, strict=True):
            shift -= (one[some] * np.log(aim[some])).sum()
        shift *= EPSILON
        shift += sum(rho * one for rho, one in zip(self.rho, relative, strict=True) if rho < np.inf)
        # In units of the linear problem's epsilon, which is `mass` times as large.
        base = (base * EPSILON - shift) / (EPSILON * mass)
        damping = [1.0 / (1.0 + EPSILON / rho) for rho in self.rho]
        g = np.where(self.q > 0, log_q, -np.inf)
        for _ in range(500):
            f = log_p + damping[0] * -logsumexp(base + g, axis=1)
            f[self.p == 0] = -np.inf
            g = log_q + damping[1] * -logsumexp(base + f[:, None], axis=0)
            g[self.q == 0] = -np.inf
        made = np.exp(base + f[:, None] + g)
        return made * np.sqrt(mass / made.sum())

    def penalty(self, plan):
        if self.rule != "unbalanced":
            return 0.0
        total, sums_of = 0.0, (plan.sum(axis=1), plan.sum(axis=0))
        for rho, sums, aim in zip(self.rho, sums_of, (self.p, self.q), strict=True):
            if rho == np.inf:
                continue
            some, mass, given = sums > 0, sums.sum(), aim.sum()
            relative = (sums[some] * np.log(sums[some] / aim[some])).sum() - mass + given
            total += rho * (2 * mass * relative + (mass - given) ** 2)
        return total

    def _capped(self, base, log_p, log_q):
        u, v = np.zeros(len(log_p)), np.zeros(len(log_q))
        scale = np.log(MASS) - logsumexp(base)
        for _ in range(300):
            u = np.minimum(log_p - scale - logsumexp(base + v, axis=1), 0.0)
            sums = logsumexp(base + u[:, None], axis=0)
            v = np.minimum(log_q - scale - sums, self.cap)
            scale = np.log(MASS) - logsumexp(v + sums)
        return np.exp(base + u[:, None] + v + scale)


def column(steps, name):
    return steps[:, FIELDS.index(name)]


@pairwise(shape=SHAPES, dtype=LEAST, kind=KINDS)
def test_iterations_are_those_that_are_written_out(shape, dtype, kind):
    problem, least = Problem(shape, dtype, **KINDS[kind]), LEAST[dtype]
    plan, costs = problem.start, []
    moves = []
    for _ in range(3):
        before, plan = plan, problem.stepped(plan)
        rows, cols = problem.separable(plan)
        costs.append(((problem.cost_of(plan) + rows[:, None] + cols) * plan).sum())
        costs[-1] += problem.shift * plan.sum() + problem.penalty(plan)
        if problem.linear is not None:
            costs[-1] += (problem.linear * plan).sum()
        mass = plan.sum() if problem.rule == "unbalanced" else problem.mass
        moves.append(np.abs(plan - before).sum() / mass)
    # Between one point and some there may be one plan; rounding moves it, or does not.
    most = 3 if min(shape) > 1 else 1
    options = dict(exact=least, tol=0.0 if most == 3 else 1e-4, still=1.0)
    descent = problem.descent(fraction=0.0, **options)
    status = descent.descend(most, problem.limits)
    assert descent.done == most
    assert status == MORE or most == 1
    off = 50 * least
    if most == 3:
        close = dict(rtol=0, atol=off * max(plan.max(), 0.1))
        np.testing.assert_allclose(descent.plan, plan, **close)
        assert np.abs(descent.cost - problem.cost_of(plan)).max() <= off
        np.testing.assert_allclose(column(descent.steps, "value"), costs, atol=off)
        np.testing.assert_allclose(column(descent.steps, "change"), moves, atol=off)
    sums = descent.plan.sum(axis=1), descent.plan.sum(axis=0)
    for kept, expected in zip((descent.rows, descent.cols), sums, strict=True):
        np.testing.assert_allclose(kept, expected, atol=1e-6)
    rows, cols = problem.separable(descent.plan.astype(float))
    np.testing.assert_allclose(descent.row_cost, rows, atol=off)
    np.testing.assert_allclose(descent.col_cost, cols, atol=off)


@pairwise(dtype=LEAST, kind=["plain", "partial, fused", "unbalanced"])
def test_every_instruction_set_makes_the_same_iterations(isa, dtype, kind):
    problem, least = Problem((19, 27), dtype, **KINDS[kind]), LEAST[dtype]
    descent = problem.descent(fraction=0.0, exact=least)
    descent.descend(2, problem.limits)
    plan = problem.stepped(problem.stepped(problem.start))
    off = 50 * least * max(plan.max(), 0.1)
    np.testing.assert_allclose(descent.plan, plan, rtol=0, atol=off)


@pytest.mark.parametrize("dtype", LEAST)
def test_newton_finds_the_scalings_that_many_iterations_find(dtype):
    """And where the plan is far from its marginals it is not taken for the end."""
    problem = Problem((40, 60), dtype)
    problem.limits |= dict(epsilon=EPSILON / 20, exact=LEAST[dtype])
    descent = problem.descent(fraction=0.0)
    descent.descend(1, problem.limits)
    assert column(descent.steps, "error")[0] <= 2 * LEAST[dtype]
    if dtype == "float64":
        assert column(descent.steps, "n_inner")[0] < 400


def test_acceleration_ends_at_the_same_plan_sooner():
    found = []
    for accelerates in (False, True):
        problem = Problem((30, 24))
        problem.limits |= dict(
            epsilon=EPSILON / 4, marginal=1e-10, tol=1e-10, still=1e-10, exact=1e-12
        )
        descent = problem.descent(stride=int(accelerates), accelerates=accelerates, rounding=1e-12)
        assert descent.descend(1000, problem.limits) == SETTLED
        found.append(descent)
    plain, fast = found
    assert np.abs(plain.plan - fast.plan).sum() <= 1e-8
    assert 3 < fast.done < 0.9 * plain.done


def both(problem, most=1000, **options):
    """A descent of float64, and one that begins in float32, which are to settle."""
    tight = dict(marginal=1e-10, tol=1e-10, still=1e-10, exact=1e-12, rounding=1e-15)
    tight |= dict(first_limit=200, direct=100.0, standstill=1e-14, rough=1e-6)
    made = []
    for rounded in (False, True):
        descent = problem.descent(rounded=rounded, **tight, **options)
        status = descent.descend(most, problem.limits)
        assert status == (SETTLED if most == 1000 else MORE)
        made.append(descent)
    return made


@pairwise(
    shape=[(9, 7), (17, 24), (33, 31), (40, 65), (96, 50)],
    kind=["plain", "fused", "asymmetric", "points without mass"],
    how=[dict(), dict(epsilon=EPSILON / 2, accelerates=True, stride=2)],
)
def test_where_float32_begins_float64_ends(isa, shape, kind, how):
    problem = Problem(shape, **KINDS[kind])
    plain, rounded = both(problem, **how)
    assert np.abs(plain.plan - rounded.plan).sum() <= 1e-8
    assert np.abs(rounded.cost - problem.cost_of(rounded.plan)).max() <= 1e-14
    assert np.abs(rounded.rows - problem.p).sum() <= 1e-10
    assert np.abs(rounded.cols - problem.q).sum() <= 1e-10
    off = abs(column(plain.steps, "value")[0] - column(rounded.steps, "value")[0])
    assert off <= 1e-5 and (off > 0.0 or column(plain.steps, "change")[0] <= 0.01)


def test_what_goes_round_is_left_wherever_it_began():
    problem = Problem((9, 7), empty=True)
    problem.limits |= dict(epsilon=EPSILON / 4)
    for rounded in (False, True):
        descent = problem.descent(rounded=rounded, accelerates=True, stride=2)
        assert descent.descend(1000, problem.limits) == OTHERWISE
        assert descent.done <= 100


@pytest.mark.parametrize("most", [1, 2, 1000])
def test_what_float32_is_of_no_use_for_is_left_to_float64(most):
    """Few iterations; and a start from where the plan hardly moves."""
    problem = Problem((33, 31))
    if most == 1000:
        problem.start = both(problem)[0].plan
    plain, rounded = both(problem, most)
    assert rounded.plan.tobytes() == plain.plan.tobytes()
    assert rounded.steps.tobytes() == plain.steps.tobytes()


def test_what_goes_on_is_what_would_have_come():
    whole, parts = Problem().descent(), Problem()
    whole.descend(9, parts.limits)
    pieces = parts.descent()
    for most in (1, 2, 5, 9):
        assert pieces.descend(most, parts.limits) == MORE
    assert pieces.plan.tobytes() == whole.plan.tobytes()
    assert pieces.steps.tobytes() == whole.steps.tobytes()


def test_known_potentials_save_inner_iterations():
    problem = Problem((30, 24))
    problem.limits |= dict(exact=1e-12)
    first = problem.descent(fraction=0.0)
    first.descend(1, problem.limits)
    again = problem.descent(fraction=0.0, potentials=(first.f, first.g))
    again.descend(1, problem.limits)
    assert again.steps[0, -1] < first.steps[0, -1]


@pytest.mark.parametrize("name", ["cost", "p", "right", "linear"])
def test_shapes_are_checked(name):
    problem = Problem(fused=True)
    if name == "cost":
        problem.cost_of = lambda plan, made=problem.cost_of: made(plan)[:-1].copy()
    else:
        setattr(problem, name, getattr(problem, name)[:-1].copy())
    with pytest.raises(ValueError, match=r"must have|could not be broadcast|matmul"):
        problem.descent()


def test_types_are_checked():
    problem = Problem()
    problem.right = problem.right.astype(np.float32)
    with pytest.raises(ValueError, match="panels must be of float64"):
        problem.descent()


@pytest.mark.parametrize("whole", [False, True])
def test_partial_plans_are_those_of_the_log_domain(whole):
    """A kernel of such costs is not made where numbers have no room for it."""
    problem, plans = Problem((19, 27), rule="partial", whole=whole), []
    for more in ({}, dict(peak=1.0)):
        descent = problem.descent(fraction=0.0, exact=LEAST["float64"])
        descent.descend(2, problem.limits | more)
        plans.append(descent.plan.copy())
        assert descent.log_u.max() <= 0 and descent.log_v.max() <= 0
    np.testing.assert_allclose(*plans, rtol=0, atol=50 * LEAST["float64"])


def test_a_problem_that_numbers_cannot_hold_is_left():
    problem = Problem((9, 7), "float32", rule="partial")
    problem.limits |= dict(peak=-1e6)
    descent = problem.descent()
    assert descent.descend(5, problem.limits) == OTHERWISE and descent.done == 0
    np.testing.assert_array_equal(descent.plan, problem.start.astype("float32"))
