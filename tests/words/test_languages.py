"""Distances between languages: what they are, that they are a metric, and who computes
them."""

import itertools
import sys
import warnings

import numpy as np
import pytest
from helpers.problems import orthogonal

import gwfast
from gwfast.words import load_sample, read_embeddings
from gwfast.words.languages import Matching, assemble, language_distances, match, prepare

# Words, and the columns of their vectors: solves take time by both.
N, N_COLUMNS = 150, 40
STEPS = "unit", "center", "unit"


@pytest.fixture(scope="module")
def languages():
    """Spanish and French of the sample, and Spanish by another training: turned, in
    another order and with noise."""
    spanish, french, _ = load_sample()
    rng = np.random.default_rng(3)
    x = spanish.vectors[:N, :N_COLUMNS]
    noise = rng.standard_normal(x.shape) * 0.3 * np.abs(x).mean()
    other = (x + noise)[rng.permutation(N)] @ orthogonal(x.shape[1], 3)
    return {"es": x, "fr": french.vectors[:N, :N_COLUMNS], "es'": other}


@pytest.fixture(scope="module")
def found(languages):
    return language_distances(languages)


def cosine_distances(x):
    """As `align` normalizes by default."""
    x = x.astype(np.float64)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    x = x - x.mean(axis=0)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return 1.0 - x @ x.T


def triangle_excess(roots):
    """Largest violation of the triangle inequality, relatively."""
    return max(
        roots[i, k] / (roots[i, j] + roots[j, k]) - 1.0
        for i, j, k in itertools.permutations(range(len(roots)), 3)
    )


def assert_metric(distances):
    matrix = distances.matrix
    assert matrix.dtype == np.float64
    assert (matrix == matrix.T).all()
    assert (matrix.diagonal() == 0).all()
    assert (matrix[~np.eye(len(matrix), dtype=bool)] > 0).all()
    assert np.allclose(distances.roots**2, matrix, rtol=1e-12)
    if len(matrix) > 2:
        assert triangle_excess(distances.roots) <= 1e-12


def test_a_metric_between_the_languages_of_the_sample(found):
    assert found.names == ("es", "fr", "es'")
    assert found.n_words == N
    assert_metric(found)
    # Another training of the same language is nearer than another language.
    assert found.matrix[0, 2] < 0.5 * found.matrix[0, 1]


def test_value_is_the_cost_of_the_matching(languages, found):
    costs = {name: cosine_distances(x) for name, x in languages.items()}
    assert [(pair.source, pair.target) for pair in found.pairs] == [
        ("es", "fr"), ("es", "es'"), ("fr", "es'"),
    ]  # fmt: skip
    for pair in found.pairs:
        assert sorted(pair.matches) == list(range(N))
        other = costs[pair.target][np.ix_(pair.matches, pair.matches)]
        expected = np.mean((costs[pair.source] - other) ** 2)
        assert pair.gw_cost == pytest.approx(expected, rel=1e-5)
        i, j = found.names.index(pair.source), found.names.index(pair.target)
        assert found.matrix[i, j] == pair.gw_cost
        # The problem is concave: the assignments only lower what the plan cost.
        assert pair.gw_cost < pair.plan_cost < pair.product_cost
        x, y = costs[pair.source], costs[pair.target]
        expected = np.mean(x**2) + np.mean(y**2) - 2 * np.mean(x) * np.mean(y)
        assert pair.product_cost == pytest.approx(expected, rel=1e-5)
        assert pair.status in ("converged", "uncertain") and pair.via is None
        assert pair.epsilon > 0 and pair.seconds > 0


@pytest.mark.slow
def test_plan_cost_is_that_of_align(languages, found):
    gw = gwfast.align(languages["es"], languages["fr"]).gw
    assert found.pairs[0].plan_cost == pytest.approx(gw.gw_cost, rel=1e-2)
    assert found.pairs[0].epsilon == pytest.approx(gw.epsilon, rel=1e-6)


@pytest.mark.slow
def test_nothing_depends_on_the_order_of_the_languages(languages, found):
    names = list(reversed(found.names))
    again = language_distances({name: languages[name] for name in names})
    assert again.names == tuple(names)
    assert np.array_equal(again.matrix[::-1, ::-1], found.matrix)
    forth = {(pair.source, pair.target): pair.matches for pair in found.pairs}
    for pair in again.pairs:
        assert np.array_equal(pair.matches[forth[pair.target, pair.source]], np.arange(N))


def test_both_directions_of_a_pair_agree_where_both_are_computed(languages, found):
    """Of words of which one optimum is the best by far."""
    names = "es", "es'"
    spaces = prepare({name: languages[name] for name in names}, N, STEPS, None)
    for one, other in (names, reversed(names)):
        matching = match(spaces[one].rows, spaces[other].rows, None, "auto", 0, None, 1)
        cost = assemble(spaces, {(one, other): matching}).matrix[0, 1]
        assert cost == pytest.approx(found.matrix[0, 2], rel=1e-6)


def test_same_relations_are_no_distance_apart(languages):
    x = languages["es"]
    order = np.random.default_rng(0).permutation(N)
    turned = x[order] @ orthogonal(x.shape[1], 1).astype(np.float32)
    # Turning keeps angles, and centering commutes with it.
    found = language_distances({"x": x, "same": x.copy(), "turned": turned})
    assert found.matrix[0, 1] == 0
    same, there, _ = found.pairs
    assert same.status == "same" and same.epsilon is None
    assert np.array_equal(same.matches, np.arange(N))
    assert np.array_equal(order[there.matches], np.arange(N))
    assert found.matrix[0, 2] < 1e-10


def test_detours_repair_the_triangle_inequality(languages, found):
    """Where the direct matching of a pair is bad, but another way is known."""
    x = languages["es"]
    rng = np.random.default_rng(0)
    order = rng.permutation(N)
    some = {"fr": languages["fr"], "turned": x[order], "es": x}
    spaces = prepare(some, N, STEPS, None)
    known = found.pairs[0]
    matchings = {
        names: Matching(matches, 0.0, 1.0, "converged", 0.0)
        for names, matches in (
            (("es", "fr"), known.matches),
            (("turned", "es"), order),
            (("turned", "fr"), rng.permutation(N)),
        )
    }
    repaired = assemble(spaces, matchings)
    assert triangle_excess(repaired.roots + 1e-12) <= 1e-9
    direct, way, same = repaired.pairs
    assert (direct.source, direct.target, direct.via) == ("fr", "turned", "es")
    assert direct.gw_cost == pytest.approx(known.gw_cost, rel=1e-6)
    assert way.via is None and way.gw_cost == pytest.approx(known.gw_cost, rel=1e-9)
    assert same.via is None and same.gw_cost < 1e-12
    costs = {name: cosine_distances(rows) for name, rows in some.items()}
    other = costs["turned"][np.ix_(direct.matches, direct.matches)]
    expected = np.mean((costs["fr"] - other) ** 2)
    assert direct.gw_cost == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["mean", "median", "max"])
def test_scaled_costs(languages, found, statistic):
    some = {name: languages[name] for name in ("es", "fr")}
    scaled = language_distances(some, scale_costs=statistic)
    pair = scaled.pairs[0]
    costs = [cosine_distances(x) for x in some.values()]
    x, y = (cost / getattr(np, statistic)(cost) for cost in costs)
    expected = np.mean((x - y[np.ix_(pair.matches, pair.matches)]) ** 2)
    assert pair.gw_cost == pytest.approx(expected, rel=1e-4)
    expected = np.mean(x**2) + np.mean(y**2) - 2 * np.mean(x) * np.mean(y)
    assert pair.product_cost == pytest.approx(expected, rel=1e-4)
    # Scaling moves epsilon and nothing else: what is found is as good at least.
    matches = found.pairs[0].matches
    assert pair.gw_cost <= 1.01 * np.mean((x - y[np.ix_(matches, matches)]) ** 2)


@pytest.mark.slow
def test_the_shortest_vocabulary_limits_all(languages):
    some = {"es": languages["es"], "fr": languages["fr"][:60, :30]}
    few = language_distances(some)
    assert few.n_words == 60
    assert few.matrix[0, 1] == pytest.approx(
        language_distances(some, n_words=60, n_threads=2).matrix[0, 1], rel=1e-6
    )
    assert language_distances(some, n_words=40).n_words == 40


def test_embeddings_are_taken_as_they_are():
    given = load_sample()[0]
    spaces = prepare({"embeddings": given, "lists": given.vectors[:30].tolist()}, 30, STEPS, None)
    assert np.array_equal(spaces["embeddings"].rows, spaces["lists"].rows)


# A plan that matches next to nothing is there at once, and whoever computes it is to
# come to the same matchings.
QUICK = {"epsilon": 0.1, "n_words": 100}
quick = pytest.mark.filterwarnings("ignore:.*poor plans", "ignore::gwfast.ConvergenceWarning")


@pytest.fixture(scope="module")
def alone(languages):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
        return language_distances(languages, **QUICK)


@quick
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_joblib_decides_who_computes(languages, alone, backend):
    """Ray's backend derives from that of multiprocessing, which returns lists only."""
    joblib = pytest.importorskip("joblib")
    with joblib.parallel_config(backend=backend, n_jobs=2):
        shared = language_distances(languages, **QUICK)
    assert np.array_equal(shared.matrix, alone.matrix)


@quick
@pytest.mark.slow
@pytest.mark.process
def test_dask_computes_them(languages, alone):
    joblib = pytest.importorskip("joblib")
    distributed = pytest.importorskip("dask.distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        asked = []

        def progress(text, done, total):
            asked.append((done, total))

        shared = language_distances(languages, progress=progress, **QUICK)
        # What they have been told to do; nothing, for workers that were not asked.
        events = client.run(lambda dask_worker: len(dask_worker.state.log))
    assert len(events) == 2 and all(events.values())
    assert asked == [(done, 3) for done in range(4)]
    assert np.array_equal(shared.matrix, alone.matrix)


def test_without_joblib(languages, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(ImportError, match="pip install joblib"):
        language_distances(languages)


def test_poor_plans_are_told(languages):
    some = {name: languages[name] for name in ("es", "fr")}
    with pytest.warns(gwfast.ConvergenceWarning, match=r"es and fr \(near_product\)"):
        found = language_distances(some, epsilon=10.0)
    assert found.pairs[0].status == "near_product"
    assert sorted(found.pairs[0].matches) == list(range(N))


TWO = {"a": np.eye(3), "b": np.eye(3)}


@pytest.mark.parametrize("embeddings, options, error, message", [
    ({"es": np.eye(3)}, {}, ValueError, "at least two languages"),
    ([np.eye(3)], {}, TypeError, "embeddings must map"),
    ({1: np.eye(3), 2: np.eye(3)}, {}, TypeError, "str as names"),
    (TWO | {"b": [1.0]}, {}, ValueError, r"embeddings\['b'\]"),
    (TWO | {"b": np.zeros((3, 3))}, {}, ValueError, r"embeddings\['b'\] must"),
    (TWO | {"b": [[1.0]]}, {}, ValueError, "at least two words"),
    (TWO, {"n_words": 1}, ValueError, "n_words"),
    (TWO, {"scale_costs": "sum"}, ValueError, "scale_costs must be one of"),
    (TWO, {"epsilon": 0}, ValueError, "epsilon"),
    (TWO, {"seed": -1}, ValueError, "seed"),
])  # fmt: skip
def test_bad_arguments(embeddings, options, error, message):
    with pytest.raises(error, match=message):
        language_distances(embeddings, **options)


@pytest.mark.slow
def test_real_languages(shared_data):
    """Those of one corpus each: novels, and the two comparable pairs of UBiLexAT."""
    n = 300
    novels = language_distances(
        {
            name: read_embeddings(shared_data / "eltec" / f"{name}.npz", max_words=n)
            for name in ("en", "es", "fr")
        },
        n_words=n,
    )
    assert_metric(novels)
    # Spanish and French, both Romance, are nearest.
    assert novels.matrix[1, 2] == novels.matrix[np.triu_indices(3, 1)].min()
    zhang = language_distances(
        {
            f"{pair} {name}": read_embeddings(
                shared_data / "ubilexat" / pair / f"word2vec.{name}", max_words=n
            )
            for pair in ("es-en", "zh-en")
            for name in pair.split("-")
        },
        n_words=n,
    )
    assert_metric(zhang)
    at = {name: k for k, name in enumerate(zhang.names)}
    english = zhang.matrix[at["es-en en"], at["zh-en en"]]
    spanish = zhang.matrix[at["es-en es"], at["es-en en"]]
    chinese = zhang.matrix[at["zh-en zh"]]
    assert english < spanish < chinese[chinese > 0].min()


def test_plans_end_with_the_time(languages):
    pair = {name: languages[name][:60] for name in ("es", "fr")}
    with pytest.warns(gwfast.ConvergenceWarning, match=r"es and fr \(time_limit\)"):
        found = language_distances(pair, time_limit=1e-6)
    assert found.matrix[0, 1] > 0
    with pytest.raises(ValueError, match="time_limit must be"):
        language_distances(pair, time_limit=-1.0)
