"""Results that were saved are read as they were; files appear whole or not at all."""

import json
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


def put(value, place=0):
    """Return a change of an array: one value in one place."""
    return lambda array: np.where(np.arange(array.size).reshape(array.shape) == place, value, array)


def about(**changes):
    """Return a change of the numbers of a result."""
    return lambda text: np.array(json.dumps({**json.loads(str(text)), **changes}))


NUMBERS = dict(gw_cost=np.nan, reg_cost="x", epsilon=-1, marginal_error=None, seconds=np.inf)
NUMBERS |= dict(confidence=2, n_threads=10**9, labels=[None, 10], marginals=["other", 1, None])
DAMAGES = [
    *(
        ("exact", part, change)
        for part in ("plan", "p", "q", "f")
        for change in (lambda x: x[:4], put(np.nan), put(np.inf), lambda x: x.astype(str))
    ),
    *(("exact", part, put(-0.01)) for part in ("plan", "p", "q")),
    *((name, "plan", lambda plan: 1.01 * plan) for name in ("exact", "float64", "partial")),
    ("exact", "plan", lambda plan: plan[:, ::-1] * np.arange(9)),
    ("partial", "p", lambda p: p / 4),
    ("unbalanced", "plan", put(np.nan, 9)),
    *(("factors", part, put(np.nan, 2)) for part in ("left", "right", "left_f", "v")),
    *(("factors", part, lambda array: array[:4]) for part in ("left_f", "u")),
    ("factors", "u", lambda u: u + 1),
    ("factors", "unit", lambda unit: -unit),
    ("sparse", "indices", lambda indices: indices + 10**8),
    *(("sparse", "data", change) for change in (put(np.nan), put(-0.1), lambda data: data / 2)),
    *(("exact", "about", about(**{name: value})) for name, value in NUMBERS.items()),
    ("exact", "about", about(marginal_error=0.5)),
    ("exact", "about", about(marginals=["balanced", np.nan, None])),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path, made = tmp_path_factory.mktemp("saved") / "result.npz", {}
    for name, (spaces, options) in SOLVES.items():
        gwfast.gromov_wasserstein(*spaces, **options).save(path)
        with np.load(path) as file:
            made[name] = dict(file)
    return made


@pytest.mark.parametrize("name, part, change", DAMAGES)
def test_values_that_no_solve_gives_are_refused(name, part, change, saved, tmp_path):
    arrays = saved[name]
    np.savez(tmp_path / "damaged.npz", **arrays | {part: change(arrays[part])})
    with pytest.raises(ValueError, match=r"damaged\.npz: "):
        gwfast.GWResult.load(tmp_path / "damaged.npz")


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
