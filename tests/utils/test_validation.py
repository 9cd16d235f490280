"""Harmless arrays are converted and not changed; masses are taken up to rounding."""

import functools
import re

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud

import gwfast
import gwfast.singlecell

X, Y = cloud(12, 4, 0), cloud(9, 3, 1)
COST_X, COST_Y = np.abs(X @ X.T), np.abs(Y @ Y.T)
PLAN, COST = np.full((12, 9), 1 / 108), np.abs(cloud(12, 9, 2))
solve = functools.partial(gwfast.gromov_wasserstein, epsilon=0.5, tol=1e-2, init="product")
align = functools.partial(gwfast.align, epsilon=0.05, tol=1e-2, init="product")
sinkhorn = functools.partial(gwfast.sinkhorn, epsilon=0.5, tol=1e-3)

# Public functions as functions of one array argument: a good value, and what a call answers.
ARGUMENTS = {
    "sinkhorn-cost": (COST, lambda c: sinkhorn(c).plan),
    "gromov_wasserstein-x": (COST_X, lambda c: solve(c, COST_Y).plan),
    "gromov_wasserstein-y": (COST_Y, lambda c: solve(COST_X, c).plan),
    "gromov_wasserstein-init": (PLAN, lambda t: solve(COST_X, COST_Y, init=t).plan),
    "align-x": (X, lambda x: align(x, Y).plan),
    "align-y": (Y, lambda y: align(X, y).plan),
    "PointCloud-x": (X, lambda x: gwfast.PointCloud(x).to_dense().matrix),
    "cosine_similarity-y": (X, lambda y: gwfast.cosine_similarity(X, y)),
    "nearest_neighbors-targets": (X, lambda x: gwfast.nearest_neighbors(X, x).scores),
    "nearest_neighbors-sources": (X, lambda x: gwfast.nearest_neighbors(X, X, sources=x).scores),
}
FORMS = {
    "fortran": np.asfortranarray,
    "list": np.ndarray.tolist,
    "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0)[::-1], 2, axis=1)[::-2, ::2],
    "byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "int64": lambda x: x.astype(np.int64),
    "float32": lambda x: x.astype(np.float32),
}


@pairwise(form=FORMS, argument=ARGUMENTS)
def test_other_forms_give_the_same_answer_and_are_left_alone(form, argument):
    good, call = ARGUMENTS[argument]
    good = np.rint(good * 4) + 1 if argument[-4:] != "init" else np.ones(good.shape)
    converted = FORMS[form](good)
    if isinstance(converted, np.ndarray):
        converted.flags.writeable = False
    np.testing.assert_allclose(call(converted), call(good), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(converted, good)


SOLVERS = {"sinkhorn": (sinkhorn, COST), "solve": (solve, COST_X, COST_Y)}


@pairwise(solver=SOLVERS, name="pq")
def test_masses_are_taken_up_to_rounding(solver, name):
    call = functools.partial(*SOLVERS[solver])
    size, axis = (12, 1) if name == "p" else (9, 0)
    exact = np.arange(1.0, size + 1) / (size * (size + 1) / 2)
    for masses in (exact, exact.tolist(), exact.astype(np.float32), exact * 1.00009):
        sums = call(**{name: masses}).plan.sum(axis=axis, dtype=np.float64)
        np.testing.assert_allclose(sums, exact, atol=1e-2 * exact.max())
    uniform = call(**{name: np.full(size, 1 / size)}).plan
    np.testing.assert_array_equal(call().plan, uniform)
    if name == "p":  # weights of words may be counts
        sums = align(X, Y, p=np.arange(1, 13)).plan.sum(axis=1)
        np.testing.assert_allclose(sums, exact, atol=1e-2)


def test_one_point_takes_all_the_mass_and_two_rows_a_side_are_aligned():
    assert gwfast.sinkhorn([[3.0]], epsilon=0.1).plan.tolist() == [[1.0]]
    for sides in (([[0.0]], COST_Y), (gwfast.PointCloud([[1.0, 2.0]]), gwfast.PointCloud(Y))):
        result = gwfast.gromov_wasserstein(*sides, epsilon="auto")
        np.testing.assert_allclose(result.plan, np.full((1, 9), 1 / 9), rtol=1e-6)
        assert result.converged and np.isfinite(result.gw_cost)
    found = gwfast.nearest_neighbors(X[:1], X[:1])
    assert found.indices.tolist() == [[0]] and found.scores.shape == (1, 1)
    two = gwfast.align(X[:2], Y[:2], epsilon=1.0)
    assert two.plan.sum() == pytest.approx(1.0)
    assert np.isfinite([two.gw.gw_cost, *(step.change for step in two.gw.history)]).all()


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_tensors_are_refused_by_name(library):
    costs = pytest.importorskip(library).ones((9, 9))
    calls = {
        "x": lambda: solve(costs, COST_Y),
        "q": lambda: solve(COST_X, COST_Y, q=costs[0]),
        "linear_cost": lambda: solve(COST_Y, COST_Y, linear_cost=costs),
        "spaces[1]": lambda: gwfast.pairwise_gromov_wasserstein([COST_X, costs]),
        "adata_x": lambda: gwfast.singlecell.align(costs, costs),
        "labels": lambda: solve(COST_X, COST_Y).transfer_labels(costs[0]),
        "epsilon": lambda: solve(COST_X, COST_Y, epsilon=costs.mean()),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=rf"^{re.escape(name)} .*gwfast\.gradients"):
            call()
