"""What iterations on many machines are said to take."""

import numpy as np
import pytest
from helpers.workers import Workers

import gwfast
from gwfast.distributed import Machine, Rate, cost_model, measure, predict
from gwfast.distributed.context import Cluster
from gwfast.quadratic.placement import placing

MACHINE = Machine(
    make=Rate(2e-9, 1e-11),
    read=Rate(1e-10),
    remake=Rate(1e-9, 1e-11),
    contract=Rate(1e-10, 1e-11),
    recontract=Rate(1e-9, 2e-11),
    latency=1e-3,
    bandwidth=1e9,
)


@pytest.mark.parametrize("tier", ["dense", "tiled"])
def test_work_is_shared_and_messages_are_not(tier):
    n, m, rank = 50_000, 40_000, 300
    one, two, many = (predict(MACHINE, n, m, rank, w, tier=tier) for w in (1, 2, 64))
    work = [found.seconds - found.communication for found in (one, two, many)]
    np.testing.assert_allclose(work, work[0] / np.array([1, 2, 64]))
    assert one.n_bytes == 8 * n + 12 * m and many.n_bytes == 8 * n + 12 * m * 64
    assert one.linearization > two.linearization and one.memory > two.memory
    assert many.communication == 1e-3 + many.n_bytes / 1e9
    dense = predict(MACHINE, n, m, rank, 64)
    assert (dense.memory > 4 * n * m / 64) and predict(
        MACHINE, n, m, rank, 64, tier="tiled"
    ).memory < 4 * n * m


def test_it_counts_the_bytes_that_are_sent():
    """Of the arrays in questions and answers."""

    class Counting(Workers):
        sent = 0

        def ask(self, questions):
            answers = super().ask(questions)
            for (_, method, given), answer in zip(questions, answers, strict=True):
                if method == "iterate":
                    self.sent += sum(np.asarray(x).nbytes for x in given if np.ndim(x))
                    self.sent += sum(np.asarray(x).nbytes for x in answer if np.ndim(x))
            return answers

    rng = np.random.default_rng(0)
    clouds = [gwfast.PointCloud(rng.standard_normal((size, 5))) for size in (300, 200)]
    engine = Counting()
    with placing(Cluster(engine, 4, 100)), pytest.warns(gwfast.ConvergenceWarning):
        gwfast.gromov_wasserstein(*clouds, init="product", max_outer=2)
    n_iterations = engine.asked.count("iterate") / 4
    assert engine.sent / n_iterations == predict(MACHINE, 300, 200, 5, 4).n_bytes


def test_operations_and_messages_are_timed(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(cost_model, "POINTS", (60, 80))
    given = dict(processes=False, n_workers=1, dashboard_address=None)
    with distributed.Client(**given) as client:
        machine = measure(client, rank=8)
    assert min(rate.seconds(1.0, 8) for rate in machine[:5]) > 0
    assert machine.latency >= 0 and machine.bandwidth > 0


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"^tier must be one of \['dense', 'tiled'\]"):
        predict(MACHINE, 10, 10, 2, 1, tier="stored")
    with pytest.raises(ValueError, match=r"^n_workers must be at least 1"):
        predict(MACHINE, 10, 10, 2, 0)
