"""``gwfast experiment``: on the bundled sample, laid out as the benchmarks are."""

import gzip
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from helpers.processes import environment

import gwfast
from gwfast.__main__ import main
from gwfast.experiments import alignments, dynamics
from gwfast.experiments import distances as distances_module
from gwfast.words import evaluate, invert, load_sample, read_dictionary, read_embeddings
from gwfast.words.languages import language_distances

N = 400
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def write_vectors(path, words, vectors):
    lines = [f"{len(words)} {vectors.shape[1]}"]
    for word, row in zip(words, vectors.tolist(), strict=True):
        lines.append(" ".join([word, *map(repr, row)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_pairs(path, dictionary):
    lines = [f"{word} {right}" for word in dictionary for right in dictionary[word]]
    path.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Spanish words as if they were English ones, so that the paper has numbers."""
    spanish, french, dictionary = load_sample()
    words = sorted(dictionary)
    train = {word: dictionary[word] for word in words[::2]}
    test = {word: dictionary[word] for word in words[1::2]}
    muse = tmp_path_factory.mktemp("muse")
    folder = muse / "crosslingual" / "dictionaries"
    folder.mkdir(parents=True)
    for language, side in (("en", spanish), ("fr", french), ("es", spanish)):
        vectors = side.vectors[:N]
        if language == "es":  # another training
            noise = np.random.default_rng(0).standard_normal(vectors.shape)
            vectors = vectors + 0.3 * np.abs(vectors).mean() * noise
        write_vectors(muse / f"wiki.{language}.vec", side.words[:N], vectors)
    for fold, ranks in ((train, "0-5000"), (test, "5000-6500")):
        write_pairs(folder / f"en-fr.{ranks}.txt", fold)
        write_pairs(folder / f"fr-en.{ranks}.txt", invert(fold))
    dinu = tmp_path_factory.mktemp("dinu")
    (dinu / "embeddings" / "original").mkdir(parents=True)
    name = "EN.200K.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt"
    write_vectors(dinu / name, french.words[:N], french.vectors[:N])
    other = dinu / "embeddings" / "original" / "it.emb.txt"
    write_vectors(other, spanish.words[:N], spanish.vectors[:N])
    write_pairs(dinu / "OPUS_en_it_europarl_test.txt", invert(dictionary))
    return {"muse": muse, "dinu": dinu}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an experiment in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        capsys.readouterr()
        status = main(["experiment", *map(str, arguments)])
        return status, *capsys.readouterr()

    return call


def results_of(folder):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    text = (folder / "results.json").read_text(encoding="utf-8")
    return json.loads(text, parse_constant=refuse)


def without_times(value):
    """Results but for how long they took."""
    if isinstance(value, dict):
        return {
            name: without_times(one)
            for name, one in value.items()
            if "seconds" not in name
        }
    return [without_times(one) for one in value] if isinstance(value, list) else value


def cells(out, label, who):
    """The texts of a row of a table."""
    for line in out.splitlines():
        if line.strip().startswith(label) and f" {who} " in f"{line} ":
            return line.split(f" {who} ", 1)[1].split()
    raise AssertionError(f"no row {label!r} {who!r} in\n{out}")


def accuracies(out):
    """The first table; the last one has times."""
    return out.partition("words of the dictionary")[0]


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_table1(run, data, tmp_path):
    status, out, err = run(
        "table1", "--data", data["muse"], "--n-words", 300, "--output", "out"
    )
    assert status == 0, err
    assert all(len(line) <= 80 for line in out.splitlines())
    assert cells(out, "Procrustes ", "paper")[:2] == ["74.9", "75.9"]
    assert cells(out, "G-W, lambda 1e-5", "paper")[:2] == ["81.3", "78.9"]
    assert "77.6" not in out  # a direction that was not run
    assert "4 of 4: fr-en, auto" in err
    assert "en-ru: wiki.ru.vec, crosslingual/dictionaries/en-ru.5000-6500.txt" in out
    # Vectors of all three languages are there, a dictionary is not.
    assert "  en-es: crosslingual/dictionaries/en-es.5000-6500.txt" in out
    assert "https://fasttext.cc" in out and "Nothing is downloaded" in out

    found = results_of(tmp_path / "out")
    assert found["experiment"] == "table1"
    assert found["versions"]["gwfast"] == gwfast.__version__
    assert found["paper"]["procrustes"]["accuracy"]["en-fr"] == "74.9"
    labels = [job["label"] for job in found["jobs"]]
    assert labels == [
        "en-fr, Procrustes", "en-fr, auto", "fr-en, Procrustes", "fr-en, auto",
    ]  # fmt: skip
    x, y = (read_embeddings(data["muse"] / f"wiki.{name}.vec") for name in ("en", "fr"))
    folder = data["muse"] / "crosslingual" / "dictionaries"
    test = read_dictionary(folder / "en-fr.5000-6500.txt")
    result = gwfast.align(x.vectors, y.vectors, n_words=300)
    expected = evaluate(result, test, x.words, y.words, convention="muse")
    refined = evaluate(
        result.refine(), test, x.words, y.words, methods=["csls"], convention="muse"
    )
    expected["refined"] = refined["csls"]
    scores = found["jobs"][1]["result"]["scores"]
    for method, row in (
        ("coupling", "GW auto: plan"),
        ("nn", "GW auto: nearest"),
        ("csls", "GW auto: CSLS"),
        ("refined", "GW auto: refined, CSLS"),
    ):
        at = expected[method].at
        assert scores[method]["P@1"] == pytest.approx(at[1], abs=1e-12)
        assert scores[method]["P@10"] == pytest.approx(at[10], abs=1e-12)
        assert scores[method]["queries"] == expected[method].n_queries
        assert cells(out, row, "here")[0] == f"{100 * at[1]:.1f}"
    queries = expected["csls"].n_queries
    assert cells(out, "all other methods", "scored")[0] == str(queries)
    assert found["jobs"][1]["result"]["gw"]["gw_cost"] == pytest.approx(
        result.gw.gw_cost, rel=1e-6
    )


def test_supervised_baseline_by_hand(run, data, tmp_path):
    """Normalized, mapped by the SVD of the training pairs, ranked by cosine."""
    run("table1", "--data", data["muse"], "--pairs", "en-fr", "--output", "out")
    jobs = results_of(tmp_path / "out")["jobs"]
    job = next(job for job in jobs if "Procrustes" in job["label"])
    x, y = (read_embeddings(data["muse"] / f"wiki.{name}.vec") for name in ("en", "fr"))
    sides = []
    for side in (x, y):
        rows = side.vectors.astype(np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows -= rows.mean(axis=0)
        sides.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    folder = data["muse"] / "crosslingual" / "dictionaries"
    at_x, at_y = ({word: k for k, word in enumerate(side.words)} for side in (x, y))
    known = [
        (at_x[word], at_y[other])
        for word, others in read_dictionary(folder / "en-fr.0-5000.txt").items()
        for other in others
        if word in at_x and other in at_y
    ]
    rows, columns = np.array(known).T
    assert job["result"]["pairs"] == len(known)
    u, _, vt = np.linalg.svd(sides[0][rows].T @ sides[1][columns])
    best = (sides[0] @ u @ vt @ sides[1].T).argmax(axis=1)
    hits = [
        best[at_x[word]] in {at_y[other] for other in others if other in at_y}
        for word, others in read_dictionary(folder / "en-fr.5000-6500.txt").items()
        if word in at_x and any(other in at_y for other in others)
    ]
    score = job["result"]["scores"]["nn"]
    assert score["queries"] == len(hits)
    assert score["P@1"] == pytest.approx(np.mean(hits), abs=1.5 / len(hits))


def test_table1_without_training_dictionary(run, data, tmp_path):
    """Plain names below --data, compressed vectors; one direction only."""
    folder = tmp_path / "plain"
    folder.mkdir()
    for name in ("en", "fr"):
        text = (data["muse"] / f"wiki.{name}.vec").read_bytes()
        (folder / f"wiki.{name}.vec.gz").write_bytes(gzip.compress(text))
    test = data["muse"] / "crosslingual" / "dictionaries" / "en-fr.5000-6500.txt"
    (folder / test.name).write_bytes(test.read_bytes())
    command = "table1", "--data", folder, "--pairs", "en-fr", "--quiet"
    status, out, err = run(*command)
    assert (status, err) == (0, "")
    assert "Procrustes of en-fr: crosslingual/dictionaries/en-fr.0-5000.txt" in out
    assert float(cells(out, "GW auto: plan", "here")[0]) > 0
    files = ["en-fr.5000-6500.txt", "wiki.en.vec.gz", "wiki.fr.vec.gz"]
    assert tree(folder) == files
    assert tree(tmp_path) == ["plain", *(f"plain/{name}" for name in files)]
    # What was read is kept where that is asked for, and the files need not stay.
    assert accuracies(run(*command, "--cache")[1]) == accuracies(out)
    assert "wiki.en.vec.gz.npz" in tree(folder)
    for name in ("en", "fr"):
        (folder / f"wiki.{name}.vec.gz").unlink()
        (folder / f"wiki.{name}.vec.gz.npz").rename(folder / f"wiki.{name}.npz")
    assert accuracies(run(*command)[1]) == accuracies(out)


def test_table2(run, data, tmp_path):
    status, out, err = run(
        "table2", "--data", data["dinu"], "--n-words", 200, "--epsilon", "auto",
        "--epsilon", "4e-4", "--scale-costs", "mean", "--output", "out",
    )  # fmt: skip
    assert status == 0, err
    assert cells(out, "G-W + normalize", "paper") == ["49.21"]
    assert cells(out, "Artetxe et al. 2018", "paper")[0] == "48.53"
    for row in ("GW auto / mean: CSLS", "GW 4e-4 / mean: plan"):
        assert 0 <= float(cells(out, row, "here")[0]) <= 100
    for name in ("de", "fi"):
        assert f"en-{name}: {name.upper()}.200K.cbow1" in out
    assert "get_data.sh" in out
    jobs = results_of(tmp_path / "out")["jobs"]
    epsilons = {job["label"]: job["result"]["gw"]["epsilon"] for job in jobs}
    assert list(epsilons) == ["en-it, auto / mean", "en-it, 4e-4 / mean"]
    assert epsilons["en-it, 4e-4 / mean"] == 4e-4


def test_dynamics(run, data, tmp_path):
    status, out, err = run(
        "dynamics", "--data", data["muse"], "--pairs", "en-fr,en-ru", "--n-words", 300,
        "--epsilon", "2%", "--epsilon", "1%", "--output", "out",
    )  # fmt: skip
    assert status == 0, err
    assert "1 of 2: en-fr, epsilon 2%" in err
    assert "en-ru: wiki.ru.vec, crosslingual/dictionaries/en-ru.0-5000.txt" in out
    assert "pictures without numbers" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    picture = (tmp_path / "out" / "dynamics-en-fr.png").read_bytes()
    assert picture.startswith(b"\x89PNG")

    x, y = (read_embeddings(data["muse"] / f"wiki.{name}.vec") for name in ("en", "fr"))
    result = gwfast.align(
        x.vectors[:300], y.vectors[:300], epsilon=gwfast.Epsilon(relative=0.02),
        init="profile",
    )  # fmt: skip
    folder = data["muse"] / "crosslingual" / "dictionaries"
    train = read_dictionary(folder / "en-fr.0-5000.txt")
    score = evaluate(result, train, x.words[:300], y.words[:300], methods=["coupling"])[
        "coupling"
    ]
    trace = results_of(tmp_path / "out")["jobs"][0]["result"]
    assert trace["queries"] == score.n_queries
    assert trace["epsilon"] == pytest.approx(result.gw.epsilon, rel=1e-6)
    history = trace["history"]
    assert len(history) == result.gw.n_outer
    assert [step["iteration"] for step in history] == list(range(1, len(history) + 1))
    assert history[-1]["gw_cost"] == pytest.approx(result.gw.gw_cost, rel=1e-6)
    assert history[-1]["accuracy"] == pytest.approx(score.at[1], abs=1e-12)
    assert history[-1]["accuracy"] > history[0]["accuracy"]
    last = cells(out, "last", f"{history[-1]['gw_cost']:.5f}")
    assert last[0] == f"{100 * history[-1]['accuracy']:.1f}"


def test_dynamics_of_two_files(run, data, tmp_path):
    muse = data["muse"]
    dictionary = muse / "crosslingual" / "dictionaries" / "en-fr.0-5000.txt"
    files = muse / "wiki.en.vec", muse / "wiki.fr.vec"
    options = "--n-words", 100, "--epsilon", "2%", "--max-outer", 3, "--quiet"
    status, out, err = run("dynamics", *files, "--dictionary", dictionary, *options)
    assert status == 0
    assert "Training dynamics of wiki.en-wiki.fr" in out
    assert err.startswith("gwfast: warning: wiki.en-wiki.fr, epsilon 2%: ")
    assert tree(tmp_path) == []
    for arguments in (files, files[:1], (*files, "--data", muse), ()):
        status, out, err = run("dynamics", *arguments)
        assert status == 2 and out == ""


def test_distances(run, data, tmp_path):
    muse = data["muse"]
    status, out, err = run(
        "distances", f"again={muse / 'wiki.en.vec'}", "--data", muse, "--n-words", 60,
        "--output", "out",
    )  # fmt: skip
    assert status == 0, err
    assert "6 of 6: " in err
    assert all(len(line) <= 80 for line in out.splitlines())
    for name in ("de", "it", "ru", "zh"):
        assert f"  {name}: wiki.{name}.vec" in out
    assert "is a picture without numbers" in out
    found = results_of(tmp_path / "out")
    names = ["again", "en", "es", "fr"]
    assert found["names"] == names
    expected = language_distances(
        {
            name: read_embeddings(path)
            for name, path in [
                ("again", muse / "wiki.en.vec"),
                *((name, muse / f"wiki.{name}.vec") for name in names[1:]),
            ]
        },
        n_words=60,
    )
    matrix = np.array(found["matrix"])
    assert np.allclose(matrix, expected.matrix, rtol=1e-5, atol=0)
    assert matrix[0, 1] == 0
    assert "same" in out and "-" in out
    for row in out.splitlines():
        if row.strip().startswith("fr "):
            shown = row.split()[1:]
            break
    assert shown[0] == f"{100 * matrix[3, 0]:#.4g}" and shown[3] == "0"
    for file in ("distances.png", "dendrogram.png"):
        assert (tmp_path / "out" / file).read_bytes().startswith(b"\x89PNG")
    # Chosen languages, two at a time, and those that are not there.
    status, out, err = run(
        "distances", "--data", muse, "--languages", "en,fr,xx", "--n-words", 60,
        "--jobs", 2, "--output", "two",
    )  # fmt: skip
    assert status == 0, err
    pair = np.array(results_of(tmp_path / "two")["matrix"])[0, 1]
    assert pair == pytest.approx(matrix[1, 3], rel=1e-5)
    assert "  xx: wiki.xx.vec" in out and "  de: " not in out


COMMANDS = {
    "table1": (alignments.gwfast, "align", ("--n-words", 400), 2),
    "table2": (
        alignments.gwfast,
        "align",
        ("--n-words", 400, "--scale-costs", "none", "--scale-costs", "mean"),
        2,
    ),
    "dynamics": (
        dynamics.gwfast,
        "align",
        ("--n-words", 300, "--pairs", "en-fr,fr-en", "--epsilon", "2%"),
        2,
    ),
    "distances": (distances_module, "match", ("--n-words", 60), 3),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_resumed_is_as_uninterrupted(run, data, tmp_path, monkeypatch, name):
    """Stopped by Ctrl-C half way; the second run does the rest only."""
    module, function, options, total = COMMANDS[name]
    folder = data["dinu" if name == "table2" else "muse"]
    arguments = (name, "--data", folder, *options, "--threads", 1)
    assert run(*arguments, "--output", "whole")[0] == 0

    original, calls = getattr(module, function), []

    def interrupted(*given, **others):
        if len(calls) == (total + 1) // 2:
            raise KeyboardInterrupt
        calls.append(given)
        return original(*given, **others)

    with monkeypatch.context() as patch:
        patch.setattr(module, function, interrupted)
        status, out, err = run(*arguments, "--output", "parts")
    assert (status, out) == (130, "")
    assert "jobs are kept in parts/jobs: the same command goes on from there" in err
    assert tree(tmp_path / "parts")[0] == "jobs"
    kept = len(tree(tmp_path / "parts" / "jobs"))
    assert len(tree(tmp_path / "parts")) == 1 + kept and kept >= len(calls)

    def counted(*given, **others):
        calls.append(given)
        return original(*given, **others)

    with monkeypatch.context() as patch:
        patch.setattr(module, function, counted)
        status, out, err = run(*arguments, "--output", "parts")
        assert status == 0, err
        assert f"{kept} of " in err and "were done before" in err
        assert len(calls) == total
        # And a third time nothing is left to do.
        assert run(*arguments, "--output", "parts", "--quiet") == (0, out, "")
        assert len(calls) == total
    whole, parts = (results_of(tmp_path / part) for part in ("whole", "parts"))
    assert without_times(whole) == without_times(parts)
    assert [path for path in tree(tmp_path / "whole") if ".json" not in path] == [
        path for path in tree(tmp_path / "parts") if ".json" not in path
    ]


def test_changed_files_and_settings_are_computed_anew(run, data, tmp_path):
    muse = tmp_path / "muse"
    muse.mkdir()
    for name in ("en", "fr"):
        text = (data["muse"] / f"wiki.{name}.vec").read_bytes()
        (muse / f"wiki.{name}.vec").write_bytes(text)
    arguments = "distances", "--data", muse, "--state", "kept", "--n-words"
    assert run(*arguments, 50)[0] == 0
    assert len(tree(tmp_path / "kept")) == 1
    assert "1 of 1 jobs were done before" in run(*arguments, 50)[2]
    assert "done before" not in run(*arguments, 50, "--again")[2]
    assert "done before" not in run(*arguments, 60)[2]
    os.utime(muse / "wiki.en.vec", (1, 1))
    assert "done before" not in run(*arguments, 50)[2]
    assert len(tree(tmp_path / "kept")) == 3


BAD = {
    "no files": (["table1", "--data", "."], "must have the files of one direction"),
    "no folder": (["table2", "--data", "none"], "'none' does not exist"),
    "no data": (["table1"], "--data"),
    "pairs": (["table1", "--data", ".", "--pairs", "en"], "pairs such as en-es"),
    "epsilon": (["table1", "--data", ".", "--epsilon", "x"], "percentage, got 'x'"),
    "scale": (["table2", "--data", ".", "--scale-costs", "sum"], "'sum' is not one"),
    "one language": (["distances", "a=a.vec"], "distances must have files"),
    "no name": (["distances", "a.vec"], "expected NAME=FILE, got 'a.vec'"),
    "twice": (["distances", "a=a.vec", "a=b.vec"], "'a' twice"),
    "no such": (["distances", "a=c.vec", "b=a.vec"], "'c.vec' does not exist"),
    "bad vectors": (["distances", "a=a.vec", "b=b.vec"], "b.vec"),
    "output": (["distances", "a=a.vec", "b=a.vec", "--output", "a.vec"], "the file"),
    "nested": (["distances", "a=a.vec", "b=a.vec", "--output", "x/y"], "existing fold"),
    "not ours": (["distances", "a=a.vec", "b=a.vec", "--output", "mine"], "--force"),
    "state": (["distances", "a=a.vec", "b=a.vec", "--state", "a.vec"], "--state must"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(run, tmp_path, case):
    write_vectors(tmp_path / "a.vec", ["x", "y", "z"], np.eye(3) + 0.1)
    (tmp_path / "b.vec").write_text("2 2\nx 1 2\ny 1\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    arguments, message = BAD[case]
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("gwfast: error: ") and message in last
    assert tree(tmp_path) == before


def test_force_uses_a_folder_with_other_files(run, tmp_path):
    write_vectors(tmp_path / "a.vec", ["x", "y", "z"], np.eye(3) + 0.1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    arguments = "distances", "a=a.vec", "b=a.vec", "--output", "mine"
    status, out, _ = run(*arguments, "--force")
    assert status == 0 and "written to mine: results.json, distances.png" in out
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"
    assert run(*arguments)[0] == 0  # now it is ours


def test_failing_job_is_named(run, data, tmp_path):
    folder = tmp_path / "muse"
    folder.mkdir()
    for name in ("en", "fr"):
        text = (data["muse"] / f"wiki.{name}.vec").read_bytes()
        (folder / f"wiki.{name}.vec").write_bytes(text)
    (folder / "en-fr.0-5000.txt").write_text("no pair\n")
    (folder / "en-fr.5000-6500.txt").write_text("no pair\n")
    status, _, err = run("table1", "--data", folder, "--quiet")
    assert status == 2
    assert err.startswith("gwfast: error: en-fr, Procrustes: ")
    assert "no pair is in both vocabularies" in err


def test_piped_and_narrow(data, tmp_path):
    """The real thing, in a process whose output is a file."""
    for width in ("80", "60"):
        with open(tmp_path / "out", "wb") as out, open(tmp_path / "err", "wb") as err:
            status = subprocess.run(
                [
                    sys.executable, "-m", "gwfast", "experiment", "distances",
                    "--data", data["muse"], "--n-words", "60", "--state", "kept",
                ],
                cwd=tmp_path,
                env=environment(COLUMNS=width),
                stdout=out,
                stderr=err,
                timeout=120,
                check=False,
            ).returncode  # fmt: skip
        out, err = ((tmp_path / name).read_text("utf-8") for name in ("out", "err"))
        assert status == 0, err
        assert not CONTROL.search(out + err)
        assert all(len(line) <= int(width) for line in out.splitlines())
        assert err.startswith("1 of 3: " if width == "80" else "3 of 3 jobs were done")


def test_terminal_has_a_bar(data, tmp_path):
    """And stdout none of it."""
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable, "-m", "gwfast", "experiment", "distances",
            "--data", data["muse"], "--n-words", "60",
        ],
        cwd=tmp_path,
        env=environment(COLUMNS="80", TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=slave,
    )  # fmt: skip
    os.close(slave)
    shown = b""
    while True:
        try:
            more = os.read(master, 1 << 16)
        except OSError:  # Linux's way of saying that the other end is closed
            break
        if not more:
            break
        shown += more
    out = process.communicate(timeout=120)[0].decode()
    os.close(master)
    assert process.returncode == 0
    assert "3/3" in shown.decode() and "en and fr" in shown.decode()
    assert not CONTROL.search(out)
