"""The file of a checkpoint: what is in it, and which ones are refused."""

import functools
import io
import random
import runpy
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.checkpoints import SOLVES, check_same, clouds, costs, solving, told
from helpers.processes import full_disk, kill_once_written

import gwfast
from gwfast.solvers import checkpoint, starts
from gwfast.utils import atomic_files, trees

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


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


def test_nothing_else_is_left_in_the_folder(problem, kept, monkeypatch):
    """Nor what a process that was killed while it wrote had left."""
    monkeypatch.setattr(atomic_files, "_tidied", set())  # as another process has it
    left = kept.parent / f".gwfast-{atomic_files._HOST}-0123456789abcdef"
    left.write_bytes(b"PK")
    again = solve(*problem, checkpoint=str(kept))
    check_same(again, solve(*problem))
    assert [path.name for path in kept.parent.iterdir()] == ["kept"]


@pytest.mark.parametrize("name", ["tiled tier", "costs", "float64", "partial"])
def test_the_file_has_a_plan_or_a_small_matrix_and_vectors(name, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    solve, path = solving(*SOLVES[name]), tmp_path / "kept"
    result = solve(checkpoint=path)
    plan = 0 if name == "tiled tier" else result.plan.size
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


def saved(save, *arrays, **named):
    made = io.BytesIO()
    save(made, *arrays, **named)
    return made.getvalue()


DAMAGED = {
    "empty": lambda whole: b"",
    "half": lambda whole: whole[: len(whole) // 2],
    "no end": lambda whole: whole[:-1],
    "no beginning": lambda whole: whole[1:],
    "one byte": lambda whole: whole.replace(b"array", b"arrax", 1),
    "text": lambda _: b"2 2\na 1 2\nb 1 2\n",
    "npy": lambda _: saved(np.save, np.eye(3)),
    "no tree": lambda _: saved(np.savez, header=np.frombuffer(b"[1, 2]", np.uint8)),
    "no header": lambda _: saved(np.savez, words=["a"], vectors=np.eye(1)),
    "bomb": lambda _: saved(np.savez_compressed, header=np.zeros(10**7, np.uint8)),
    "pickle": lambda _: saved(np.savez, header=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_and_foreign_files_are_refused_and_kept(name, problem, kept):
    kept.write_bytes(DAMAGED[name](kept.read_bytes()))
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
    options = dict(n_threads=2, memory_limit="1GB", time_limit=99, callback=lambda step: False)
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


TREES = {"race": dict(init="auto", max_outer=12)}


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("other", ["text", pytest.param({}, marks=pytest.mark.slow)])
def test_whatever_else_is_in_a_tree_is_refused(kind, other, tmp_path, monkeypatch):
    """Or is as good as what was there."""
    monkeypatch.setattr(starts, "MAX_RANDOM", (0, 0))
    problem, path = clouds(30, 20), tmp_path / "kept"
    solve = functools.partial(gwfast.gromov_wasserstein, *problem, **TREES[kind], checkpoint=path)
    solve()
    given = checkpoint.KIND, checkpoint.FORMAT
    tree = trees.read_tree(path, *given)
    monkeypatch.setattr(checkpoint.Checkpoint, "saver", lambda *_: None)
    found = list(leaves(tree["state"], ("state",)))
    # How many there are depends on the iteration that was written last.
    for at in random.Random(kind).sample(found, min(20, len(found))):
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
        ("no/such", ValueError, "checkpoint must be in an existing folder, got no/such"),
    ],
)
def test_what_is_no_file_is_refused(came, error, message, problem, tmp_path):
    with pytest.raises(error, match=message):
        solve(*problem, checkpoint=came)


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


SCRIPT = """
import sys, warnings
import numpy as np, gwfast
from gwfast.solvers import checkpoint
checkpoint.MAX_SHARE = 1.0
warnings.simplefilter("ignore")
kept, out = sys.argv[1:]
rng = np.random.default_rng(0)
x = rng.standard_exponential((150, 5)) * np.arange(1, 6)
y = x[rng.permutation(150)] + 0.01 * rng.standard_normal((150, 5))
options = dict(epsilon=gwfast.Epsilon(relative=0.01), n_threads=1)
sides = gwfast.PointCloud(x), gwfast.PointCloud(y)
result = gwfast.gromov_wasserstein(*sides, checkpoint=kept, **options)
numbers = [step.iteration for step in result.history]
tried = sorted({one.start for one in result.candidates})
np.savez(out, plan=result.plan, gw_cost=result.gw_cost, status=str(result.status),
         numbers=numbers, tried=tried)
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_ends_at_the_same_optimum(tmp_path, monkeypatch):
    kept, made, plain = (tmp_path / name for name in ("kept", "made.npz", "plain.npz"))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(checkpoint, "MAX_SHARE", 1.0)  # set back after the script

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script))

    run(tmp_path / "other", plain)
    rng, n_killed = np.random.default_rng(1), 0
    arguments, here = [str(script), str(kept), str(made)], Path(__file__).parent
    for pause in rng.uniform(0.0, 0.1, 2):
        status = kill_once_written(kept, arguments, cwd=here, pause=pause)
        n_killed += status == -signal.SIGKILL
        if status:  # perhaps half written
            made.unlink(missing_ok=True)
    # What was being written is left, for the next process that tidies the folder.
    monkeypatch.setattr(atomic_files, "_tidied", set())
    run(kept, made)
    assert n_killed > 0
    with np.load(plain) as expected, np.load(made) as found:
        for name in ("status", "tried"):
            np.testing.assert_array_equal(found[name], expected[name])
        np.testing.assert_allclose(found["gw_cost"], expected["gw_cost"], rtol=1e-4)
        assert np.abs(found["plan"] - expected["plan"]).sum() < 0.02
        numbers = found["numbers"]
        np.testing.assert_array_equal(numbers, np.arange(1, len(numbers) + 1))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"kept", "other", "made.npz", "plain.npz", "script.py"}
