"""Tables of what was measured."""

import math
from statistics import linear_regression

from ..common.markdown import table

# Asked for over taken: below the first a solve takes more than it says, above the
# second a problem is turned away that would fit.
TOO_LITTLE, TOO_MUCH = 1.0, 1.5
# MB that come on top by themselves: pages of 2 MB, of several buffers.
PAGES = 4.0
SOLVED = (
    "problem", "options", "s", "x products", "gw_cost", "right", "outer", "inner",
    "s / product", "% of SGEMM", "points: s (outer)", "marginal error", "left out",
    "status", "plan", "peak GB", "process GB", "load",
)  # fmt: skip
JUDGED = (
    "problem", "options", "s", "s, compiling", "objective", "quadratic", "linear",
    "own objective", "marginal error", "right", "outer", "s / outer", "peak GB", "load",
)  # fmt: skip
MATCHED = (
    "problem", "options", "s", "right", "right, mean", "by expression", "rigid",
    "outer", "inner", "points: s (outer)", "marginal error", "left out", "status",
    "plan", "peak GB", "process GB", "load",
)  # fmt: skip
MEMORY = "problem", "options", "asked MB", "taken MB", "asked / taken", "", "plan"


def solved(results, sgemm):
    """Seconds, the machine's limit beside them, and what was found."""
    note = (
        "`x products`: times what the two products of one linearization, 2 x 2 n m d"
        f" operations, take at the rate of SGEMM, {sgemm:.0f} GFLOP/s. `s / product`:"
        " of one product on all points, where the kernel is made anew in every pass and"
        " twice more in an outer iteration, and how near it comes to that rate. `outer`"
        " and `inner` are of the last descent, on all points; `points: s (outer)` are"
        " all candidates of every level, and what is in none."
    )
    return f"{_table(SOLVED, results, sgemm)}\n\n{note}"


def grown(results, sgemm):
    """The same, and how seconds grow with the number of points."""
    rows = []
    done = [result for result in results if "done" in result]
    kinds = {
        "seconds in all": lambda one: one["seconds"],
        "of the candidates on fewer points": _coarse,
        "of an outer iteration on all points": _outer,
        "peak MB": lambda one: one["peak"],
    }
    for name, value in kinds.items():
        points = [(one["problem"]["n"], value(one)) for one in done if value(one) > 0]
        if len({n for n, _ in points}) > 1:
            between = f"{points[0][0]} to {points[-1][0]}"
            rows.append((name, f"{exponent(points):.2f}", between))
    made = solved(results, sgemm)
    if not rows:
        return made
    powers = table(("what grows", "with n to the power", "points"), rows)
    return f"{made}\n\n{powers}"


def exponent(points):
    """That of a power law fitted to pairs of a size and a value."""
    sizes, values = zip(*points, strict=True)
    return linear_regression(list(map(math.log, sizes)), list(map(math.log, values)))[0]


def judged(results, sgemm):
    """Plans of both solvers, judged alike."""
    note = (
        "Objectives are without entropy, with the plan's own marginals, in float64;"
        " `own objective` is what OTT says. OTT-JAX stops at moscot's threshold, looked"
        " at every 10 iterations; with `--iterations 0` it makes 10,000 at least."
    )
    return f"{_table(JUDGED, results, sgemm)}\n\n{note}"


def matched(results, sgemm):
    """Slices of tissue, spot by spot."""
    note = (
        "Shares of spots within two spots of their true place: best matches and means"
        " of the plan, what is nearest by expression alone, and after the best rigid"
        " motion of the true places."
    )
    return f"{_table(MATCHED, results, sgemm)}\n\n{note}"


def memory(results, sgemm):
    """What solves ask for beside what they take."""
    return _table(MEMORY, results, sgemm)


def _table(titles, results, sgemm):
    rows = []
    for result in results:
        named = [_problem(result), result.get("settings", "")]
        if "done" in result and "failed" not in result:
            rows.append([*named, *(_CELLS[one](result, sgemm) for one in titles[2:])])
        else:
            rows.append([*named, _outcome(result), *[""] * (len(titles) - 3)])
    return table(titles, rows)


def _problem(result):
    asked = ", ".join(str(value) for value in result["problem"].values())
    return result.get("name", asked)


def _outcome(result):
    if "exceeded" in result:
        return f"> {result['exceeded']:g} s"
    return f"failed: {result.get('failed', '?')}".replace("|", "/")


def _outer(result):
    """Seconds an outer iteration of any candidate on all points."""
    _, seconds, outer = max(result["levels"])
    return seconds / outer


def _coarse(result):
    """Seconds of the levels below the last."""
    _, *coarse, _ = sorted(result["levels"])
    return sum(seconds for _, seconds, _ in coarse)


def _levels(result):
    shown = [
        f"{size or 'other'}: {seconds:.3g}" + (f" ({outer})" if outer else "")
        for size, seconds, outer in sorted(result["levels"], key=lambda one: one[0] or math.inf)
    ]
    return ", ".join(shown)


def _product(result):
    """Where the kernel is stored, passes read it."""
    return result["seconds_a_product"] if result["form"] == "factors" else None


def _share(result, sgemm):
    rate = result["operations"] / 1e9 / _product(result)
    return f"{100 * rate / sgemm:.0f}"


def _against(result):
    """Whether so much was asked for."""
    asked, taken = result["asked"], result["peak"]
    if asked < TOO_LITTLE * taken - PAGES:
        return "**too little**"
    return "**too much**" if asked > TOO_MUCH * taken + PAGES else ""


def _gb(name):
    return lambda result, _: f"{result[name] / 1e3:.2f}"


def _number(name, form):
    return lambda result, _: format(result[name], form) if name in result else ""


_CELLS = {
    "s": _number("seconds", ".3g"),
    "x products": lambda result, sgemm: (
        f"{result['seconds'] * sgemm * 1e9 / (2 * result['operations']):.3g}"
    ),
    "gw_cost": _number("gw_cost", ".5g"),
    "right": _number("right", ".3f"),
    "right, mean": _number("right_mean", ".3f"),
    "by expression": _number("expression", ".3f"),
    "rigid": _number("rigid", ".3f"),
    "outer": _number("n_iter", "d"),
    "inner": _number("n_inner", "d"),
    "s / product": lambda result, _: f"{_product(result):.3g}" if _product(result) else "",
    "% of SGEMM": lambda result, sgemm: _share(result, sgemm) if _product(result) else "",
    "points: s (outer)": lambda result, _: _levels(result),
    "marginal error": _number("marginal_error", ".0e"),
    "left out": _number("left_out", ".1e"),
    "status": lambda result, _: result["status"],
    "plan": lambda result, _: result["form"],
    "peak GB": _gb("peak"),
    "process GB": _gb("process"),
    "load": _number("load", ".1f"),
    "s, compiling": _number("compiling", ".1f"),
    "objective": _number("objective", ".5g"),
    "quadratic": _number("quadratic", ".5g"),
    "linear": _number("linear", ".5g"),
    "own objective": _number("own", ".5g"),
    "s / outer": lambda result, _: f"{result['seconds'] / result['n_iter']:.3g}",
    "asked MB": _number("asked", ".0f"),
    "taken MB": _number("peak", ".0f"),
    "asked / taken": lambda result, _: f"{result['asked'] / max(result['peak'], 1):.2f}",
    "": lambda result, _: _against(result),
}
