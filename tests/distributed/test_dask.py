"""Problems on the workers of a Dask cluster, which are processes, and die.

A scheduler cannot be brought to say things at the wrong moment, so that the engine, which is
internal, is told them.
"""

import logging
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

import gwfast

distributed = pytest.importorskip("distributed")

from gwfast.distributed import NoWorkers, cluster, engine  # noqa: E402

N, OPTIONS = 400, dict(init="product", epsilon=gwfast.Epsilon(relative=0.004))
x = np.random.default_rng(0).standard_normal((N, 8)) * np.linspace(1, 3, 8)
SPACES = x, x[::-1] + 0.05 * np.random.default_rng(1).standard_normal(x.shape)


def solved(client, **options):
    clouds = [gwfast.PointCloud(side) for side in SPACES]
    if client is None:
        return gwfast.gromov_wasserstein(*clouds, **OPTIONS, **options)
    with cluster(client, min_points=100, n_shards=2):
        return gwfast.gromov_wasserstein(*clouds, **OPTIONS, **options)


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
    client = distributed.Client(workers)
    client.wait_for_workers(2)
    found = solved(client)
    plan = found.plan
    client.close()
    for ask in (lambda: solved(client), found.match):
        with pytest.raises(RuntimeError, match=r"client .* running"):
            ask()
    return found, plan


@pytest.mark.slow
@pytest.mark.process
def test_it_ends_where_one_process_does(quiet):
    (found, plan), expected = quiet, solved(None)
    assert found.status == "converged"
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-5, abs=1e-8)
    assert np.abs(plan - expected.plan).sum() < 1e-4


@pytest.mark.slow
@pytest.mark.process
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


@pytest.mark.slow
@pytest.mark.process
def test_a_worker_may_be_restarted_before_it_begins(client, quiet, monkeypatch):
    places, asked = engine.DaskEngine.places, []

    # The scheduler has forgotten the worker that it named a moment before.
    def late(self):
        found = places(self)
        asked.append(None)
        return {"tcp://127.0.0.1:9": found.popitem()[1]} if len(asked) == 2 else found

    monkeypatch.setattr(engine.DaskEngine, "places", late)
    found = solved(client)
    assert len(asked) > 2
    assert found.gw_cost == pytest.approx(quiet[0].gw_cost, rel=1e-6)


@pytest.mark.slow
@pytest.mark.process
def test_workers_with_another_version_are_refused(client):
    asked = engine.DaskEngine(client)
    (address, *_), other = asked.places(), SimpleNamespace(version="0.0.1")
    with pytest.raises(RuntimeError, match=r"^worker tcp.* gwfast .* 0\.0\.1"):
        asked.start([(address, None, None, "dense")], other)


def test_paused_workers_begin_nothing_and_none_are_waited_for():
    status = {"a": "running", "b": "paused"}
    facts = {name: dict(status=value, memory_limit=9) for name, value in status.items()}
    client = SimpleNamespace(status="running", scheduler_info=lambda **_: {"workers": facts})
    waiting = engine.DaskEngine(client, patience=0.01)
    assert waiting.wait() == {"a": 9}
    del facts["a"]
    with pytest.raises(NoWorkers, match="0 s"):
        waiting.wait()
