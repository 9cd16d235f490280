"""Tables of measurements, in Markdown."""

from statistics import median

from ..common.markdown import table
from .contenders import REFERENCE

# Objectives further apart than this are not the same result.
EQUAL = 0.005
# Objectives of one solver that are further apart are shown as a range.
ONE = 1e-4

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
    """All sizes of each solver."""
    own = {result["problem"]["n"]: result for result in results if result["contender"] == REFERENCE}
    references = [own.get(result["problem"]["n"]) for result in results]
    return _table(GROWN, results, references)


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
    "marginal error": _if_run(lambda result: f"{_median(result, 'marginal_error'):.0e}"),
    "accuracy": _if_run(_accuracy),
    "outer": _if_run(_outer),
    "s / outer": _each_outer,
    "peak MB": lambda result, _: _mb(result, "peak"),
    "process MB": lambda result, _: _mb(result, "process"),
    "threads": lambda result, _: str(result["threads"]),
    "load": lambda result, _: _load(result),
    "time / gwfast": _ratio,
}
