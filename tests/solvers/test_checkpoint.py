"""Solves that are killed, and go on from their checkpoints."""

import dataclasses
import functools
import random

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.problems import distances, hops, masses, random_cost, rotated_pair
from helpers.processes import full_disk

import gwfast
from gwfast import Epsilon, PointCloud
from gwfast.linear import truncation
from gwfast.problems import low_rank
from gwfast.quadratic import circles, low_rank_products, truncated
from gwfast.quadratic.low_rank_products import LowRankProducts, Made
from gwfast.quadratic.stopping import LOOK_EVERY
from gwfast.quadratic.truncated_plan import TruncatedPlan
from gwfast.solvers import checkpoint, levels, stages, starts
from gwfast.utils import atomic_files, trees

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


class Killed(Exception):
    """Stands for SIGKILL."""


@pytest.fixture
def killed(monkeypatch, tmp_path):
    """A function that solves with a checkpoint and is killed whenever that has been
    written so often; returns the result, and how often it was killed.
    """
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    write, left = checkpoint.write_tree, 0

    def write_and_die(*args):
        nonlocal left
        write(*args)
        left -= 1
        if left == 0:
            raise Killed

    monkeypatch.setattr(checkpoint, "write_tree", write_and_die)

    def run(solve, every):
        nonlocal left
        n_killed = 0
        while True:
            left = every
            try:
                return solve(checkpoint=tmp_path / "kept"), n_killed
            except Killed:
                n_killed += 1

    return run


def check_same(result, expected, *, rel=1e-4):
    """Of one that went on: the same optimum within the tolerances, and all iterations
    since the first call.
    """
    assert result.status == expected.status
    # What is nearly zero is known as well as marginals let it be, in units of epsilon.
    tolerance = dict(rel=rel, abs=2e-3 * expected.epsilon)
    assert result.gw_cost == pytest.approx(expected.gw_cost, **tolerance)
    assert np.abs(result.plan - expected.plan).sum() <= 0.02 * expected.plan.sum()
    numbers = [step.iteration for step in result.history]
    assert numbers == [*range(1, result.n_outer + 1)]


def told(result):
    """All that a result says, but for seconds."""
    fields = {
        field.name: getattr(result, field.name) for field in dataclasses.fields(result)
    }
    del fields["seconds"]
    fields["coupling"] = result.plan.tobytes()
    fields["potentials"] = [one.tobytes() for one in result.potentials]
    fields["p"], fields["q"] = result.p.tobytes(), result.q.tobytes()
    for name in ("history", "candidates"):
        fields[name] = [one._replace(seconds=0.0) for one in fields[name]]
    return fields


def clouds(n=90, m=80, d=4):
    x, y, _ = rotated_pair(max(n, m), d, 3, noise=0.01)
    return PointCloud(x[:n]), PointCloud(y[:m])


def costs(n=40, m=30, symmetric=True):
    cost_x = random_cost(n, 0, symmetric=symmetric) + 0.1
    cost_y = random_cost(m, 1, symmetric=symmetric) + 0.1
    return cost_x, cost_y, masses(n, 2), masses(m, 3)


def metric(n, m):
    x, y, _ = rotated_pair(max(n, m), 3, 5, noise=0.01)
    return distances(x[:n]), distances(y[:m])


def mirrored():
    """Costs of points that are their own mirror image: two plans are as good."""
    half = np.random.default_rng(14).standard_exponential((25, 2)) * [1.0, 2.0]
    half += [1.0, 0.0]
    cost = distances(np.vstack([half, half * [-1.0, 1.0]]))
    return cost, cost


def circling():
    """Two points a side, between whose plans the partial problem goes round."""
    rng = np.random.default_rng(2)
    sides = [random_cost(2, rng.integers(1000)) for _ in range(2)]
    return *sides, *(rng.dirichlet([1.0, 1.0]) for _ in range(2))


LINEAR = np.random.default_rng(4).random((40, 30))
TIGHT = dict(tol=1e-9, marginal_tol=1e-9, dtype="float64")
PART = dict(marginals="partial", mass=0.7)
SOLVES = {
    "dense tier": (clouds, dict(init="product")),
    "sparse tier": (clouds, dict(tier="sparse", epsilon=Epsilon(relative=0.008))),
    "tiled tier": (clouds, dict(tier="tiled")),
    "annealed": (clouds, dict(epsilon=Epsilon(relative=0.01, anneal_from=4))),
    "costs": (costs, dict(epsilon=0.02)),
    "metrics": (functools.partial(metric, 60, 50), dict(init="profile")),
    "asymmetric": (functools.partial(costs, symmetric=False), dict(epsilon=0.02)),
    "kl": (costs, dict(epsilon=0.05, loss="kl")),
    "float64": (functools.partial(metric, 60, 50), TIGHT),
    "fused": (costs, dict(epsilon=0.01, linear_cost=LINEAR, alpha=0.6)),
    "fused float64": (costs, dict(epsilon=0.01, linear_cost=LINEAR, **TIGHT)),
    "semirelaxed": (lambda: costs()[:3], dict(epsilon=0.02, marginals="semirelaxed")),
    "partial": (costs, dict(epsilon=0.02, marginals="partial", mass=0.6)),
    "unbalanced": (costs, dict(epsilon=0.02, marginals="unbalanced", rho=(0.3, 2.0))),
    "ppa": (costs, dict(epsilon=0.1, method="ppa", max_outer=60)),
    "bapg": (costs, dict(epsilon=0.1, method="bapg", max_outer=60, dtype="float64")),
    "max_outer": (clouds, dict(max_outer=4)),
    "semirelaxed clouds": (clouds, dict(marginals="semirelaxed")),
    "unbalanced clouds": (clouds, dict(marginals="unbalanced", rho=1.0)),
    "partial clouds": (clouds, PART),
    "circle": (circling, dict(dtype="float64", epsilon=0.05, **PART)),
    "plan": (costs, dict(epsilon=0.05, init=LINEAR)),
}


def solving(problem, options):
    options = {"init": "product", "max_outer": 200, **options}
    return functools.partial(gwfast.gromov_wasserstein, *problem(), **options)


@pytest.mark.parametrize("every", [5, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem, options", SOLVES.values(), ids=SOLVES)
def test_a_killed_descent_ends_at_the_same_optimum(problem, options, every, killed):
    solve = solving(problem, options)
    if problem is circling:
        every = circles.ROUND + every  # what steps have to be seen for
    plain = solve()
    result, n_killed = killed(solve, every)
    check_same(result, plain)
    same = slice(min(every, plain.n_outer - 1))
    before = [step.gw_cost for step in plain.history[same]]
    assert [step.gw_cost for step in result.history[same]] == before
    assert n_killed == (result.n_outer - 1) // every


@pytest.mark.parametrize("problem, options", SOLVES.values(), ids=SOLVES)
def test_a_descent_that_has_ended_ends_again_soon(
    problem, options, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    solve = functools.partial(solving(problem, options), checkpoint=tmp_path / "kept")
    ended = solve()
    again = solve()
    check_same(again, ended)
    # Small problems make a row of iterations before one is looked at.
    is_small = ended.plan.size <= 3000
    assert again.n_outer <= ended.n_outer + (LOOK_EVERY if is_small else 2)


THIN = {
    "float32": dict(),
    "float64": TIGHT,
    "fused": dict(linear_cost=np.random.default_rng(4).random((300, 290)), alpha=0.7),
    "unbalanced": dict(marginals="unbalanced", rho=(0.5, 0.8)),
    "unbalanced float64": dict(marginals="unbalanced", rho=(0.5, 0.8), **TIGHT),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", THIN)
@pytest.mark.parametrize("every", [2, 4])
def test_one_killed_between_thin_products_ends_at_the_same_optimum(
    name, every, killed, monkeypatch
):
    monkeypatch.setattr(low_rank_products, "MIN_POINTS", 200)
    options = dict(epsilon=Epsilon(relative=0.1), init="product") | THIN[name]
    problem = [cost + 0.1 for cost in metric(300, 290)]
    solve = functools.partial(gwfast.gromov_wasserstein, *problem, **options)
    plain = solve()
    result, n_killed = killed(solve, every)
    check_same(result, plain)
    assert n_killed >= (result.n_outer - 2) // every > 0


@pytest.mark.slow
@pytest.mark.parametrize("every", [2, 4])
def test_one_killed_after_a_sampled_product_ends_at_the_same_optimum(
    every, killed, monkeypatch
):
    monkeypatch.setattr(low_rank_products, "MIN_POINTS", 200)
    monkeypatch.setattr(low_rank_products, "LEAST_RANK", 16)
    monkeypatch.setattr(low_rank_products, "SAMPLED_POINTS", 200)
    kinds, fill = [], LowRankProducts.fill
    monkeypatch.setattr(
        LowRankProducts, "fill", lambda *given: kinds.append(fill(*given)) or kinds[-1]
    )
    x, y, _ = rotated_pair(300, 3, 10, noise=0.05)
    options = dict(epsilon=Epsilon(relative=0.01), init="product")
    given = hops(x), hops(y[:290])
    solve = functools.partial(gwfast.gromov_wasserstein, *given, **options)
    plain = solve()
    assert kinds.count(Made.SAMPLED) >= 2
    result, n_killed = killed(solve, every)
    check_same(result, plain)
    assert n_killed >= (result.n_outer - 2) // every > 0


@pytest.mark.parametrize("every", [4, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bound", [truncation.MAX_BOUND, 1e-12])
def test_one_killed_with_a_part_of_the_plan_ends_at_the_same_optimum(
    bound, every, killed, monkeypatch
):
    monkeypatch.setattr(truncated, "MIN_ENTRIES", 0)
    monkeypatch.setattr(truncated, "CHOICES", ((1e-12, 0.1), (1e-9, 0.5)))
    monkeypatch.setattr(truncated, "MAX_BOUND", bound)  # of a choice that lasts or not
    seen, take = [], TruncatedPlan.take
    monkeypatch.setattr(
        TruncatedPlan, "take", lambda *given: seen.append(given) or take(*given)
    )
    x, y, _ = rotated_pair(150, 3, 3, noise=0.3)
    given = distances(x), distances(y), masses(150, 1), masses(150, 2)
    options = dict(epsilon=0.02, init="product")
    solve = functools.partial(gwfast.gromov_wasserstein, *given, **options)
    plain = solve()
    assert len(seen) >= 3
    result, n_killed = killed(solve, every)
    # Float32 knows this objective no better: tighter tolerances move it as far.
    check_same(result, plain, rel=1e-3)
    assert n_killed >= (result.n_outer - 2) // every > 0


@pytest.fixture
def small_race(monkeypatch):
    """Three levels, and few starts, of small problems."""
    monkeypatch.setattr(levels, "RACE_POINTS", 40)
    monkeypatch.setattr(levels, "RACE_POINTS_DENSE", 16)
    monkeypatch.setattr(levels, "GROWTH", 1.6)
    monkeypatch.setattr(starts, "MAX_RANDOM", 2)


RACES = {
    "clouds": (clouds, {}),
    "sparse": (clouds, dict(tier="sparse", epsilon=Epsilon(relative=0.01))),
    "costs": (functools.partial(metric, 40, 36), {}),
    "float64": (functools.partial(metric, 40, 36), TIGHT),
    "fused": (costs, dict(epsilon=0.01, linear_cost=LINEAR)),
    "tie": (mirrored, {}),
    "one level": (functools.partial(metric, 15, 12), {}),
    "max_outer": (clouds, dict(max_outer=9)),
}


@pytest.mark.parametrize("name", mostly_slow(RACES, fast=["clouds", "float64"]))
@pytest.mark.parametrize("every", [29, pytest.param(5, marks=pytest.mark.slow)])
def test_a_killed_race_ends_at_the_same_optimum(name, every, killed, small_race):
    problem, options = RACES[name]
    solve = functools.partial(gwfast.gromov_wasserstein, *problem(), **options)
    plain = solve()
    result, n_killed = killed(solve, every)
    check_same(result, plain)
    starts = [{one.start for one in found.candidates} for found in (result, plain)]
    assert starts[0] == starts[1]
    assert n_killed > result.n_outer // every


@pytest.mark.parametrize("every", [31, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_killed_race_of_eigenvectors_ends_at_the_same_optimum(
    dtype, every, killed, small_race, monkeypatch
):
    monkeypatch.setattr(low_rank, "MIN_POINTS", 50)
    monkeypatch.setattr(low_rank_products, "MIN_POINTS", 50)
    solve = functools.partial(
        gwfast.gromov_wasserstein, *metric(90, 80), epsilon=0.02, dtype=dtype
    )
    plain = solve()
    result, n_killed = killed(solve, every)
    check_same(result, plain)
    starts = [{one.start for one in found.candidates} for found in (result, plain)]
    assert starts[0] == starts[1]
    assert n_killed > result.n_outer // every


@pytest.mark.slow
@pytest.mark.parametrize("prune", [True, False])
def test_a_killed_multistart_ends_at_the_same_optimum(prune, killed):
    problem = gwfast.QuadraticProblem(*mirrored())
    solve = functools.partial(
        gwfast.multistart, problem, starts=1, prune=prune, max_outer=60
    )
    plain = solve()
    check_same(killed(solve, 31)[0], plain)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_warm_starts_go_on_from_where_they_were(dtype, killed, monkeypatch):
    monkeypatch.setattr(stages, "MIN_FLOAT32_ENTRIES", 1)
    monkeypatch.setattr(low_rank, "MIN_POINTS", 1)
    monkeypatch.setattr(low_rank, "MAX_LEFT_OUT", 1.0)
    options = dict(init="profile", dtype=dtype, tol=1e-7, marginal_tol=1e-7)
    problem = metric(60, 50)
    solve = functools.partial(gwfast.gromov_wasserstein, *problem, **options)
    plain = solve()
    visited = set()
    saver = checkpoint.Checkpoint.saver

    def look(self, stage, export):
        visited.add(stage)
        return saver(self, stage, export)

    monkeypatch.setattr(checkpoint.Checkpoint, "saver", look)
    result, _ = killed(solve, 3)
    check_same(result, plain)
    assert {"low rank", "descent"} <= visited
    assert ("float32" in visited) == (dtype == "float64")


@pytest.mark.parametrize("name", ["clouds", "float64"])
def test_what_a_time_limit_has_cut_short_is_not_kept(
    name, tmp_path, monkeypatch, small_race
):
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    problem, options = RACES[name]
    solve = functools.partial(gwfast.gromov_wasserstein, *problem(), **options)
    plain = solve()
    for time_limit in (1e-6, 0.02, 0.1, 0.05):
        solve(checkpoint=tmp_path / "kept", time_limit=time_limit)
    check_same(solve(checkpoint=tmp_path / "kept"), plain)


# --- The file -------------------------------------------------------------------------


@pytest.fixture
def problem():
    return costs(14, 12)


solve = functools.partial(gwfast.gromov_wasserstein, init="product", epsilon=0.05)


@pytest.fixture
def kept(problem, tmp_path):
    """The checkpoint of a solve that has ended."""
    path = tmp_path / "kept"
    solve(*problem, checkpoint=path)
    return path


def test_a_solve_that_has_ended_ends_again(problem, kept):
    check_same(solve(*problem, checkpoint=str(kept)), solve(*problem))


def test_nothing_else_is_left_in_the_folder(problem, kept, monkeypatch):
    """Nor what a process that was killed while it wrote had left."""
    monkeypatch.setattr(atomic_files, "_tidied", set())  # as another process has it
    left = kept.parent / f".gwfast-{atomic_files._HOST}-0123456789abcdef"
    left.write_bytes(b"PK")
    solve(*problem, checkpoint=kept)
    assert [path.name for path in kept.parent.iterdir()] == ["kept"]


@pytest.mark.parametrize("name", ["sparse tier", "costs", "float64", "partial"])
def test_the_file_has_a_plan_or_a_small_matrix_and_vectors(name, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    solve, path = solving(*SOLVES[name]), tmp_path / "kept"
    result = solve(checkpoint=path)
    plan = 0 if name == "sparse tier" else result.plan.size
    vectors = 4 * sum(result.plan.shape)
    assert path.stat().st_size < 8 * (plan + vectors) + 300 * result.n_outer + 9000


def test_seconds_of_all_calls_count(problem, kept):
    tree = trees.read_tree(kept, checkpoint.KIND, checkpoint.FORMAT)
    trees.write_tree(kept, checkpoint.KIND, checkpoint.FORMAT, tree | {"seconds": 1e4})
    assert 1e4 < solve(*problem, checkpoint=kept).seconds < 1.1e4


def test_progress_tells_that_it_goes_on(problem, kept):
    texts = []
    solve(*problem, checkpoint=kept, progress=lambda text, *_: texts.append(text))
    assert texts[0] == f"going on from {kept}"


def no_tree(made):
    np.savez(made, header=np.frombuffer(b"[1, 2]", np.uint8))


def no_header(made):
    np.savez(made, words=["a"], vectors=np.eye(1))


def bomb(made):
    np.savez_compressed(made, header=np.zeros(10_000_000, np.uint8))


def pickled(made):
    np.savez(made, header=np.array([{}], dtype=object))


DAMAGE = {
    "empty": lambda whole: b"",
    "short": lambda whole: whole[:10],
    "half": lambda whole: whole[: len(whole) // 2],
    "no end": lambda whole: whole[:-1],
    "no beginning": lambda whole: whole[1:],
    "one byte": lambda whole: whole.replace(b"array", b"arrax", 1),
    "text": lambda whole: b"2 2\na 1 2\nb 1 2\n",
}
FOREIGN = {"no tree": no_tree, "no header": no_header, "bomb": bomb, "pickle": pickled}


@pytest.mark.parametrize("name", [*DAMAGE, *FOREIGN, "npy"])
def test_damaged_and_foreign_files_are_refused_and_kept(name, problem, kept):
    if name in DAMAGE:
        kept.write_bytes(DAMAGE[name](kept.read_bytes()))
    else:
        with open(kept, "wb") as stream:
            FOREIGN.get(name, lambda made: np.save(made, np.eye(3)))(stream)
    before = kept.read_bytes()
    message = f"^{kept}: truncated, damaged, or no checkpoint of gwfast \\("
    with pytest.raises(ValueError, match=message):
        solve(*problem, checkpoint=kept)
    assert kept.read_bytes() == before


def test_other_kinds_and_formats_are_refused(problem, kept):
    kind, later = checkpoint.KIND, checkpoint.FORMAT + 1
    trees.write_tree(kept, kind, 1, {})
    message = f"^{kept}: from an earlier version of gwfast, in format 1; this one reads"
    with pytest.raises(ValueError, match=message):
        solve(*problem, checkpoint=kept)
    trees.write_tree(kept, "recipe", later, {})
    with pytest.raises(ValueError, match=f"^{kept}: expected a {kind}, got a recipe"):
        solve(*problem, checkpoint=kept)
    trees.write_tree(kept, kind, later, {})
    message = f"^{kept}: from a later version of gwfast, in format {later}; this one"
    with pytest.raises(ValueError, match=message):
        solve(*problem, checkpoint=kept)


OTHERS = {
    "cost_x": lambda x, y, p, q: (x + 1e-9, y, p, q),
    "cost_y": lambda x, y, p, q: (x, y[::-1, ::-1], p, q),
    "p": lambda x, y, p, q: (x, y, None, q),
    "q": lambda x, y, p, q: (x, y, p, q[::-1]),
    "cost_x, cost_y": lambda x, y, p, q: (x[:, ::-1], y.astype(np.float32), p, q),
}


@pytest.mark.parametrize("names", OTHERS)
def test_checkpoints_of_other_problems_are_refused(names, problem, kept):
    before = kept.read_bytes()
    message = f"^{kept}: the checkpoint of another solve, whose {names} differ from"
    with pytest.raises(ValueError, match=message):
        solve(*OTHERS[names](*problem), checkpoint=kept)
    assert kept.read_bytes() == before


def test_what_changes_no_result_may_differ(problem, kept):
    x, y, p, q = problem
    same = np.asfortranarray(x), y.tolist(), p, q
    options = dict(
        n_threads=2, memory_limit="1GB", time_limit=99, callback=lambda step: False
    )
    result = solve(*same, checkpoint=kept, max_outer=np.int64(1000), **options)
    check_same(result, solve(*problem))


@pytest.mark.parametrize(
    "start, other",
    [
        (gwfast.Seeds([[0, 1], [1, 2]]), gwfast.Seeds([[0, 1], [1, 3]])),
        (gwfast.Profile(0.03), gwfast.Profile(0.04)),
        (np.ones((14, 12)), np.eye(14, 12) + 0.1),
        ("random", "profile"),
    ],
)
def test_starts_are_told_apart(start, other, problem, tmp_path):
    path, solve = tmp_path / "kept", gwfast.gromov_wasserstein
    plain = solve(*problem, init=start, epsilon=0.05, checkpoint=path)
    again = solve(*problem, init=start, epsilon=0.05, checkpoint=path)
    check_same(again, plain)
    with pytest.raises(ValueError, match="another solve, whose init differ"):
        solve(*problem, init=other, epsilon=0.05, checkpoint=path)


def leaves(tree, at=()):
    """Where in a tree there is something."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*at, key)
        if isinstance(value, dict | list) and key != "history":
            yield from leaves(value, (*at, key))


def replaced(tree, at, value):
    """The tree with another value there."""
    copied = dict(tree) if isinstance(tree, dict) else list(tree)
    copied[at[0]] = replaced(copied[at[0]], at[1:], value) if at[1:] else value
    return copied


TREES = {
    "sparse": dict(tier="sparse", epsilon=Epsilon(relative=0.008), init="product"),
    "race": dict(init="auto", max_outer=12),
}


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("other", ["text", pytest.param({}, marks=pytest.mark.slow)])
def test_whatever_else_is_in_a_tree_is_refused(kind, other, tmp_path, monkeypatch):
    """Or is as good as what was there."""
    monkeypatch.setattr(starts, "MAX_RANDOM", 0)
    monkeypatch.setattr(starts, "MIN_RANDOM", 0)
    problem, path = clouds(30, 20), tmp_path / "kept"
    solve = functools.partial(
        gwfast.gromov_wasserstein, *problem, **TREES[kind], checkpoint=path
    )
    solve()
    given = checkpoint.KIND, checkpoint.FORMAT
    tree = trees.read_tree(path, *given)
    monkeypatch.setattr(checkpoint.Checkpoint, "saver", lambda *_: None)
    found = list(leaves(tree["state"], ("state",)))
    for at in random.Random(kind).sample(found, 20):
        trees.write_tree(path, *given, replaced(tree, at, other))
        try:
            solve()
        except ValueError as error:
            assert str(error).startswith(f"{path}: damaged (")


@pytest.mark.slow
def test_no_flipped_bit_changes_a_result(problem, kept):
    """Where checksums do not tell, it is one that nobody reads."""
    whole = kept.read_bytes()
    plain = told(solve(*problem, checkpoint=kept))
    for at in range(0, len(whole), 37):
        kept.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            assert told(solve(*problem, checkpoint=kept)) == plain
        except ValueError as error:
            assert str(error).startswith(f"{kept}: ")


@pytest.mark.parametrize(
    "came, error, message",
    [
        (3, TypeError, "checkpoint must be a path or None, got int"),
        (".", ValueError, r"checkpoint must be a file, got \."),
        (
            "no/such",
            ValueError,
            "checkpoint must be in an existing folder, got no/such",
        ),
    ],
)
def test_what_is_no_file_is_refused(came, error, message, problem, tmp_path):
    with pytest.raises(error, match=message):
        solve(*problem, checkpoint=came)


@pytest.mark.parametrize("worked", [0, 2])
def test_a_full_disk_is_a_warning(worked, problem, tmp_path, monkeypatch):
    """At first and later."""
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    plain, write, times = solve(*problem), checkpoint.write_tree, []

    def full(*args):
        times.append(1)
        if len(times) > worked:
            raise OSError(28, "No space left on device")
        write(*args)

    monkeypatch.setattr(checkpoint, "write_tree", full)
    with pytest.warns(UserWarning, match="kept: the checkpoint cannot be written"):
        result = solve(*problem, checkpoint=tmp_path / "kept")
    assert told(result) == told(plain)


def test_the_warning_of_a_full_disk_names_the_file(problem, tmp_path):
    path = tmp_path / "kept"
    with full_disk(1000), pytest.warns(UserWarning, match=f"{path}: .* goes on") as e:
        result = solve(*problem, checkpoint=path)
    assert f"[Errno 27] File too large: '{path}'" in str(e[0].message)
    assert result.status == solve(*problem).status and not path.exists()


def test_writing_takes_a_small_share_of_the_time(problem, tmp_path, monkeypatch):
    clock, written, now = [], [], 0.0
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: now)

    def write(*args):
        nonlocal now
        written.append(now)
        now += 1.0

    monkeypatch.setattr(checkpoint, "write_tree", write)
    kept = checkpoint.Checkpoint(tmp_path / "kept", {})
    save = kept.saver(checkpoint.DESCENT, dict)
    for _ in range(1000):
        now += 0.5
        clock.append(now)
        save()
    assert len(written) > 10
    assert np.diff(written).min() >= 1.0 / checkpoint.MAX_SHARE
