"""The search for exact plans: descents with less and less entropy."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost, steps

from gwfast import QuadraticProblem
from gwfast.quadratic import frank_wolfe
from gwfast.quadratic.frank_wolfe import ExactLimits, FrankWolfe
from gwfast.solvers import annealing
from gwfast.solvers.annealing import LEVELS, lowest
from gwfast.utils.deadline import Deadline

LIMITS = ExactLimits()


def tree(n, seed):
    """Steps in a random tree."""
    rng, links = np.random.default_rng(seed), np.zeros((n, n))
    for node in range(1, n):
        links[node, rng.integers(node)] = 1
    return steps(links + links.T)


def curves(seed):
    """Distances along and across two smooth loops in space."""
    rng, sides = np.random.default_rng(seed), []
    for n in rng.integers(16, 24, 2):
        angle = np.sort(rng.random(n)) * 2 * np.pi
        waves = np.multiply.outer(angle, [1, 2, 3])
        sizes = rng.standard_normal((2, 3, 3)) / np.array([1, 2, 3])[:, None]
        sides.append(distances(np.cos(waves) @ sizes[0] + np.sin(waves) @ sizes[1]))
    return sides


def problem_of(seed, **rule):
    return QuadraticProblem(tree(14, seed), tree(17, seed + 50), **rule)


def untimed(found):
    return [row._replace(seconds=0.0) for row in found.candidates]


RULES = {
    "balanced": dict(),
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals="partial", mass=0.9),
}


@pytest.mark.parametrize("name", RULES)
def test_any_number_of_threads_finds_the_same(name):
    problem = problem_of(3, **RULES[name])
    one, other = (lowest(problem, k, LIMITS, seed=2, n_random=3) for k in (1, 3))
    np.testing.assert_array_equal(one.solution.plan, other.solution.plan)
    np.testing.assert_array_equal(one.runner.plan, other.runner.plan)
    assert untimed(one) == untimed(other)


@pytest.mark.parametrize("name", RULES)
def test_every_start_has_a_row(name):
    problem = problem_of(7, **RULES[name])
    table = lowest(problem, 1, LIMITS, n_random=3).candidates
    labels = ["product", *["balanced"] * (name != "balanced")]
    labels += [*(f"annealed {label}" for label in labels), "annealed product, late"]
    labels += [f"annealed random {k}" for k in range(3)]
    eigen = [row.start for row in table if "eigenvectors" in row.start]
    assert len(eigen) == 2**annealing.N_SIGNS == len(set(eigen))
    assert sorted(row.start for row in table) == sorted(labels + eigen)
    won = [row for row in table if row.fate == "won"]
    assert len(won) == 1 and won[0].gw_cost == min(row.gw_cost for row in table)
    ends = [row for row in table if row.fate in ("won", "lost")]
    assert {row.epsilon for row in ends} == {0.0}
    annealed = [row for row in ends if row.start.startswith("annealed")]
    assert 1 <= len(annealed) <= LEVELS[-1].n_left
    for row in table:
        if row not in ends:
            assert row.epsilon > 0
            assert row.fate.startswith(("dropped in round ", "same as annealed "))


def test_objectives_are_far_below_those_from_the_product_plan():
    logs = []
    for seed in range(8):
        sides = curves(seed) if seed % 2 else (tree(18, seed), tree(22, seed + 9))
        problem = QuadraticProblem(*sides)
        product = np.outer(problem.p, problem.q)
        product = FrankWolfe(problem, 1).solve(product, LIMITS).gw_cost
        logs.append(np.log(lowest(problem, 1, LIMITS).solution.gw_cost / product))
    assert max(logs) <= 0 and np.mean(logs) < np.log(0.87)


def test_random_starts_come_in_heats(monkeypatch):
    problem = problem_of(1)
    one = lowest(problem, 1, LIMITS, n_random=9).candidates
    monkeypatch.setattr(annealing, "MAX_FIELD", 11)
    told = []
    several = lowest(problem, 1, LIMITS, n_random=9, report=told.append).candidates
    assert sorted(row.start for row in one) == sorted(row.start for row in several)
    numbers = [event.text.partition(":")[0] for event in told]
    assert numbers == [f"start {k} of 19" for k in range(1, 20)]
    # Each heat takes some to the end.
    ends = [sum(row.epsilon == 0 for row in table) for table in (one, several)]
    assert ends[0] < ends[1]


def test_starts_of_eigenvectors_are_plans_of_all_signs():
    given = masses(12, 1), masses(15, 2)
    problem = QuadraticProblem(tree(12, 1), tree(15, 2), *given)
    made = annealing._signs(FrankWolfe(problem, 1))
    assert len(made) == 2**annealing.N_SIGNS
    for one in made:
        assert one.plan.min() >= 0 and one.plan.sum() == pytest.approx(1.0)
    apart = [abs(a.plan - b.plan).sum() for a in made for b in made if a is not b]
    assert min(apart) > 0.1


def test_points_without_mass_and_asymmetric_costs_have_no_eigenvectors():
    for sides in (
        (random_cost(9, 1, symmetric=False), random_cost(8, 2)),
        (np.ones((5, 5)), np.ones((4, 4))),
        (np.zeros((1, 1)), tree(6, 0)),
    ):
        problem = QuadraticProblem(*sides)
        assert annealing._signs(FrankWolfe(problem, 1)) == []
        found = lowest(problem, 1, LIMITS)
        random = [row for row in found.candidates if "random" in row.start]
        assert len(random) == (0 if found.is_done else annealing.N_STARTS)


class AfterLooks(Deadline):
    """Has passed when it was looked at so many times."""

    def __init__(self, most):
        self._left = most

    @property
    def at(self):
        self._left -= 1
        return np.inf if self._left > 0 else -np.inf


@pytest.mark.parametrize("most", [2, 5, 12, 40, 200])
def test_when_time_is_up_the_best_so_far_is_a_plan(most):
    limits = ExactLimits(deadline=AfterLooks(most))
    found = lowest(problem_of(5), 1, limits, n_random=10**30)
    plan = found.solution.plan
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 14, rtol=1e-12)
    assert [row.fate for row in found.candidates].count("won") == 1


def test_large_spread_of_costs_is_taken():
    x, y = distances(cloud(15, 2, 0)), distances(cloud(18, 2, 1))
    plain = lowest(QuadraticProblem(x, y), 1, LIMITS).solution
    for scale, shift in ((1e12, 0.0), (1e-12, 0.0), (1.0, 1e5)):
        moved = QuadraticProblem(scale * x + shift, scale * y + shift)
        found = lowest(moved, 1, LIMITS).solution
        assert found.gw_cost / scale**2 == pytest.approx(plain.gw_cost, rel=0.05)


def test_eigenvectors_of_many_points_are_not_waited_for(monkeypatch):
    """Beside few points they would take longer than all else."""

    def fail(*_):
        raise AssertionError("eigenvectors")

    monkeypatch.setattr(frank_wolfe, "directions", fail)
    path = np.abs(np.subtract.outer(np.arange(60.0), np.arange(60.0)))
    found = lowest(QuadraticProblem(path[:4, :4], path), 1, LIMITS, n_random=2)
    assert found.solution.gw_cost > 0
    with pytest.raises(AssertionError, match="eigenvectors"):
        lowest(QuadraticProblem(path, path[:50, :50]), 1, LIMITS)
