"""Problems whose kernels are on workers, against the same in one place.

A cluster cannot be brought to lose a worker or to say things at the wrong moment, so that `Workers`
take the place of its engine, which is internal, as are the shards that they hold.
"""

import logging
import math
import os
import pickle
import random
import re
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gwfast
from gwfast import PointCloud
from gwfast.distributed import NoWorkers, cluster
from gwfast.distributed.context import Cluster, placing
from gwfast.distributed.shard import Shard
from gwfast.distributed.team import Lost


class Workers:
    """Stands for a `DaskEngine` of `n` workers; before a share `dying` of the questions, at random,
    a worker dies and another comes.
    """

    def __init__(self, n=2, memory=math.inf, dying=0.0):
        self._memory, self._dying, self._random = memory, dying, random.Random(0)
        self.there, self.asked, self.died = {}, [], 0
        # Address and tier of every shard.
        self.begun = []
        for _ in range(n):
            self.join()

    def join(self):
        self.there[f"worker {self.died + len(self.there) + 1:04}"] = self._memory

    def die(self, address):
        del self.there[address]
        self.died += 1

    def places(self):
        return dict(self.there)

    wait = places

    def start(self, parts, shared):
        self.begun += [(address, tier) for address, *_, tier in parts]
        return [(Shard(*own, shared, 1), address) for address, *own in parts]

    def ask(self, questions):
        self.asked += [method for _, method, _ in questions]
        if self._random.random() < self._dying:
            self.die(self._random.choice(sorted(self.there)))
            self.join()
        return [self.answer(*question) for question in questions]

    def answer(self, handle, method, args):
        shard, address = handle
        if address not in self.there:
            return Lost()
        try:
            return getattr(shard, method)(*args)
        except Exception as error:
            return error


def clouds(n=260, m=240, d=8, metric="cosine", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((max(n, m), d)) * np.linspace(1, 3, d)
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    y = x @ turn + 0.05 * rng.standard_normal(x.shape)
    return PointCloud(x[:n], metric), PointCloud(y[:m], metric)


CLOUDS, SMALL = clouds(), clouds(130, 120)
FACTORS = np.abs(np.random.default_rng(0).standard_normal((260, 5)))
LOW_RANK = [PointCloud.from_factors(u) for u in (FACTORS, FACTORS[::-1] + 0.01)]


def solve(
    engine=None, n_shards=3, min_points=100, *, spaces=CLOUDS, tier="auto", relative=0.01, **more
):
    """Solve here, or on workers."""
    more = dict(init="product", options=gwfast.SolverOptions(tier=tier)) | more
    more["epsilon"] = gwfast.Epsilon(relative=relative)
    if engine is None:
        return gwfast.gromov_wasserstein(*spaces, **more)
    with placing(Cluster(engine, n_shards, min_points)):
        return gwfast.gromov_wasserstein(*spaces, **more)


# Epsilon so large that the plan is spread out, and so small that it needs the log domain.
COSINES = [("dense", "cosine", 0.02), ("dense", "cosine", 0.002), ("tiled", "cosine", 0.002)]


@pytest.mark.parametrize("tier, metric, relative", [*COSINES, ("tiled", "sqeuclidean", 0.02)])
def test_it_ends_where_one_place_does_and_workers_may_die(tier, metric, relative):
    options = dict(spaces=clouds(metric=metric), tier=tier, relative=relative)
    quiet, deadly = Workers(3), Workers(2, dying=0.05)
    here, there, again = (solve(engine, **options) for engine in (None, quiet, deadly))
    assert there.status == here.status == "converged" and there.coupling.form == "factors"
    # The objective is a difference of terms in float32, which are far larger for squared
    # distances; the objectives of two tiers differ by the same rounding.
    size, rounding = here.epsilon / relative, 1e-4 if metric == "sqeuclidean" else 1e-7
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=3e-5, abs=rounding * size)
    assert np.abs(there.plan - here.plan).sum() < (1e-3 if rounding < 1e-5 else 1e-2)
    for one, other in zip(there.potentials, here.potentials, strict=True):
        off = (one - one.mean()) - (other - other.mean())
        assert np.abs(off).mean() < 1e-3 * size
    assert quiet.died == 0 and deadly.died > 3
    assert {one for _, one in quiet.begun} == {tier}
    steps, its_steps = ([s[:-1] for s in one.history] for one in (again, there))
    assert steps == its_steps and again.gw_cost == there.gw_cost
    assert_array_equal(again.plan, there.plan)
    # Any number of shards comes to the same plan.
    many = solve(Workers(), 7, **options)
    assert many.gw_cost == pytest.approx(there.gw_cost, rel=1e-5)
    assert np.abs(many.plan - there.plan).sum() < 1e-4


def test_the_search_is_the_same():
    engine, options = Workers(dying=0.01), dict(spaces=clouds(40, 38, 4, seed=6), relative=0.05)
    here = solve(init="auto", **options)
    there = solve(engine, 2, 30, init="auto", **options)
    first, last = ({row.start for row in found.candidates} for found in (here, there))
    assert first == last and len(first) > 10
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=1e-5)
    assert engine.died > 0


@pytest.mark.slow
def test_a_search_on_coarse_levels_goes_on_on_workers():
    spaces, engine = clouds(2000, 1900, seed=6), Workers(dying=0.01)
    here = solve(spaces=spaces, init="auto")
    there = solve(engine, min_points=1900, spaces=spaces, init="auto")
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=1e-5)
    assert {row.n_points for row in there.candidates} == {1500, 2000}
    assert engine.died > 0 and "logsumexp_of_few" in engine.asked


# Objectives differ by a relative error at most, or by none if the problem is not taken.
TAKEN = {
    "plan": (1e-5, 3, dict(init=np.random.default_rng(1).random((260, 240)))),
    "rows": (1e-5, 9, dict(spaces=clouds(5, 200), max_iter=1000)),
    # Both objectives are within 3e-4 of the objective in float64.
    "low rank": (6e-4, 3, dict(spaces=LOW_RANK, max_iter=1000)),
    "small": (0, 3, dict(spaces=clouds(30, 31))),
    "kl": (0, 3, dict(spaces=[PointCloud(abs(one.points)) for one in CLOUDS], loss="kl")),
    "ppa": (0, 3, dict(options=gwfast.SolverOptions(method="ppa"))),
    "semirelaxed": (0, 3, dict(marginals="semirelaxed")),
    "matrices": (0, 3, dict(spaces=[cloud.to_dense() for cloud in CLOUDS])),
}


@pytest.mark.parametrize("rel, n_shards, options", TAKEN.values(), ids=TAKEN)
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_problems_of_two_large_clouds_are_taken(rel, n_shards, options):
    """Also with a plan to start from, more shards than rows, or costs of low rank."""
    engine, options = Workers(), dict(max_iter=3) | options
    here, there = solve(**options), solve(engine, n_shards, 31, **options)
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=rel, abs=0)
    assert ("make" in engine.asked) == bool(engine.asked) == (rel > 0)


def test_shards_move_to_workers_that_join_and_errors_are_raised():
    engine = Workers(1)

    def join_once(step):
        if step.iteration == 2:
            engine.join()

    assert solve(engine, 4, callback=join_once).status == "converged"
    begun = [address for address, _ in engine.begun]
    assert begun == ["worker 0001"] * 4 + ["worker 0002"] * 2
    engine.answer = lambda *_: ValueError("of float64")
    with pytest.raises(ValueError, match="of float64"):
        solve(engine)
    with pytest.raises(MemoryError, match=r"^init must be .* a plan"):
        solve(engine, init="profile")


@pytest.mark.parametrize("every", [1, 3])
def test_a_shard_that_is_lost_again_and_again_is_not_begun_for_ever(every):
    """Let the worker die after `every` iterations, and be replaced."""
    engine = Workers(1)
    answer = engine.answer

    def die_often(handle, method, args):
        if method == "iterate" and engine.asked.count(method) % every == 0:
            assert engine.asked.count(method) < 1000
            engine.die(handle[1])
            engine.join()
        return answer(handle, method, args)

    engine.answer = die_often
    with pytest.raises(NoWorkers, match=r"^shard 0 of 1 .* checkpoint"):
        solve(engine, 1, spaces=SMALL)
    assert engine.died <= 15


def test_shards_take_no_more_than_the_memory_of_workers():
    with pytest.raises(MemoryError, match=r"^2 of 4 shards .* 260 x 240") as caught:
        solve(Workers(2, memory=1e4), 4)
    (size,) = re.findall(r"(\S+) GB \(dense\)", str(caught.value))
    # Shards may take 60 % of the memory: there is room for two of four, so not for both of two.
    engine = Workers(2, memory=1e9 * float(size) / 0.6)

    def leave_one(step):
        for address in [*engine.there][1:]:
            engine.die(address)

    found = solve(engine, 2, callback=leave_one)
    tiers = [tier for _, tier in engine.begun]
    assert len(engine.there) == 1 and tiers == ["dense", "dense", "tiled"]
    assert found.status == "converged"
    # As far as tiers differ from one another.
    assert found.gw_cost == pytest.approx(solve(Workers(), 2).gw_cost, rel=3e-5)


@pytest.mark.parametrize("tier, relative", [("dense", 0.02), ("tiled", 0.002)])
def test_the_plan_answers(tier, relative):
    coupling = solve(Workers(dying=0.02), tier=tier, relative=relative).coupling
    plan = coupling.toarray().astype(np.float64)
    y = np.random.default_rng(2).standard_normal((260, 5)).astype(np.float32)
    assert coupling.nbytes > 0
    for one, its in ((coupling, plan), (coupling.T, plan.T)):
        side = y[: its.shape[1]]
        assert one.shape == its.shape
        assert_allclose(one.apply(side), its @ side, atol=1e-6)
        assert_allclose(one.transform(side), its @ side / its.sum(axis=1)[:, None], atol=1e-4)
        for sums, axis in zip(one.marginals, (1, 0), strict=True):
            assert_allclose(sums, its.sum(axis=axis), atol=1e-7)
        # A shard made anew rounds its exponents, of some hundreds, once more.
        assert_allclose(one.toarray(), its, rtol=1e-4, atol=1e-9)
        found = one.topk(3)
        assert (found.indices[:, 0] == its.argmax(axis=1)).mean() > 0.99
        assert_allclose(found.scores, -np.sort(-its, axis=1)[:, :3], atol=1e-6)
        rows = [5, -1, 5, 0, 130]
        assert_array_equal(one.topk(2, rows).indices, found.indices[rows, :2])
        assert one.topk(2, []).indices.shape == (0, 2)
        kept = one.tocsr().toarray()
        assert np.abs(kept - its).sum() < 2e-4 and (kept <= its * (1 + 1e-4) + 1e-9).all()
        logs = np.log(its, out=np.zeros_like(its), where=its > 0)
        assert one.entropy() == pytest.approx(-(its * logs).sum(), rel=1e-5)
    with pytest.raises(MemoryError, match="tocsr"):
        coupling.replace(limit=1000).toarray()
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(coupling)


def test_results_are_used_as_others_are():
    rng, seen = np.random.default_rng(4), []
    here = solve(spaces=SMALL)
    there = solve(
        Workers(dying=0.05), spaces=SMALL, callback=lambda step: seen.append(step.coupling.topk(1))
    )
    assert_array_equal(there.match(), here.match())
    assert (len(seen), seen[-1].indices[0, 0]) == (there.n_iter, there.match()[0])
    y = rng.standard_normal((120, 4))
    assert_allclose(there.transform(y), here.transform(y), atol=1e-4)
    words = [rng.standard_normal((n, 12)) for n in (150, 140)]
    options = dict(init="product", tol=0.1, n_words=120)
    expected = gwfast.align(*words, **options)
    with placing(Cluster(Workers(), 2, 100)):
        aligned = gwfast.align(*words, **options)
    assert_allclose(aligned.mapping, expected.mapping, atol=1e-3)
    assert aligned.translate([0, 5], method="plan", k=2).indices.shape == (2, 2)


@pytest.mark.parametrize("tier, at", [("dense", 2), ("tiled", 5)])
def test_it_goes_on_from_a_checkpoint_on_other_workers(tier, at, tmp_path):
    options = dict(spaces=SMALL, tier=tier, relative=0.005)
    expected = solve(Workers(), **options)
    assert expected.n_iter > at + 1

    def die(step):
        time.sleep(0.05)  # writing takes a small share of it
        if step.iteration > at:
            raise InterruptedError

    options |= dict(checkpoint=tmp_path / "kept")
    with pytest.raises(InterruptedError):
        solve(Workers(), callback=die, **options)
    engine, seen = Workers(3), []
    found = solve(engine, callback=seen.append, **options)
    kept = seen[0].iteration - 1
    assert 1 <= kept <= at
    assert [step.iteration for step in found.history] == [*range(1, found.n_iter + 1)]
    assert abs(found.n_iter - expected.n_iter) <= 10
    assert engine.asked.count("contract") == 3 * (found.n_iter - kept)
    assert found.status == expected.status
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-4)
    assert np.abs(found.plan - expected.plan).sum() < 1e-3


@pytest.mark.slow
@pytest.mark.process
def test_processes_of_dask_may_be_killed_and_restarted(monkeypatch):
    distributed = pytest.importorskip("dask.distributed")
    from gwfast.distributed.engine import DaskEngine

    options, killed, asked = dict(spaces=clouds(400, 400), relative=0.004), [], []
    nanny = dict(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    workers = distributed.LocalCluster(**nanny, silence_logs=logging.CRITICAL)
    client = distributed.Client(workers)

    def solved(**more):
        with cluster(client, min_points=100, n_shards=2):
            return solve(**options, **more)

    def kill(step):
        if step.iteration == 2:
            found = client.run(os.getpid)
            killed.append(min(found))
            os.kill(found[killed[0]], signal.SIGKILL)
            workers.scale(3)

    places = DaskEngine.places

    # The scheduler has forgotten the worker that it named a moment before.
    def late(self):
        found = places(self)
        asked.append(None)
        return {"tcp://127.0.0.1:9": found.popitem()[1]} if len(asked) == 2 else found

    with workers, client:
        expected, quiet = solve(**options), solved()
        plan, found = quiet.plan, solved(callback=kill)
        assert quiet.status == "converged" and quiet.n_iter == found.n_iter
        assert quiet.gw_cost == pytest.approx(expected.gw_cost, rel=1e-5, abs=1e-8)
        assert np.abs(plan - expected.plan).sum() < 1e-4
        assert killed and killed[0] not in client.scheduler_info(n_workers=-1)["workers"]
        assert found.gw_cost == pytest.approx(quiet.gw_cost, rel=1e-6)
        assert_array_equal(found.plan, plan)
        client.wait_for_workers(2)
        (address, *_), other = DaskEngine(client).places(), SimpleNamespace(version="0.0.1")
        with pytest.raises(RuntimeError, match=r"^worker tcp.* gwfast .* 0\.0\.1"):
            DaskEngine(client).start([(address, None, None, "dense")], other)
        monkeypatch.setattr(DaskEngine, "places", late)
        assert solved().gw_cost == pytest.approx(quiet.gw_cost, rel=1e-6) and len(asked) > 2
    for ask in (solved, quiet.match):
        with pytest.raises(RuntimeError, match=r"client .* running"):
            ask()


def test_paused_workers_begin_nothing_and_none_are_waited_for():
    pytest.importorskip("dask.distributed")
    from gwfast.distributed.engine import DaskEngine

    status = {"a": "running", "b": "paused"}
    facts = {name: dict(status=value, memory_limit=9) for name, value in status.items()}
    client = SimpleNamespace(status="running", scheduler_info=lambda **_: {"workers": facts})
    waiting = DaskEngine(client, patience=0.01)
    assert waiting.wait() == {"a": 9}
    del facts["a"]
    with pytest.raises(NoWorkers, match="0 s"):
        waiting.wait()
