"""Pandas objects are aligned by their labels, or refused; never taken by position."""

from types import SimpleNamespace

import networkx
import numpy as np
import pandas as pd
import pytest
from helpers.problems import cloud, distances

import gwfast
from gwfast import pot
from gwfast.singlecell import foscttm

NAMES = list("abcdef")
X = cloud(6, 3, 0)
COST, MASSES = distances(X), np.arange(1.0, 7.0) / 21
POINTS = pd.DataFrame(X, NAMES, list("xyz"))
FRAME = pd.DataFrame(COST, NAMES, NAMES)
ORDER = [3, 0, 5, 1, 4, 2]
# The same problem in arrays, and in pandas objects; `c` has the order of the labels.
ARRAYS = SimpleNamespace(c=COST, p=MASSES, turned=COST, x=X, first=X, columns=X)
LABELLED = SimpleNamespace(
    c=FRAME,
    p=pd.Series(MASSES, NAMES).iloc[ORDER],
    turned=FRAME.iloc[ORDER, ORDER[::-1]],
    x=POINTS.iloc[ORDER],
    first=POINTS,
    columns=POINTS.iloc[:, ::-1],
)
gw, all_pairs = gwfast.gromov_wasserstein, gwfast.pairwise_gromov_wasserstein
Problem, Aligner = gwfast.QuadraticProblem, gwfast.GromovWassersteinAligner
CALLS = {
    "masses": lambda a: gw(a.c, a.c, a.p, a.p, epsilon=0).plan,
    "partial": lambda a: gw(a.c, a.c, a.p, marginals=gwfast.Partial(0.7)).plan,
    "points": lambda a: gw(gwfast.PointCloud(a.first), COST, a.p).plan,
    "distances": lambda a: gw(gwfast.PointCloud(a.first, "euclidean"), COST, a.p).plan,
    "batch": lambda a: gwfast.gromov_wasserstein_batch([(a.c, a.c, a.p, a.p)])[0].plan,
    "pairs": lambda a: all_pairs([a.c, COST], masses=[a.p, MASSES], features=[a.x, X]).costs,
    "sinkhorn": lambda a: gwfast.sinkhorn(a.c, a.p, a.p, epsilon=1.0).plan,
    "pot": lambda a: pot.gromov_wasserstein(a.c, a.c, a.p, a.p),
    "linear cost": lambda a: gw(a.c, a.c, linear_cost=a.turned, epsilon=0).plan,
    "features": lambda a: gw(a.c, a.c, linear_cost=gwfast.CrossCost(a.x, a.first), epsilon=0).plan,
    "columns": lambda a: gwfast.CrossCost(a.first, a.columns).toarray(),
    "init": lambda a: gw(a.c, a.c, init=a.turned, max_iter=3, tol=1.0).plan,
    "costs": lambda a: gw(a.c.T[::-1].T if a is LABELLED else a.c, COST, epsilon=0).gw_cost,
    "verify": lambda a: gwfast.verify(Problem(a.c, a.c), a.turned, epsilon=0).gw_cost,
    "transform": lambda a: gw(a.c, a.c, epsilon=0).transform(a.x),
    "labels": lambda a: gw(a.c, a.c, epsilon=0).transfer_labels(a.p).labels,
    "words": lambda a: gwfast.align(a.first, X, p=a.p, init="product").gw.marginals.p,
    "estimator": lambda a: Aligner(init="product").fit(a.first, X, p=a.p).result_.plan,
    "procrustes": lambda a: gwfast.procrustes(a.first, a.x, weights=a.p),
    "foscttm": lambda a: foscttm(a.first, a.x),
    "neighbors": lambda a: gwfast.nearest_neighbors(a.first, a.columns, k=2).scores,
    "cosines": lambda a: gwfast.cosine_similarity(a.first, a.columns),
}


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_labels_in_another_order_are_aligned(call):
    np.testing.assert_allclose(call(LABELLED), call(ARRAYS), rtol=1e-9, atol=1e-12)


REFUSED = {
    "p": lambda p, x: gw(FRAME, FRAME, p=p),
    "linear_cost": lambda p, x: gw(COST, COST, p=LABELLED.p, linear_cost=x),
    "init": lambda p, x: gw(FRAME, FRAME, init=x),
    "x": lambda p, x: gw(x, COST),
    "y": lambda p, x: gw(FRAME, FRAME, epsilon=0).transform(x),
    "source": lambda p, x: gw(FRAME, FRAME, epsilon=0).to_frame(source=p),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_labels_are_refused(name):
    for names in (list("zbcdef"), list("aabcde")):
        with pytest.raises(ValueError, match=rf"^{name} .*labels.* got '"):
            REFUSED[name](pd.Series(MASSES, names), FRAME.set_axis(names))


def test_graphs_and_tables_have_labels_and_an_index_that_only_numbers_goes_by_position():
    numbered, p = pd.DataFrame(COST), pd.Series(MASSES)
    pairs = (FRAME, p), (numbered, LABELLED.p.sort_index()), (numbered, p.iloc[ORDER])
    nodes = networkx.Graph(zip("abcde", "bcdef", strict=True)), LABELLED.p
    for cost, masses in (*pairs, nodes):
        np.testing.assert_allclose(gw(cost, COST, masses, epsilon=0).plan.sum(axis=1), MASSES)
    table = gw(FRAME, FRAME, epsilon=0).to_frame(source=pd.Series(ORDER, NAMES).iloc[ORDER])
    assert table["source"].tolist() == ORDER
    assert table["target"].tolist() == NAMES
