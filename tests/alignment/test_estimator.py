import inspect
import pickle

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair
from helpers.processes import run_python

import gwfast

base = pytest.importorskip("sklearn.base")
GromovWassersteinAligner = gwfast.GromovWassersteinAligner


@pytest.fixture(scope="module")
def pair():
    x, y, where = rotated_pair(150, 5, 0, noise=0.02)
    return x, y, where


@pytest.mark.slow
def test_it_does_what_align_does(pair):
    x, y, where = pair
    aligner = GromovWassersteinAligner(n_words=100, refine=2)
    assert aligner.fit(x, y) is aligner
    result = gwfast.align(x, y, n_words=100, refine=2)
    np.testing.assert_array_equal(aligner.mapping_, result.mapping)
    np.testing.assert_array_equal(aligner.transform(x), result.transform(x))
    np.testing.assert_array_equal(
        aligner.predict(x), result.translate(k=1).indices[:, 0]
    )
    assert (aligner.predict(x[:9]) == where[:9]).all()
    assert aligner.n_features_in_ == 5
    assert aligner.n_iter_ == result.gw.n_outer
    np.testing.assert_array_equal(
        GromovWassersteinAligner(n_words=100, refine=2).fit_transform(x, y),
        result.transform(x),
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
    aligner = GromovWassersteinAligner(tol=1e-4).set_params(n_words=7, tier="tiled")
    assert repr(aligner) == (
        "GromovWassersteinAligner(n_words=7, tier='tiled', tol=0.0001)"
    )
    array = GromovWassersteinAligner(init=np.ones((2, 2)))
    assert repr(array).startswith("GromovWassersteinAligner(init=array(")
    with pytest.raises(ValueError, match="Invalid parameter 'words'"):
        aligner.set_params(words=3)


def test_masses_are_given_to_fit(pair):
    x, y, _ = pair
    fitted = GromovWassersteinAligner(n_words=60).fit(x, y, p="zipf", q="zipf")
    zipf = 1 / np.arange(1, 61)
    np.testing.assert_allclose(
        fitted.result_.plan.sum(axis=1), zipf / zipf.sum(), rtol=1e-2
    )


def test_use_before_fit_is_refused():
    for use in ("transform", "predict"):
        with pytest.raises(ValueError, match=r"not fitted: call fit\(X, Y\) first"):
            getattr(GromovWassersteinAligner(), use)(cloud(3, 2, 1))
    assert not hasattr(GromovWassersteinAligner(), "mapping_")


def test_wrong_parameters_show_in_fit(pair):
    x, y, _ = pair
    aligner = GromovWassersteinAligner(metric="hamming")
    with pytest.raises(ValueError, match="metric must be one of"):
        aligner.fit(x, y)
    assert not aligner.__sklearn_is_fitted__()


def test_a_fitted_one_can_be_pickled(pair):
    x, y, _ = pair
    aligner = GromovWassersteinAligner(n_words=60).fit(x, y)
    again = pickle.loads(pickle.dumps(aligner))
    np.testing.assert_array_equal(again.transform(x), aligner.transform(x))


def test_scikit_learn_takes_it(pair):
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    x, y, _ = pair
    aligner = GromovWassersteinAligner(n_words=60, refine=1).fit(x, y)
    clone = base.clone(aligner)
    assert clone.get_params() == aligner.get_params()
    assert not hasattr(clone, "result_")
    chain = pipeline.make_pipeline(
        preprocessing.StandardScaler(with_std=False), GromovWassersteinAligner()
    )
    chain.set_params(gromovwassersteinaligner__refine=2)
    mapped = chain.fit(x, y).transform(x)
    assert mapped.shape == (150, 5)


class OfLabels(GromovWassersteinAligner):
    """For scikit-learn's checks, which hand labels: these become a space of points."""

    def fit(self, X, Y, *, p=None, q=None):
        if Y is not None:
            labels = np.asarray(Y, dtype=float).ravel()
            Y = np.column_stack([labels, np.ones(len(labels))])
        return super().fit(X, Y, p=p, q=q)


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


WITHOUT = """
import sys
sys.modules["sklearn"] = None
from gwfast import *
import gwfast
try:
    GromovWassersteinAligner(n_words=3)
except ImportError as error:
    print(error)
"""
BEFORE_IT_IS_ASKED_FOR = """
import sys, gwfast
print("sklearn" in sys.modules, "GromovWassersteinAligner" in dir(gwfast))
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "code, said",
    [
        (
            WITHOUT,
            "GromovWassersteinAligner needs scikit-learn: pip install "
            '"gwfast-ot[sklearn]"',
        ),
        (BEFORE_IT_IS_ASKED_FOR, "False True"),
    ],
    ids=["missing", "not yet"],
)
def test_scikit_learn_is_only_needed_by_it(code, said):
    done = run_python(code, check=False)
    assert done.stdout.strip() == said, done.stderr
