"""Gromov-Wasserstein distances between languages, by one-to-one matchings of frequent words."""

import itertools

import numpy as np
from scipy.optimize import linear_sum_assignment

import gwfast
from gwfast.plot import plot_dendrogram, plot_distances
from gwfast.words import read_embeddings

from . import published
from .files import MUSE, find, normalized, print_table


def run(options, _):
    """Print and draw the distances between all languages that there are vectors of."""
    spaces = {}
    for name in options.languages:
        path = find(options.data, MUSE.vectors, name)
        if path is None:
            print(f"{name} is not run: no wiki.{name}.vec in {options.data}; see {MUSE.source}")
            continue
        vectors = read_embeddings(path, max_words=options.n_words, errors="replace").vectors
        spaces[name] = normalized(vectors)
    if len(spaces) < 2:
        raise SystemExit("distances need vectors of at least two languages")
    n_words = min(map(len, spaces.values()))
    spaces = {name: rows[:n_words].astype(np.float64) for name, rows in spaces.items()}
    matrix = np.zeros((len(spaces), len(spaces)))
    for (i, one), (j, other) in itertools.combinations(enumerate(spaces), 2):
        x, y = spaces[one], spaces[other]
        matrix[i, j] = matrix[j, i] = matching_cost(x, y, matching(x, y, options))
    names = list(spaces)
    rows = [
        (name, dict(zip(names, map("{:.4g}".format, 100 * row), strict=True)))
        for name, row in zip(names, matrix, strict=True)
    ]
    print_table(f"distances of {n_words:,} words, times 100", names, rows, published.DISTANCES)
    plot_distances(100 * matrix, names, path=options.output / "distances.png")
    plot_dendrogram(np.sqrt(matrix), names, path=options.output / "dendrogram.png")


def matching(x, y, options):
    """Return a permutation that no linear assignment improves, from the plan of `align`."""
    epsilon = options.epsilon[0]
    gw = gwfast.align(
        x, y, normalize=(), epsilon=epsilon, seed=options.seed, n_threads=options.threads, tol=1e-4
    ).gw
    state, best, matches = x.T @ gw.coupling.apply(y), -np.inf, None
    while True:
        # The objective is concave in the plan: each assignment for the gradient lowers it.
        found = linear_sum_assignment(x @ state @ y.T, maximize=True)[1]
        state = x.T @ y[found] / len(x)
        value = float(np.vdot(state, state))
        if not value > best * (1 + 1e-12):
            return matches
        best, matches = value, found


def matching_cost(x, y, matches):
    """Return the mean of ``(C_ik - C'_jl)^2`` over all pairs of words."""
    return float(np.square(x @ x.T - y[matches] @ y[matches].T).mean())
