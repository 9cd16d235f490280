"""Acceleration: leads to the fixed point of linear iterations that contract, away from
saddles of others, and is taken back where it was no good."""

from unittest.mock import Mock

import numpy as np
import pytest
from helpers.problems import cloud, distances, orthogonal

import gwfast
from gwfast.quadratic import acceleration, linearization
from gwfast.quadratic.acceleration import (
    DEPTH,
    FLOOR,
    MAX_REACH,
    Accelerator,
    Lead,
    combined,
    lead_of,
)
from gwfast.quadratic.dense import Dense
from gwfast.quadratic.factored import Factored
from gwfast.words import load_sample

# What the tests of the solver need of it is where it ends.
TIGHT = dict(dtype="float64", init="product", tol=1e-9, marginal_tol=1e-9)


def steps_of(matrix, start, n_steps, limit=0.0):
    """Steps along ``x <- limit + matrix @ (x - limit)``, with points of any shape."""
    steps, x = [], np.asarray(start, dtype=np.float64)
    for _ in range(n_steps):
        after = limit + (matrix @ (x - limit).ravel()).reshape(x.shape)
        steps.append((x, after))
        x = after
    return steps


def rotated(eigenvalues, seed=0):
    """A symmetric matrix with these eigenvalues and no entries of zero."""
    basis = orthogonal(len(eigenvalues), seed)
    return basis @ np.diag(eigenvalues) @ basis.T


CONTRACTING = [
    [0.9],
    [0.9, 0.5],
    [0.9, 0.5, -0.7],
    [0.9, 0.4, -0.3, -0.8],
    [0.9, 0.5, 0.1, -0.4, -0.8],
    [-0.8, -0.4],
]


def led_by(steps, **reach):
    """The point to which steps lead, and the length of the step foretold there."""
    weights, foretold = lead_of(steps, **reach)
    assert sum(weights) == pytest.approx(1.0)
    return combined(weights, [after for _, after in steps]), foretold


@pytest.mark.parametrize("eigenvalues", CONTRACTING)
def test_moves_along_a_linear_iteration_lead_to_its_fixed_point(eigenvalues):
    n = len(eigenvalues)
    shape = (2, 2) if n == 4 else (n,)
    matrix, limit = rotated(eigenvalues), cloud(1, n, 1).reshape(shape)
    x, steps = cloud(1, n, 2).reshape(shape), []
    for _ in range(16):
        steps = [*steps, *steps_of(matrix, x, 1, limit)][-DEPTH - 1 :]
        lead = lead_of(steps)
        points = [after for _, after in steps]
        x = points[-1] if lead is None else combined(lead.weights, points)
    assert x.shape == shape
    np.testing.assert_allclose(x, limit, atol=1e-3)
    assert max(map(abs, eigenvalues)) ** 16 > 0.02  # without moves it is far


@pytest.mark.parametrize("rate", [-0.9, 0.3, 0.9, 0.97, 1.03, 1.3])
def test_one_mode_is_followed_as_far_as_its_rate_says(rate):
    """To the fixed point where it is near, and many steps ahead, away from a saddle."""
    steps = steps_of(np.array([[rate]]), [1.0], 2)
    led, _ = led_by(steps)
    before, after = steps[-1]
    step, slope = after - before, 1.0 - rate
    factor = 1.0 / np.hypot(slope, FLOOR)
    expected = before + factor * step + (1.0 - slope * factor) * step
    np.testing.assert_allclose(led, expected)
    if rate < 0.9:
        np.testing.assert_allclose(led, 0.0, atol=0.01)
    if rate > 1.0:
        assert led[0] > after[0] + 2 * step[0]


def test_saddles_are_left_while_all_else_converges():
    matrix = rotated([1.05, 0.9, -0.6])
    grows, *others = orthogonal(3, 0).T
    x, steps = others[0] + others[1] + 1e-3 * grows, []
    for _ in range(20):
        steps = [*steps, *steps_of(matrix, x, 1)][-DEPTH - 1 :]
        x = steps[-1][1] if len(steps) < 2 else led_by(steps)[0]
    assert abs(x @ grows) > 10 * 1e-3 * 1.05**20
    assert max(abs(x @ other) for other in others) < 0.1 * abs(x @ grows)


@pytest.mark.parametrize("reach", [1.0, 3.0, MAX_REACH])
def test_a_move_goes_no_further_than_its_reach(reach):
    steps = steps_of(rotated([0.99, 0.5]), np.ones(2), 4)
    led, _ = led_by(steps, reach=reach)
    before, after = steps[-1]
    moved = np.linalg.norm(led - after)
    assert moved <= reach * np.linalg.norm(after - before) * 1.001
    assert lead_of(steps, reach=0.9) is None


def turned(size):
    """Eigenvalues of it are complex."""
    return size * np.array([[0.0, -1.0], [1.0, 0.0]])


def test_nothing_is_said_of_one_step_or_of_none_left():
    half = np.eye(2) / 2
    assert lead_of([]) is None
    assert lead_of(steps_of(half, np.ones(2), 1)) is None
    assert lead_of(steps_of(half, np.zeros(2), 4)) is None
    assert lead_of(steps_of(turned(0.9), np.ones(2), 3)) is not None


# --- In the solver ----------------------------------------------------------------


def slow_problem(kind):
    """Two spaces whose iterations converge slowly, and how they are solved."""
    if kind == "dense":
        x, y = cloud(60, 3, 6), cloud(60, 3, 6) + 0.3 * cloud(60, 3, 7)
        return (distances(x), distances(y[::-1])), dict(epsilon=0.1, **TIGHT)
    sides = [side.vectors[:400] for side in load_sample()[:2]]
    clouds = [gwfast.PointCloud(side - side.mean(axis=0)) for side in sides]
    epsilon = gwfast.Epsilon(relative=0.05)
    return clouds, dict(epsilon=epsilon, init="profile", tol=1e-6)


@pytest.mark.parametrize("kind, cls", [("dense", Dense), ("factored", Factored)])
def test_it_saves_iterations_and_bad_moves_are_taken_back(kind, cls, monkeypatch, in_outer_loop):
    """And it ends where it would without."""
    sides, how = slow_problem(kind)
    fast = gwfast.gromov_wasserstein(*sides, **how)
    same = pytest.approx(fast.gw_cost, rel=100 * how["tol"])
    retracted, retract = [], cls.retract

    def anywhere(steps, reach):
        far = len(steps) > 1 and reach >= 1.0
        return Lead([0.0] * (len(steps) - 2) + [-40.0, 41.0]) if far else None

    def counted(self):
        retracted.append(1)
        return retract(self)

    with monkeypatch.context() as patched:
        patched.setattr(linearization, "lead_of", anywhere)
        patched.setattr(cls, "retract", counted)
        bad = gwfast.gromov_wasserstein(*sides, **how, max_outer=3000)
    assert bad.converged and bad.gw_cost == same
    # Each pause after one is an iteration longer than the one before.
    assert 0 < len(retracted) <= 1 + np.sqrt(2 * bad.n_outer)
    monkeypatch.setattr(acceleration, "MAX_CHANGE", 0.0)
    plain = gwfast.gromov_wasserstein(*sides, **how)
    assert fast.converged and plain.converged and plain.gw_cost == same
    assert fast.n_outer < plain.n_outer


def test_a_move_stays_where_the_product_before_it_is_gone(monkeypatch, in_outer_loop):
    """As a whole product may take its room."""
    sides, how = slow_problem("dense")
    fast, retract = gwfast.gromov_wasserstein(*sides, **how), Dense.retract
    made = []

    def gone(self):
        self.cost.products.memory.forget_kept()
        made.append(retract(self))
        return made[-1]

    def ahead(steps, reach):
        far = len(steps) > 1 and reach >= 1.0
        return Lead([0.0] * (len(steps) - 2) + [-9.0, 10.0]) if far else None

    monkeypatch.setattr(linearization, "lead_of", ahead)
    monkeypatch.setattr(Dense, "retract", gone)
    bad = gwfast.gromov_wasserstein(*sides, **how, max_outer=3000)
    assert made and not any(made)
    assert bad.converged
    assert bad.gw_cost == pytest.approx(fast.gw_cost, rel=100 * how["tol"])


@pytest.mark.parametrize(
    "change, error, further", [(0.5, 0.0, True), (1e-3, 1e-3, True), (1e-3, 0.0, False)]
)
def test_no_move_after_large_or_noisy_steps_or_the_last(change, error, further):
    state = Mock(accelerates=True)
    given = Mock(error=error), change, 0.0, Mock(), further
    assert Accelerator(state).advance(*given) is None
    assert [name for name, *_ in state.method_calls] == ["forget"]
