"""On real data, defaults find the optimum whose matches are right, without being told
which those are. Thresholds are those the project set itself, measured values above.
"""

import functools

import numpy as np
import pytest
from helpers.problems import hops, orthogonal

import gwfast
from gwfast import words

pytestmark = pytest.mark.slow

PAIRS = {
    # name: file pattern, languages, n_words, least P@1 of the plan and of CSLS
    "es-en": ("ubilexat/es-en/word2vec.{}", "es", "en", 2000, 0.78, 0.78),
    "zh-en": ("ubilexat/zh-en/word2vec.{}", "zh", "en", 3000, 0.40, 0.53),
    "es-fr": ("eltec/{}.npz", "es", "fr", 2000, 0.74, None),
}


@functools.cache
def pair(folder, name):
    pattern, a, b, *_ = PAIRS[name]
    x, y = (words.read_embeddings(folder / pattern.format(code)) for code in (a, b))
    dictionary = words.read_dictionary(folder / "muse" / f"{a}-{b}.txt")
    back = words.read_dictionary(folder / "muse" / f"{b}-{a}.txt", reverse=True)
    for word, more in back.items():
        dictionary.setdefault(word, set()).update(more)
    return x, y, dictionary


@functools.cache
def aligned(folder, name):
    x, y, _ = pair(folder, name)
    return gwfast.align(x.vectors, y.vectors, n_words=PAIRS[name][3])


def precision(result, lists, method):
    found = result.translate(range(len(lists[1])), method=method, k=1).indices
    return words.precision_at_k(found, *lists, ks=(1,)).at[1]


@pytest.mark.parametrize("name", PAIRS)
def test_defaults_translate(shared_data, name):
    x, y, dictionary = pair(shared_data, name)
    *_, n, least_plan, least_csls = PAIRS[name]
    result = aligned(shared_data, name)
    assert result.gw.converged
    taking_part = dictionary, x.words[:n], y.words[:n]
    assert precision(result, taking_part, "coupling") >= least_plan
    if least_csls is not None:
        assert precision(result, (dictionary, x.words, y.words), "csls") >= least_csls


def test_seed_order_rotation_and_sides_lead_to_the_same_optimum(shared_data):
    x, y, _ = pair(shared_data, "es-en")
    n = PAIRS["es-en"][3]
    known = aligned(shared_data, "es-en").gw.gw_cost
    x, y = x.vectors[:n], y.vectors[:n]
    # Of these alone, where normalization does not look at rows beyond the first.
    plain = gwfast.align(x, y).gw.gw_cost
    assert abs(plain / known - 1) < 0.05
    rng = np.random.default_rng(1)
    turned = x[rng.permutation(n)] @ orthogonal(x.shape[1], 1)
    other = gwfast.align(y[rng.permutation(n)], turned, seed=1).gw.gw_cost
    assert abs(other / plain - 1) < 0.005


@pytest.mark.parametrize("k", [5, 30])
def test_search_is_as_good_as_fifty_random_starts_on_cells(shared_data, k):
    """Whose costs are steps in graphs of neighbors, as SCOT's are."""
    folder = shared_data / "singlecell" / "scGEM"
    costs = [hops(np.loadtxt(folder / f"{name}.txt"), k) for name in ("expression", "methylation")]
    results = [gwfast.gromov_wasserstein(*costs, seed=seed) for seed in (0, 1)]
    random = [
        gwfast.gromov_wasserstein(
            *costs, epsilon=results[0].epsilon, init="random", seed=100 + seed, tol=1e-4
        ).gw_cost
        for seed in range(50)
    ]
    for result in results:
        assert result.gw_cost <= min(random) * 1.002
