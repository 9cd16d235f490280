"""Refusals of results and of the plans of three forms in them."""

import numpy as np
import pandas
from helpers.problems import cloud, distances
from helpers.refusals import refused

import gwfast

COSTS = distances(cloud(6, 3, 0)), distances(cloud(5, 3, 1))
CLOUDS = [gwfast.PointCloud(cloud(n, 3, n)) for n in (6, 5)]


def of_tier(tier):
    options = gwfast.SolverOptions(tier=tier)
    return gwfast.gromov_wasserstein(*CLOUDS, epsilon=0.1, init="product", options=options).coupling


result = gwfast.gromov_wasserstein(*COSTS, epsilon=0)
array, factors, kept = result.coupling, of_tier("tiled"), of_tier("neighbors")
pairs = gwfast.pairwise_gromov_wasserstein(COSTS)
TUPLES = pandas.MultiIndex.from_tuples([(k, k) for k in range(6)])
with_tuples = gwfast.gromov_wasserstein(
    pandas.DataFrame(COSTS[0], TUPLES, TUPLES), COSTS[1], epsilon=0
)
# NumPy 2 has it.
STRINGS = np.dtypes.StringDType(na_object=None) if hasattr(np.dtypes, "StringDType") else object
UNNAMED = np.array(["a", None, "b", "a", "b"], dtype=object)
MASKED = np.ma.masked_array(list("abcde"), mask=[0, 0, 0, 0, 1])

ROWS = [
    (lambda: array.topk(0), "k", 0),
    (lambda: factors.topk(1.5), "k", "float", TypeError),
    (lambda: kept.topk(1, [0.0]), "", None, IndexError),
    (lambda: factors.tocsr(-1e-9), "left_out", -1e-9),
    (lambda: array.apply(np.zeros(4)), "y", (4,)),
    (lambda: kept.transform(np.zeros((5, 1, 1))), "y", (5, 1, 1)),
    (lambda: kept.apply(["a"] * 5), "y", "<U1", TypeError),
    (lambda: result.inverse_transform([1.0]), "x", (1,)),
    (lambda: result.transform(np.ones(5), projection="mean"), "projection", "mean"),
    (lambda: result.transfer_labels(["a"]), "labels", (1,)),
    *refused(result.transfer_labels, labels={"1 of 5": UNNAMED, "got 1 of 5": MASKED}),
    (lambda: result.transfer_labels(np.array([*"ab", None, *"cd"], STRINGS)), "labels", "1 of 5"),
    (lambda: result.transfer_labels(np.array(["NaT"] * 5, "M8[D]")), "labels", "5 of 5"),
    (lambda: result.transfer_labels([1.0, np.nan, np.nan, 1.0, 2.0]), "labels", "2 of 5"),
    (lambda: result.transfer_labels(["a"] * 5, to="both"), "to", "both"),
    (lambda: pairs.to_frame(["a"]), "names", (1,)),
    (lambda: pairs.nearest(0), "k", 0),
    (lambda folder: with_tuples.save(folder / "result.npz"), "labels", "tuple", TypeError),
]
