"""Which cases of a test with many the fast suite takes."""

from collections import Counter, defaultdict
from random import Random

import pytest

# How often the fast suite takes every value of a parameter, each time with others: of
# solves, which take a tenth of a second or more, and of kernels, which take no time.
CASES_OF_A_VALUE, CASES_OF_A_KERNEL = 1, 3


def mostly_slow(values, fast):
    """Parameters of a test or a fixture; those that are not in `fast` are slow."""
    return [
        pytest.param(value, marks=() if value in fast else pytest.mark.slow)
        for value in values
    ]


def thin(items):
    """Mark cases of tests with several parameters slow, so that those that are left
    have every value of every parameter, but not every combination of them."""
    cases = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, group in cases.items():
        of_kernels = group[0].path.parent.name == "kernels"
        n_cases = CASES_OF_A_KERNEL if of_kernels else CASES_OF_A_VALUE
        fast = _cover(group, n_cases, Random(name))
        for item in group:
            if item not in fast:
                item.add_marker(pytest.mark.slow)


def _cover(group, n_cases, random):
    """Cases, chosen one after the other, that have what was taken too rarely so far."""
    # What pytest numbers them by is not the same in all of its versions.
    values = {
        item: [(name, id(value)) for name, value in item.callspec.params.items()]
        for item in group
    }
    wanted = Counter(value for pairs in values.values() for value in pairs)
    wanted = Counter({value: min(n, n_cases) for value, n in wanted.items()})
    left, fast = random.sample(group, len(group)), set()
    while any(wanted.values()):
        best = max(
            left, key=lambda item: sum(wanted[pair] > 0 for pair in values[item])
        )
        left.remove(best)
        fast.add(best)
        for pair in values[best]:
            wanted[pair] -= wanted[pair] > 0
    return fast
