"""Small problems that are solved together are solved as each is alone."""

import numpy as np
import pytest
from helpers.problems import distances, masses

import gwfast
from gwfast import QuadraticProblem

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
SIZES = [5, 40, 17, 2, 64, 33, 8, 24]
RULES = {
    "plain": dict(),
    "masses": dict(weighted=True),
    "kl": dict(loss="kl"),
    "fused": dict(fused=True),
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals=gwfast.Partial(0.8)),
    "unbalanced": dict(marginals=gwfast.Unbalanced(0.5)),
}


def problem(n, seed, weighted=False, fused=False, **rule):
    rng = np.random.default_rng(seed)
    x, y = (
        distances(rng.standard_exponential((size, 3)) * [1, 2, 3]) + 0.1
        for size in (n, n + seed % 3)
    )
    if weighted:
        rule |= dict(p=masses(len(x), 1), q=masses(len(y), 2))
    if fused:
        rule |= dict(linear_cost=rng.random((len(x), len(y))))
    return QuadraticProblem(x, y, **rule)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
def test_together_as_alone_on_any_number_of_threads(rule, dtype):
    problems = [problem(n, k, **RULES[rule]) for k, n in enumerate(SIZES)]
    options = dict(init="product", epsilon="8%", dtype=dtype)
    alone = [gwfast.gromov_wasserstein(one, **options) for one in problems]
    for n_threads in (1, 2, 3):
        together = gwfast.gromov_wasserstein_batch(problems, n_threads=n_threads, **options)
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one.plan, other.plan)
            for mine, theirs in zip(one.potentials, other.potentials, strict=True):
                np.testing.assert_array_equal(mine, theirs)
            inner, same = ([step.n_inner for step in result.history] for result in (one, other))
            assert inner == same
            for name in ("gw_cost", "reg_cost", "ending", "advice", "epsilon"):
                np.testing.assert_equal(getattr(one, name), getattr(other, name))


def test_the_number_of_a_problem_is_in_its_error():
    problems = [problem(9, 0), problem(9, 1)]
    with pytest.raises(ValueError, match=r"problems\[0\]: init must have shape"):
        gwfast.gromov_wasserstein_batch(problems, init=np.ones((9, 10)))
    ok = gwfast.gromov_wasserstein_batch(problems[:1], init=np.ones((9, 9)))
    assert ok[0].converged or ok[0].status == "degenerate"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_start_is_left_as_it_came(dtype):
    given = problem(9, 0)
    start = np.full((9, 9), 1 / 81, dtype)
    gwfast.gromov_wasserstein(given, epsilon="5%", init=start, dtype=dtype)
    gwfast.gromov_wasserstein_batch([given], epsilon="5%", init=start, dtype=dtype)
    assert (start == start[0, 0]).all()
