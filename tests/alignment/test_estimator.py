import inspect
import pickle

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair
from helpers.processes import run_python

import gwfast

base = pytest.importorskip("sklearn.base")
GromovWassersteinAligner = gwfast.GromovWassersteinAligner

# Why some of scikit-learn's checks fail for an aligner with its default parameters: they all hand
# labels as y.
ONE_COLUMN = "fits labels in one column, which have no angles to compare"
AT_THE_MEAN = (
    "fits labels in one column, some of them at the mean of all, which has no angle to be found by"
)
ONE_DIMENSION = "hands labels in one dimension, which are no space"
EXPECTED_FAILED_CHECKS = {
    f"check_{name}": reason
    for reason, names in (
        (
            AT_THE_MEAN,
            "dict_unchanged f_contiguous_array_estimator fit_score_takes_y"
            " methods_sample_order_invariance methods_subset_invariance",
        ),
        (
            ONE_COLUMN,
            "dont_overwrite_parameters dtype_object estimators_dtypes estimators_fit_returns_self"
            " estimators_nan_inf estimators_overwrite_params estimators_pickle fit2d_predict1d"
            " fit_check_is_fitted fit_idempotent n_features_in n_features_in_after_fitting"
            " pipeline_consistency positive_only_tag_during_fit readonly_memmap_input",
        ),
        (
            ONE_DIMENSION,
            "transformer_data_not_an_array transformer_general transformer_preserve_dtypes",
        ),
    )
    for name in names.split()
}


@pytest.fixture(scope="module")
def pair():
    return rotated_pair(150, 5, 0, noise=0.02)


@pytest.fixture(scope="module")
def fitted(pair):
    aligner = GromovWassersteinAligner(n_words=100, refine=2)
    assert aligner.fit(*pair[:2]) is aligner
    return aligner


@pytest.mark.slow
def test_it_does_what_align_does(pair, fitted):
    x, y, where = pair
    result = gwfast.align(x, y, n_words=100, refine=2)
    np.testing.assert_array_equal(fitted.mapping_, result.mapping)
    np.testing.assert_array_equal(fitted.transform(x), result.transform(x))
    best = result.translate(k=1).indices[:, 0]
    np.testing.assert_array_equal(fitted.predict(x), best)
    assert (fitted.predict(x[:9]) == where[:9]).all()
    assert fitted.n_features_in_ == 5
    assert fitted.n_iter_ == result.gw.n_iter
    np.testing.assert_array_equal(
        GromovWassersteinAligner(n_words=100, refine=2).fit_transform(x, y), result.transform(x)
    )


def test_its_parameters_are_those_of_align():
    own = GromovWassersteinAligner().get_params()
    assert own.pop("retrieval") == "csls"
    theirs = {
        name: parameter.default
        for name, parameter in inspect.signature(gwfast.align).parameters.items()
        if name not in ("x", "y", "p", "q", "callback", "progress")
    }
    assert own == theirs


def test_it_shows_the_parameters_that_were_changed():
    aligner = GromovWassersteinAligner(tol=1e-4).set_params(n_words=7, metric="dot")
    assert repr(aligner) == "GromovWassersteinAligner(metric='dot', n_words=7, tol=0.0001)"
    with pytest.raises(ValueError, match="Invalid parameter 'words'"):
        aligner.set_params(words=3)


def test_masses_are_given_to_fit(pair):
    x, y, _ = pair
    fitted = GromovWassersteinAligner(n_words=60).fit(x, y, p="zipf", q="zipf")
    zipf = 1 / np.arange(1, 61)
    np.testing.assert_allclose(fitted.result_.plan.sum(axis=1), zipf / zipf.sum(), rtol=1e-2)


def test_use_before_fit_is_refused(pair):
    """Also after a fit with a wrong parameter."""
    error = pytest.importorskip("sklearn.exceptions").NotFittedError
    aligner = GromovWassersteinAligner(metric="hamming")
    with pytest.raises(ValueError, match="metric must be one of"):
        aligner.fit(*pair[:2])
    for use in ("transform", "predict", "score"):
        with pytest.raises(error, match=r"not fitted: call fit\(X, Y\) first"):
            getattr(aligner, use)(cloud(3, 2, 1))
    assert not hasattr(aligner, "mapping_")


def test_pickles_and_clones(pair, fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(pair[0]), fitted.transform(pair[0]))
    clone = base.clone(fitted)
    assert clone.get_params() == fitted.get_params()
    assert not hasattr(clone, "result_")


def as_space(labels):
    labels = np.asarray(labels, dtype=float).ravel()
    return np.column_stack([labels, np.ones(len(labels))])


class OfLabels(GromovWassersteinAligner):
    """For scikit-learn's checks, which hand labels: these become a space of points."""

    def fit(self, X, Y, *, p=None, q=None):
        return super().fit(X, None if Y is None else as_space(Y), p=p, q=q)

    def score(self, X, y=None):
        return super().score(X, None if y is None else as_space(y))


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    checks.check_estimator(
        OfLabels(metric="sqeuclidean", normalize=(), init="product", n_threads=1),
        expected_failed_checks={
            "check_estimators_dtypes": "has a row of zeros, which has no angle to any"
        },
        on_skip=None,
    )


@pytest.mark.filterwarnings("ignore")
def test_checks_that_two_spaces_rule_out_are_declared():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    done = checks.check_estimator(
        GromovWassersteinAligner(), expected_failed_checks=EXPECTED_FAILED_CHECKS, on_skip=None
    )
    # No check is declared that would pass.
    failed = {check["check_name"] for check in done if check["status"] == "xfail"}
    assert failed == {*EXPECTED_FAILED_CHECKS}
    assert len(EXPECTED_FAILED_CHECKS) == 23
    assert sum(check["status"] == "passed" for check in done) >= 20


def test_spaces_without_angles_are_refused_in_scikit_learns_words():
    for shapes, message in (
        (((9, 1), (9, 3)), r"1 feature\(s\)"),
        (((9, 3), (9, 1)), r"1 feature\(s\)"),
        (((1, 3), (9, 3)), r"1 sample\(s\)"),
    ):
        with pytest.raises(ValueError, match=message):
            GromovWassersteinAligner().fit(*map(np.ones, shapes))


@pytest.mark.filterwarnings("ignore:.*ended as")
def test_a_grid_search_finds_what_works(pair):
    selection = pytest.importorskip("sklearn.model_selection")
    pipeline = pytest.importorskip("sklearn.pipeline")
    decomposition = pytest.importorskip("sklearn.decomposition")
    x, y, _ = pair
    aligner = GromovWassersteinAligner(tol=1e-3, n_threads=1)
    grid = {"epsilon": [0.3, 0.003]}  # 0.3 blurs all
    folds = selection.KFold(2, shuffle=True, random_state=0)
    search = selection.GridSearchCV(aligner, grid, cv=folds, error_score="raise")
    search.fit(x, y)
    assert search.best_params_ == {"epsilon": 0.003}
    assert search.transform(x).shape == x.shape
    chain = pipeline.make_pipeline(decomposition.PCA(4), aligner)
    named = {"gromovwassersteinaligner__epsilon": [0.3, 0.003]}
    search = selection.GridSearchCV(chain, named, cv=folds, error_score="raise")
    assert search.fit(x, y).best_params_[next(iter(named))] == 0.003


def test_outputs_of_pandas_have_names(pair, fitted):
    pytest.importorskip("pandas")
    x, y, _ = pair
    names = [f"gromovwassersteinaligner{i}" for i in range(5)]
    assert fitted.get_feature_names_out().tolist() == names
    aligner = GromovWassersteinAligner(n_words=100, init="product", n_threads=1)
    table = aligner.set_output(transform="pandas").fit(x, y).transform(x)
    assert table.columns.tolist() == names
    np.testing.assert_array_equal(table, aligner.result_.transform(x))
    assert aligner.predict(x).shape == (150,)
    assert np.isfinite([aligner.score(x), aligner.score(x, y)]).all()


def test_the_score_is_that_of_the_best_pairs(pair, fitted):
    (x, y, _), aligner = pair, fitted
    best = aligner.result_.translate(k=1)
    assert aligner.score(x) == pytest.approx(best.scores.mean(), rel=1e-4)
    assert aligner.score(x, y) == pytest.approx(aligner.score(x), rel=1e-4)
    noise = cloud(len(y), y.shape[1], 9)
    assert aligner.score(x, noise) < 0.8 * aligner.score(x, y)


def test_candidates_of_a_frame_go_by_the_labels_of_its_columns(pair):
    pandas = pytest.importorskip("pandas")
    x, y, _ = pair
    frame = pandas.DataFrame(y, columns=[f"c{k}" for k in range(y.shape[1])])
    aligner = GromovWassersteinAligner(init="product").fit(x, frame)
    assert aligner.score(x, frame.iloc[:, ::-1]) == aligner.score(x, y)
    with pytest.raises(ValueError, match="y must have the labels of the vectors of the fit"):
        aligner.score(x, frame.rename(columns={"c0": "other"}))


BEFORE_IT_IS_ASKED_FOR_AND_WITHOUT = """
import sys, gwfast
print("sklearn" in sys.modules, "GromovWassersteinAligner" in dir(gwfast))
sys.modules["sklearn"] = None
from gwfast import *
try:
    GromovWassersteinAligner(n_words=3)
except ImportError as error:
    print(error)
"""


@pytest.mark.process
def test_scikit_learn_is_only_needed_by_it():
    done = run_python(BEFORE_IT_IS_ASKED_FOR_AND_WITHOUT, check=False)
    assert done.stdout.splitlines() == [
        "False True",
        'GromovWassersteinAligner needs scikit-learn: pip install "gwfast-ot[sklearn]"',
    ], done.stderr
