"""Results that were saved are read as they were; files appear whole or not at all."""

import os
import signal

import numpy as np
import pandas
import pytest
from helpers.problems import cloud, distances
from helpers.processes import full_disk, run_python

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
    names = list("abcdefghijkl")
    frame = pandas.DataFrame(COSTS[0], names, names)
    labelled = gwfast.gromov_wasserstein(frame, pandas.DataFrame(COSTS[1]), epsilon=0)
    labelled.save(tmp_path / "result.npz")
    assert gwfast.GWResult.load(tmp_path / "result.npz").labels == (tuple(names), range(9))


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


def test_a_full_disk_leaves_the_file_as_it_was_and_is_named(tmp_path):
    result = gwfast.gromov_wasserstein(np.eye(40), np.eye(40)[::-1], init="product", epsilon=0)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with full_disk(1000), pytest.raises(OSError) as caught:
        result.save(os.fsencode(path))
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError) as caught:
        result.save(tmp_path / "no/such")
    assert caught.value.filename == str(tmp_path / "no/such")
    result.save("/dev/null")  # a device is written to as it is


KILLED = """
import resource, signal
import numpy as np, gwfast
result = gwfast.gromov_wasserstein(np.eye(40), np.eye(40)[::-1], init="product", epsilon=0)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # kills this process amid the file
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
result.save({path!r})
"""


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="limits of files are of POSIX")
def test_a_killed_process_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    done = run_python(KILLED.format(path=str(path)), check=False)
    assert done.returncode == -signal.SIGXFSZ
    assert path.read_bytes() == b"old"
