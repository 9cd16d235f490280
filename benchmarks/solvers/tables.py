"""Tables of measurements, in Markdown."""

import math
from statistics import linear_regression, median

from ..common.markdown import table
from .contenders import REFERENCE

# Objectives further apart than this are not the same result.
EQUAL = 0.005
# Objectives of one solver that are further apart are shown as a range.
ONE = 1e-4
# Points a side from which on growth is fitted: below, overheads count.
FITTED_FROM = 2000

COMPARED = (
    "solver", "settings", "s, median [min]", "runs", "gw_cost", "difference", "equal",
    "marginal error", "accuracy", "outer", "s / outer", "peak MB", "process MB",
    "threads", "load", "time / gwfast",
)  # fmt: skip
GROWN = (
    "solver", "settings", "n", "s, median [min]", "outer", "s / outer", "gw_cost",
    "difference", "marginal error", "accuracy", "peak MB", "process MB", "load",
)  # fmt: skip
NOTE = (
    "`difference` and `equal` (within 0.5 %) compare gw_cost with gwfast's. A plan that"
    " misses its marginals can have less of it than any that meets them. `peak MB` is"
    " beyond what the process held before the solver got the problem."
)


def compared(results):
    """A table for each problem: times beside what they bought."""
    parts = []
    for problem in _unique(result["problem"] for result in results):
        rows = [result for result in results if result["problem"] == problem]
        if "name" not in rows[0]:
            parts.append(f"**{_name(rows[0])}**\n\nNot run, {_outcome(rows[0])}")
            continue
        heading = f"**{rows[0]['name']}**"
        parts.append(f"{heading}\n\n{_table(COMPARED, rows, [rows[0]] * len(rows))}")
    return "\n\n".join([*parts, NOTE])


def grown(results):
    """All sizes of each solver, and how the time of an outer iteration grows."""
    own = {
        result["problem"]["n"]: result
        for result in results
        if result["contender"] == REFERENCE
    }
    references = [own.get(result["problem"]["n"]) for result in results]
    text = _table(GROWN, results, references)
    points = [
        (result["problem"]["n"], _seconds_an_outer(result))
        for result in results
        if result["contender"] == "gwfast 10" and result["runs"]
    ]
    points = [(n, seconds) for n, seconds in points if n >= FITTED_FROM]
    if len(points) > 1:
        logarithms = (map(math.log, values) for values in zip(*points, strict=True))
        exponent = linear_regression(*map(list, logarithms)).slope
        text += (
            f"\n\nTime of one of gwfast's first ten outer iterations grows with n to "
            f"the power {exponent:.2f}, from {points[0][0]} to {points[-1][0]} points."
        )
    return text


def threaded(results):
    """Seconds and speed-up over threads."""
    titles = ["problem", "threads", "s, median [min]", "speed-up", "peak MB", "load"]
    rows = []
    for result in results:
        one = next(r for r in results if r["problem"] == result["problem"])
        speed_up = ""
        if result["runs"] and one["runs"]:
            speed_up = f"{_median(one, 'seconds') / _median(result, 'seconds'):.2f}"
        row = [_name(result), str(result["threads"]), _seconds(result)]
        row += [speed_up, _mb(result, "peak"), _load(result)]
        rows.append(row)
    return table(titles, rows)


def tiled(results, sgemm):
    """The problems whose plan is never stored, against the rate of SGEMM."""
    titles = ["clouds", "seconds", "outer", "passes", "s / product", "GFLOP/s"]
    titles += ["% of SGEMM", "gw_cost", "marginal error", "status", "right", "peak MB"]
    titles += ["process MB", "threads", "load"]
    rows = []
    for result in results:
        row = [_name(result)]
        if "done" not in result:
            rows.append([*row, _outcome(result), *[""] * (len(titles) - 2)])
            continue
        seconds = result["seconds_a_product"]
        rate = 2 * result["n"] ** 2 * result["d"] / 1e9 / seconds
        row += [f"{result['seconds']:.1f}", str(result["outer"]), str(result["inner"])]
        row += [f"{seconds:.3g}", f"{rate:.0f}", f"{100 * rate / sgemm:.0f}"]
        row += [f"{result['gw_cost']:.5g}", f"{result['marginal_error']:.0e}"]
        row += [result["status"], f"{result['accuracy']:.3f}", _mb(result, "peak")]
        row += [_mb(result, "process"), str(result["threads"]), _load(result)]
        rows.append(row)
    note = (
        f"Options: {results[0].get('settings', '?')}. `outer` and `passes` are of the"
        " last level, on all points; a pass is one product of 2 n m d operations, and"
        " taking the plan in the end of an outer iteration is two."
    )
    return f"{table(titles, rows)}\n\n{note}"


def _table(names, results, references):
    """Some of `_COLUMNS`; what a solver has no value for stays empty."""
    titles = list(names)
    label = next((r["accuracy"] for r in results if r.get("accuracy")), None)
    if label is None:
        titles.remove("accuracy")
    rows = [
        [_COLUMNS[title](result, reference) for title in titles]
        for result, reference in zip(results, references, strict=True)
    ]
    shown = [label if title == "accuracy" else title for title in titles]
    return table(shown, rows)


# --- Cells ----------------------------------------------------------------------------


def _unique(items):
    made = []
    for item in items:
        if item not in made:
            made.append(item)
    return made


def _name(result):
    """The problem's, or what was asked for, where there is none."""
    asked = ", ".join(str(value) for value in result.get("problem", {}).values())
    return result.get("name", asked)


def _values(result, name):
    found = (run.get(name) for run in result["runs"])
    return [value for value in found if value is not None]


def _median(result, name):
    return median(_values(result, name))


def _outcome(result):
    """Why there are no numbers."""
    if "exceeded" in result:
        return f"> {result['exceeded']:g} s"
    reason = result.get("failed", "?").replace("|", "/")
    return reason if reason == "not installed" else f"failed: {reason}"


def _seconds(result, reference=None):
    if "failed" in result or not result["runs"]:
        return _outcome(result)
    least = min(_values(result, "seconds"))
    return f"{_time(_median(result, 'seconds'))} [{_time(least)}]"


def _time(seconds):
    return f"{seconds:.3g}" if seconds < 1 else f"{seconds:.2f}"


def _seconds_an_outer(result):
    return median(run["seconds"] / run["outer"] for run in result["runs"])


def _if_run(cell):
    """A cell for which it takes a run."""
    return lambda result, reference: cell(result) if result["runs"] else ""


def _against(cell):
    """A cell for which it takes a run of the reference too."""

    def made(result, reference):
        there = reference is not None and reference["runs"] and result["runs"]
        return cell(result, reference) if there else ""

    return made


def _gw_cost(result):
    costs = _values(result, "gw_cost")
    text = f"{median(costs):.5f}"
    if max(costs) - min(costs) > ONE * abs(min(costs)):
        text += f" ({min(costs):.5f} to {max(costs):.5f})"
    return text


def _off(result, reference):
    return _median(result, "gw_cost") / _median(reference, "gw_cost") - 1


def _outer(result):
    counts = _values(result, "outer")
    return f"{median(counts):g}" if counts else ""


def _each_outer(result, reference):
    runs = result["runs"] or [run for run in [result.get("few")] if run]
    runs = [run for run in runs if run["outer"]]
    return _time(_seconds_an_outer({"runs": runs})) if runs else ""


def _accuracy(result):
    values = _values(result, "accuracy")
    return f"{median(values):.3f}" if values else ""


def _ratio(result, reference):
    if reference is None or not reference["runs"] or "failed" in result:
        return ""
    unit = _median(reference, "seconds")
    if result["runs"]:
        return f"{_median(result, 'seconds') / unit:.3g}"
    return f"> {result['exceeded'] / unit:.3g}"


def _mb(result, name):
    return f"{result[name]:.0f}" if name in result else ""


def _load(result):
    return f"{result['load']:.1f}" if "load" in result else ""


_COLUMNS = {
    "solver": lambda result, _: result["contender"],
    "settings": lambda result, _: result.get("settings", ""),
    "n": lambda result, _: str(result["problem"]["n"]),
    "s, median [min]": _seconds,
    "runs": lambda result, _: str(len(result["runs"])),
    "gw_cost": _if_run(_gw_cost),
    "difference": _against(lambda *pair: f"{_off(*pair):+.2%}"),
    "equal": _against(lambda *pair: "yes" if abs(_off(*pair)) <= EQUAL else "**no**"),
    "marginal error": _if_run(
        lambda result: f"{_median(result, 'marginal_error'):.0e}"
    ),
    "accuracy": _if_run(_accuracy),
    "outer": _if_run(_outer),
    "s / outer": _each_outer,
    "peak MB": lambda result, _: _mb(result, "peak"),
    "process MB": lambda result, _: _mb(result, "process"),
    "threads": lambda result, _: str(result["threads"]),
    "load": lambda result, _: _load(result),
    "time / gwfast": _ratio,
}
