"""Problems on the workers of a Dask cluster, which are processes, and die."""

import functools
import logging
import os
import signal

import numpy as np
import pytest
from helpers.processes import run_python

import gwfast
from gwfast.distributed import NoWorkers, cluster, engine, team

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


def solved(client, x=None, **options):
    x, y = problem() if x is None else (x, problem()[1])
    with cluster(client, min_points=100, n_shards=2):
        return gwfast.gromov_wasserstein(x, y, **OPTIONS, **options)


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
def quiet(workers):
    """A result, and its plan, which is gone with the client."""
    with distributed.Client(workers) as client:
        client.wait_for_workers(2)
        found = solved(client)
        assert (found.match() == np.arange(N)[::-1]).mean() > 0.99
        return found, found.plan


def test_it_ends_where_one_process_does(client, quiet):
    expected = gwfast.gromov_wasserstein(*problem(), **OPTIONS)
    found, plan = quiet
    assert found.status == "converged"
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-5, abs=1e-8)
    assert np.abs(plan - expected.plan).sum() < 1e-4


def test_a_worker_is_killed_and_another_comes(client, workers, quiet):
    (expected, plan), killed = quiet, []

    def kill(step):
        if step.iteration == 2:
            found = client.run(os.getpid)
            killed.append(min(found))
            os.kill(found[killed[0]], signal.SIGKILL)
            workers.scale(3)

    found = solved(client, callback=kill)
    assert killed and killed[0] not in client.scheduler_info(n_workers=-1)["workers"]
    assert found.n_iter == expected.n_iter
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-6)
    np.testing.assert_array_equal(found.plan, plan)


def test_a_worker_may_be_restarted_before_it_begins(client, quiet, monkeypatch):
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
    found = solved(client)
    assert len(asked) > 2
    assert found.gw_cost == pytest.approx(quiet[0].gw_cost, rel=1e-6)


def test_a_paused_worker_begins_nothing(client, monkeypatch):
    asked = engine.DaskEngine(client)
    paused, *running = asked.places()
    info = client.scheduler_info(n_workers=-1)
    info["workers"][paused]["status"] = "paused"
    monkeypatch.setattr(client, "scheduler_info", lambda **_: info)
    assert [*asked.places()] == running


KILLED = """
import os, signal, time
import numpy as np, gwfast
from distributed import Client
from gwfast.distributed import cluster

def kill(step):
    time.sleep(0.2)  # of which writing takes little
    if step.iteration == 3:
        os.kill(os.getpid(), signal.SIGKILL)  # workers, scheduler and this

x, y = np.load({folder!r} + "/spaces.npy")
with Client(processes=False, n_workers=2, dashboard_address=None) as client:
    with cluster(client, min_points=100, n_shards=2):
        gwfast.gromov_wasserstein(
            gwfast.PointCloud(x), gwfast.PointCloud(y), init="product",
            epsilon=gwfast.Epsilon(relative=0.004), callback=kill,
            checkpoint={folder!r} + "/kept",
        )
"""


def test_all_of_it_is_killed_and_goes_on(client, quiet, tmp_path):
    np.save(tmp_path / "spaces.npy", spaces())
    done = run_python(KILLED.format(folder=str(tmp_path)), check=False)
    assert done.returncode == -signal.SIGKILL
    seen = []
    found = solved(client, checkpoint=tmp_path / "kept", callback=seen.append)
    assert 2 <= seen[0].iteration <= 3
    expected, _ = quiet
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-4)
    assert abs(found.n_iter - expected.n_iter) <= 10


def test_workers_with_another_version_are_refused(client, monkeypatch):
    other = functools.partial(team.Shared, version="0.0.1")
    monkeypatch.setattr(team, "Shared", other)
    with pytest.raises(RuntimeError, match=r"^worker tcp.* has gwfast .* 0\.0\.1"):
        solved(client)


def test_without_workers_it_waits_and_says_so(monkeypatch):
    made = functools.partial(engine.DaskEngine, patience=0.1)
    monkeypatch.setattr(engine, "DaskEngine", made)
    options = dict(n_workers=0, dashboard_address=":0", processes=False)
    with distributed.Client(**options) as client:
        with pytest.raises(NoWorkers, match=r"^the cluster had no worker for 0 s"):
            solved(client)


def test_a_closed_client_is_refused(workers):
    client = distributed.Client(workers)
    found = solved(client)
    client.close()
    for ask in (lambda: solved(client), found.match):
        with pytest.raises(RuntimeError, match="client of the cluster must be running"):
            ask()


@pytest.mark.parametrize("options, error, message", [
    ({"client": "tcp://here:8786"}, TypeError, r"^client must be a distributed.Client, got"),
    ({"n_shards": 0}, ValueError, r"^n_shards must be at least 1, got 0"),
    ({"min_points": 1.5}, TypeError, r"^min_points must be an integer"),
])  # fmt: skip
def test_bad_arguments_are_named(client, options, error, message):
    with pytest.raises(error, match=message):
        with cluster(**({"client": client} | options)):
            pass
