import inspect
import pickle

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair

import gwfast
from gwfast import GromovWassersteinAligner


@pytest.fixture(scope="module")
def pair():
    x, y, where = rotated_pair(150, 5, 0, noise=0.02)
    return x, y, where


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


def test_parameters_can_be_got_and_set():
    aligner = GromovWassersteinAligner(tol=1e-4)
    assert aligner.set_params(n_words=7, tier="tiled") is aligner
    params = aligner.get_params(deep=False)
    assert (params["n_words"], params["tier"], params["tol"]) == (7, "tiled", 1e-4)
    assert GromovWassersteinAligner(**params).get_params() == params
    with pytest.raises(ValueError, match=r"params must be some of .* got 'words'"):
        aligner.set_params(n_words=8, words=3)
    assert aligner.n_words == 7
    assert repr(aligner) == (
        "GromovWassersteinAligner(n_words=7, tol=0.0001, tier='tiled')"
    )
    array = GromovWassersteinAligner(init=np.ones((2, 2)))
    assert repr(array).startswith("GromovWassersteinAligner(init=array(")


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
    base = pytest.importorskip("sklearn.base")
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
