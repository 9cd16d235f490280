"""Choice of the cases of a test: pairs of values that meet, and cases of the fast suite."""

import itertools
from collections import Counter, defaultdict
from contextlib import contextmanager
from random import Random

import pytest

from gwfast.kernels import _rows

# How often the fast suite takes each value of a parameter, each time with others: of solves, which
# take a tenth of a second or more, and of kernels, which take no time.
CASES_OF_A_VALUE, CASES_OF_A_KERNEL = 1, 3
_MARKED = type(pytest.param())


def mostly_slow(values, fast):
    """Return parameters of a test or a fixture, slow unless they are in `fast`."""
    return [
        pytest.param(value, marks=() if value in fast else pytest.mark.slow) for value in values
    ]


# Instruction sets of this processor; the fast tests take the one in use.
ISAS = mostly_slow(_rows.supported_isas(), fast=[_rows.current_isa()])


@contextmanager
def instruction_set(name):
    """Select an instruction set inside the block."""
    former = _rows.current_isa()
    _rows.select_isa(name)
    yield
    _rows.select_isa(former)


def pairwise_cases(factors, is_excluded=lambda case: False, n_tries=10):
    """Return cases, by a greedy choice, in which every two values of two factors meet if a case
    with them is not excluded: most faults show where two values meet (Kuhn et al. 2004).
    """
    rng, cases = Random(0), []

    def completed(case):
        """Return the case with a value for each factor, or None if no values go with it."""
        if is_excluded(case):
            return None
        missing = [name for name in factors if name not in case]
        values = factors[missing[0]] if missing else ()
        tries = (completed(case | {missing[0]: x}) for x in rng.sample(values, len(values)))
        return next(filter(None, tries), None) if missing else case

    def pairs_of(case):
        return {*itertools.combinations(((name, case[name]) for name in factors), 2)}

    values = [(name, value) for name in factors for value in factors[name]]
    pairs = itertools.combinations(values, 2)
    uncovered = {pair: None for pair in pairs if pair[0][0] != pair[1][0]}
    while uncovered:
        pair = next(iter(uncovered))
        tries = [completed(dict(pair)) for _ in range(n_tries)]
        if tries[0] is None:
            del uncovered[pair]
            continue
        best = max(tries, key=lambda case: len(pairs_of(case) & uncovered.keys()))
        cases.append({name: best[name] for name in factors})
        for covered in pairs_of(best) & uncovered.keys():
            del uncovered[covered]
    return cases


def pairwise(indirect=(), **axes):
    """Parametrize a test by cases in which all values of two axes meet, a tenth of the product.

    `isa` and the names in `indirect` go to the fixture of that name.
    """
    axes = {name: [*values] for name, values in axes.items()}
    numbered = pairwise_cases({name: range(len(values)) for name, values in axes.items()})
    cases = [[values[case[name]] for name, values in axes.items()] for case in numbered]
    indirect = [name for name in axes if name == "isa" or name in indirect]
    return pytest.mark.parametrize([*axes], [_param(case) for case in cases], indirect=indirect)


def _param(values):
    """Return a case of values that may have marks, named by all of them."""
    marks = [mark for value in values if isinstance(value, _MARKED) for mark in value.marks]
    plain = [value.values[0] if isinstance(value, _MARKED) else value for value in values]
    return pytest.param(*plain, marks=marks, id="-".join(map(_name, plain)))


def _name(value):
    if isinstance(value, tuple):
        return "x".join(map(_name, value))
    return getattr(value, "__name__", str(value))


def thin(items):
    """Mark cases of tests with several parameters slow, so that the fast cases have every value of
    every parameter, but not every combination.
    """
    groups = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            groups[item.nodeid.partition("[")[0]].append(item)
    for name, group in groups.items():
        of_kernels = group[0].path.parent.name == "kernels"
        fast = _cover(group, CASES_OF_A_KERNEL if of_kernels else CASES_OF_A_VALUE, Random(name))
        for item in group:
            if item not in fast:
                item.add_marker(pytest.mark.slow)


def _cover(group, n_cases, random):
    """Return cases, each chosen for the most values that were taken too rarely so far."""
    values = {
        item: [(name, id(value)) for name, value in item.callspec.params.items()] for item in group
    }
    wanted = Counter(value for pairs in values.values() for value in pairs)
    wanted = Counter({value: min(n, n_cases) for value, n in wanted.items()})
    left, fast = random.sample(group, len(group)), set()
    while any(wanted.values()):
        best = max(left, key=lambda item: sum(wanted[pair] > 0 for pair in values[item]))
        left.remove(best)
        fast.add(best)
        for pair in values[best]:
            wanted[pair] -= wanted[pair] > 0
    return fast
