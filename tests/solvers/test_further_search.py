"""What a search does after its race, and how sure it says that it is."""

import time

import numpy as np
import pytest

import gwfast
from gwfast.quadratic.stopping import Limits
from gwfast.results.tables import Candidate, Candidates
from gwfast.solvers import annealing, further_search
from gwfast.solvers.agreement import LEVEL, Evidence, confidence, confidence_of, verdict
from gwfast.solvers.further_search import CLUSTERS_EVERY
from gwfast.solvers.gromov import solve
from gwfast.solvers.options import SolveOptions
from gwfast.utils.deadline import Patience
from gwfast.utils.mechanisms import without

LIMITS = Limits(max_outer=1000, max_inner=10_000, tol=1e-5, marginal_tol=1e-5)


def linked(seed, n=60, moved=0.1):
    """A graph of near neighbors in the plane, and the same with some edges moved."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    near = np.argsort(apart, axis=1)[:, 1:5]
    edges = np.stack([np.repeat(np.arange(n), 4), near.ravel()], 1)
    edges = np.unique(np.sort(edges, 1), axis=0)
    other = edges.copy()
    some = rng.random(len(edges)) < moved
    other[some, 1] = rng.integers(n, size=some.sum())
    made = np.zeros((2, n, n))
    for one, ends in zip(made, (edges, other), strict=True):
        one[ends[:, 0], ends[:, 1]] = one[ends[:, 1], ends[:, 0]] = 1
        np.fill_diagonal(one, 0)
    return made


def raced(problem, **options):
    """The result of the race alone."""
    options = SolveOptions(LIMITS, mechanisms=without("second_look"), **options)
    return solve(problem, options)


@pytest.fixture(scope="module")
def graphs():
    """Two graphs of which a race misses the best plan, that of equal names."""
    problem = gwfast.QuadraticProblem(*linked(1))
    known = gwfast.gromov_wasserstein(problem, init=np.eye(60) / 60)
    assert raced(problem).gw_cost > 1.05 * known.gw_cost
    return problem, known


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_an_escape_leads_lower(graphs):
    problem, known = graphs
    result = gwfast.gromov_wasserstein(problem)
    assert result.gw_cost <= known.gw_cost * 1.001
    won = [row.start for row in result.candidates if row.fate == "won"]
    assert len(won) == 1 and won[0].startswith("escape")
    # It went on from few points, which here are all.
    rows = [row for row in result.candidates if row.start == won[0]]
    assert [row.fate for row in rows] == ["went on", "won"]
    assert result.gw_cost == rows[-1].gw_cost
    np.testing.assert_allclose(result.plan.sum(axis=0), problem.q, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_it_is_the_same_with_any_number_of_threads(graphs):
    found = [gwfast.gromov_wasserstein(graphs[0], n_threads=n) for n in (1, 2)]
    assert found[0].gw_cost == pytest.approx(found[1].gw_cost, rel=1e-6)
    names = [[row.start for row in one.candidates] for one in found]
    assert names[0] == names[1]


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_another_seed_escapes_elsewhere(graphs):
    found = [gwfast.gromov_wasserstein(graphs[0], seed=seed) for seed in (0, 1)]
    ends = [
        [row.gw_cost for row in one.candidates if row.start.startswith("escape")] for one in found
    ]
    assert ends[0] != ends[1]


class Looks:
    """A `Patience` that ends after so many looks, whatever the clock says."""

    def __init__(self, most):
        self.left, self.seconds, self.renewed = most, None, 0

    def __call__(self, seconds):
        self.seconds = seconds
        return self

    @property
    def goes_on(self):
        self.left -= 1
        return self.left >= 0

    def renew(self):
        self.renewed += 1


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("epsilon, looks_left", [("auto", (0, 700, 900)), (0, (0, 30, 60))])
def test_the_search_goes_on_as_long_as_it_may(graphs, epsilon, looks_left, monkeypatch):
    found = []
    for most in looks_left:
        looks = Looks(most)
        for module in (annealing, further_search):
            monkeypatch.setattr(module, "Patience", looks)
        options = dict(epsilon=epsilon, search_time=5.0)
        found.append(gwfast.gromov_wasserstein(graphs[0], **options))
        assert looks.seconds == 5.0 and looks.left < 0
    sizes = [len(one.candidates) for one in found]
    assert sizes[0] < sizes[1] < sizes[2]
    costs = [one.gw_cost for one in found]
    assert costs[0] >= costs[1] >= costs[2]
    # No less is done than without a time to search.
    known = gwfast.gromov_wasserstein(graphs[0], epsilon=epsilon)
    assert known.gw_cost == costs[0] and len(known.candidates) == sizes[0]


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_clusters_are_looked_at_now_and_then(monkeypatch):
    rng = np.random.default_rng(3)
    clouds = [gwfast.PointCloud(rng.standard_normal((150, 4))) for _ in range(2)]
    seen = []
    for most in (0, 12 * CLUSTERS_EVERY):
        monkeypatch.setattr(further_search, "Patience", Looks(most))
        result = gwfast.gromov_wasserstein(*clouds, search_time=1.0)
        names = [row.start.partition(",")[0] for row in result.candidates]
        seen.append({name for name in names if name.startswith("clusters")})
    assert len(seen[1] - seen[0]) >= 2


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_time_limit_ends_the_search(graphs):
    began = time.perf_counter()
    result = gwfast.gromov_wasserstein(graphs[0], search_time=1e6, time_limit=1.0)
    assert np.isfinite(result.gw_cost)
    # Far below the time to search; how far is the machine's affair.
    assert time.perf_counter() - began < 1e4


@pytest.mark.parametrize("wrong", [0, -1.0, np.nan, "soon"])
def test_a_wrong_time_to_search_is_named(wrong):
    with pytest.raises((TypeError, ValueError), match="search_time must be"):
        gwfast.gromov_wasserstein(np.eye(3), np.eye(3), search_time=wrong)


def test_patience_ends_when_nothing_is_found(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("gwfast.utils.deadline.time.perf_counter", lambda: now[0])
    patience = Patience(10.0)
    went_on = []
    for at in (4.9, 5.1):
        now[0] = at
        went_on.append(patience.goes_on)
    patience.renew()
    for at in (9.9, 10.1):
        now[0] = at
        went_on.append(patience.goes_on)
    assert went_on == [True, False, True, False]


def rows(*told):
    """Candidates of 100 points from their starts, objectives and fates."""
    return Candidates(
        Candidate(start, 100, 0.1, gw_cost, 10, 0.1, fate) for start, gw_cost, fate in told
    )


def test_what_is_taken_for_evidence():
    race = [
        ("profile 0.02", 1.0, "won"),
        ("root profile 0.1", 1.0, "same as profile 0.02"),
        ("product", 1.0, "same as root profile 0.1"),
        ("random 0", 1.03, "dropped in round 2"),
    ]
    escapes = [
        ("escape 1", 1.0, "same as profile 0.02"),
        ("escape 2", 1.1, "lost"),
        ("escape 3", 1.0, "same as profile 0.02"),
    ]
    alone, whole = Evidence.of(rows(*race), "converged"), rows(*race, *escapes)
    # Two kinds: all profiles are one; a gap is a share of a tenth.
    assert alone == pytest.approx((2, 2, 0.3, 0, 1))
    seen = Evidence.of(whole, "converged")
    assert seen == pytest.approx((2, 2, 0.3, 1 / 2, 1), abs=1e-6)
    assert Evidence.of(whole, "cycle").settled == 0
    assert confidence(seen) == pytest.approx(confidence_of(whole, "converged"))


def test_escapes_from_what_was_best_before_say_nothing():
    made = rows(
        ("product", 2.0, "lost"),
        ("escape 1", 2.0, "same as product"),
        ("escape 2", 1.0, "went on"),
        ("escape 3", 1.0, "same as escape 2"),
        ("escape 2", 1.0, "won"),
    )
    seen = Evidence.of(made, "converged")
    assert (seen.kinds, seen.met, seen.back) == (0, 0, 0.5)


def test_more_witnesses_make_surer():
    weak = Evidence(1, 0, 0.0, 0.0, False)
    strong = Evidence(3, 3, 1.0, 0.9, True)
    assert 0 < confidence(weak) < 0.2 < LEVEL < confidence(strong) < 1
    for name, value in strong._asdict().items():
        assert confidence(weak._replace(**{name: value})) > confidence(weak)


def work(result):
    """Return the outer iterations of all candidates, in iterations on all points."""
    n = max(result.plan.shape)
    return sum(row.n_outer * (row.n_points / n) ** 2 for row in result.candidates)


def test_a_search_ends_where_independent_starts_met():
    rng = np.random.default_rng(0)
    x = rng.standard_exponential((500, 3)) * [3, 2, 1]
    y = x[rng.permutation(500)] + 0.02 * rng.standard_normal(x.shape)
    clouds = [gwfast.PointCloud(side) for side in (x, y)]
    costs = [np.linalg.norm(side[:, None] - side, axis=2) for side in (x, y)]
    for problem in (clouds, costs):
        alone = gwfast.gromov_wasserstein(*problem, init="product")
        result = gwfast.gromov_wasserstein(*problem)
        assert result.status == "converged"
        assert work(result) <= 8 * alone.n_outer


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_search_that_stays_unsure_ends_after_some_solves():
    rng = np.random.default_rng(1)
    clouds = [gwfast.PointCloud(rng.standard_normal((400, 6))) for _ in range(2)]
    alone = gwfast.gromov_wasserstein(*clouds, init="product")
    result = gwfast.gromov_wasserstein(*clouds)
    assert result.status == "uncertain"
    assert work(result) <= 32 * alone.n_outer
    # Later descents keep the best plan.
    assert result.gw_cost <= alone.gw_cost * 1.001


def test_confidence_is_of_searches_of_balanced_problems():
    rng = np.random.default_rng(0)
    x = rng.standard_exponential((40, 3)) * [3, 2, 1]
    cost = np.linalg.norm(x[:, None] - x, axis=2)
    other = cost + 0.01 * rng.random(cost.shape)
    result = gwfast.gromov_wasserstein(cost, other)
    assert result.status == "converged" and LEVEL <= result.confidence <= 1
    for options in (dict(init="product"), dict(marginals="semirelaxed")):
        assert np.isnan(gwfast.gromov_wasserstein(cost, other, **options).confidence)
    # What costs nothing is best for sure.
    order = rng.permutation(40)
    again = gwfast.gromov_wasserstein(cost, cost[np.ix_(order, order)])
    assert again.confidence == 1.0


def test_where_no_escape_is_made_agreement_counts():
    rng = np.random.default_rng(0)
    x = rng.standard_exponential((60, 3)) * [3, 2, 1]
    y = x[rng.permutation(60)] + 0.02 * rng.standard_normal(x.shape)
    costs = [np.linalg.norm(one[:, None] - one, axis=2) for one in (x, y)]
    for options in (dict(dtype="float64"), dict(epsilon=0)):
        result = gwfast.gromov_wasserstein(*costs, **options)
        assert result.status == "converged"
        assert not any(row.start.startswith("escape") for row in result.candidates)
    few = rows(("product", 1.0, "won"), ("random 0", 1.01, "lost"))
    assert verdict(few, "converged") == pytest.approx((np.nan, True), nan_ok=True)
    wide = rows(("product", 1.0, "won"), ("random 0", 1.5, "lost"))
    assert verdict(wide, "converged") == pytest.approx((np.nan, False), nan_ok=True)


def test_low_confidence_is_uncertain():
    rng = np.random.default_rng(1)
    clouds = [gwfast.PointCloud(rng.standard_normal((150, 5))) for _ in range(2)]
    with pytest.warns(gwfast.ConvergenceWarning, match="'uncertain'.*search_time.*See"):
        result = gwfast.gromov_wasserstein(*clouds)
    assert result.status == "uncertain" and 0 <= result.confidence < LEVEL
