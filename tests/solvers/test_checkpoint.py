"""Solves that are killed, and go on from their checkpoints."""

import functools

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost, rotated_pair
from helpers.settings import settings

import gwfast
from gwfast import Epsilon, PointCloud

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


class Killed(Exception):
    """Stands for SIGKILL."""


def clouds(n=900, m=800):
    x, y, _ = rotated_pair(n, 4, 3, noise=0.01)
    return PointCloud(x), PointCloud(y[:m])


def costs(n=140, m=130, symmetric=True):
    cost_x = random_cost(n, 0, symmetric=symmetric) + 0.1
    cost_y = random_cost(m, 1, symmetric=symmetric) + 0.1
    return cost_x, cost_y, masses(n, 2), masses(m, 3)


def metric(n=150, m=140):
    x, y, _ = rotated_pair(n, 3, 5, noise=0.01)
    return distances(x), distances(y[:m])


LINEAR = np.random.default_rng(4).random((140, 130))
SOLVES = {
    "dense tier": (clouds, dict(epsilon=Epsilon(relative=0.005))),
    "tiled tier": (clouds, dict(tier="tiled", epsilon=Epsilon(relative=0.005))),
    "annealed": (clouds, dict(epsilon=Epsilon(relative=0.01, anneal_from=4))),
    "costs": (costs, dict(epsilon=0.01)),
    "asymmetric": (functools.partial(costs, symmetric=False), dict(epsilon=0.01)),
    "kl": (costs, dict(epsilon=0.03, loss="kl")),
    "float64": (metric, dict(dtype="float64", tol=1e-9, marginal_tol=1e-9)),
    "fused": (costs, dict(epsilon=0.005, linear_cost=LINEAR, alpha=0.6)),
    "semirelaxed": (lambda: costs()[:3], dict(epsilon=0.01, marginals="semirelaxed")),
    "partial": (costs, dict(epsilon=0.01, marginals=gwfast.Partial(0.6))),
    "unbalanced": (costs, dict(epsilon=0.01, marginals=gwfast.Unbalanced((0.3, 2.0)))),
    "ppa": (costs, dict(epsilon=0.1, method="ppa", max_iter=60)),
    "bapg": (costs, dict(epsilon=0.1, method="bapg", max_iter=60, dtype="float64")),
}


def killed(solve, path, after):
    """Solve, and die after a number of iterations."""

    def callback(step):
        if step.iteration > after:
            raise Killed

    with pytest.raises(Killed):
        solve(checkpoint=path, callback=callback)


@pytest.mark.parametrize("name", SOLVES)
def test_a_killed_solve_ends_at_the_same_optimum(name, tmp_path):
    make, options = SOLVES[name]
    options = settings(**{"init": "product", "max_iter": 200, **options})
    solve = functools.partial(gwfast.gromov_wasserstein, *make(), **options)
    plain, path = solve(), tmp_path / "kept"
    killed(solve, path, plain.n_iter - 2)
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
    texts = []
    result = solve(checkpoint=path, progress=lambda text, *_: texts.append(text))
    assert texts[0] == f"going on from {path}"
    assert {result.status, plain.status} <= {"converged", "uncertain", "max_iter", "degenerate"}
    tolerance = dict(rel=1e-3, abs=2e-3 * plain.epsilon)
    assert result.gw_cost == pytest.approx(plain.gw_cost, **tolerance)
    assert np.abs(result.plan - plain.plan).sum() <= 0.03 * plain.plan.sum()
    numbers = [step.iteration for step in result.history]
    assert numbers == [*range(1, result.n_iter + 1)]


solve = functools.partial(gwfast.gromov_wasserstein, init="product", epsilon=0.05)


@pytest.fixture
def kept(tmp_path):
    """The checkpoint of a solve that was killed."""
    path = tmp_path / "kept"
    killed(functools.partial(solve, *costs(14, 12)), path, 2)
    return path


@pytest.mark.parametrize("damage", [slice(0, 0), slice(0, -400), slice(1, None), b"2 2\na 1 2\n"])
def test_damaged_files_are_refused_and_kept(damage, kept):
    whole = kept.read_bytes()
    kept.write_bytes(whole[damage] if isinstance(damage, slice) else damage)
    before = kept.read_bytes()
    with pytest.raises(ValueError, match=f"^{kept}: damaged, or no checkpoint"):
        solve(*costs(14, 12), checkpoint=kept)
    assert kept.read_bytes() == before


def test_a_file_without_an_identity_is_damaged(tmp_path):
    path = tmp_path / "kept.npz"
    np.savez(path, numbers="{}")
    with pytest.raises(ValueError, match="damaged, or no checkpoint"):
        solve(*costs(14, 12), checkpoint=path)


@pytest.mark.parametrize(
    "change",
    [
        dict(epsilon=0.06), dict(tol=1e-4), dict(loss="kl"), dict(seed=1), dict(init="profile"),
        dict(x=1e-9 + costs(14, 12)[0]), dict(q=masses(12, 9)), dict(dtype="float64"),
        dict(init=np.ones((14, 12))), dict(linear_cost=np.ones((14, 12))),
    ],
)  # fmt: skip
def test_checkpoints_of_other_solves_are_refused(change, kept):
    given = dict(zip("xypq", costs(14, 12), strict=True))
    with pytest.raises(ValueError, match="the checkpoint of another solve"):
        solve(**{**given, **change}, checkpoint=kept)


def test_checkpoints_tell_plans_and_neighbors_apart(tmp_path):
    clouds = [gwfast.PointCloud(cloud(40, 3, seed)) for seed in (0, 1)]
    first, second = (
        gwfast.gromov_wasserstein(*clouds, **settings(tier="tiled", epsilon=epsilon))
        for epsilon in ("2%", "4%")
    )
    for name, changes in (
        ("init", [dict(init=first, tier="tiled"), dict(init=second, tier="tiled")]),
        ("tier", [dict(tier="neighbors", n_neighbors=k, init="product") for k in (8, 9)]),
    ):
        one, other = (settings(**change, epsilon="3%") for change in changes)
        gwfast.gromov_wasserstein(*clouds, **one, checkpoint=tmp_path / name)
        with pytest.raises(ValueError, match="the checkpoint of another solve"):
            gwfast.gromov_wasserstein(*clouds, **other, checkpoint=tmp_path / name)


def test_what_changes_no_result_may_differ(kept):
    options = dict(n_threads=2, memory_limit="1GB", time_limit=99, callback=lambda step: False)
    x, y, p, q = costs(14, 12)
    result = solve(np.asfortranarray(x), y.tolist(), p, q, checkpoint=kept, **options)
    assert result.gw_cost == pytest.approx(solve(x, y, p, q).gw_cost, rel=1e-4)


@pytest.mark.parametrize("path, error", [(3.5, TypeError), (".", ValueError), ("no/f", ValueError)])
def test_a_wrong_path_is_named(path, error):
    with pytest.raises(error, match=r"^checkpoint must be"):
        solve(*costs(14, 12), checkpoint=path)


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        (folder / "probe").touch()
    except PermissionError:
        with pytest.warns(UserWarning, match="cannot be written"):
            solve(*costs(14, 12), checkpoint=folder / "kept")
    else:
        pytest.skip("this user may write anywhere")
