"""What must not change a plan: the order of points, which side is first, the unit of
costs, rotations of points; of our solver and of POT's names.
"""

import numpy as np
import pytest
from helpers.problems import distances, masses, orthogonal
from hypothesis import given, settings
from hypothesis import strategies as st

import gwfast
from gwfast import PointCloud, gromov_wasserstein, pot

# Few points match little.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
# Of plans, in L1, by solves that are told apart by rounding only.
NEAR = 1e-6
SOLVE = dict(init="product", dtype="float64", tol=1e-10, n_threads=1, max_iter=300)
SOLVE |= dict(options=gwfast.SolverOptions(marginal_tol=1e-10))


@st.composite
def drawn(draw):
    """Points of both sides, their masses, and a generator."""
    n, m = draw(st.integers(2, 12)), draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x, y = (rng.standard_normal((k, 3)) for k in (n, m))
    return x, y, masses(n, rng), masses(m, rng), rng


def ours(x, y, p, q, epsilon=0.5):
    return gromov_wasserstein(x, y, p, q, epsilon=epsilon, **SOLVE).plan


def exact(x, y, p, q, epsilon=0.5):
    return gromov_wasserstein(x, y, p, q, epsilon=0, init="product").plan


def of_pot(x, y, p, q, epsilon=0.5):
    return pot.entropic_gromov_wasserstein(x, y, p, q, epsilon=2 * epsilon, tol=1e-10, max_iter=300)


def of_pot_fused(x, y, p, q, epsilon=0.5):
    """With a linear cost that is the same for all pairs."""
    cost = np.ones((len(x), len(y)))
    return pot.entropic_fused_gromov_wasserstein(
        cost, x, y, p, q, epsilon=2 * epsilon, alpha=1.0, tol=1e-10, max_iter=300
    )


def few_and_many(check):
    """A fast test of a property, and a slow one of more examples."""

    def make(n_examples):
        @pytest.mark.parametrize("plan_of", [ours, exact, of_pot, of_pot_fused])
        @settings(derandomize=True, max_examples=n_examples, deadline=None)
        @given(case=drawn())
        def test(plan_of, case):
            check(plan_of, *case)

        return test

    return make(3), pytest.mark.slow(make(25))


def near(plan, other, tol=NEAR):
    assert np.abs(plan - other).sum() <= tol


def permuted(plan_of, x, y, p, q, rng):
    rows, cols = rng.permutation(len(x)), rng.permutation(len(y))
    plan = plan_of(distances(x), distances(y), p, q)
    moved = plan_of(distances(x[rows]), distances(y[cols]), p[rows], q[cols])
    near(moved, plan[np.ix_(rows, cols)])


def transposed(plan_of, x, y, p, q, rng):
    there = plan_of(distances(x), distances(y), p, q)
    back = plan_of(distances(y), distances(x), q, p)
    near(back, there.T)


def scaled(plan_of, x, y, p, q, rng):
    # Powers of two change no digit; others do.
    factor = 10.0 ** rng.uniform(-6, 6)
    plan = plan_of(distances(x), distances(y), p, q)
    other = plan_of(factor * distances(x), factor * distances(y), p, q, epsilon=0.5 * factor**2)
    near(other, plan)


def moved(plan_of, x, y, p, q, rng):
    def squared(z):
        return distances(z) ** 2

    turn = orthogonal(3, int(rng.integers(1000)))
    plan = plan_of(squared(x), squared(y), p, q, epsilon=5.0)
    other = plan_of(squared(x @ turn + 10.0), squared(y), p, q, epsilon=5.0)
    near(other, plan)


test_permutation, test_permutation_of_many = few_and_many(permuted)
test_transposition, test_transposition_of_many = few_and_many(transposed)
test_scaling_with_epsilon, test_scaling_with_epsilon_of_many = few_and_many(scaled)
test_isometry, test_isometry_of_many = few_and_many(moved)


@settings(derandomize=True, max_examples=3, deadline=None)
@given(case=drawn())
def test_clouds_may_be_turned_shifted_and_permuted(case):
    x, y, p, q, rng = case
    turn, rows = orthogonal(3, int(rng.integers(1000))), rng.permutation(len(x))
    options = gwfast.SolverOptions(marginal_tol=1e-6)
    solve = dict(SOLVE, dtype="float32", tol=1e-6, options=options, epsilon=5.0)
    plan, other = (
        gromov_wasserstein(
            PointCloud(z, "sqeuclidean"), PointCloud(y, "sqeuclidean"), w, q, **solve
        ).plan
        for z, w in ((x, p), (x[rows] @ turn + 10.0, p[rows]))
    )
    near(other, plan[rows], 1e-3)
