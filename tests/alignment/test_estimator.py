"""`align` as an estimator of scikit-learn."""

import inspect
import pickle

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair

import gwfast

base = pytest.importorskip("sklearn.base")
Aligner = gwfast.GromovWassersteinAligner
OPTIONS = {"n_words": 60, "epsilon": 0.004, "init": "profile", "n_threads": 1}
X, Y, WHERE = rotated_pair(90, 5, 0, noise=0.02)


def test_it_does_what_align_does():
    masses = {"p": np.arange(60, 120), "q": np.arange(90, 30, -1)}
    result = gwfast.align(X, Y, refine=2, **masses, **OPTIONS)
    aligner = Aligner(refine=2, retrieval="nn", **OPTIONS)
    np.testing.assert_array_equal(aligner.fit_transform(X, Y, **masses), result.transform(X))
    np.testing.assert_array_equal(aligner.mapping_, result.mapping)
    best = result.translate(k=1, method="nn").indices[:, 0]
    np.testing.assert_array_equal(aligner.predict(X), best)
    assert (best == WHERE).mean() > 0.9
    assert (aligner.n_features_in_, aligner.n_iter_) == (5, result.gw.n_iter)
    clone, copied = base.clone(aligner), pickle.loads(pickle.dumps(aligner))
    assert clone.get_params() == aligner.get_params() and not hasattr(clone, "result_")
    np.testing.assert_array_equal(copied.transform(X), result.transform(X))
    score = result.translate(k=1).scores.mean()  # the mean CSLS of the best pairs
    assert aligner.score(X) == pytest.approx(score, rel=1e-4)
    assert aligner.score(X, Y) == pytest.approx(score, rel=1e-4)
    assert aligner.score(X, cloud(90, 5, 9)) < 0.8 * score


def test_its_parameters_are_those_of_align_and_use_after_a_failed_fit_is_refused():
    own = Aligner().get_params()
    assert own.pop("retrieval") == "csls"
    parameters = inspect.signature(gwfast.align).parameters.items()
    others = ("x", "y", "p", "q", "callback", "progress")
    assert own == {name: value.default for name, value in parameters if name not in others}
    changed = Aligner(tol=1e-4).set_params(n_words=7, metric="dot")
    assert repr(changed) == "GromovWassersteinAligner(metric='dot', n_words=7, tol=0.0001)"
    exceptions, aligner = pytest.importorskip("sklearn.exceptions"), Aligner(metric="hamming")
    with pytest.raises(ValueError, match="metric"):
        aligner.fit(X, Y)
    for use in (aligner.transform, aligner.predict, aligner.score):
        with pytest.raises(exceptions.NotFittedError, match="fit"):
            use(X)


def as_space(labels):
    if labels is not None:
        labels = np.asarray(labels, dtype=float).ravel()
        return np.column_stack([labels, np.ones(len(labels))])


class OfLabels(Aligner):
    """For scikit-learn's checks, which hand labels: these become a space of points."""

    def fit(self, X, Y, *, p=None, q=None):
        return super().fit(X, as_space(Y), p=p, q=q)

    def score(self, X, y=None):
        return super().score(X, as_space(y))


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    zeros = {"check_estimators_dtypes": "has a row of zeros, which has no angle to any"}
    aligner = OfLabels(metric="sqeuclidean", normalize=(), init="product", n_threads=1)
    checks.check_estimator(aligner, expected_failed_checks=zeros, on_skip=None)


def test_points_at_the_mean_have_no_angle_and_are_predicted():
    x = np.vstack([X, X.mean(axis=0)])
    aligner = Aligner(metric="sqeuclidean", normalize=("center",), init="product", n_threads=1)
    with pytest.warns(gwfast.ConvergenceWarning):  # the second space is one point
        aligner.fit(x, np.ones((91, 1)))
    assert aligner.predict(x).shape == (91,) and aligner.score(x, np.ones((91, 1))) == 0.0
    with pytest.raises(ValueError, match="targets must have no zero rows"):
        gwfast.nearest_neighbors(X, np.zeros((3, 5)))


def test_warnings_name_the_line_that_called_the_pipeline():
    pipeline = pytest.importorskip("sklearn.pipeline").make_pipeline(Aligner(epsilon=9.0))
    with pytest.warns(gwfast.ConvergenceWarning) as told:
        pipeline.fit(X, Y)
    assert {warning.filename for warning in told} == {__file__}


def test_outputs_and_candidates_of_pandas_go_by_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(Y, columns=[f"c{k}" for k in range(5)])
    aligner = Aligner(**OPTIONS).set_output(transform="pandas").fit(X, frame)
    table, names = aligner.transform(X), [f"gromovwassersteinaligner{i}" for i in range(5)]
    assert table.columns.tolist() == aligner.get_feature_names_out().tolist() == names
    np.testing.assert_array_equal(table, aligner.result_.transform(X))
    assert aligner.score(X, frame.iloc[:, ::-1]) == aligner.score(X, Y)
    with pytest.raises(ValueError, match="y must have the labels"):
        aligner.score(X, frame.rename(columns={"c0": "other"}))
