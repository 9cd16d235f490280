"""Events go to functions, listeners, lines and bars."""

import logging
import sys

import numpy as np
import pytest
from helpers.problems import rotated_pair
from helpers.processes import run_python

import gwfast
from gwfast.utils import progress
from gwfast.utils.progress import ProgressEvent, ProgressListener, reporting
from gwfast.words import read_embeddings

EVENTS = [ProgressEvent("start", "first [bold]"), ProgressEvent("solve", "second", 2, 1, 4)]


def reported_to(progress):
    with reporting(progress) as report_progress:
        for event in EVENTS:
            report_progress(event)


def test_functions_take_text_and_numbers_and_listeners_events(capsys):
    seen = []
    reported_to(lambda text, done, total: seen.append((text, done, total)))
    assert seen == [("first [bold]", None, None), ("second", 1, 4)]
    heard = []
    reported_to(ProgressListener(heard.append))
    assert heard == EVENTS
    reported_to(False)
    assert capsys.readouterr() == ("", "")


def test_bar_takes_text_literally(capsys):
    pytest.importorskip("rich")
    with reporting(True) as report_progress:
        report_progress(EVENTS[0])
    out, err = capsys.readouterr()
    assert out == "" and "first [bold]" in err


def test_lines_without_a_terminal(capsys, monkeypatch):
    """The first event of each kind of work, then one in five seconds, with the time so far."""
    clock = iter([0.0, 0.0, 0.5, 2.75, 5.0, 5.5, 120.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    later = (ProgressEvent("solve", f"at {k}", k) for k in range(2, 6))
    with reporting(True) as report_progress:
        for event in (*EVENTS, *later):
            report_progress(event)
    shown = ["first [bold] (0 s)", "second (0 s)", "at 4 (6 s)", "at 5 (2 min)"]
    assert capsys.readouterr() == ("", "\n".join(shown) + "\n")


def test_all_public_calls_show_lines_without_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    x, y, _ = rotated_pair(40, 4, 0)
    gwfast.align(x, y, refine=1, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "solving from" in err and "\x1b" not in err


def test_the_log_has_stages_and_the_end(caplog):
    x, y, _ = rotated_pair(40, 4, 0)
    with caplog.at_level(logging.DEBUG, logger="gwfast"):
        gwfast.align(x, y, refine=2)
    assert {record.name for record in caplog.records} == {"gwfast"}
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert any(level == "DEBUG" and text.startswith("start 1") for level, text in told)
    informed = [text for level, text in told if level == "INFO"]
    assert informed[0].startswith("solving from")
    assert informed[-1].startswith("aligned in ") and "converged" in informed[-1]
    assert len(informed) >= 4  # with the rounds of refinement
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="gwfast"):
        cost = np.abs(np.subtract.outer(x[:, 0], x[:, 0]))
        gwfast.gromov_wasserstein(cost, cost[::-1, ::-1], epsilon=0.1)
    last = caplog.records[-1].getMessage()
    assert last.startswith("Gromov-Wasserstein ended as 'converged' after ")


def test_small_and_exact_solves_tell_their_progress():
    x, y, _ = rotated_pair(40, 4, 0, noise=0.3)
    seen, costs = [], [np.linalg.norm(side[:, None] - side, axis=2) for side in (x, y)]
    for options in (dict(init="product"), dict(epsilon=0)):
        seen.clear()
        gwfast.gromov_wasserstein(*costs, progress=lambda *event: seen.append(event), **options)
        assert seen
    with pytest.raises(TypeError, match=r"^progress must be"):
        gwfast.gromov_wasserstein(*costs, init="product", progress="yes")


def test_the_log_has_files_that_were_read(caplog, tmp_path):
    (tmp_path / "a.vec").write_text("a 1 2\nb 3 4\n")
    with caplog.at_level(logging.INFO, logger="gwfast"):
        read_embeddings(tmp_path / "a.vec")
    (record,) = caplog.records
    assert record.getMessage().startswith(f"read {tmp_path / 'a.vec'} in ")
    assert record.getMessage().endswith("Embeddings(2 words x 2, float32)")


@pytest.mark.process
def test_the_log_is_silent_unless_asked():
    code = """
import logging, sys
import numpy as np, gwfast
x = np.random.default_rng(0).random((9, 3))
gwfast.align(x, x, epsilon=0.1, init="profile")
print("asked", file=sys.stderr)
logging.basicConfig(level="INFO")
gwfast.align(x, x, epsilon=0.1, init="profile")
"""
    done = run_python(code)
    before, after = done.stderr.split("asked\n")
    assert done.stdout == before == "" and after.startswith("INFO:gwfast:")
