"""Points in files, by parts, against the same in memory."""

import io

import numpy as np
import pytest
from helpers.hostile_files import npy_bytes, npz_bytes, with_twin
from helpers.marks import pairwise
from helpers.workers import Workers
from numpy.testing import assert_allclose, assert_array_equal

import gwfast
from gwfast.alignment.normalize import Normalizer
from gwfast.distributed import PointFile, point_file, row_files
from gwfast.distributed.context import Cluster
from gwfast.quadratic.placement import placing
from gwfast.solvers.search import levels, starts

N, D = 310, 6
STEPS = "unit", "center", "unit"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(row_files, "RANGE_BYTES", 3000)
    monkeypatch.setattr(row_files, "STRIDE", 7)
    monkeypatch.setattr(point_file, "PART_BYTES", 8 * D * 64)


def vectors(seed=0, n=N):
    x = np.random.default_rng(seed).standard_normal((n, D)) * np.linspace(1, 3, D)
    return x.astype(np.float32) + np.float32(0.3)


def lines(x, words=None):
    words = words or [f"w{'x' * (k % 9)}{k}" for k in range(len(x))]
    rows = (" ".join(map(repr, map(float, row))) for row in x)
    return [f"{word} {row}" for word, row in zip(words, rows, strict=True)]


def written(kind, folder, x):
    path = folder / f"vectors.{kind}"
    if kind == "npy":
        np.save(path, x)
    elif kind == "npz":
        np.savez_compressed(path, words=np.arange(len(x)), vectors=x)
    elif kind == "vec":
        path.write_text("\n".join([f"{len(x)} {D}", *lines(x)]) + "\n")
    elif kind == "txt":  # no header, no last line feed, and words with spaces
        words = [f"a b{k}" if k % 50 == 3 else f"w{k}" for k in range(len(x))]
        path.write_text("\n".join(lines(x, words)))
    return path


FORMATS = ["npy", "npz", "vec", "txt"]


@pytest.fixture(params=FORMATS)
def path(request, tmp_path):
    return written(request.param, tmp_path, vectors())


@pairwise(
    indirect=["path"], path=FORMATS, metric=["cosine", "sqeuclidean", "dot"], steps=[(), STEPS]
)
def test_it_is_the_cloud_of_its_rows(path, metric, steps):
    found = PointFile(path, metric, normalize=steps)
    expected = gwfast.PointCloud(Normalizer.fit(steps, vectors(), "x").rows, metric)
    masses = np.random.default_rng(1).random(N)
    assert (found.n, found.rank, found.metric) == (N, expected.rank, metric)
    close = dict(rtol=1e-5, atol=1e-6)
    assert_allclose(found.scale, expected.scale, **close)
    assert_array_equal(found.signature, expected.signature)
    assert_allclose(found.mean(masses), expected.mean(masses), **close)
    assert_allclose(found.mean_square(masses), expected.mean_square(masses), **close)
    assert_allclose(found.square_times(masses), expected.square_times(masses), **close)
    assert found.is_constant is expected.is_constant is False
    rows = np.random.default_rng(2).permutation(N)[:40]
    assert_allclose(found.take(rows).features, expected.take(rows).features, **close)
    assert "features" not in vars(found)
    assert_allclose(found.features, expected.features, **close)
    part = found.part(slice(60, 201)).features()
    assert_allclose(part, expected.features[60:201], **close)


def test_the_first_rows(path):
    found = PointFile(path, normalize=STEPS, n_words=100)
    expected = Normalizer.fit(STEPS, vectors()[:100], "x").rows
    assert_allclose(found.features, gwfast.PointCloud(expected).features, atol=1e-6)
    assert PointFile(path, n_words=10 * N).n == N


def test_workers_read_what_they_keep(tmp_path, monkeypatch):
    monkeypatch.setattr(levels, "RACE_POINTS", (150, 150))
    monkeypatch.setattr(levels, "GROWTH", 1.5)  # fresh starts are arrays of all rows
    monkeypatch.setattr(starts, "MAX_RANDOM", (6, 6))
    arrays = vectors(), vectors()[::-1]
    kinds = zip(("npy", "txt"), arrays, strict=True)
    files = [PointFile(written(kind, tmp_path, rows)) for kind, rows in kinds]
    options = dict(epsilon=gwfast.Epsilon(relative=0.01), tol=1e-4, marginal_tol=1e-5)
    expected = gwfast.gromov_wasserstein(*map(gwfast.PointCloud, arrays), **options)
    with placing(Cluster(Workers(dying=0.02), 3, 200)):
        found = gwfast.gromov_wasserstein(*files, **options)
        assert found.gw_cost == pytest.approx(expected.gw_cost, abs=1e-6)
        assert (found.match() == np.arange(N)[::-1]).mean() > 0.99
    assert not any("features" in vars(cloud) for cloud in files)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_without_a_cluster_it_is_read_here(path):
    cloud = PointFile(path)
    options = dict(init="product", max_outer=2)
    found = gwfast.gromov_wasserstein(cloud, cloud, **options)
    other = gwfast.PointCloud(vectors())
    expected = gwfast.gromov_wasserstein(other, other, **options)
    assert found.gw_cost == pytest.approx(expected.gw_cost, abs=1e-6)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_checkpoints_tell_files_apart(tmp_path):
    kinds = enumerate(["npy", "npz"])
    paths = [written(kind, tmp_path, vectors(seed)) for seed, kind in kinds]
    file, options = tmp_path / "kept", dict(init="product", max_outer=2)
    options |= dict(checkpoint=file)
    gwfast.gromov_wasserstein(*map(PointFile, paths), **options)
    with pytest.raises(ValueError, match="whose cost_x, cost_y differ"):
        gwfast.gromov_wasserstein(*map(PointFile, paths[::-1]), **options)


TWICE = with_twin(npz_bytes(vectors=npy_bytes((1, 1), "<f4", bytes(4))), "vectors")


def saved(x):
    """The bytes of an array as an ``.npy`` file."""
    np.save(file := io.BytesIO(), x)
    return file.getvalue()


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("x.npy", saved(np.ones(5)), "expected a 2-d array of num"),
        ("x.npy", saved(np.ones((5, 2), "U1")), "of numbers, got"),
        ("x.npz", npz_bytes(a=saved([1.0]), b=saved([2.0])), "or one named 'vecto"),
        ("x.npz", TWICE, "different names, got 'vectors"),
        ("x.npz", b"none", "expected an archive of arrays"),
        ("x.npz", npz_bytes(a=saved(np.ones((5, 2), order="F"))), "column order"),
        ("x.vec", b"", "expected vectors, one a line"),
        ("x.vec", b"9 2\na 1 2\n", "expected 9 rows, got 1"),
        ("x.vec", b"2 2\na 1 2\nb 1 z\n", "in row 1, got"),
        ("x.vec", b"2 2\na 1 2\nb 1\n", "in row 1, got"),
    ],
)
def test_other_files_are_refused_by_name(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}: .*{message}"):
        PointFile(path, normalize=["center"])


def test_bad_arguments(tmp_path):
    path = written("npy", tmp_path, vectors())
    with pytest.raises(ValueError, match=r"^metric must be one of"):
        PointFile(path, "euclidean")
    with pytest.raises(ValueError, match=r"^normalize must be a sequence"):
        PointFile(path, normalize=["whiten"])
    with pytest.raises(FileNotFoundError):
        PointFile(path.with_name("none.npy"))
    np.save(path.with_name("zero.npy"), np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"zero\.npy must have no zero rows"):
        PointFile(path.with_name("zero.npy"), normalize=["unit", "center"])
