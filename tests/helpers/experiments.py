"""What experiments print and write."""

import json


def results_of(folder):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    text = (folder / "results.json").read_text(encoding="utf-8")
    return json.loads(text, parse_constant=refuse)


def without_times(value):
    """Results but for how long they took."""
    if isinstance(value, dict):
        return {name: without_times(one) for name, one in value.items() if "seconds" not in name}
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
