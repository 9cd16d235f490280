"""Every change of a matrix is seen, and where it lies in memory is not."""

import numpy as np
import pytest
from helpers.problems import random_cost

from gwfast.utils.fingerprint import fingerprint


def swapped_edges(x):
    """Other edges of a graph between the same numbers of neighbors."""
    x[0, 1], x[0, 2], x[5, 1], x[5, 2] = x[0, 2], x[0, 1], x[5, 2], x[5, 1]


CHANGES = {
    "one bit": lambda x: x.__setitem__((3, 4), np.nextafter(x[3, 4], x.dtype.type(2))),
    "sign of zero": lambda x: x.__setitem__((0, 0), -0.0),
    "order": lambda x: x.__setitem__(slice(None), x[::-1, ::-1].copy()),
    "edges": swapped_edges,
    "factor": lambda x: x.__imul__(2),
}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8"])
@pytest.mark.parametrize("n", [12, 80])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen(name, n, dtype):
    x = random_cost(n, 0).astype(dtype)
    x[0, :3], x[5, :3] = [0, 1, 0], [0, 0, 1]
    for one in (x.copy(), np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        before = fingerprint(one)
        assert before == fingerprint(one)
        CHANGES[name](one)
        assert before != fingerprint(one)
