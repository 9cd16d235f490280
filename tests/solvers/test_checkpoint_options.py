"""The file of a call with other options is refused: of each option that a result
depends on, which the signatures name.
"""

import functools
import inspect

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost

import gwfast
from gwfast.solvers import checkpoint
from gwfast.solvers.checkpoint import digest

pytestmark = pytest.mark.filterwarnings(
    "ignore::gwfast.ConvergenceWarning", "ignore:p is as uneven:UserWarning"
)
# What a file may be gone on from with: other limits on this call, and other listeners.
FREE = {"time_limit", "n_threads", "memory_limit", "callback", "progress", "checkpoint"}
COSTS = random_cost(14, 0) + 0.1, random_cost(12, 1) + 0.1
POINTS = cloud(14, 3, 0), cloud(12, 3, 1)
CLOUDS = tuple(gwfast.PointCloud(x) for x in POINTS)
SPACES = [distances(cloud(n, 2, n)) + 0.1 for n in (4, 5, 6)]
LINEAR = {"linear_cost": random_cost(14, 2)[:, :12]}
FUSED = {"features": [cloud(n, 2, n) for n in (4, 5, 6)]}
QUICK = {"max_outer": 2, "max_inner": 50}
# A race is written later.
RACE = {"init": "auto", "max_outer": 9, "max_inner": 9}


class Own:
    """A start of a caller's own, whose plan depends on its attribute."""

    def __init__(self, at):
        self.at = {"row": [at]}

    def plan(self, problem, n_threads):
        plan = np.ones(problem.shape)
        plan[self.at["row"][0]] += 1.0
        return plan


# Of each option what differs, or what both calls have and what differs.
PROBLEM = dict(
    cost_x=COSTS[0] * 2,
    cost_y=COSTS[1] * 2,
    p=masses(14, 3),
    q=masses(12, 4),
    loss="kl",
    linear_cost=LINEAR["linear_cost"],
    alpha=(LINEAR, 0.7),
    marginals="partial",
    mass=({"marginals": "partial"}, 0.7),
    rho=({"marginals": "unbalanced", "rho": 1.0}, 2.0),
)
LIMITS = dict(max_outer=3, max_inner=60, tol=1e-6, marginal_tol=1e-6)
SOLVE = LIMITS | dict(
    epsilon=0.06,
    init=({"init": Own(1)}, Own(2)),
    method="ppa",
    dtype="float64",
    tier=({"cost_x": CLOUDS[0], "cost_y": CLOUDS[1]}, "sparse"),
    seed=1,
    n_starts=(RACE | {"n_starts": 2}, 9),
    loss="kl",
)
CALLS = {
    gwfast.gromov_wasserstein: (
        dict(cost_x=COSTS[0], cost_y=COSTS[1], init="product", epsilon=0.05, **QUICK),
        PROBLEM | SOLVE,
        set(),
    ),
    gwfast.multistart: (
        dict(
            cost_x=COSTS[0],
            cost_y=COSTS[1],
            starts=["product"],
            epsilon=0.05,
            max_outer=4,
        ),
        PROBLEM
        | LIMITS
        | dict(
            problem=(
                {"cost_x": None, "cost_y": None, "problem": (*COSTS, None, None)},
                (*COSTS, masses(14, 3), None),
            ),
            starts=["random"],
            epsilon=0.06,
            prune=False,
            seed=1,
        ),
        set(),
    ),
    gwfast.align: (
        dict(x=POINTS[0], y=POINTS[1], init="product", epsilon=0.05, **QUICK),
        {name: other for name, other in SOLVE.items() if name in LIMITS}
        | dict(
            x=POINTS[0] + POINTS[0] ** 2,
            y=POINTS[1] + POINTS[1] ** 2,
            p="zipf",
            q="zipf",
            n_words=9,
            metric="sqeuclidean",
            normalize=["unit"],
            epsilon=0.06,
            init=SOLVE["init"],
            loss="kl",
            tier="sparse",
            seed=1,
            scale_costs="mean",
        ),
        {"refine"},  # which comes after the solve
    ),
    gwfast.pairwise_gromov_wasserstein: (
        dict(spaces=SPACES, epsilon=0.05, max_outer=2),
        dict(
            spaces=SPACES[::-1],
            masses=[masses(n, n) for n in (4, 5, 6)],
            features=FUSED["features"],
            alpha=(FUSED, 0.7),
            loss="kl",
            epsilon=0,
            n_starts=2,
            k_nearest=1,
            max_outer=3,
            tol=1e-6,
            seed=1,
        ),
        {"plans", "n_jobs"},  # without a file, and how many work
    ),
}


@pytest.fixture(autouse=True)
def written_whenever_possible(monkeypatch):
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_every_option_is_tried_or_may_differ(call):
    _, others, free = CALLS[call]
    names = {*inspect.signature(call).parameters}
    assert names <= {*others, *free, *FREE} and {*others, *free} <= names
    assert not {*others} & (free | FREE)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_the_file_of_other_options_is_refused(call, tmp_path):
    """Each is tried, and the same options go on."""
    plain, others, _ = CALLS[call]
    went_on = []
    for number, (name, other) in enumerate(others.items()):
        shared, other = other if isinstance(other, tuple) else ({}, other)
        given = plain | shared | {"checkpoint": tmp_path / str(number)}
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
