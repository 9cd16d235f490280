"""The file of a checkpoint: what is in it, and which ones are refused."""

import functools
import random

import numpy as np
import pytest
from helpers.checkpoints import SOLVES, check_same, clouds, costs, solving, told
from helpers.processes import full_disk

import gwfast
from gwfast import Epsilon
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
