"""POT's names of arguments are told apart from mistakes."""

import inspect

import numpy as np
import pytest

import gwfast
from gwfast import pot

COST = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0) ** 2))


def solve(**options):
    costs = {} if "C1" in options else {"x": COST, "y": COST}
    return gwfast.gromov_wasserstein(**costs, **options)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: solve(G0=None), "G0 is init"),
        (lambda: solve(loss_fun="kl"), 'loss_fun is loss ("square" or "kl")'),
        (lambda: solve(reg=0.1), "reg is epsilon (half of POT's)"),
        (lambda: solve(log=True, M=COST), "M is linear_cost, log is left out (what"),
        (lambda: solve(C1=COST, C2=COST), "C1 is x, C2 is y"),
        (lambda: gwfast.tune_epsilon(COST, COST, reg=1.0), "reg is epsilons"),
        (lambda: gwfast.sinkhorn(M=COST, reg=1.0), "M is cost, reg is epsilon"),
        (lambda: gwfast.QuadraticProblem(C1=COST, C2=COST), "C1 is x, C2 is y"),
        (lambda: gwfast.gromov_wasserstein_batch([], loss_fun="kl"), "loss_fun is loss"),
        (lambda: gwfast.pairwise_gromov_wasserstein([], a=[]), "a is masses"),
    ],
)
def test_the_name_here_is_said(call, said):
    message = r"^\w+\(\) got unexpected keyword arguments; POT's names are"
    with pytest.raises(TypeError, match=message) as error:
        call()
    assert said in str(error.value)


def test_other_mistakes_are_pythons():
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsilom'"):
        gwfast.gromov_wasserstein(COST, COST, epsilom=1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'Ca'"):
        gwfast.gromov_wasserstein_batch([], Ca=COST)  # has no costs of its own


def test_signatures_stay_what_they_are():
    parameters = inspect.signature(gwfast.gromov_wasserstein).parameters
    assert list(parameters)[:5] == ["x", "y", "p", "q", "loss"]
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values())


@pytest.mark.parametrize("theirs", [pot.entropic_gromov_wasserstein, pot.solve_gromov])
def test_the_table_has_all_of_pots_names(theirs):
    own = inspect.signature(gwfast.gromov_wasserstein).parameters.keys()
    names = inspect.signature(theirs).parameters
    named = {name for name, one in names.items() if one.kind is not one.VAR_KEYWORD}
    for name in named - own - {"unbalanced_type", "reg_type"}:  # which have a single value here
        with pytest.raises(TypeError, match=f"{name} is "):
            gwfast.gromov_wasserstein(COST, COST, **{name: None})


def test_warnings_name_the_line_of_the_caller():
    with pytest.warns(gwfast.ConvergenceWarning) as caught:
        gwfast.gromov_wasserstein(COST, COST, init="product", max_iter=1)
        gwfast.sinkhorn(COST, epsilon=0.1, max_iter=1, tol=1e-9)
        gwfast.gromov_wasserstein_batch([(COST, COST)], max_iter=1, init="product")
    assert [one.filename for one in caught] == 3 * [__file__]
