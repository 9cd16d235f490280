"""``gwfast experiment``: runs that go on, bad input, and what a terminal shows."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from helpers.experiments import results_of, without_times
from helpers.files import tree
from helpers.marks import mostly_slow
from helpers.processes import environment, on_terminal
from helpers.vector_files import write_vectors

from gwfast.experiments import alignments, dynamics
from gwfast.experiments import distances as distances_module

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")

COMMANDS = {
    "table1": (alignments.gwfast, "align", ("--n-words", 60), 2),
    "dynamics": (
        dynamics.gwfast,
        "align",
        ("--n-words", 60, "--pairs", "en-fr,fr-en", "--epsilon", "2%"),
        2,
    ),
    "distances": (distances_module, "match", ("--n-words", 30), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_resumed_is_as_uninterrupted(run, narrow_data, tmp_path, monkeypatch, name):
    """Stopped by Ctrl-C half way; the second run does the rest only."""
    module, function, options, total = COMMANDS[name]
    arguments = (name, "--data", narrow_data["muse"], *options, "--threads", 1)
    assert run(*arguments, "--output", "whole")[0] == 0

    original, calls, limit = getattr(module, function), [], (total + 1) // 2

    def counted(*given, **others):
        if len(calls) == limit:
            raise KeyboardInterrupt
        calls.append(given)
        return original(*given, **others)

    monkeypatch.setattr(module, function, counted)
    status, out, err = run(*arguments, "--output", "parts")
    assert (status, out) == (130, "")
    assert "jobs are kept in parts/jobs: the same command goes on from there" in err
    assert tree(tmp_path / "parts")[0] == "jobs"
    kept = len(tree(tmp_path / "parts" / "jobs"))
    assert len(tree(tmp_path / "parts")) == 1 + kept and kept >= len(calls)
    limit = None
    status, out, err = run(*arguments, "--output", "parts")
    assert status == 0, err
    assert f"{kept} of " in err and "were done before" in err
    assert len(calls) == total
    # And a third time nothing is left to do.
    status, again, err = run(*arguments, "--output", "parts", "--quiet")
    assert (status, again) == (0, out)
    # Of few words the search is not sure.
    assert len(err.splitlines()) == err.count("'uncertain'")
    assert len(calls) == total
    whole, parts = (results_of(tmp_path / part) for part in ("whole", "parts"))
    assert without_times(whole) == without_times(parts)
    assert [path for path in tree(tmp_path / "whole") if ".json" not in path] == [
        path for path in tree(tmp_path / "parts") if ".json" not in path
    ]


def copy_vectors(data, folder):
    folder.mkdir()
    for name in ("wiki.en.vec", "wiki.fr.vec"):
        shutil.copy(data["muse"] / name, folder)


@pytest.mark.slow
def test_changed_files_and_settings_are_computed_anew(run, narrow_data, tmp_path):
    muse = tmp_path / "muse"
    copy_vectors(narrow_data, muse)
    arguments = "distances", "--data", muse, "--state", "kept", "--n-words"
    assert run(*arguments, 20)[0] == 0
    assert len(tree(tmp_path / "kept")) == 1
    assert "1 of 1 jobs were done before" in run(*arguments, 20)[2]
    assert "done before" not in run(*arguments, 20, "--again")[2]
    assert "done before" not in run(*arguments, 30)[2]
    os.utime(muse / "wiki.en.vec", (1, 1))
    assert "done before" not in run(*arguments, 20)[2]
    assert len(tree(tmp_path / "kept")) == 3


BAD = {
    "no files": (["table1", "--data", "."], "must have the files of one direction"),
    "no folder": (["table2", "--data", "none"], "'none' does not exist"),
    "no data": (["table1"], "--data"),
    "pairs": (["table1", "--data", ".", "--pairs", "en"], "pairs such as en-es"),
    "epsilon": (["table1", "--data", ".", "--epsilon", "x"], "or an Epsilon, got 'x'"),
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


def test_failing_job_is_named(run, narrow_data, tmp_path):
    folder = tmp_path / "muse"
    copy_vectors(narrow_data, folder)
    (folder / "en-fr.0-5000.txt").write_text("no pair\n")
    (folder / "en-fr.5000-6500.txt").write_text("no pair\n")
    status, _, err = run("table1", "--data", folder, "--quiet")
    assert status == 2
    assert err.startswith("gwfast: error: en-fr, Procrustes: ")
    assert "no pair is in both vocabularies" in err


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_terminal_has_a_bar_and_a_pipe_none_of_it(narrow_data, tmp_path):
    arguments = (
        "experiment", "distances", "--data", narrow_data["muse"], "--n-words", "30",
        "--state", "kept",
    )  # fmt: skip
    status, shown, out = on_terminal(*arguments, cwd=tmp_path, stdout=subprocess.PIPE)
    assert status == 0
    assert "3/3" in shown and "en and fr" in shown
    done = subprocess.run(
        [sys.executable, "-m", "gwfast", *arguments],
        cwd=tmp_path,
        env=environment(COLUMNS="60"),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    assert done.stderr.startswith("3 of 3 jobs were done")
    assert not CONTROL.search(out + done.stdout + done.stderr)
    for text, width in ((out, 80), (done.stdout, 60)):
        assert text and max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("name", mostly_slow(COMMANDS, fast=["distances"]))
def test_every_solve_ends_with_the_time(run, narrow_data, tmp_path, name):
    folder = narrow_data["muse"]
    arguments = (name, "--data", folder, "--n-words", 60, "--time-limit", 1e-6)
    status, _, err = run(*arguments, "--output", "out")
    assert status == 0, err
    for job in results_of(tmp_path / "out")["jobs"]:
        if job["key"].get("method") != "supervise":
            assert job["key"]["time_limit"] == 1e-6
            result = job["result"]
            assert result.get("gw", result)["status"] == "time_limit"
