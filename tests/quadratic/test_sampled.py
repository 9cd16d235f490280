"""Descents on samples of a plan: what a sample is, and where they lead."""

import numpy as np
import pytest

import gwfast
from gwfast.problems.quadratic import QuadraticProblem
from gwfast.quadratic.factory import linearize
from gwfast.quadratic.methods import PGD, step_of
from gwfast.quadratic.sampled import Sample, Sampled
from gwfast.quadratic.stopping import Limits
from gwfast.solvers.gromov import solve
from gwfast.solvers.options import SolveOptions
from gwfast.utils.mechanisms import without

EPSILON = 0.02


def clouds(n, m, seed=0, d=6):
    """Two point clouds, the second a part of the first, turned and with noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_exponential((max(n, m), d)) * np.arange(1, d + 1)
    turned = x[rng.permutation(len(x))] @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    y = turned + 0.1 * rng.normal(size=x.shape)
    return QuadraticProblem(*(gwfast.PointCloud(one) for one in (x[:n], y[:m])))


def after_a_step(problem, tier="dense"):
    """A linearization after an iteration from the product plan, and the iteration."""
    whole = linearize(problem, 2, tier)
    whole.start()
    step = step_of(PGD, whole)
    potentials = None
    for _ in range(3):
        stepped = step(EPSILON, potentials, tol=1e-5, max_iter=500)
        potentials = stepped.solution.potentials
    return whole, stepped


@pytest.mark.parametrize("tier", ["dense", "tiled"])
def test_a_sample_has_the_masses_of_the_rows(tier):
    whole, stepped = after_a_step(clouds(70, 90), tier)
    kernel, solution = stepped.kernel, stepped.solution
    sample = Sample(kernel, solution.scalings, 16)
    plan = whole.snapshot(kernel, solution).toarray().astype(np.float64)
    assert np.all(np.diff(sample.start) <= 16)
    at = np.repeat(np.arange(70), np.diff(sample.start)), sample.index
    entries = plan[at].astype(np.float32)
    sample.weigh(entries)
    drawn = np.bincount(at[0], entries)
    np.testing.assert_allclose(drawn, plan.sum(axis=1), rtol=1e-5)
    # What holds more than a share of its row is drawn as often as that says.
    shares = plan / plan.sum(axis=1, keepdims=True) * 16
    counts = np.zeros(plan.shape)
    counts[at] = entries / plan.sum(axis=1)[at[0]] * 16
    assert np.all(np.abs(counts - shares) < 1 + 1e-4)


@pytest.mark.parametrize("draws", [4, 4000])
def test_on_a_sample_the_last_iteration_leads_to_the_same_state(draws):
    whole, stepped = after_a_step(clouds(80, 60))
    sampled = Sampled(whole, stepped, draws)
    sampled.state = whole.before
    again = step_of(PGD, sampled)(stepped.kernel.epsilon, sampled.potentials, tol=1e-4, max_iter=3)
    assert again.n_inner == 1
    np.testing.assert_allclose(sampled.state, whole.state, rtol=0, atol=2e-6)


def test_many_draws_answer_to_a_change_as_all_entries_do():
    whole, stepped = after_a_step(clouds(80, 60))
    sampled = Sampled(whole, stepped, 4000)
    options = dict(tol=1e-6, max_iter=500)
    epsilon = stepped.kernel.epsilon
    before = whole.state
    few = step_of(PGD, sampled)(epsilon, sampled.potentials, **options)
    step_of(PGD, whole)(epsilon, stepped.solution.potentials, **options)
    change = np.linalg.norm(whole.state - before)
    assert few.update.change > 1e-4
    assert np.linalg.norm(sampled.state - whole.state) < 0.03 * change


@pytest.mark.parametrize("tier", ["dense", "tiled"])
def test_samples_save_iterations_on_all_entries(tier):
    problem = clouds(4000, 3900)
    results = {}
    for name in ("samples", "acceleration"):
        options = SolveOptions(
            Limits(100, 10_000, 1e-5, 1e-5),
            epsilon="2%",
            init="product",
            tier=tier,
            mechanisms=without(name),
        )
        results[name] = solve(problem, options)
    plain, led = results["samples"], results["acceleration"]
    assert plain.converged
    assert led.converged
    assert led.gw_cost == pytest.approx(plain.gw_cost, rel=5e-4)
    assert led.n_outer < plain.n_outer / 2
