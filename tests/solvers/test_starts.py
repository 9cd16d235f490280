"""Plans to start from."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost, rotated_pair

import gwfast
from gwfast import PointCloud, QuadraticProblem, Seeds


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_profiles_find_a_rotated_copy(dense):
    x, y, where = rotated_pair(80, 3, 10)
    sides = (distances(x), distances(y)) if dense else (PointCloud(x), PointCloud(y))
    p, q = masses(80, 11), masses(80, 11)[np.argsort(where)]
    problem = QuadraticProblem(*sides, p, q)
    plan = gwfast.gromov_wasserstein(problem, init="profile", epsilon="0.1%", max_iter=1).plan
    assert (plan.argmax(axis=1) == where).mean() > 0.85


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_points_that_all_look_the_same_have_the_product_plan():
    ring = np.exp(2j * np.pi * np.arange(12) / 12)
    cost = np.abs(ring[:, None] - ring)
    profile, product = (
        gwfast.gromov_wasserstein(cost, cost, init=init, epsilon="2%", max_iter=1).plan
        for init in ("profile", "product")
    )
    np.testing.assert_array_equal(profile, product)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_random_starts_follow_their_seed():
    problem = QuadraticProblem(random_cost(30, 14), random_cost(20, 15), masses(30, 12))
    few = dict(init="random", epsilon="2%", max_iter=1)
    plans = [gwfast.gromov_wasserstein(problem, seed=seed, **few).plan for seed in (0, 0, 1)]
    np.testing.assert_array_equal(plans[0], plans[1])
    assert np.abs(plans[0] - plans[2]).sum() > 0.1


def test_seeds_decide_between_mirror_images():
    """A cloud that is its own mirror image; two pairs tell left from right."""
    rng = np.random.default_rng(18)
    half = rng.standard_normal((30, 2)) * [1.0, 2.0] + [4.0, 0.0]
    x = np.vstack([half, half * [-1.0, 1.0]])
    cost = distances(x)
    for pairs in ([[0, 0], [5, 5]], [[0, 30], [5, 35]]):
        result = gwfast.gromov_wasserstein(cost, cost, init=Seeds(pairs))
        here = result.plan[:30, :30].sum()
        assert (here > 0.45) if pairs[0] == [0, 0] else (here < 0.05)


def test_pairs_of_seeds_are_copied():
    pairs = np.array([[0, 0], [1, 1]])
    seeds = Seeds(pairs)
    pairs[:] = 5
    assert seeds.pairs[1, 0] == 1


COSTS = random_cost(10, 19), random_cost(8, 20)


VALUE_ERRORS = {
    "pairs must have one of the 10 and 8 points": lambda: Seeds([[0, 99]]),
    "pairs must not be negative, got -1": lambda: Seeds([[-1, 0]]),
    r"pairs must have shape \(k, 2\), got \(2,\)": lambda: Seeds([0, 1]),
    "pairs must have shape": lambda: Seeds(np.empty((0, 2), int)),
    "init must be one of .*'auto'.*got 'best'": lambda: "best",
}
WORDS = "must be a sequence of words, got str"
TYPE_ERRORS = {
    "pairs must hold integers, got dtype float64": lambda: Seeds([[0.0, 1.0]]),
    f"words_x {WORDS}": lambda: Seeds.identical("abc", ["b", "c"]),
    f"words_y {WORDS}": lambda: Seeds.known({"u": "n"}, ["uno"], "un"),
    "init must be .* got the class Seeds": lambda: Seeds,
}


@pytest.mark.parametrize("message", [*VALUE_ERRORS, *TYPE_ERRORS])
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_bad_starts_are_refused(message):
    error = ValueError if message in VALUE_ERRORS else TypeError
    make = (VALUE_ERRORS | TYPE_ERRORS)[message]
    with pytest.raises(error, match=f"^{message}"):
        gwfast.gromov_wasserstein(*COSTS, init=make())


def test_seeds_of_words_spelt_alike_or_known():
    words_x, words_y = ["a", "1914", "b", "a"], ["b", "x", "1914", "y", "b"]
    assert Seeds.identical(words_x, words_y).pairs.tolist() == [[1, 2], [2, 0]]
    dictionary = {"a": {"y", "x", "none"}, "c": {"b"}, "b": ["b"]}
    with pytest.warns(UserWarning, match=r"^dictionary: 3 of 5 pairs are of the first"):
        seeds = Seeds.known(dictionary, words_x, words_y)
    assert seeds.pairs.tolist() == [[0, 1], [0, 3], [2, 0]]
    for words in ([], ["c"]):
        with pytest.raises(ValueError, match=r"^words_x and words_y must have a pair"):
            Seeds.identical(words, words_y)
        with pytest.raises(ValueError, match=r"^dictionary must have a pair"):
            Seeds.known(dictionary, words_x, words)


@pytest.mark.parametrize(
    "dictionary",
    [
        {"haus": "house", "hut": ["hat", "o"]},
        [("haus", "house"), ["hut", "hat"], ("hut", {"o"})],
        {"haus": iter(["house"]), "hut": ("hat", "o")},
    ],
)
def test_a_word_may_be_known_by_a_word_and_by_a_pair(dictionary):
    words_x, words_y = ["hut", "haus"], ["o", "s", "house", "e", "hat"]
    seeds = Seeds.known(dictionary, words_x, words_y)
    assert seeds.pairs.tolist() == [[0, 0], [0, 4], [1, 2]]


NUMBERS = [{"haus": 3}, {"haus": ["house", 3]}, {3: ["house"]}, [("hut", 4)]]
OTHER_TYPES = [{"haus": None}, {"haus": b"house"}, {("haus", "house")}, "haus"]
TRIPLES = [[("hut", "hat", "cap")], [("haus", "house"), "ab"]]


@pytest.mark.parametrize("dictionary", [*NUMBERS, *OTHER_TYPES, *TRIPLES])
def test_what_is_no_dictionary_is_refused_as_evaluate_does(dictionary):
    with pytest.raises(TypeError, match=r"^dictionary must ") as known:
        Seeds.known(dictionary, ["haus"], ["house"])
    if not isinstance(dictionary, list):
        with pytest.raises(TypeError) as evaluated:
            gwfast.words.precision_at_k([[0]], dictionary, ["haus"], ["house"])
        assert str(evaluated.value) == str(known.value)


def test_seeds_of_points_that_do_not_take_part_are_left_out():
    x, y = cloud(12, 3, 1), cloud(10, 3, 2)
    few = gwfast.align(x, y, n_words=8, init=Seeds([[0, 1], [2, 3]]))
    with pytest.warns(UserWarning, match=r"^pairs: 2 of 4 pairs are of the 8 and 8 p"):
        same = gwfast.align(x, y, n_words=8, init=Seeds([[0, 1], [11, 0], [2, 3], [0, 9]]))
    np.testing.assert_array_equal(few.plan, same.plan)
    with pytest.raises(ValueError, match=r"^pairs must have one of the 8 and 8 points"):
        gwfast.align(x, y, n_words=8, init=Seeds([[11, 0], [0, 9]]))


def test_what_seeds_print_as():
    assert repr(Seeds(np.zeros((1277, 2), dtype=int))) == "Seeds(1277 pairs)"
    assert str(Seeds([[0, 1], [2, 3]])) == "2 seeds"
    assert str(Seeds([[0, 1]])) == "1 seed"
