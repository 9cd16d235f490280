"""Events go to functions, lines and the log."""

import itertools
import logging
import re
import sys
import time

from helpers.problems import distances, rotated_pair

import gwfast
from gwfast.words import read_embeddings

X, Y, _ = rotated_pair(40, 4, 0, noise=0.3)
COSTS = distances(X), distances(Y)


def test_lines_without_a_terminal_have_an_event_in_five_seconds(capsys, monkeypatch):
    clock = itertools.count(0, 3)  # three seconds from one event to the next
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setitem(sys.modules, "rich", None)
    problems = [(COSTS[0][:6, :6], COSTS[1][:6, :6])] * 40
    gwfast.gromov_wasserstein_batch(problems, epsilon=0, init="product", progress=True)
    monkeypatch.undo()
    out, err = capsys.readouterr()
    seconds = list(map(int, re.findall(r"^\w+ \((\d+) s\)$", err, re.MULTILINE)))
    assert seconds == list(range(seconds[0], 100, 6))
    assert out == "" and len(err.splitlines()) == 20 and err.endswith("(2 min)\n")


def test_the_log_has_files_that_were_read_stages_and_the_end(caplog, tmp_path):
    (tmp_path / "a.vec").write_text("a 1 2\nb 3 4\n")
    with caplog.at_level(logging.DEBUG, logger="gwfast"):
        read_embeddings(tmp_path / "a.vec")
        gwfast.align(X, Y, refine=2)
        gwfast.gromov_wasserstein(*COSTS, epsilon=0.1)
    assert {record.name for record in caplog.records} == {"gwfast"}
    # Nothing is written unless a handler is asked for.
    assert {*map(type, logging.getLogger("gwfast").handlers)} == {logging.NullHandler}
    starts = [record for record in caplog.records if record.getMessage().startswith("start 1")]
    assert {record.levelname for record in starts} == {"DEBUG"}
    informed = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert str(tmp_path / "a.vec") in informed[0] and "2 words" in informed[0]
    assert len(informed) >= 7 and "converged" in informed[-1]
    assert sum("refinement" in text for text in informed) == 2
