"""Results that were saved are read as they were."""

import numpy as np
import pandas
import pytest
from helpers.problems import cloud, distances

import gwfast

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
X, Y = cloud(12, 3, 0), cloud(9, 3, 1)
COSTS = distances(X), distances(Y)
CLOUDS = gwfast.PointCloud(X), gwfast.PointCloud(Y)
SOLVES = {
    "float64": (COSTS, dict(epsilon="3%", dtype="float64")),
    "exact": (COSTS, dict(epsilon=0)),
    "partial": (COSTS, dict(epsilon="3%", marginals=gwfast.Partial(0.5))),
    "unbalanced": (COSTS, dict(epsilon="3%", marginals=gwfast.Unbalanced((1.0, 2.0)))),
    "factors": (CLOUDS, dict(options=gwfast.SolverOptions(tier="tiled"))),
    "sparse": (CLOUDS, dict(options=gwfast.SolverOptions(tier="neighbors", n_neighbors=3))),
}


@pytest.mark.parametrize("name", SOLVES)
def test_a_result_is_read_as_it_was(name, tmp_path):
    spaces, options = SOLVES[name]
    result = gwfast.gromov_wasserstein(*spaces, **options)
    result.save(tmp_path / "result.npz")
    loaded = gwfast.GWResult.load(tmp_path / "result.npz")
    assert repr(loaded) == repr(result) and loaded.plan.dtype == result.plan.dtype
    np.testing.assert_array_equal(loaded.plan, result.plan)
    for field in vars(result).keys() - {"coupling"} | {"confidence", "left_out"}:
        np.testing.assert_equal(getattr(loaded, field), getattr(result, field))
    again = gwfast.gromov_wasserstein(*COSTS, init=loaded, epsilon="3%", max_iter=1)
    assert again.n_iter == 1


def test_labels_are_kept(tmp_path):
    path, names = tmp_path / "result.npz", list("abcdefghijkl")
    frame = pandas.DataFrame(COSTS[0], names, names)
    gwfast.gromov_wasserstein(frame, pandas.DataFrame(COSTS[1]), epsilon=0).save(path)
    assert gwfast.GWResult.load(path).labels == (tuple(names), range(9))


@pytest.mark.parametrize(
    "name, part", [("exact", "plan"), ("exact", "p"), ("factors", "left_f"), ("sparse", "indices")]
)
def test_a_damaged_file_is_refused(name, part, tmp_path):
    spaces, options = SOLVES[name]
    path = tmp_path / "result.npz"
    gwfast.gromov_wasserstein(*spaces, **options).save(path)
    with np.load(path) as file:
        value = file[part] + 10**8 if part == "indices" else file[part][:4]
        np.savez(path.with_stem("damaged"), **dict(file) | {part: value})
    with pytest.raises(ValueError, match=r"damaged\.npz"):
        gwfast.GWResult.load(path.with_stem("damaged"))
