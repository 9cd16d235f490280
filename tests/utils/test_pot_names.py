"""POT's names of arguments are told apart from mistakes."""

import functools
import inspect

import numpy as np
import pytest

import gwfast
from gwfast import pot

COST = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0) ** 2))
solve = functools.partial(gwfast.gromov_wasserstein, COST, COST)


@pytest.mark.parametrize(
    "call, names",
    [
        (lambda: solve(G0=None, reg=0.1), ["G0 is init", "reg is epsilon (half of POT's)"]),
        (lambda: solve(log=True, M=COST), ["M is linear_cost", "log is left out"]),
        (lambda: gwfast.tune_epsilon(COST, COST, reg=1.0), ["reg is epsilons"]),
        (lambda: gwfast.sinkhorn(M=COST, reg=1.0), ["M is cost", "reg is epsilon"]),
        (lambda: gwfast.QuadraticProblem(C1=COST, C2=COST), ["QuadraticProblem()", "C1 is x"]),
        (lambda: gwfast.gromov_wasserstein_batch([], loss_fun="kl"), ["loss_fun is loss"]),
        (lambda: gwfast.pairwise_gromov_wasserstein([], a=[]), ["a is masses"]),
        (lambda: solve(epsilom=1.0), ["argument 'epsilom'"]),  # which Python refuses
        (lambda: gwfast.gromov_wasserstein_batch([], Ca=COST), ["argument 'Ca'"]),
    ],
)
def test_the_name_here_is_said(call, names):
    with pytest.raises(TypeError) as error:
        call()
    assert all(name in str(error.value) for name in names)


@pytest.mark.parametrize("theirs", [pot.entropic_gromov_wasserstein, pot.solve_gromov])
def test_the_table_has_all_of_pots_names(theirs):
    own, names = (inspect.signature(f).parameters for f in (gwfast.gromov_wasserstein, theirs))
    assert list(own)[:5] == ["x", "y", "p", "q", "loss"]
    # Two of them have a single value here.
    for name in names.keys() - own.keys() - {"unbalanced_type", "reg_type", "kwargs"}:
        with pytest.raises(TypeError, match=f"{name} is "):
            solve(**{name: None})


def test_warnings_name_the_line_of_the_caller():
    with pytest.warns(gwfast.ConvergenceWarning) as caught:
        solve(init="product", max_iter=1)
        gwfast.sinkhorn(COST, epsilon=0.1, max_iter=1, tol=1e-9)
        gwfast.gromov_wasserstein_batch([(COST, COST)], max_iter=1, init="product")
    assert [one.filename for one in caught] == 3 * [__file__]
