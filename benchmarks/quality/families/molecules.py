"""Chains with branches in space, against others of the same bonds: every molecule is
drawn, then some of its bonds are turned, and its atoms move.
"""

import functools
import itertools

import numpy as np

from .problem import Problem, Sides, distances, shuffled

# Of bond lengths: how near atoms come that are not bound, and how often an atom is
# tried before its place is taken as it is.
CLASH, N_TRIES = 0.9, 50
BRANCHED = 0.25


def molecule(rng, n):
    """Places (n, 3) of atoms a bond apart, and to which atom each is bound (n,)."""
    places, bound = np.zeros((n, 3)), np.zeros(n, dtype=int)
    for k in range(1, n):
        bound[k] = rng.integers(k) if rng.random() < BRANCHED else k - 1
        for _ in range(N_TRIES):
            step = rng.standard_normal(3)
            places[k] = places[bound[k]] + step / np.linalg.norm(step)
            apart = np.linalg.norm(places[:k] - places[k], axis=1)
            if apart.min() > CLASH:
                break
    return places, bound


def turned(places, bound, rng, n_turns, angle):
    """Places after turns about some bonds by about an angle: all that hangs on them."""
    places, n = places.copy(), len(places)
    for atom in rng.choice(np.arange(1, n), n_turns, replace=False):
        hanging = np.zeros(n, dtype=bool)
        hanging[atom] = True
        for k in range(atom + 1, n):
            hanging[k] = hanging[bound[k]]
        origin = places[bound[atom]]
        axis = places[atom] - origin
        axis /= np.linalg.norm(axis)
        by, some = angle * rng.standard_normal(), places[hanging] - origin
        places[hanging] = origin + (
            np.cos(by) * some
            + np.sin(by) * np.cross(axis, some)
            + (1 - np.cos(by)) * np.outer(some @ axis, axis)
        )
    return places


def contacts(places):
    """How near atoms are, on the scale of a bond: what tells molecules apart that have
    folded otherwise.
    """
    return np.exp(-0.5 * distances(places) ** 2)


def problems():
    easy = itertools.product([(distances, 8, 0.1), (distances, 20, 0.1)], [120])
    kinds = (contacts, 3, 0.1), (contacts, 3, 0.2), (contacts, 8, 0.2)
    hard = itertools.product(kinds, (60, 120, 160))
    for ((costs, n_turns, noise), n), seed in itertools.product([*easy, *hard], range(4)):
        yield Problem(
            f"molecules, {costs.__name__}",
            f"{n} atoms, {n_turns} turns, noise {noise:g}, molecule {seed}",
            functools.partial(_sides, costs, n, n_turns, noise, seed),
        )  # fmt: skip


def _sides(costs, n, n_turns, noise, seed):
    rng = np.random.default_rng([seed, n])
    places, bound = molecule(rng, n)
    other = turned(places, bound, rng, n_turns, 1.0)
    other += noise * rng.standard_normal(other.shape)
    moved, known = shuffled(costs(other), rng)
    return Sides(costs(places), moved, [known])
