"""Tables of what runs under pytest-benchmark, in Markdown."""

from ..common.markdown import table


def render(data):
    """All tables of a pytest-benchmark JSON."""
    groups = {}
    for entry in data["benchmarks"]:
        groups.setdefault(entry["group"], []).append(entry)
    parts = []
    for name, entries in groups.items():
        made = kernels if "kernel" in entries[0]["extra_info"] else solves
        parts.append(f"**{name}**\n\n{made(entries)}")
    if data.get("not_run"):
        rows = [[row["test"], row["outcome"], row["reason"]] for row in data["not_run"]]
        parts.append("**Not run**\n\n" + table(["test", "outcome", "reason"], rows))
    return "\n\n".join(parts)


def kernels(entries):
    """Rates, from the least and the median time, and the median share of the limit."""
    unit = entries[0]["extra_info"]["unit"]
    titles = ["kernel", "ms, min", "median", f"{unit}, best", "median"]
    titles += [f"limit, {unit}", "% of limit", "error", "load"]
    rows = []
    for entry in entries:
        extra, stats = entry["extra_info"], entry["stats"]
        rows.append(
            [
                extra["kernel"],
                f"{1e3 * stats['min']:.3g}",
                f"{1e3 * stats['median']:.3g}",
                _rate(extra["rate"]),
                _rate(extra["rate_median"]),
                _rate(extra["limit"]),
                f"{100 * extra['share']:.0f}",
                f"{extra['error']:.0e}",
                f"{extra['load']:.1f}",
            ]
        )
    return table(titles, rows)


def _rate(value):
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def solves(entries):
    """gwfast's own solves, beside what they say of themselves."""
    titles = ["solve", "s, min", "median", "runs", "outer", "passes", "gw_cost"]
    titles += ["status", "threads", "load"]
    rows = []
    for entry in entries:
        extra, stats = entry["extra_info"], entry["stats"]
        rows.append(
            [
                extra["solve"],
                f"{stats['min']:.3g}",
                f"{stats['median']:.3g}",
                str(stats["rounds"]),
                str(extra["outer"]),
                str(extra["inner"]),
                f"{extra['gw_cost']:.5f}",
                extra["status"],
                str(extra["threads"]),
                f"{extra['load']:.1f}",
            ]
        )
    return table(titles, rows)
