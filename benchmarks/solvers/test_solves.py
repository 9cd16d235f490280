"""gwfast's own solves, step by step with what they say of themselves. Against other
solvers, and judged, they are in the other parts of ``python -m benchmarks.report``.
"""

import warnings

import pytest

import gwfast

from ..common import settings
from ..common.settings import solver_arguments
from . import problems

OPTIONS = {
    "product start": {"init": "product"},
    "product start, loose": {"init": "product", "tol": 1e-4, "marginal_tol": 2e-3},
    "search (the default)": {},
}


@pytest.fixture(scope="module")
def word_problem():
    """The most frequent words of two languages."""
    return problems.word_problem("es-en", settings.WORDS, 1e-3)


@pytest.fixture(scope="module")
def graph_problem():
    """Dense costs."""
    return problems.graph_problem("es-en", settings.WORDS // 2)


@pytest.mark.parametrize("label", OPTIONS)
def test_words(bench, word_problem, n_threads, label):
    """`align` from the vectors as they were read, mapping included."""
    n_words, raw = word_problem.shape[0], word_problem.raw
    solve(bench, word_problem, label, gwfast.align, raw, n_threads, n_words=n_words)


@pytest.mark.parametrize("label", OPTIONS)
def test_graph(bench, graph_problem, n_threads, label):
    costs = graph_problem.costs
    solve(bench, graph_problem, label, gwfast.gromov_wasserstein, costs, n_threads)


def solve(bench, problem, label, function, spaces, n_threads, **options):
    options |= OPTIONS[label]
    options |= {"epsilon": problem.epsilon, "n_threads": n_threads}
    options = solver_arguments(**options)
    bench.group = f"gwfast: {problem.name}"
    with warnings.catch_warnings():
        # What came of it is in the table; nothing here fails for that.
        warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
        result = bench.pedantic(function, args=spaces, kwargs=options, rounds=5, warmup_rounds=1)
    gw = getattr(result, "gw", result)
    bench.extra_info.update(
        solve=label, outer=gw.n_iter, inner=sum(step.n_inner for step in gw.history)
    )
    bench.extra_info.update(gw_cost=gw.gw_cost, status=gw.status)
