"""Results that were saved are read as they were."""

import numpy as np
import pytest
from helpers.problems import cloud, distances

import gwfast

X, Y = (cloud(n, 3, seed) for n, seed in ((12, 0), (9, 1)))
COSTS = distances(X), distances(Y)
CLOUDS = gwfast.PointCloud(X), gwfast.PointCloud(Y)
SOLVES = {
    "array": (COSTS, dict(epsilon="3%")),
    "float64": (COSTS, dict(epsilon="3%", dtype="float64")),
    "exact": (COSTS, dict(epsilon=0)),
    "partial": (COSTS, dict(epsilon="3%", marginals=gwfast.Partial(0.5))),
    "unbalanced": (COSTS, dict(epsilon="3%", marginals=gwfast.Unbalanced((1.0, 2.0)))),
    "factors": (CLOUDS, dict(options=gwfast.SolverOptions(tier="tiled"))),
    "sparse": (CLOUDS, dict(options=gwfast.SolverOptions(tier="neighbors", n_neighbors=3))),
}


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("name", SOLVES)
def test_a_result_is_read_as_it_was(name, tmp_path):
    spaces, options = SOLVES[name]
    result = gwfast.gromov_wasserstein(*spaces, **options)
    result.save(tmp_path / "result.npz")
    loaded = gwfast.GWResult.load(tmp_path / "result.npz")
    assert repr(loaded) == repr(result)
    np.testing.assert_array_equal(loaded.plan, result.plan)
    for ours, other in zip(loaded.potentials, result.potentials, strict=True):
        np.testing.assert_array_equal(ours, other)
    for field in ("gw_cost", "reg_cost", "linear_cost", "gap", "left_out", "confidence"):
        np.testing.assert_equal(getattr(loaded, field), getattr(result, field))
    assert (loaded.status, loaded.advice, loaded.method) == (
        result.status, result.advice, result.method,
    )  # fmt: skip
    assert loaded.history == result.history and loaded.candidates == result.candidates
    assert loaded.marginals.name == result.marginals.name
    assert loaded.marginals.rho == result.marginals.rho
    again = gwfast.gromov_wasserstein(*COSTS, init=loaded, epsilon="3%", max_iter=1)
    assert again.n_iter == 1


def test_labels_are_kept_or_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    path, names = tmp_path / "result.npz", [f"cell {k}" for k in range(12)]
    frame = pandas.DataFrame(COSTS[0], index=names, columns=names)
    result = gwfast.gromov_wasserstein(frame, COSTS[1], epsilon=0)
    result.save(path)
    assert gwfast.GWResult.load(path).labels == (tuple(names), None)
    pairs = pandas.MultiIndex.from_tuples([(k, k) for k in range(12)])
    frame = pandas.DataFrame(COSTS[0], index=pairs, columns=pairs)
    with pytest.raises(TypeError, match="labels must be texts or numbers to be saved, got tuple"):
        gwfast.gromov_wasserstein(frame, COSTS[1], epsilon=0).save(path)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "part", "change"),
    [
        ("array", "plan", lambda plan: plan[:7]),
        ("array", "p", lambda p: p[:4]),
        ("factors", "left_f", lambda f: f[:2]),
        ("sparse", "indices", lambda indices: indices + 10**8),
    ],
)
def test_a_damaged_file_is_refused(name, part, change, tmp_path):
    spaces, options = SOLVES[name]
    path = tmp_path / "result.npz"
    gwfast.gromov_wasserstein(*spaces, **options).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **arrays | {part: change(arrays[part])})
    with pytest.raises(ValueError, match="damaged, or no file"):
        gwfast.GWResult.load(path)
