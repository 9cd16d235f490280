"""Many problems at once give what each gives alone."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost, rotated_pair
from helpers.settings import settings

import gwfast
from gwfast import PointCloud, QuadraticProblem, gromov_wasserstein_batch

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
SIZES = [(20, 20), (1, 4), (35, 28), (12, 30), (2, 2), (28, 35)]


def small_problems():
    """Tuples as `gromov_wasserstein` takes them, of all kinds and sizes."""
    made = []
    for k, (n, m) in enumerate(SIZES):
        x, y, _ = rotated_pair(max(n, m), 3, k, noise=0.05)
        sides = PointCloud(x[:n]), PointCloud(y[:m], "cosine")
        if k % 3 == 2:
            sides = random_cost(n, k), random_cost(m, k + 50)
        made.append(sides if k % 2 else (*sides, masses(n, k), masses(m, k + 1)))
    return made


def batch(problems, **options):
    return gromov_wasserstein_batch(problems, **settings(**options))


def alone(*problem, **options):
    return gwfast.gromov_wasserstein(*problem, **settings(**{"n_threads": 1} | options))


def assert_same(one, other):
    np.testing.assert_array_equal(one.plan, other.plan)
    for left, right in zip(one.potentials, other.potentials, strict=True):
        np.testing.assert_array_equal(left, right)
    names = "gw_cost", "reg_cost", "epsilon", "marginal_error"
    for name in (*names, "status", "left_out", "advice"):
        assert getattr(one, name) == getattr(other, name), name
    assert [step.n_inner for step in one.history] == [step.n_inner for step in other.history]
    fates = [[row.fate for row in result.candidates] for result in (one, other)]
    assert fates[0] == fates[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        dict(init="product", max_iter=15, n_threads=1),
        dict(max_iter=5, n_threads=3),
        dict(init="random", seed=5, epsilon=0.05, max_iter=6, n_threads=3),
        dict(init="profile", tol=1e-3, max_inner=50, max_iter=9, n_threads=2),
    ],
)
def test_results_are_those_of_single_solves_in_their_order(options):
    problems = small_problems()
    results = batch(problems, **options)
    assert [result.coupling.shape for result in results] == SIZES
    options = {"init": "exact"} | options | {"n_threads": 1}
    for result, problem in zip(results, problems, strict=True):
        assert_same(result, alone(*problem, **options))


@pytest.mark.parametrize("epsilon", ["auto", 0])
def test_problems_take_all_that_single_ones_take(epsilon):
    costs = random_cost(8, 0) + 0.1, random_cost(9, 1) + 0.1
    own = dict(loss="kl", marginals=gwfast.Partial(0.5), epsilon=epsilon)
    own |= dict(dtype="float64", max_iter=20)
    (result,) = batch([costs], **own)
    assert_same(result, alone(*costs, **own))
    (result,) = batch([costs], epsilon=0.05, method="ppa", max_iter=9)
    expected = alone(*costs, epsilon=0.05, method="ppa", max_iter=9, init="product")
    assert_same(result, expected)


def test_starts_are_counted_and_cheap_ones_not_worse_than_the_product_plan():
    costs = [(distances(cloud(n, 2, n)), distances(cloud(n + 2, 2, n + 1))) for n in range(5, 20)]
    for epsilon in (0.02, 0):
        one = batch(costs, init="product", epsilon=epsilon)
        few = batch(costs, n_starts=2, epsilon=epsilon)
        more = batch(costs, epsilon=epsilon)
        mean = [np.mean([r.gw_cost for r in several]) for several in (one, few, more)]
        assert mean[0] > mean[1] >= mean[2]
    assert all(row.start != "annealed random 2" for result in few for row in result.candidates)


def test_problems_come_in_any_form():
    problems, options = small_problems(), {"init": "product", "max_iter": 3}
    kl = random_cost(12, 0) + 0.1, random_cost(15, 1) + 0.1
    kl = QuadraticProblem(*kl, loss="kl")  # losses may differ
    assert_same(batch([problems[0], kl], **options)[1], alone(kl, **options))
    expected = batch(problems, **options)
    for given in (
        [QuadraticProblem(*problem) for problem in problems],
        (problem for problem in problems),
        tuple(map(list, problems)),
        dict(enumerate(problems)).values(),
    ):
        for one, other in zip(batch(given, **options), expected, strict=True):
            assert_same(one, other)


def test_one_problem_may_be_there_many_times_or_never():
    assert batch([]) == batch(iter(())) == []
    problem = QuadraticProblem(*small_problems()[0])
    results = batch([problem] * 8, n_threads=4, max_iter=3, init="product")
    for result in results[1:]:
        assert_same(result, results[0])
    plans = {result.plan.ctypes.data for result in results}
    assert len(plans) == 8


# --- Refusals -------------------------------------------------------------------------

GOOD = random_cost(6, 0), random_cost(5, 1)


@pytest.mark.parametrize("problems", [None, "ab", QuadraticProblem(*GOOD)])
def test_problems_have_to_be_iterable(problems):
    came = type(problems).__name__
    with pytest.raises(TypeError, match=f"problems must be an iterable, got {came}"):
        batch(problems)


@pytest.mark.parametrize(
    "bad, error, message",
    [
        (None, TypeError, r"problems\[2\] must be .* got NoneType"),
        (GOOD[:1], TypeError, r"problems\[2\] must be .* got tuple of 1"),
        ((*GOOD, None), TypeError, r"problems\[2\] must be .* got tuple of 3"),
        (GOOD[0], TypeError, r"problems\[2\] must be .* got ndarray"),
        ((GOOD[0][:4], GOOD[1]), ValueError, r"problems\[2\]: x must be square"),
        ((*GOOD, None, [1.0]), ValueError, r"problems\[2\]: q must have shape"),
        ((*GOOD, "a", None), TypeError, r"problems\[2\]: p must hold real numbers"),
        # Known only when it is solved.
        (
            QuadraticProblem(-GOOD[0], GOOD[1], loss="kl"),
            ValueError,
            r"problems\[2\]: x must not be negative",
        ),
    ],
)
def test_bad_problem_is_named_by_its_number(bad, error, message):
    with pytest.raises(error, match=message):
        batch([GOOD, GOOD, bad, GOOD], init="product", epsilon=0.1, n_threads=2)
    # The next one works.
    assert len(batch([GOOD] * 2, init="product", epsilon=0.1)) == 2


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("epsilon", -1.0, ValueError),
        ("init", "best", ValueError),
        ("max_inner", 1.5, TypeError),
        ("marginal_tol", 0, ValueError),
        ("seed", -1, ValueError),
        ("n_threads", 0, ValueError),
        ("progress", "yes", TypeError),
    ],
)
def test_bad_option_is_named(name, value, error):
    with pytest.raises(error, match=f"{name} must"):
        batch([GOOD, GOOD], **{name: value})


# --- What is said ---------------------------------------------------------------------


def test_one_warning_for_all():
    problems = [(PointCloud(cloud(20, 3, k)), PointCloud(cloud(18, 3, k + 9))) for k in range(7)]
    with pytest.warns(gwfast.ConvergenceWarning) as caught:
        results = gromov_wasserstein_batch(problems, init="product", max_iter=1)
    assert {result.status for result in results} == {"max_iter"}
    message = str(caught[0].message)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert message.startswith("7 of 7 problems did not converge: 0 (max_iter), ")
    assert "4 (max_iter), ...; see advice" in message


@pytest.mark.filterwarnings("error")
def test_no_warning_where_all_is_well():
    x, y, _ = rotated_pair(40, 3, 0)
    sides = PointCloud(x), PointCloud(y)
    results = gromov_wasserstein_batch([sides] * 2, init="product", epsilon=0.005)
    assert all(result.converged for result in results)


def test_progress_is_told_how_many_are_done():
    said = []
    batch(small_problems(), init="product", max_iter=2, progress=lambda *what: said.append(what))
    texts, done, totals = zip(*said, strict=True)
    assert set(texts) == {"solving"} and set(totals) == {len(SIZES)}
    assert list(done)[: len(SIZES)] == list(range(len(SIZES)))


def test_progress_that_fails_ends_the_batch():
    def fail(text, done, total):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch([GOOD] * 4, init="product", epsilon=0.1, progress=fail)
