"""Problems on the workers of a Dask cluster, which are processes, and die."""

import functools
import logging
import os
import signal
import subprocess
import sys
import types
from concurrent.futures import CancelledError

import numpy as np
import pytest
from helpers.processes import environment

import gwfast
from gwfast.distributed import NoWorkers, PointFile, cluster, engine, team

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.process]

N = 400
OPTIONS = dict(init="product", epsilon=gwfast.Epsilon(relative=0.004))


def spaces():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 8)) * np.linspace(1, 3, 8)
    y = x[::-1] + 0.05 * rng.standard_normal(x.shape)
    return x, y


def problem():
    return [gwfast.PointCloud(one) for one in spaces()]


@pytest.fixture(scope="module")
def workers():
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with distributed.LocalCluster(**options, silence_logs=logging.CRITICAL) as found:
        yield found


@pytest.fixture
def client(workers):
    with distributed.Client(workers) as found:
        found.wait_for_workers(2)
        yield found


@pytest.fixture(scope="module")
def expected():
    return gwfast.gromov_wasserstein(*problem(), **OPTIONS)


def test_it_ends_where_one_process_does(client, expected, tmp_path):
    x, _ = spaces()
    np.save(tmp_path / "x.npy", x)
    with cluster(client, min_points=100):
        found = gwfast.gromov_wasserstein(*problem(), **OPTIONS)
        cloud = PointFile(tmp_path / "x.npy")
        read = gwfast.gromov_wasserstein(cloud, problem()[1], **OPTIONS)
    for one in (found, read):
        assert one.status == "converged"
        assert one.gw_cost == pytest.approx(expected.gw_cost, rel=1e-5, abs=1e-8)
        assert np.abs(one.plan - expected.plan).sum() < 1e-4
    assert "features" not in vars(cloud)
    assert (found.match() == np.arange(N)[::-1]).mean() > 0.99


def test_a_worker_is_killed_and_another_comes(client, workers, expected):
    killed = []

    def kill(step):
        if step.iteration == 2:
            found = client.run(os.getpid)
            killed.append(min(found))
            os.kill(found[killed[0]], signal.SIGKILL)
            workers.scale(3)

    with cluster(client, min_points=100):
        quiet = gwfast.gromov_wasserstein(*problem(), **OPTIONS)
        plan = quiet.plan  # before its workers are killed
        found = gwfast.gromov_wasserstein(*problem(), **OPTIONS, callback=kill)
    assert killed and killed[0] not in client.scheduler_info(n_workers=-1)["workers"]
    assert found.n_outer == quiet.n_outer
    assert found.gw_cost == pytest.approx(quiet.gw_cost, rel=1e-6)
    np.testing.assert_array_equal(found.plan, plan)


def test_a_worker_may_be_restarted_before_it_begins(client, expected, monkeypatch):
    places, asked = engine.DaskEngine.places, []

    # The scheduler has forgotten the worker that it named a moment before.
    def late(self):
        found = places(self)
        asked.append(None)
        if len(asked) == 2:
            (place, *_) = found.values()
            return {"tcp://127.0.0.1:9": place}
        return found

    monkeypatch.setattr(engine.DaskEngine, "places", late)
    with cluster(client, min_points=100, n_shards=2):
        found = gwfast.gromov_wasserstein(*problem(), **OPTIONS)
    assert len(asked) > 2
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-5, abs=1e-8)


def test_a_paused_worker_begins_nothing(client, monkeypatch):
    asked = engine.DaskEngine(client)
    paused, *running = asked.places()
    info = client.scheduler_info(n_workers=-1)
    info["workers"][paused]["status"] = "paused"
    monkeypatch.setattr(client, "scheduler_info", lambda **_: info)
    assert [*asked.places()] == running


def test_pairs_of_spaces_outlive_a_restart(client, monkeypatch):
    gather, restarted = client.gather, [CancelledError("scheduler-restart")]

    def gathered(futures):
        if restarted:
            raise restarted.pop()
        return gather(futures)

    monkeypatch.setattr(client, "gather", gathered)
    assert engine.DaskEngine(client).map(divmod, [(7, 2), (9, 4)]) == [(3, 1), (2, 1)]


def test_pairs_of_spaces_that_workers_die_of(client, monkeypatch):
    def died(futures):
        raise distributed.KilledWorker("pair", types.SimpleNamespace(address="here"), 3)

    monkeypatch.setattr(client, "gather", died)
    with pytest.raises(NoWorkers, match=r"^workers died.*here.* with a checkpoint"):
        engine.DaskEngine(client).map(divmod, [(7, 2)])


SCRIPT = """
import os, signal, sys
import numpy as np, gwfast
from distributed import Client, LocalCluster
from gwfast.distributed import cluster
from gwfast.solvers import checkpoint

def kill(step):
    if step.iteration == 3:
        os.killpg(0, signal.SIGKILL)  # workers, scheduler and this

if __name__ == "__main__":
    file, deadly = sys.argv[1:]
    checkpoint.MAX_SHARE = np.inf
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 8)) * np.linspace(1, 3, 8)
    y = x[::-1] + 0.05 * rng.standard_normal(x.shape)
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with LocalCluster(**options) as workers, Client(workers) as client:
        with cluster(client, min_points=100):
            found = gwfast.gromov_wasserstein(
                gwfast.PointCloud(x), gwfast.PointCloud(y), init="product",
                epsilon=gwfast.Epsilon(relative=0.004), checkpoint=file,
                callback=kill if deadly == "True" else None,
            )
    print(found.gw_cost.hex(), found.n_outer)
"""


def test_all_of_it_is_killed_and_goes_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def run(file, deadly, **kind):
        command = [sys.executable, str(script), str(tmp_path / file), str(deadly)]
        kind |= dict(env=environment(), timeout=120, start_new_session=True)
        return subprocess.run(command, capture_output=True, text=True, **kind)

    assert run("kept", True).returncode == -signal.SIGKILL
    found = [run(file, False, check=True).stdout.split() for file in ("kept", "other")]
    (gw_cost, n_outer), (expected, its_n_outer) = found
    assert float.fromhex(gw_cost) == pytest.approx(float.fromhex(expected), rel=1e-4)
    assert abs(int(n_outer) - int(its_n_outer)) <= 10


def test_workers_with_another_version_are_refused(client, monkeypatch):
    other = functools.partial(team.Shared, version="0.0.1")
    monkeypatch.setattr(team, "Shared", other)
    with cluster(client, min_points=100):
        with pytest.raises(RuntimeError, match=r"^worker tcp.* has gwfast .* 0\.0\.1"):
            gwfast.gromov_wasserstein(*problem(), **OPTIONS)


def test_without_workers_it_waits_and_says_so(monkeypatch):
    made = functools.partial(engine.DaskEngine, patience=0.1)
    monkeypatch.setattr(engine, "DaskEngine", made)
    options = dict(n_workers=0, dashboard_address=":0", processes=False)
    with distributed.Client(**options) as client, cluster(client, min_points=100):
        with pytest.raises(NoWorkers, match=r"^the cluster had no worker for 0 s"):
            gwfast.gromov_wasserstein(*problem(), **OPTIONS)


def test_a_closed_client_is_refused(workers):
    client = distributed.Client(workers)
    with cluster(client, min_points=100):
        found = gwfast.gromov_wasserstein(*problem(), **OPTIONS)
        client.close()
        with pytest.raises(RuntimeError, match="client of the cluster must be running"):
            gwfast.gromov_wasserstein(*problem(), **OPTIONS)
    with pytest.raises(RuntimeError, match="client of the cluster must be running"):
        found.match()


def test_bad_arguments(client):
    with pytest.raises(TypeError, match=r"^client must be a distributed.Client, got"):
        with cluster("tcp://here:8786"):
            pass
    with pytest.raises(ValueError, match=r"^n_shards must be at least 1, got 0"):
        with cluster(client, n_shards=0):
            pass
    with pytest.raises(TypeError, match=r"^min_points must be an integer"):
        with cluster(client, min_points=1.5):
            pass
