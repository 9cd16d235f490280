"""Solves that are killed, and go on from their checkpoints."""

import functools
import io
import shutil
import tracemalloc
import zipfile

import numpy as np
import pytest
from helpers.problems import cloud, masses, random_cost, rotated_pair, settings

import gwfast
from gwfast import Epsilon, PointCloud

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def clouds():
    x, y, _ = rotated_pair(300, 4, 3, noise=0.01)
    return PointCloud(x), PointCloud(y[:260])


def costs(n=70, m=65, symmetric=True):
    sides = (random_cost(k, seed, symmetric=symmetric) + 0.1 for seed, k in enumerate((n, m)))
    return *sides, masses(n, 2), masses(m, 3)


LINEAR = np.random.default_rng(4).random((70, 65))
SOLVES = {
    "dense tier": (clouds, dict(epsilon="0.5%")),
    "tiled tier": (clouds, dict(tier="tiled", epsilon="0.5%")),
    "annealed": (clouds, dict(epsilon=Epsilon(relative=0.01, anneal_from=4))),
    "costs": (costs, dict(epsilon=0.01)),
    "asymmetric": (lambda: costs(symmetric=False), dict(epsilon=0.01)),
    "kl": (costs, dict(epsilon=0.03, loss="kl")),
    "float64": (costs, dict(epsilon=0.01, dtype="float64", tol=1e-9, marginal_tol=1e-9)),
    "fused": (costs, dict(epsilon=0.005, linear_cost=LINEAR, alpha=0.6)),
    "semirelaxed": (lambda: costs()[:3], dict(epsilon=0.03, marginals="semirelaxed")),
    "partial": (costs, dict(epsilon=0.01, marginals=gwfast.Partial(0.6))),
    "unbalanced": (costs, dict(epsilon=0.01, marginals=gwfast.Unbalanced((0.3, 2.0)))),
    "ppa": (costs, dict(epsilon=0.1, method="ppa", max_iter=60)),
    "bapg": (costs, dict(epsilon=0.1, method="bapg", max_iter=60, dtype="float64")),
}
solve = functools.partial(gwfast.gromov_wasserstein, init="product", epsilon=0.05)


def kill(solve, path, after):
    """Solve, and die after a number of iterations."""

    def callback(step):
        if step.iteration > after:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        solve(checkpoint=path, callback=callback)


@pytest.mark.parametrize("make, options", SOLVES.values(), ids=SOLVES)
def test_a_killed_solve_ends_at_the_same_optimum(make, options, tmp_path):
    solves = functools.partial(solve, *make(), **settings(**{"max_iter": 200, **options}))
    plain, path, texts = solves(), tmp_path / "kept", []
    kill(solves, path, plain.n_iter - 2)
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
    result = solves(checkpoint=path, progress=lambda text, *_: texts.append(text))
    assert str(path) in texts[0]
    assert {result.status, plain.status} <= {"converged", "uncertain", "max_iter", "degenerate"}
    tolerance = dict(rel=1e-3, abs=2e-3 * plain.epsilon)
    assert result.gw_cost == pytest.approx(plain.gw_cost, **tolerance)
    assert np.abs(result.plan - plain.plan).sum() <= 0.03 * plain.plan.sum()
    numbers = [step.iteration for step in result.history]
    assert numbers == [*range(1, result.n_iter + 1)]


@pytest.fixture
def kept(tmp_path):
    """The checkpoint of a solve that was killed."""
    path = tmp_path / "kept.npz"
    kill(functools.partial(solve, *costs(14, 12)), path, 2)
    return path


def test_damaged_files_are_refused_and_kept(kept, tmp_path):
    whole = kept.read_bytes()
    np.savez(tmp_path / "other.npz", numbers="{}")
    others = (tmp_path / "other.npz").read_bytes(), b"2 2\na 1 2\n"
    for damaged in (b"", whole[:-400], whole[1:], *others):
        kept.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"^{kept}: damaged"):
            solve(*costs(14, 12), checkpoint=kept)
        assert kept.read_bytes() == damaged


def array(values, **changes):
    """Return a file of an array, with changes of its header."""
    stream, values = io.BytesIO(), np.asarray(values)
    header = {**np.lib.format.header_data_from_array_1_0(values), **changes}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + values.tobytes()


LARGE = 4 * 10**7
DAMAGES = {
    "claims a terabyte": lambda member: array(np.zeros(9, np.float32), shape=(10**12,)),
    "large": lambda member: array(np.zeros(LARGE, np.int8)),
    "a large header": lambda member: (
        b"\x93NUMPY\x02\x00" + LARGE.to_bytes(4, "little") + bytes(LARGE)
    ),
    "objects": lambda member: array(np.zeros(3), descr="|O"),
    "one bit": lambda member: member[:-1] + bytes([member[-1] ^ 1]),
    "brackets": lambda member: array("[" * 10**6),
    "none": lambda member: b"",
}


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_arrays_are_refused_and_take_little_memory(kept, damage, kind):
    with zipfile.ZipFile(kept) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in ("numbers.npy", "plan.npy", "f.npy"):
        with zipfile.ZipFile(kept, "w", kind) as archive:
            for other, content in members.items():
                archive.writestr(other, damage(content) if other == name else content)
        tracemalloc.start()
        with pytest.raises(ValueError, match=f"^{kept}: damaged"):
            solve(*costs(14, 12), checkpoint=kept)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3e7


@pytest.mark.parametrize("seed", range(3))
def test_any_bit_of_a_checkpoint_may_flip(kept, seed):
    whole, rng = kept.read_bytes(), np.random.default_rng(seed)
    plan = solve(*costs(14, 12), checkpoint=kept).plan
    for position in rng.integers(len(whole), size=60):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.integers(8)
        kept.write_bytes(damaged)
        try:  # some bits, as of dates, have no effect
            result = solve(*costs(14, 12), checkpoint=kept)
        except ValueError as error:
            assert str(error).startswith(f"{kept}: ")
        else:
            np.testing.assert_allclose(result.plan, plan, atol=1e-6)


def test_damaged_costs_of_pairs_are_refused(tmp_path):
    spaces, path = [costs(n, n)[0] for n in (5, 6, 7)], tmp_path / "kept.npz"
    found = gwfast.pairwise_gromov_wasserstein(spaces, checkpoint=path)
    again = gwfast.pairwise_gromov_wasserstein(spaces, checkpoint=path)
    np.testing.assert_array_equal(found.costs, again.costs)
    with np.load(path) as saved:
        arrays = dict(saved)
    for change in (found.costs[:2], found.costs + 1, found.costs.astype(np.float32)):
        np.savez(path, **arrays | {"costs": change})
        with pytest.raises(ValueError, match=f"^{path}: damaged"):
            gwfast.pairwise_gromov_wasserstein(spaces, checkpoint=path)


ONES = np.ones((14, 12))
CHANGES = dict(epsilon=0.06, tol=1e-4, loss="kl", seed=1, init="profile", dtype="float64")
CHANGES |= dict(x=1e-9 + costs(14, 12)[0], q=masses(12, 9), linear_cost=ONES)


def test_checkpoints_of_other_solves_are_refused(kept):
    given = dict(zip("xypq", costs(14, 12), strict=True))
    for name, value in (*CHANGES.items(), ("init", ONES)):
        with pytest.raises(ValueError, match=f"^{kept}: the checkpoint of another"):
            solve(**{**given, name: value}, checkpoint=kept)


def test_checkpoints_tell_plans_neighbors_and_clouds_apart(tmp_path):
    sides = [PointCloud(cloud(40, 3, seed)) for seed in (0, 1)]
    plans = [dict(init=solve(*sides, epsilon=e, max_iter=9)) for e in ("2%", "4%")]
    tiers = [settings(tier="neighbors", n_neighbors=k, max_iter=5) for k in (8, 9)]
    for number, (one, other) in enumerate((plans, tiers)):
        kept = tmp_path / str(number)
        solve(*sides, **one, checkpoint=kept)
        with pytest.raises(ValueError, match="the checkpoint of another"):
            solve(*sides, **other, checkpoint=kept)
        with pytest.raises(ValueError, match="the checkpoint of another"):
            solve(*sides[::-1], **one, checkpoint=kept)


def test_options_that_change_no_result_may_differ(kept):
    options = dict(n_threads=2, memory_limit="1GB", time_limit=99, callback=lambda step: False)
    x, y, p, q = costs(14, 12)
    result = solve(np.asfortranarray(x), y.tolist(), p, q, checkpoint=kept, **options)
    assert result.gw_cost == pytest.approx(solve(x, y, p, q).gw_cost, rel=1e-4)


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "folder").mkdir()

    def callback(step):
        shutil.rmtree(tmp_path / "folder", ignore_errors=True)

    with pytest.warns(UserWarning, match="cannot be written"):
        result = solve(*costs(14, 12), checkpoint=tmp_path / "folder" / "kept", callback=callback)
    assert np.isfinite(result.gw_cost)
