"""Solves of matrices that go on with a part of the plan: they end where whole ones do,
and what they leave out is bounded."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, rotated_pair

import gwfast
from gwfast.kernels._rows import Shifted, aligned_empty
from gwfast.linear import truncation
from gwfast.linear.gibbs_kernel import Buffer, KeptKernel, StoredKernel
from gwfast.linear.log_domain import Potentials
from gwfast.linear.sinkhorn_solver import SinkhornSolver
from gwfast.linear.truncation import Support
from gwfast.quadratic import truncated, truncated_plan
from gwfast.quadratic.dense_terms import BilinearTerm
from gwfast.quadratic.plan_products import PlanProducts
from gwfast.quadratic.truncated import TruncatedDense
from gwfast.quadratic.truncated_plan import SymmetricTerm, TruncatedPlan

N, M = 150, 140


@pytest.fixture
def small(monkeypatch):
    """Plans of few points are truncated."""
    monkeypatch.setattr(truncated, "MIN_ENTRIES", 0)
    monkeypatch.setattr(truncated, "FEW", 0.6)
    monkeypatch.setattr(truncated, "CHOICES", ((1e-12, 0.2), (1e-9, 0.6)))


@pytest.fixture
def kernels(monkeypatch):
    """Whether each kernel of a solve was of a part, and its update."""
    seen, update = [], TruncatedDense.update

    def watched(self, kernel, solution):
        seen.append((isinstance(kernel, KeptKernel), update(self, kernel, solution)))
        return seen[-1][1]

    monkeypatch.setattr(TruncatedDense, "update", watched)
    return seen


def problem(seed=3):
    x, y, _ = rotated_pair(N, 3, seed, noise=0.3)
    costs = (distances(side).astype(np.float32) for side in (x, y[:M]))
    return *costs, masses(N, 1), masses(M, 2)


def solve(given, **options):
    options = dict(epsilon=0.05, init="product", n_threads=1) | options
    return gwfast.gromov_wasserstein(*given, **options)


def whole(given, monkeypatch, **options):
    with monkeypatch.context() as patch:
        patch.setattr(truncated, "MIN_ENTRIES", np.inf)
        return solve(given, **options)


def objective(plan, x, y):
    """In float64, of any marginals."""
    x, y, plan = (one.astype(np.float64) for one in (x, y, plan))
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    squares = rows @ x**2 @ rows + cols @ y**2 @ cols
    return squares - 2 * np.vdot(x @ plan @ y, plan)


def assert_same_end(came, expected, given):
    assert came.status == expected.status == "converged"
    assert np.abs(came.plan - expected.plan).sum() < 2e-3
    values = [objective(one.plan, *given[:2]) for one in (came, expected)]
    assert values[0] == pytest.approx(values[1], rel=1e-4)
    assert came.gw_cost == pytest.approx(values[0], rel=2e-4)
    assert came.coupling.form == "array" and came.left_out == 0.0
    assert came.reg_cost == pytest.approx(expected.reg_cost, rel=2e-4, abs=1e-3)


@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.parametrize("tol", [None, 1e-5])
def test_solves_end_where_whole_ones_do(seed, tol, small, kernels, monkeypatch):
    given, options = problem(seed), {} if tol is None else dict(tol=tol)
    came = solve(given, **options)
    parts = [is_part for is_part, _ in kernels]
    assert sum(parts) >= 2 and not parts[-1]
    bounds = [update.truncation_bound for is_part, update in kernels if is_part]
    assert min(bounds) > 0
    assert_same_end(came, whole(given, monkeypatch, **options), given)


def test_the_other_loss_has_parts_too(small, kernels, monkeypatch):
    x, y, *sides = problem()
    given, options = (x + 1, y + 1, *sides), dict(loss="kl", epsilon=0.01)
    came, expected = solve(given, **options), whole(given, monkeypatch, **options)
    assert any(is_part for is_part, _ in kernels)
    assert np.abs(came.plan - expected.plan).sum() < 2e-3
    assert came.gw_cost == pytest.approx(expected.gw_cost, rel=2e-4)


def test_float64_goes_on_from_parts(small, kernels, monkeypatch):
    monkeypatch.setattr(gwfast.solvers.stages, "MIN_FLOAT32_ENTRIES", 0)
    given, options = problem(), dict(dtype="float64", tol=1e-8)
    came, expected = solve(given, **options), whole(given, monkeypatch, **options)
    assert any(is_part for is_part, _ in kernels)
    assert np.abs(came.plan - expected.plan).sum() < 1e-5
    assert came.gw_cost == pytest.approx(expected.gw_cost, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_costs_may_stay_as_they_came(dtype, small, kernels, monkeypatch):
    monkeypatch.setattr(gwfast.quadratic.dense_terms, "COPIED_BYTES", 0)
    given = problem()
    given = *(cost.astype(dtype) for cost in given[:2]), *given[2:]
    came = solve(given)
    assert sum(is_part for is_part, _ in kernels) >= 4
    assert_same_end(came, whole(given, monkeypatch), given)


def test_the_number_of_threads_changes_no_bit(small, kernels):
    given = problem()
    alone = solve(given)
    for n_threads in (2, 3):
        came = solve(given, n_threads=n_threads)
        assert came.plan.tobytes() == alone.plan.tobytes()
        assert came.gw_cost == alone.gw_cost and came.n_outer == alone.n_outer
    assert any(is_part for is_part, _ in kernels)


def test_a_part_that_may_have_become_too_small_is_chosen_anew(
    small, kernels, monkeypatch
):
    given, chosen = problem(), []
    choose = Support.choose

    def counted(self):
        chosen.append(self.fraction)
        return choose(self)

    monkeypatch.setattr(Support, "choose", counted)
    monkeypatch.setattr(Support, "bound", lambda *_: np.inf)
    came = solve(given)
    assert len(chosen) >= sum(is_part for is_part, _ in kernels) >= 2
    assert_same_end(came, whole(given, monkeypatch), given)


def test_a_part_that_is_too_small_is_given_up(small, kernels, monkeypatch):
    given, calls, holds = problem(), [], TruncatedDense._holds

    def refuses(self, *values):
        calls.append(values)
        return len(calls) < 2 and holds(self, *values)

    monkeypatch.setattr(TruncatedDense, "_holds", refuses)
    monkeypatch.setattr(Support, "bound", lambda *_: np.inf)
    came = solve(given)
    assert len(calls) >= 2 and sum(is_part for is_part, _ in kernels) == 1
    assert_same_end(came, whole(given, monkeypatch), given)


def test_one_that_is_stopped_says_what_it_may_lack(small, kernels):
    given = problem()
    n_outer = solve(given).n_outer
    ends = [is_part for is_part, _ in kernels]
    last = max(i for i in range(n_outer) if ends[i]) + 1
    with pytest.warns(gwfast.ConvergenceWarning):
        came = solve(given, max_outer=last)
    assert came.status == "max_outer" and 0 < came.left_out <= truncation.MAX_BOUND
    assert came.coupling.form == "array" and came.plan.dtype == np.float32
    np.testing.assert_allclose(came.plan.sum(axis=1), given[2], atol=1e-4)


def test_looking_at_plans_changes_nothing(small, kernels):
    given, plans = problem(), []
    plain = solve(given)
    came = solve(given, callback=lambda live: plans.append(live.coupling.toarray()))
    assert came.plan.tobytes() == plain.plan.tobytes()
    assert len(plans) == came.n_outer and any(is_part for is_part, _ in kernels)


OTHERS = {
    "relaxed": dict(marginals="unbalanced", rho=0.5),
    "proximal": dict(method="ppa", epsilon=0.5, max_outer=20),
    "fused": dict(linear_cost=np.ones((N, M)), alpha=0.5),
    "asymmetric": dict(),
    "diffuse": dict(epsilon=3.0),
}


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_other_problems_stay_whole(name, small, kernels):
    given = problem()
    if name == "asymmetric":
        given[0][0, 1] *= 1.5
    solve(given, **OTHERS[name])
    is_looked_at = bool(kernels)
    assert is_looked_at == (name == "diffuse")
    assert not any(is_part for is_part, _ in kernels)


# --- The plan itself ------------------------------------------------------------------


class Chosen:
    """A `TruncatedPlan` at a solution for some plan."""

    def __init__(self, *, shifted=False, seed=0, epsilon=0.004):
        costs = [distances(cloud(size, 2, seed)) for size in (N, M)]
        left, right = (cost.astype(np.float32) for cost in costs)
        self.given = left, right
        if shifted:
            left, right = Shifted(left), Shifted(right)
        self.bilinear = BilinearTerm(left, right, True, 2)
        self.term = SymmetricTerm(self.bilinear, 2)
        self.p, self.q = masses(N, 1), masses(M, 2)
        plan = np.multiply.outer(self.p, self.q).astype(np.float32)
        self.plan = plan * np.random.default_rng(seed).random((N, M), np.float32) ** 8
        self.plan /= self.plan.sum()
        self.buffer = Buffer(aligned_empty((N, M)))
        solver = SinkhornSolver(self.p, self.q, 2)
        kernel = StoredKernel(self.buffer, self.fill, 2)
        self.potentials = solver.solve(
            kernel, epsilon, tol=1e-6, max_iter=999
        ).potentials
        kernel.make(self.potentials, epsilon, self.q, solver.scalings)
        given = kernel, self.potentials, solver, self.term.lengths, 1e-4
        self.support = Support(*given).choose()
        rest = self.plan, kernel, self.potentials, self.buffer
        self.part = TruncatedPlan.chosen(self.term, self.support, *rest)
        start, self.index = self.support.start, self.support.index
        self.rows = np.repeat(np.arange(N), np.diff(start))

    def fill(self, out):
        out[:] = self.cost(self.plan)

    def cost(self, plan):
        left, right = (one.astype(np.float64) for one in self.given)
        return left @ plan.astype(np.float64) @ right

    def dense(self, values):
        out = np.zeros((N, M))
        out[self.rows, self.index] = values
        return out

    def other(self, seed):
        """Other values, of a plan with nearly the same marginals."""
        rng = np.random.default_rng(seed)
        return self.part.values * rng.uniform(0.9, 1.1, self.support.kept).astype("f4")


@pytest.mark.parametrize("shifted", [False, True])
def test_costs_are_those_of_the_plan(shifted, isa):
    chosen = Chosen(shifted=shifted)
    part, rows, index = chosen.part, chosen.rows, chosen.index
    assert 0 < chosen.support.kept < 0.6 * N * M
    reference = chosen.cost(chosen.plan)
    np.testing.assert_allclose(part._costs, reference[rows, index], rtol=2e-6)
    before, values = part.values, chosen.other(5)
    taken = part.take(values)
    moved = chosen.cost(chosen.dense(values.astype(float) - before))
    expected = (reference + moved)[rows, index]
    np.testing.assert_allclose(part._costs, expected, rtol=2e-6)
    dense = chosen.dense(values)
    assert taken.value == pytest.approx(values.astype(float) @ expected, rel=1e-6)
    np.testing.assert_allclose(taken.rows, dense.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(taken.cols, dense.sum(axis=0), rtol=1e-6)
    difference = values.astype(float) - before
    assert taken.change == pytest.approx(np.abs(difference).sum() / dense.sum())
    assert taken.moved == pytest.approx(np.linalg.norm(difference))
    np.testing.assert_array_equal(part.toarray(), dense.astype(np.float32))
    out = aligned_empty((N, M))
    part.fill(PlanProducts(chosen.bilinear, 2), out, 0.0, 1.0)
    np.testing.assert_allclose(out, chosen.cost(dense), rtol=1e-5)
    # No cost has changed by more than the bound says.
    limit = np.multiply.outer(part._moved, chosen.term.lengths)
    assert (np.abs(moved) <= limit * (1 + 1e-5)).all()


def test_the_bound_is_of_the_costs_that_the_kernel_had():
    chosen = Chosen()
    part, potentials = chosen.part, chosen.potentials
    first = part.bound(potentials)
    assert first == pytest.approx(max(map(np.max, chosen.support.outside)))
    part.take(chosen.other(5))
    assert part.bound(potentials) > first
    other = Potentials(potentials.f + 0.1, potentials.g)
    assert part.bound(other) > part.bound(potentials)


def test_the_bound_is_one_and_sharper_with_what_is_known(monkeypatch):
    chosen = Chosen()
    part, support, before = chosen.part, chosen.support, chosen.potentials
    monkeypatch.setattr(truncated_plan, "MAX_BOUND", 0.0)
    rough, kept = Support.bound, chosen.dense(np.ones(support.kept)) > 0
    for seed in range(4):
        values = chosen.other(seed)
        change = chosen.cost(chosen.dense(values.astype(float) - part._reference[0]))
        part.take(values)
        df = change.mean(axis=1)
        dg = (change - df[:, None]).mean(axis=0)
        potentials = Potentials(before.f + df, before.g + dg)
        cost = chosen.cost(chosen.plan) + change
        plan = potentials.f[:, None] + potentials.g - cost
        lost = np.where(kept, 0.0, np.exp(plan / support.epsilon))
        shares = lost.sum(axis=1) / chosen.p, lost.sum(axis=0) / chosen.q
        bound = part.bound(potentials)
        assert max(map(np.max, shares)) <= bound * (1 + 1e-3)
        assert bound < rough(support, part._moved, potentials)


def test_it_goes_on_from_where_the_last_plans_lead_and_back():
    chosen = Chosen()
    part = chosen.part
    assert not part.extrapolate()
    first, steps = part.values, chosen.other(6) - part.values
    for size in (1.0, 1.5):
        part.take(first + np.float32(size) * steps)
    last, costs = part.values, part._costs
    assert part.extrapolate()
    np.testing.assert_allclose(part.leading, first + 2 * steps, rtol=1e-5, atol=1e-12)
    np.testing.assert_array_equal(part.values, last)
    assert not np.array_equal(part._costs, costs)
    before = part.values
    part.take(first)
    part.retract()
    np.testing.assert_array_equal(part.values, before)
    np.testing.assert_allclose(part._costs, costs, rtol=1e-6)


def test_points_without_mass_keep_nothing_and_are_no_error(small, kernels):
    x, y, p, q = problem()
    p[:9] = q[5:12] = 0.0
    p[20], q[30] = 1e-36, 1e-20  # and hardly any
    came = solve((x, y, p / p.sum(), q / q.sum()))
    assert any(is_part for is_part, _ in kernels)
    assert not came.plan[:9].any() and not came.plan[:, 5:12].any()
    assert came.status == "converged"
