"""Problems whose kernels are on workers, against the same in one place."""

import pickle
import time

import numpy as np
import pytest
from helpers.workers import Workers
from numpy.testing import assert_allclose, assert_array_equal

import gwfast
from gwfast import PointCloud
from gwfast.distributed import NoWorkers
from gwfast.distributed.context import Cluster, placing
from gwfast.distributed.coupling import ShardedCoupling
from gwfast.distributed.team import MAX_LOSSES, USABLE, Lost, Team, size_of
from gwfast.problems.quadratic import QuadraticProblem


def clouds(n=260, m=240, d=8, noise=0.05, metric="cosine", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((max(n, m), d)) * np.linspace(1, 3, d)
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    y = x @ turn + noise * rng.standard_normal(x.shape)
    return PointCloud(x[:n], metric), PointCloud(y[:m], metric)


def solve(
    problem, engine=None, n_shards=3, min_points=100, *, tier="auto", relative=0.01, **options
):
    options = dict(init="product", options=gwfast.SolverOptions(tier=tier)) | options
    options["epsilon"] = gwfast.Epsilon(relative=relative)
    if engine is None:
        return gwfast.gromov_wasserstein(*problem, **options)
    with placing(Cluster(engine, n_shards, min_points)):
        return gwfast.gromov_wasserstein(*problem, **options)


# Epsilon so large that the plan is spread out, and so small that it needs the log domain.
@pytest.mark.parametrize(
    "metric, relative", [("cosine", 0.02), ("cosine", 0.002), ("sqeuclidean", 0.02)]
)
@pytest.mark.parametrize("tier", ["dense", "tiled"])
def test_it_ends_where_one_place_does(metric, tier, relative):
    problem, options = clouds(metric=metric), dict(tier=tier, relative=relative)
    here, there = solve(problem, **options), solve(problem, Workers(), **options)
    assert there.status == here.status == "converged"
    assert isinstance(there.coupling, ShardedCoupling)
    # The objective is a difference of terms in float32, of squared distances far larger
    # ones; those of other tiers differ from one another by as much.
    size, rounding = here.epsilon / relative, 1e-4 if metric == "sqeuclidean" else 1e-7
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=3e-5, abs=rounding * size)
    assert np.abs(there.plan - here.plan).sum() < (1e-3 if rounding < 1e-5 else 1e-2)
    for one, other in zip(there.potentials, here.potentials, strict=True):
        off = (one - one.mean()) - (other - other.mean())
        assert np.abs(off).mean() < 1e-3 * size


@pytest.mark.parametrize("relative", [0.02, 0.002])
def test_any_number_of_shards_comes_to_the_same_plan(relative):
    problem = clouds()
    found = [solve(problem, Workers(), n, relative=relative) for n in (1, 2, 3, 7)]
    for other in found[1:]:
        assert other.gw_cost == pytest.approx(found[0].gw_cost, rel=1e-5)
        assert np.abs(other.plan - found[0].plan).sum() < 1e-4
    again = solve(problem, Workers(5), 3, relative=relative)
    assert_array_equal(again.plan, found[2].plan)


def test_more_shards_than_rows():
    problem = clouds(n=5, m=200)
    found = solve(problem, Workers(), 9, min_points=10)
    assert found.gw_cost == pytest.approx(solve(problem).gw_cost, rel=1e-5)


@pytest.mark.parametrize("tier, relative", [("dense", 0.02), ("dense", 0.002), ("tiled", 0.02)])
def test_workers_may_die(tier, relative):
    problem, quiet, deadly = clouds(), Workers(3), Workers(3, dying=0.05)
    expected, found = (
        solve(problem, engine, tier=tier, relative=relative) for engine in (quiet, deadly)
    )
    assert quiet.died == 0 and deadly.died > 3
    assert {one for _, one in quiet.begun} == {tier}
    steps, its_steps = ([s[:-1] for s in one.history] for one in (found, expected))
    assert steps == its_steps
    assert_array_equal(found.plan, expected.plan)
    assert found.gw_cost == expected.gw_cost


def test_the_search_is_the_same():
    problem, engine = clouds(80, 70, seed=6), Workers(dying=0.01)
    here = solve(problem, init="auto")
    there = solve(problem, engine, min_points=60, init="auto")
    first, last = ({row.start for row in found.candidates} for found in (here, there))
    assert first == last and len(first) > 10
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=1e-5)
    assert engine.died > 0


@pytest.mark.slow
def test_a_search_on_coarse_levels_goes_on_on_workers():
    problem, engine = clouds(2000, 1900, seed=6), Workers(dying=0.01)
    here = solve(problem, init="auto")
    there = solve(problem, engine, min_points=1900, init="auto")
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=1e-5)
    assert {row.n_points for row in there.candidates} == {1500, 2000}
    assert engine.died > 0 and "logsumexp_of_few" in engine.asked


def test_a_plan_to_start_from():
    problem = clouds()
    plan = np.random.default_rng(1).random((260, 240))
    options = dict(init=plan, max_iter=3)
    with pytest.warns(gwfast.ConvergenceWarning):
        here, there = solve(problem, **options), solve(problem, Workers(), **options)
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=1e-5)
    with pytest.raises(MemoryError, match="init must be 'auto', 'product', Seeds or a plan"):
        solve(problem, Workers(), init="profile")


def test_low_rank_costs_are_sharded():
    rng = np.random.default_rng(0)
    u = np.abs(rng.standard_normal((260, 5)))
    problem = gwfast.PointCloud.from_factors(u), gwfast.PointCloud.from_factors(u[::-1] + 0.01)
    engine = Workers()
    here, there = solve(problem), solve(problem, engine)
    # Both end within 3e-4 of what float64 ends in.
    assert there.gw_cost == pytest.approx(here.gw_cost, rel=6e-4)
    assert "make" in engine.asked


def matrices(n=260, m=240):
    return [cloud.to_dense() for cloud in clouds(n, m)]


@pytest.mark.parametrize(
    "problem, options",
    [
        (lambda: clouds(90, 80), {}),
        (lambda: [PointCloud(abs(one.points)) for one in clouds()], dict(loss="kl")),
        (clouds, dict(options=gwfast.SolverOptions(method="ppa"), max_iter=2)),
        (clouds, dict(marginals="semirelaxed", max_iter=2)),
        (matrices, {}),
        # Whose leading eigenvectors have factors.
        (lambda: matrices(700, 650), dict(init="auto")),
    ],
    ids=["small", "kl", "ppa", "semirelaxed", "matrices", "eigenvectors"],
)
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_others_are_solved_here(problem, options):
    engine = Workers()
    solve(problem(), engine, **options)
    assert not engine.asked


# --- Where shards are -----------------------------------------------------------------


def test_shards_move_to_workers_that_join():
    engine = Workers(1)

    def join_once(step):
        if step.iteration == 2:
            engine.join()

    found = solve(clouds(), engine, 4, callback=join_once)
    assert found.status == "converged"
    begun = [address for address, _ in engine.begun]
    assert begun == ["worker 0001"] * 4 + ["worker 0002"] * 2


class Dead(Workers):
    """Workers that are gone whenever something is asked."""

    def _answer(self, handle, method, args):
        return super()._answer((None, "nowhere"), method, args)


def test_a_shard_that_is_lost_again_and_again_is_not_begun_for_ever():
    engine = Dead()
    with pytest.raises(NoWorkers, match=r"^shard 0 of 3 was lost .* run out of memory"):
        solve(clouds(), engine)
    assert len(engine.asked) <= 3 * (MAX_LOSSES + 1)


class Dying(Workers):
    """A worker that dies after `every` iterations and is replaced by another worker."""

    def __init__(self, every):
        super().__init__(1)
        self.every = every

    def _answer(self, handle, method, args):
        answer = super()._answer(handle, method, args)
        if method == "iterate" and not isinstance(answer, Exception):
            assert self.asked.count(method) < 1000
            if self.asked.count(method) % self.every == 0:
                self.die(handle[1])
                self.join()
                return Lost()
        return answer


@pytest.mark.parametrize("every", [1, 3])
def test_a_shard_that_is_lost_after_few_answers_is_not_begun_for_ever(every):
    engine = Dying(every)
    with pytest.raises(NoWorkers, match=r"^shard 0 of 1 .* workers .* with a checkpoint"):
        solve(clouds(), engine, 1)
    assert engine.died <= 3 * MAX_LOSSES


def test_what_goes_wrong_inside_of_a_shard_is_raised():
    team = Team(Workers(), QuadraticProblem(*clouds()), "dense", 4)
    with pytest.raises(ValueError, match="of float64"):
        team.ask("sampled", (np.zeros((3, 8)),))


def test_what_does_not_fit_the_workers_is_refused():
    with pytest.raises(MemoryError, match=r"2 of 4 shards of a problem of 260 x 240"):
        solve(clouds(), Workers(2, memory=1e4), 4)


def test_what_is_left_when_a_worker_dies_stores_no_more_than_it_has_room_for():
    room = size_of(QuadraticProblem(*clouds()), "dense", 2) / USABLE
    engine, expected = Workers(2, memory=1.5 * room), solve(clouds(), Workers(), 2)

    def leave_one(step):
        for address in [*engine.there][1:]:
            engine.die(address)

    found = solve(clouds(), engine, 2, callback=leave_one)
    tiers = [tier for _, tier in engine.begun]
    assert len(engine.there) == 1 and tiers == ["dense", "dense", "tiled"]
    assert found.status == "converged"
    # As far as tiers differ from one another.
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=3e-5)


# --- Plans ----------------------------------------------------------------------------


@pytest.fixture(params=[("dense", 0.02), ("tiled", 0.002)])
def pair(request):
    """A plan on workers, and the same as an array."""
    tier, relative = request.param
    coupling = solve(clouds(), Workers(dying=0.02), tier=tier, relative=relative).coupling
    return coupling, coupling.toarray().astype(np.float64)


def test_the_plan_answers(pair):
    coupling, plan = pair
    y = np.random.default_rng(2).standard_normal((240, 5)).astype(np.float32)
    assert coupling.shape == plan.shape and coupling.nbytes > 0
    for one, its in ((coupling, plan), (coupling.T, plan.T)):
        side = y if one is coupling else np.ones((260, 2), dtype=np.float32)
        assert_allclose(one.apply(side), its @ side, atol=1e-6)
        means = its @ side / its.sum(axis=1, keepdims=True)
        assert_allclose(one.transform(side), means, atol=1e-4)
        for sums, axis in zip(one.marginals, (1, 0), strict=True):
            assert_allclose(sums, its.sum(axis=axis), atol=1e-7)
        # A shard made anew rounds its exponents, of some hundreds, once more.
        assert_allclose(one.toarray(), its, rtol=1e-4, atol=1e-9)
        found = one.topk(3)
        expected = np.argsort(-its, axis=1, kind="stable")[:, :1]
        assert (found.indices[:, :1] == expected).mean() > 0.99
        assert_allclose(found.scores, -np.sort(-its, axis=1)[:, :3], atol=1e-6)
        rows = [5, -1, 5, 0, 130]
        some = one.topk(2, rows)
        assert_array_equal(some.indices, found.indices[rows, :2])
        assert one.topk(2, []).indices.shape == (0, 2)
        kept = one.tocsr().toarray()
        assert np.abs(kept - its).sum() < 2e-4
        assert (kept <= its * (1 + 1e-4) + 1e-9).all()
        logs = np.log(its, out=np.zeros_like(its), where=its > 0)
        assert one.entropy() == pytest.approx(-(its * logs).sum(), rel=1e-5)
    with pytest.raises(MemoryError, match="use tocsr, topk, apply or transform"):
        coupling.replace(limit=1000).toarray()
    with pytest.raises(TypeError, match="a plan on a cluster cannot be pickled"):
        pickle.dumps(coupling)


def test_results_are_used_as_others_are():
    problem = clouds()
    here, there = solve(problem), solve(problem, Workers())
    assert_array_equal(there.match(), here.match())
    y = np.random.default_rng(3).standard_normal((240, 4))
    assert_allclose(there.transform(y), here.transform(y), atol=1e-4)
    rng = np.random.default_rng(4)
    words = rng.standard_normal((300, 12)), rng.standard_normal((280, 12))
    options = dict(init="product", tol=0.1, n_words=200)
    expected = gwfast.align(*words, **options)
    with placing(Cluster(Workers(), 2, 100)):
        aligned = gwfast.align(*words, **options)
    assert_allclose(aligned.mapping, expected.mapping, atol=1e-3)
    assert aligned.translate([0, 5], method="coupling", k=2).indices.shape == (2, 2)


def test_a_callback_sees_the_plan():
    seen = []

    def look(step):
        seen.append((step.coupling.topk(1).indices[0, 0], step.coupling.nbytes))

    found = solve(clouds(), Workers(dying=0.05), callback=look)
    assert len(seen) == found.n_iter and seen[-1][0] == found.match()[0]


# --- Checkpoints ----------------------------------------------------------------------


class Killed(Exception):
    pass


@pytest.mark.parametrize("tier, at", [("dense", 2), ("tiled", 5)])
def test_it_goes_on_from_a_checkpoint_on_other_workers(tier, at, tmp_path):
    file, problem = tmp_path / "kept", clouds()
    options = dict(tier=tier, relative=0.002)
    expected = solve(problem, Workers(), **options)
    assert expected.n_iter > at + 1

    def die(step):
        time.sleep(0.1)  # writing takes a small share of it
        if step.iteration > at:
            raise Killed

    with pytest.raises(Killed):
        solve(problem, Workers(), checkpoint=file, callback=die, **options)
    engine, seen = Workers(3), []
    found = solve(problem, engine, checkpoint=file, callback=seen.append, **options)
    kept = seen[0].iteration - 1
    assert 1 <= kept <= at
    assert [step.iteration for step in found.history] == [*range(1, found.n_iter + 1)]
    assert abs(found.n_iter - expected.n_iter) <= 10
    assert engine.asked.count("contract") == 3 * (found.n_iter - kept)
    assert found.status == expected.status
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-4)
    assert np.abs(found.plan - expected.plan).sum() < 1e-3
