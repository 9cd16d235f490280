"""Every option of the functions of problems, which their signatures name: what comes is
what it says that it is, and the file of a call with other options is refused.
"""

import functools
import inspect

import numpy as np
import pytest
from helpers.problems import cloud, distances, gw_objective, masses

import gwfast
from gwfast.solvers import checkpoint
from gwfast.solvers.checkpoint import digest

pytestmark = pytest.mark.filterwarnings(
    "ignore::gwfast.ConvergenceWarning", "ignore:p is as uneven:UserWarning"
)
SIZES = 7, 6, 5
COSTS = [distances(cloud(n, 2, n)) + 0.1 * (1 - np.eye(n)) + 0.1 for n in SIZES]
WEIGHTS = [masses(n, n) for n in SIZES]
FEATURES = [cloud(n, 2, n + 1) for n in SIZES]
POINTS = cloud(14, 3, 0), cloud(12, 3, 1)
LINEAR = np.square(FEATURES[0][:, None] - FEATURES[1]).sum(axis=2)
PAIR = dict(cost_x=COSTS[0], cost_y=COSTS[1])
# What changes how a result is come by, and not the result; a path stands for a file.
SAME = dict(time_limit=99.0, n_threads=2, memory_limit="1GB", progress=lambda *_: None)
SAME |= dict(n_jobs=1, plans=True, checkpoint="kept", callback=lambda step: False)
SAME |= dict(refine=None)  # which comes after the solve that a file is of


class Own:
    """A start of a caller's own, whose plan depends on its attribute."""

    def __init__(self, at):
        self.at = {"row": [at]}

    def plan(self, problem, n_threads):
        plan = np.ones(problem.shape)
        plan[self.at["row"][0]] += 1.0
        return plan


# What changes the problem, or where a solver ends: another value, or what both calls
# have and another value.
RULES = dict(marginals="semirelaxed", mass=({"marginals": "partial"}, 0.6))
PROBLEM = RULES | dict(
    cost_x=COSTS[0] * 2,
    cost_y=COSTS[1] * 2,
    p=WEIGHTS[0],
    q=WEIGHTS[1],
    loss="kl",
    linear_cost=LINEAR,
    alpha=({"linear_cost": LINEAR}, 0.3),
    rho=({"marginals": "unbalanced", "rho": 1.0}, 0.9),
)
WHOLE = [gwfast.QuadraticProblem(*COSTS[:2], p) for p in (None, WEIGHTS[0])]
SEVERAL = PROBLEM | dict(problem=(dict.fromkeys(PAIR) | {"problem": WHOLE[0]}, WHOLE[1]))
ENDS = dict(max_outer=3, max_inner=40, tol=1e-3, marginal_tol=1e-3, seed=3)
CLOUDS = dict(zip(PAIR, map(gwfast.PointCloud, POINTS), strict=True))
# A race is written later.
RACE = dict(cost_x=distances(POINTS[0]), cost_y=distances(POINTS[1]), init="auto")
RACE |= dict(n_starts=2, max_outer=9, max_inner=9)
# One that is found soon, so that time counts.
SEARCH, WORDS = RACE | dict(n_starts=0), dict(init="auto", max_outer=9)
FEW = dict(epsilon=0.05, max_outer=2)
# Of each function: options of all calls, those of files only, and others.
CALLS = {
    gwfast.pairwise_gromov_wasserstein: (
        dict(spaces=COSTS),
        FEW,
        dict(spaces=COSTS[::-1], masses=WEIGHTS, features=FEATURES, loss="kl")
        | dict(alpha=({"features": FEATURES}, 0.3), epsilon=0.1, n_starts=3)
        | dict(k_nearest=1, max_outer=3, tol=1e-3, seed=3),
    ),
    gwfast.gromov_wasserstein_batch: (
        dict(problems=[tuple(COSTS[:2]), tuple(COSTS[1:])], init="product"),
        {},
        dict(problems=[tuple(COSTS[:2])], loss="kl", **RULES, **ENDS, epsilon=0.1)
        | dict(method="ppa", dtype="float64", tier="dense", init="profile")
        | dict(n_starts=({"init": "auto"}, 3)),
    ),
    gwfast.multistart: (
        PAIR | {"starts": ["product"]},
        dict(epsilon=0.05, max_outer=4),
        SEVERAL | ENDS | dict(starts=2, epsilon=0.1, prune=False),
    ),
    gwfast.tune_epsilon: (
        PAIR | {"starts": ["product"]},
        {},
        SEVERAL | ENDS | dict(starts="auto", epsilons=[0.1], prune=False)
        | dict(key=lambda result: -result.gw_cost),
    ),
    gwfast.gromov_wasserstein: (
        PAIR | {"init": "product"},
        FEW | {"max_inner": 50},
        PROBLEM | ENDS | dict(epsilon=0.06, init=({"init": Own(1)}, Own(2)))
        | dict(method="ppa", dtype="float64", tier=(CLOUDS, "tiled"))
        | dict(n_starts=(RACE, 9), search_time=(SEARCH, 0.2)),
    ),
    gwfast.align: (
        dict(x=POINTS[0], y=POINTS[1], init="product"),
        FEW | {"max_inner": 50},
        dict(x=POINTS[0] + POINTS[0] ** 2, y=POINTS[1] + POINTS[1] ** 2, loss="kl")
        | dict(p="zipf", q="zipf", n_words=9, metric="sqeuclidean", tier="tiled")
        | dict(init=({"init": Own(1)}, Own(2)), normalize=["unit"], epsilon=0.06)
        | dict(scale_costs="mean", search_time=(WORDS, 0.2), **ENDS),
    ),
}  # fmt: skip
CHECKED = [*CALLS][:4]
KEPT = [call for call in CALLS if "checkpoint" in inspect.signature(call).parameters]


def pair_of(value):
    """What both calls have, and the other value."""
    return value if isinstance(value, tuple) and len(value) == 2 else ({}, value)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_signatures_have_these_options(call):
    names, others = {*inspect.signature(call).parameters}, {*CALLS[call][-1]}
    assert names == others | {*SAME} & names and not others & {*SAME}


def with_epsilon(call, given, epsilon):
    name, value = "epsilon", epsilon
    if call is gwfast.tune_epsilon:
        name, value = "epsilons", [0.5, epsilon]
    return {name: value} | given


def is_a_plan_of(result, given):
    """Whether the objective of a result is that of its plan."""
    cost_x, cost_y = given["cost_x"], given["cost_y"]
    if given.get("problem"):
        cost_x, cost_y = COSTS[:2]
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
    return result.costs if hasattr(result, "costs") else result.plan


@pytest.mark.parametrize("call", CHECKED, ids=lambda call: call.__name__)
@pytest.mark.parametrize("epsilon", [0.05, 0])
def test_every_option(call, epsilon, tmp_path):
    plain, _, others = CALLS[call]
    refused = call in (gwfast.multistart, gwfast.tune_epsilon) and epsilon == 0
    expected = None if refused else told(call(**with_epsilon(call, plain, epsilon)))
    for name in inspect.signature(call).parameters:
        beside, value = pair_of((SAME | others)[name])
        value = tmp_path / value if name == "checkpoint" else value
        given = plain | beside | {name: value}
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


@pytest.mark.parametrize("call", KEPT, ids=lambda call: call.__name__)
def test_the_file_of_other_options_is_refused(call, tmp_path, monkeypatch):
    """Each is tried, and the same options go on."""
    # Written whenever that is possible.
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    plain, few, others = CALLS[call]
    went_on = []
    for number, (name, other) in enumerate(others.items()):
        beside, other = pair_of(other)
        given = plain | few | beside | {"checkpoint": tmp_path / str(number)}
        call(**given)
        call(**given)
        try:
            call(**given | {name: other})
        except ValueError as error:
            _, differ = str(error).split("the checkpoint of another solve, whose ")
            assert name in differ or call is not gwfast.gromov_wasserstein
        else:
            went_on.append(name)
    assert not went_on


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


class Bare:
    def plan(self):
        pass


class Holder:
    def __init__(self, held):
        self.held = held


def test_what_a_start_holds_tells_it_from_others():
    pairs = [
        (Slotted(1), Slotted(2)),
        (Holder(Slotted(1)), Holder(Slotted(2))),
        (Holder({1}), Holder({2})),
        (Holder(b"1"), Holder(b"2")),
        (Holder(range(1)), Holder(range(2))),
        (Holder(lambda: 1), Holder(lambda: 2)),
        (Holder(functools.partial(max, 1)), Holder(functools.partial(max, 2))),
        (Holder(np.random.default_rng(1)), Holder(np.random.default_rng(2))),
        (Holder([[1], 2]), Holder([[1, 2]])),
        (Holder([1, [2]]), Holder([[1], 2])),
    ]
    for one, other in pairs:
        assert digest(one) != digest(other)
    assert digest(Holder({1, 2, 3})) == digest(Holder({3, 2, 1}))
    # The same as in another process: by nothing that has an address.
    assert digest(Bare()) == digest(Bare())
    assert digest(Holder(Bare().plan)) == digest(Holder(Bare().plan))
    assert digest(Holder(lambda: Bare)) != digest(Holder(lambda: Slotted))
    assert digest(Holder([[1], {"a": 2}])) == digest(Holder([[1], {"a": 2}]))


def test_a_start_may_hold_itself():
    one, other = Holder(1), Holder(2)
    one.me, other.me = one, other
    assert digest(one) != digest(other)
