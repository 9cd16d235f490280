"""Where events go: to functions, listeners, lines and bars."""

import pytest

from gwfast.utils.progress import (
    ProgressEvent,
    ProgressListener,
    reporting,
    reporting_on_terminal,
)

EVENTS = [
    ProgressEvent("start", "first [bold]"),
    ProgressEvent("solve", "second", 2, 1, 4),
]


def reported_to(progress):
    with reporting(progress) as report_progress:
        for event in EVENTS:
            report_progress(event)


def test_functions_take_text_and_numbers():
    seen = []
    reported_to(lambda text, done, total: seen.append((text, done, total)))
    assert seen == [("first [bold]", None, None), ("second", 1, 4)]


def test_listeners_take_events():
    seen = []
    reported_to(ProgressListener(seen.append))
    assert seen == EVENTS


def test_silence(capsys):
    reported_to(False)
    assert capsys.readouterr() == ("", "")


def test_bar_takes_text_literally(capsys):
    pytest.importorskip("rich")
    with reporting(True) as report_progress:
        report_progress(EVENTS[0])
    out, err = capsys.readouterr()
    assert out == "" and "first [bold]" in err


def test_lines_of_some_events_where_there_is_no_terminal(capsys):
    pytest.importorskip("rich")
    line = {"start": None, "solve": "a line"}
    with reporting_on_terminal(lambda event: line[event.stage]) as report_progress:
        for event in EVENTS:
            report_progress(event)
    assert capsys.readouterr() == ("", "a line\n")
