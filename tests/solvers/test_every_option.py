"""Every option of the functions of many problems, with and without entropy."""

import inspect

import numpy as np
import pytest
from helpers.problems import cloud, distances, gw_objective, masses

import gwfast

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
SIZES = 7, 6, 5
COSTS = [distances(cloud(n, 2, n)) + 0.1 * (1 - np.eye(n)) + 0.1 for n in SIZES]
WEIGHTS = [masses(n, n) for n in SIZES]
FEATURES = [cloud(n, 2, n + 1) for n in SIZES]
LINEAR = np.square(FEATURES[0][:, None] - FEATURES[1]).sum(axis=2)
PAIR = dict(cost_x=COSTS[0], cost_y=COSTS[1])
# What changes how a result is come by, and not the result; a path stands for a file.
SAME = dict(time_limit=99.0, n_threads=2, memory_limit="1GB", progress=lambda *_: None)
SAME |= dict(n_jobs=1, plans=True, checkpoint="kept")
# What changes the problem, or where a solver ends.
TERMS = dict(loss="kl", linear_cost=LINEAR, alpha=(0.3, {"linear_cost": LINEAR}))
RULES = dict(marginals="semirelaxed", mass=(0.6, {"marginals": "partial"}))
ENDS = dict(max_outer=3, max_inner=40, tol=1e-3, marginal_tol=1e-3, seed=3)
MASSES = dict(p=WEIGHTS[0], q=WEIGHTS[1])
ONE = PAIR | MASSES | TERMS | RULES | dict(rho=(0.9, {"marginals": "unbalanced"}))
ONE |= dict(problem=(gwfast.QuadraticProblem(*COSTS[:2]), dict.fromkeys(PAIR)))
CASES = {
    gwfast.pairwise_gromov_wasserstein: (
        dict(spaces=COSTS),
        dict(spaces=COSTS[::-1], masses=WEIGHTS, features=FEATURES, loss="kl")
        | dict(alpha=(0.3, {"features": FEATURES}), epsilon=0.1, n_starts=3)
        | dict(k_nearest=1, max_outer=3, tol=1e-3, seed=3),
    ),
    gwfast.gromov_wasserstein_batch: (
        dict(problems=[tuple(COSTS[:2]), tuple(COSTS[1:])], init="product"),
        dict(problems=[tuple(COSTS[:2])], loss="kl", **RULES, **ENDS, epsilon=0.1)
        | dict(method="ppa", dtype="float64", tier="dense", init="profile")
        | dict(n_starts=(3, {"init": "auto"})),
    ),
    gwfast.multistart: (
        PAIR | {"starts": ["product"]},
        ONE | ENDS | dict(starts=2, epsilon=0.1, prune=False),
    ),
    gwfast.tune_epsilon: (
        PAIR | {"starts": ["product"]},
        ONE | ENDS | dict(starts="auto", epsilons=[0.1], prune=False)
        | dict(key=lambda result: -result.gw_cost),
    ),
}  # fmt: skip


def asked(call, name, value, tmp_path):
    """What the call is given with an option: that it has beside, and a path made."""
    value, beside = value if isinstance(value, tuple) else (value, {})
    value = tmp_path / value if name == "checkpoint" else value
    return CASES[call][0] | beside | {name: value}


def with_epsilon(call, given, epsilon):
    name, value = "epsilon", epsilon
    if call is gwfast.tune_epsilon:
        name, value = "epsilons", [0.5, epsilon]
    return {name: value} | given


def is_a_plan_of(result, given):
    """Whether the objective of a result is that of its plan."""
    problem = given.get("problem")
    cost_x, cost_y = COSTS[:2] if problem else (given["cost_x"], given["cost_y"])
    plan = result.plan.astype(np.float64)
    value = gw_objective(plan, cost_x, cost_y, given.get("loss", "square"))
    if "linear_cost" in given:
        alpha = given.get("alpha", 0.5)
        value = alpha * value + (1 - alpha) * np.vdot(plan, given["linear_cost"])
    return result.gw_cost == pytest.approx(value + result.penalty, rel=1e-4, abs=1e-7)


def check(call, result, given):
    """That it is what it says that it is."""
    if call is gwfast.pairwise_gromov_wasserstein:
        skipped = np.isinf(result.costs)
        assert skipped.sum() == 2 * result.n_skipped <= 2 * ("k_nearest" in given)
        assert (result.costs[~skipped] >= result.lower_bounds[~skipped] - 1e-9).all()
        assert result.n_solved + result.n_skipped == (6 if "loss" in given else 3)
    elif call is gwfast.gromov_wasserstein_batch:
        for (cost_x, cost_y), one in zip(given["problems"], result, strict=True):
            assert is_a_plan_of(one, given | dict(cost_x=cost_x, cost_y=cost_y))
    else:
        assert is_a_plan_of(result, given)


def told(result):
    if isinstance(result, list):
        return np.concatenate([one.plan.ravel() for one in result])
    return getattr(result, "costs", None) if hasattr(result, "costs") else result.plan


@pytest.mark.parametrize("call", CASES, ids=lambda call: call.__name__)
@pytest.mark.parametrize("epsilon", [0.05, 0])
def test_every_option(call, epsilon, tmp_path):
    plain, others = CASES[call]
    names = inspect.signature(call).parameters.keys()
    assert names == {*others, *SAME} & {*names}
    refused = call in (gwfast.multistart, gwfast.tune_epsilon) and epsilon == 0
    expected = None if refused else told(call(**with_epsilon(call, plain, epsilon)))
    for name in names:
        given = asked(call, name, (SAME | others)[name], tmp_path)
        if name not in ("epsilon", "epsilons"):
            given = with_epsilon(call, given, epsilon)
            if refused or (name == "method" and epsilon == 0):
                with pytest.raises(ValueError, match="epsilon"):
                    call(**given)
                continue
        result = call(**given)
        check(call, result, given)
        if name in SAME:
            np.testing.assert_array_equal(told(result), expected, name)
