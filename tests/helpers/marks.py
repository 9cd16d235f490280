"""Which cases of a test with many there are, and which of them the fast suite takes."""

from collections import Counter, defaultdict
from contextlib import contextmanager
from itertools import combinations, product
from random import Random

import pytest

from gwfast.kernels import _rows

# How often the fast suite takes every value of a parameter, each time with others: of
# solves, which take a tenth of a second or more, and of kernels, which take no time.
CASES_OF_A_VALUE, CASES_OF_A_KERNEL = 1, 3
_MARKED = type(pytest.param())


def mostly_slow(values, fast):
    """Parameters of a test or a fixture; those that are not in `fast` are slow."""
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


def pairwise(indirect=(), **axes):
    """Parametrize a test by as few cases as have every pair of values of two axes.

    Most mistakes show in two values that meet (Kuhn et al. 2004), and the cases of the
    full product are ten times as many. `isa` and what is named in `indirect` go to the
    fixture of that name.
    """
    axes = {name: [*values] for name, values in axes.items()}
    cases = [
        [values[k] for values, k in zip(axes.values(), case, strict=True)]
        for case in _pairwise([len(values) for values in axes.values()])
    ]
    indirect = [name for name in axes if name == "isa" or name in indirect]
    return pytest.mark.parametrize([*axes], [_param(case) for case in cases], indirect=indirect)


def _pairwise(sizes):
    """Numbers of the values of each case: one case after the other begins with a pair
    that is missing, and goes on with the values of which most pairs are."""
    missing = {
        ((i, x), (j, y)): None
        for i, j in combinations(range(len(sizes)), 2)
        for x, y in product(range(sizes[i]), range(sizes[j]))
    }
    n_cases = 0
    while missing:
        case = dict(next(iter(missing)))
        for i, size in enumerate(sizes):
            if i not in case:
                # Of values that are as good, each in its turn.
                turned = [(n_cases + k) % size for k in range(size)]
                case[i] = max(
                    turned,
                    key=lambda x, i=i: sum(
                        tuple(sorted([(i, x), other])) in missing for other in case.items()
                    ),
                )
        for pair in combinations(sorted(case.items()), 2):
            missing.pop(pair, None)
        n_cases += 1
        yield [case[i] for i in range(len(sizes))]


def _param(values):
    """A case of values that may have marks, named by all of them."""
    marks = [mark for one in values if isinstance(one, _MARKED) for mark in one.marks]
    plain = [one.values[0] if isinstance(one, _MARKED) else one for one in values]
    return pytest.param(*plain, marks=marks, id="-".join(map(_name, plain)))


def _name(value):
    if isinstance(value, tuple):
        return "x".join(map(_name, value))
    return getattr(value, "__name__", str(value))


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
