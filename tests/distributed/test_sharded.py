"""Problems whose kernels are on workers, against the same in one place."""

import pickle
import time

import numpy as np
import pytest
from helpers.workers import Workers, memory_for, on, solve
from numpy.testing import assert_allclose, assert_array_equal

import gwfast
from gwfast import PointCloud
from gwfast.distributed import NoWorkers


def clouds(n=260, m=240, d=8, metric="cosine", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((max(n, m), d)) * np.linspace(1, 3, d)
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    y = x @ turn + 0.05 * rng.standard_normal(x.shape)
    return PointCloud(x[:n], metric), PointCloud(y[:m], metric)


# Epsilon so large that the plan is spread out, and so small that it needs the log domain.
@pytest.mark.parametrize("tier, metric, relative", [
    ("dense", "cosine", 0.02), ("dense", "cosine", 0.002), ("tiled", "cosine", 0.002),
    ("tiled", "sqeuclidean", 0.02),
])  # fmt: skip
def test_it_ends_where_one_place_does(tier, metric, relative):
    spaces, options = clouds(metric=metric), dict(tier=tier, relative=relative)
    here, there = solve(spaces, **options), solve(spaces, Workers(), **options)
    assert there.status == here.status == "converged" and there.coupling.form == "factors"
    # The objective is a difference of terms in float32, which are far larger for squared
    # distances; the objectives of two tiers differ by the same rounding.
    size, rounding = here.epsilon / relative, 1e-4 if metric == "sqeuclidean" else 1e-7
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=3e-5, abs=rounding * size)
    assert np.abs(there.plan - here.plan).sum() < (1e-3 if rounding < 1e-5 else 1e-2)
    for one, other in zip(there.potentials, here.potentials, strict=True):
        off = (one - one.mean()) - (other - other.mean())
        assert np.abs(off).mean() < 1e-3 * size


@pytest.mark.parametrize("relative", [0.02, 0.005])
def test_any_number_of_shards_comes_to_the_same_plan(relative):
    spaces = clouds(130, 120)
    one, found, again = (
        solve(spaces, Workers(n_workers), n_shards, relative=relative)
        for n_workers, n_shards in ((2, 1), (2, 7), (5, 7))
    )
    assert found.gw_cost == pytest.approx(one.gw_cost, rel=1e-5)
    assert np.abs(found.plan - one.plan).sum() < 1e-4
    assert_array_equal(again.plan, found.plan)


@pytest.mark.parametrize("tier, relative", [("dense", 0.002), ("tiled", 0.02)])
def test_workers_may_die(tier, relative):
    quiet, deadly = Workers(3), Workers(3, dying=0.05)
    expected, found = (
        solve(clouds(), engine, tier=tier, relative=relative) for engine in (quiet, deadly)
    )
    assert quiet.died == 0 and deadly.died > 3
    assert {one for _, one in quiet.begun} == {tier}
    steps, its_steps = ([s[:-1] for s in one.history] for one in (found, expected))
    assert steps == its_steps and found.gw_cost == expected.gw_cost
    assert_array_equal(found.plan, expected.plan)


def test_the_search_is_the_same():
    spaces, engine = clouds(40, 38, 4, seed=6), Workers(dying=0.01)
    here = solve(spaces, init="auto", relative=0.05)
    there = solve(spaces, engine, 2, min_points=30, init="auto", relative=0.05)
    first, last = ({row.start for row in found.candidates} for found in (here, there))
    assert first == last and len(first) > 10
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=1e-5)
    assert engine.died > 0


@pytest.mark.slow
def test_a_search_on_coarse_levels_goes_on_on_workers():
    spaces, engine = clouds(2000, 1900, seed=6), Workers(dying=0.01)
    here = solve(spaces, init="auto")
    there = solve(spaces, engine, min_points=1900, init="auto")
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=1e-5)
    assert {row.n_points for row in there.candidates} == {1500, 2000}
    assert engine.died > 0 and "logsumexp_of_few" in engine.asked


def test_a_plan_to_start_from():
    spaces = clouds()
    options = dict(init=np.random.default_rng(1).random((260, 240)), max_iter=3)
    with pytest.warns(gwfast.ConvergenceWarning):
        here, there = solve(spaces, **options), solve(spaces, Workers(), **options)
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=1e-5)
    with pytest.raises(MemoryError, match=r"^init must be .* a plan"):
        solve(spaces, Workers(), init="profile")


def test_low_rank_costs_and_more_shards_than_rows_are_taken():
    found = solve(clouds(5, 200), Workers(), 9, min_points=10)
    assert found.gw_cost == pytest.approx(solve(clouds(5, 200)).gw_cost, rel=1e-5)
    u, engine = np.abs(np.random.default_rng(0).standard_normal((260, 5))), Workers()
    spaces = PointCloud.from_factors(u), PointCloud.from_factors(u[::-1] + 0.01)
    # Both objectives are within 3e-4 of the objective in float64.
    assert solve(spaces, engine).gw_cost == pytest.approx(solve(spaces).gw_cost, rel=6e-4)
    assert "make" in engine.asked


@pytest.mark.parametrize("spaces, options", [
    (lambda: clouds(90, 80), {}),
    (lambda: [PointCloud(abs(one.points)) for one in clouds()], dict(loss="kl")),
    (clouds, dict(options=gwfast.SolverOptions(method="ppa"))),
    (clouds, dict(marginals="semirelaxed")),
    (lambda: [cloud.to_dense() for cloud in clouds()], {}),
], ids=["small", "kl", "ppa", "semirelaxed", "matrices"])  # fmt: skip
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_others_are_solved_here(spaces, options):
    engine = Workers()
    solve(spaces(), engine, max_iter=2, **options)
    assert not engine.asked


def test_shards_move_to_workers_that_join_and_errors_inside_are_raised():
    engine = Workers(1)

    def join_once(step):
        if step.iteration == 2:
            engine.join()

    found = solve(clouds(), engine, 4, callback=join_once)
    assert found.status == "converged"
    begun = [address for address, _ in engine.begun]
    assert begun == ["worker 0001"] * 4 + ["worker 0002"] * 2
    engine = Workers()
    engine.answer = lambda *_: ValueError("of float64")
    with pytest.raises(ValueError, match="of float64"):
        solve(clouds(), engine)


class Dying(Workers):
    """A worker that dies after `every` iterations and is replaced."""

    every = 1

    def answer(self, handle, method, args):
        if method == "iterate" and self.asked.count(method) % self.every == 0:
            assert self.asked.count(method) < 1000
            self.die(handle[1])
            self.join()
        return super().answer(handle, method, args)


@pytest.mark.parametrize("every", [1, 3])
def test_a_shard_that_is_lost_again_and_again_is_not_begun_for_ever(every):
    engine = Dying(1)
    engine.every = every
    with pytest.raises(NoWorkers, match=r"^shard 0 of 1 .* checkpoint"):
        solve(clouds(130, 120), engine, 1)
    assert engine.died <= 15


def test_shards_take_no_more_than_the_memory_of_workers():
    with pytest.raises(MemoryError, match=r"^2 of 4 shards .* 260 x 240"):
        solve(clouds(), Workers(2, memory=1e4), 4)
    engine, expected = (
        Workers(2, memory=1.5 * memory_for(clouds(), 2)), solve(clouds(), Workers(), 2)
    )  # fmt: skip

    def leave_one(step):
        for address in [*engine.there][1:]:
            engine.die(address)

    found = solve(clouds(), engine, 2, callback=leave_one)
    tiers = [tier for _, tier in engine.begun]
    assert len(engine.there) == 1 and tiers == ["dense", "dense", "tiled"]
    assert found.status == "converged"
    # As far as tiers differ from one another.
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=3e-5)


@pytest.mark.parametrize("tier, relative", [("dense", 0.02), ("tiled", 0.002)])
def test_the_plan_answers(tier, relative):
    coupling = solve(clouds(), Workers(dying=0.02), tier=tier, relative=relative).coupling
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
    spaces, rng = clouds(130, 120), np.random.default_rng(4)
    here, seen = solve(spaces), []

    def look(step):
        seen.append(step.coupling.topk(1).indices[0, 0])

    there = solve(spaces, Workers(dying=0.05), callback=look)
    assert_array_equal(there.match(), here.match())
    assert (len(seen), seen[-1]) == (there.n_iter, there.match()[0])
    y = rng.standard_normal((120, 4))
    assert_allclose(there.transform(y), here.transform(y), atol=1e-4)
    words = [rng.standard_normal((n, 12)) for n in (150, 140)]
    options = dict(init="product", tol=0.1, n_words=120)
    expected = gwfast.align(*words, **options)
    with on(Workers(), 2):
        aligned = gwfast.align(*words, **options)
    assert_allclose(aligned.mapping, expected.mapping, atol=1e-3)
    assert aligned.translate([0, 5], method="coupling", k=2).indices.shape == (2, 2)


@pytest.mark.parametrize("tier, at", [("dense", 2), ("tiled", 5)])
def test_it_goes_on_from_a_checkpoint_on_other_workers(tier, at, tmp_path):
    file, spaces = tmp_path / "kept", clouds(130, 120)
    options = dict(tier=tier, relative=0.005)
    expected = solve(spaces, Workers(), **options)
    assert expected.n_iter > at + 1

    def die(step):
        time.sleep(0.05)  # writing takes a small share of it
        if step.iteration > at:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        solve(spaces, Workers(), checkpoint=file, callback=die, **options)
    engine, seen = Workers(3), []
    found = solve(spaces, engine, checkpoint=file, callback=seen.append, **options)
    kept = seen[0].iteration - 1
    assert 1 <= kept <= at
    assert [step.iteration for step in found.history] == [*range(1, found.n_iter + 1)]
    assert abs(found.n_iter - expected.n_iter) <= 10
    assert engine.asked.count("contract") == 3 * (found.n_iter - kept)
    assert found.status == expected.status
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-4)
    assert np.abs(found.plan - expected.plan).sum() < 1e-3
