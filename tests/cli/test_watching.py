"""What is shown of a solve that runs."""

import pytest
from helpers.cli import Watch

import gwfast
from gwfast.results.records import OuterStep


def steps(n, fall, seconds=20.0):
    """Outer iterations whose change falls by a factor each."""
    return [
        OuterStep(k, 0.0123456, 0.1, 0.1 * fall**k, 1e-3, 5, k * seconds) for k in range(1, n + 1)
    ]


def test_the_change_and_the_time_left_are_told():
    watch = Watch(1e-5)
    events = [watch.event(step) for step in steps(8, 0.5)]
    assert "left" not in events[1].text  # too few to tell
    # From .1 / 256 a factor of 39 is left: 5.3 halvings of 20 s.
    assert events[-1].text == (
        "outer 8: gw_cost 0.0123456, about 2 min left of this descent, change 3.9e-04,"
        " marginal error 1.0e-03"
    )
    assert events[-1].stage == "iteration" and events[-1].number == 8
    # Another descent begins, or nothing falls: nobody knows.
    assert "left" not in watch.event(steps(1, 0.5)[0]).text
    watch = Watch(1e-5)
    event = [watch.event(step) for step in steps(8, 1.0)][-1]
    assert "left" not in event.text and event.total is None


def test_lines_come_every_few_seconds(monkeypatch):
    """With the time that has gone by; one of five iterations had one, a minute apart
    where each took twelve seconds."""
    now = 0.0
    monkeypatch.setattr("gwfast.cli.watching.time.monotonic", lambda: now)
    watch, lines = Watch(1e-5), []
    for step in steps(20, 0.5, seconds=12.0):
        now = step.seconds
        lines.append(watch.line(watch.event(step)))
    assert None not in lines and lines[1].endswith("(24 s)")


@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupt_says_where_the_solve_is_kept(run, files, monkeypatch, kept):
    def interrupted(*_, checkpoint, **__):
        if kept:
            checkpoint.write_bytes(b"some")
        raise KeyboardInterrupt

    monkeypatch.setattr(gwfast, "align", interrupted)
    status, out, err = run("align", "a.vec", "b.vec", "--checkpoint", "kept", "--quiet")
    where = "; kept in kept: the same command goes on from there" if kept else ""
    assert (status, out, err.strip()) == (130, "", f"gwfast: interrupted{where}")
