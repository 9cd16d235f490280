"""Lines of code that stand for each mechanism: of whole modules, and of functions and
classes in others, ``module:name``, docstrings and comments included.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WHERE = {
    "low_rank_updates": ["quadratic/low_rank"],
    "levels": ["problems/low_rank", "solvers/search/levels"],
    "acceleration": ["quadratic/acceleration"],
    "small_descents": ["quadratic/small_descent"],
    "newton": ["linear/newton"],
    "few_entries": ["quadratic/samples", "linear/support"],
    "second_look": ["solvers/search/portfolio:Escapes", "solvers/search/clusters"],
}


def lines_of(mechanism):
    """How many they are."""
    return sum(map(_count, WHERE[mechanism]))


def _count(where):
    module, _, name = where.partition(":")
    path = (ROOT / "gwfast" / module).with_suffix(".py")
    text = path.read_text("utf-8")
    if not name:
        return len(text.splitlines())
    (node,) = (one for one in ast.parse(text).body if getattr(one, "name", "") == name)
    return node.end_lineno - node.lineno + 1
