"""Newton's steps by conjugate gradients."""

import numpy as np
import pytest
from helpers.problems import cloud, masses
from scipy import sparse

import gwfast
from gwfast.kernels._rows import Panels, Product
from gwfast.linear import newton
from gwfast.linear.gibbs_kernel import Kernel, Scalings
from gwfast.linear.newton import NewtonSteps, StepLimits, iterated_step
from gwfast.linear.sparse_kernel import SparseKernel
from gwfast.utils.deadline import Deadline
from gwfast.utils.precision import DOUBLE, SINGLE

FREE = StepLimits(1000, 1e-12)
PRECISIONS = pytest.mark.parametrize("precision", [SINGLE, DOUBLE], ids=["32", "64"])


class Groups:
    """A kernel of two groups of points that have little mass in common, which Sinkhorn
    iterations move slowly, and scalings after some of these.
    """

    def __init__(self, precision=SINGLE, kind="stored", *, empty=0, n=60, m=50):
        same = np.equal.outer(np.arange(n) < n // 2, np.arange(m) < m // 2)
        near = np.where(same, 1.0, 1e-2)
        self.matrix = np.exp(cloud(n, 3, 1) @ cloud(m, 3, 2).T) * near
        self.p, self.q = masses(n, 3), masses(m, 4)
        self.p[:empty] = self.q[:empty] = 0.0
        self.p, self.q = self.p / self.p.sum(), self.q / self.q.sum()
        self.scalings = Scalings(n, m, precision.dtype)
        self.scalings.reset()
        self.kernel = KINDS[kind](self.matrix.astype(precision.dtype))
        self.iterate(6)

    def iterate(self, n_iter):
        """The error of the rows before the last of some Sinkhorn iterations."""
        given = self.p, self.q, self.scalings, 1.0, n_iter, -1.0
        return self.kernel.iterate(*given)[0]

    def step(self, limits=FREE):
        return iterated_step(self.kernel, self.p, self.q, self.scalings, limits)

    def newton(self):
        """What Newton's step multiplies `v` by, by a dense solver, in float64."""
        v = self.scalings.v.astype(np.float64)
        shares = self.matrix * v / (self.matrix @ v)[:, None]
        plan = self.p[:, None] * shares
        cols = plan.sum(axis=0)
        matrix = np.diag(cols) - plan.T @ shares
        used = self.q > 0
        moved = np.zeros_like(v)
        given = matrix[np.ix_(used, used)], (self.q - cols)[used]
        moved[used] = np.linalg.lstsq(*given, rcond=1e-12)[0]
        return moved


def stored(matrix):
    kernel = Kernel(matrix.shape, 2)
    kernel.rows = matrix
    return kernel


def made(matrix):
    """Of rows that are made when they are read."""
    kernel = Kernel(matrix.shape, 2)
    eye = np.eye(len(matrix), dtype=np.float32)
    kernel.rows = Product(eye, Panels(matrix))
    return kernel


class Kept(SparseKernel):
    """Of all entries, one by one."""

    def __init__(self, matrix):
        Kernel.__init__(self, matrix.shape, 2)
        csr = sparse.csr_array(matrix)
        self._kept = csr.indptr.astype(np.int64), csr.indices.astype(np.int32)
        self.rows = csr.data


KINDS = {"stored": stored, "made": made, "kept": Kept}


@pytest.mark.parametrize(
    "kind, precision",
    [("stored", SINGLE), ("stored", DOUBLE), ("made", SINGLE), ("kept", SINGLE)],
    ids=["stored 32", "stored 64", "made", "kept"],
)
def test_a_step_is_newtons(kind, precision, monkeypatch):
    monkeypatch.setattr(newton, "MAX_WRONG", np.inf)
    monkeypatch.setattr(newton, "LEFT", 1e-4)
    groups = Groups(precision, kind, empty=2)
    v, expected = groups.scalings.v.astype(np.float64), groups.newton()
    n_reads = groups.step()
    assert 3 <= n_reads <= newton.MAX_READS
    used = groups.q > 0
    moved = np.log(groups.scalings.v[used] / v[used])
    # What is added to all of them moves no plan.
    moved, expected = moved - moved.mean(), expected[used] - expected[used].mean()
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(moved, expected, atol=1e-3 * np.abs(expected).max())
    assert not groups.scalings.v[~used].any()


@PRECISIONS
def test_steps_get_where_iterations_hardly_do(precision):
    groups, slow = Groups(precision), Groups(precision)
    n_reads = 0
    for _ in range(7):
        n_reads += groups.step() + 2
        error = groups.iterate(2)
    assert error < (1e-7 if precision is SINGLE else 1e-11)
    assert slow.iterate(n_reads) > 30 * error


def test_a_step_ends_at_its_limits(monkeypatch):
    def moved(limits):
        groups = Groups()
        plain = groups.scalings.v.copy()
        n_reads = groups.step(limits)
        return n_reads, np.abs(np.log(groups.scalings.v / plain)).max()

    assert moved(FREE._replace(n_iter=2))[0] == 2
    # Nothing is done after the deadline but one iteration of the rows.
    assert moved(FREE._replace(deadline=Deadline(-np.inf))) == (1, 0.0)
    # A tolerance that is far ends it early.
    monkeypatch.setattr(newton, "LEFT", 1e-4)
    assert moved(FREE._replace(tol=10.0))[0] < moved(FREE)[0]


def test_no_scaling_moves_further_than_is_trusted(monkeypatch):
    monkeypatch.setattr(newton, "FARTHEST_ITERATED", 0.01)
    groups = Groups(DOUBLE)
    error = groups.iterate(1)
    v = groups.scalings.v.copy()
    groups.step()
    far = np.abs(np.log(groups.scalings.v / v)).max()
    assert far == pytest.approx(0.01)
    assert groups.iterate(2) < error


@pytest.mark.parametrize("precision, follow", [(SINGLE, False), (DOUBLE, True)])
def test_factors_follow_where_conjugate_gradients_did_not_lead(precision, follow):
    groups, steps = Groups(precision), NewtonSteps((300, 300), precision)

    def pays(error):
        return bool(steps.pays(error, 0.9999, 0.0, FREE))

    def take(error):
        given = groups.kernel, groups.p, groups.q, groups.scalings
        steps.take(*given, error, FREE)

    assert pays(1e-2) and steps.price == newton.MAX_READS
    take(1e-2)
    assert pays(0.99e-2) is follow
    assert (steps.price > newton.MAX_READS) is follow
    take(1e-2)
    assert not pays(0.99e-2)
    # Without factors they are taken again once the error is less.
    assert pays(0.5e-2) is not follow


def test_steps_are_left_where_they_do_not_pay():
    steps = NewtonSteps((300, 300), SINGLE)
    few = FREE._replace(tol=1e-6)
    assert not steps.pays(0.5, 0.999, 0.0, few)  # far from the solution
    assert not steps.pays(1e-3, 0.5, 0.0, few)  # ten iterations do as well
    assert not steps.pays(1e-3, 0.999, 0.0, few._replace(n_iter=1))
    assert not steps.pays(1e-3, 0.999, 1.0, few._replace(deadline=Deadline.after(5)))
    assert steps.pays(1e-3, 0.999, 0.0, few)


def test_slow_problems_take_fewer_iterations(monkeypatch):
    """With them, and to the same plan."""
    x, y = cloud(250, 2, 5), cloud(240, 2, 6)
    x[:125, 0] += 4
    y[:118, 0] += 4
    cost = ((x[:, None] - y) ** 2).sum(axis=2)
    given = dict(epsilon=0.05, tol=1e-5, max_iter=100_000)
    came = gwfast.sinkhorn(cost, **given)
    monkeypatch.setattr(newton.NewtonSteps, "pays", lambda *_: False)
    slow = gwfast.sinkhorn(cost, **given)
    assert came.converged and slow.converged
    assert 3 * came.n_iter < slow.n_iter
    assert np.abs(came.plan - slow.plan).sum() < 1e-3
