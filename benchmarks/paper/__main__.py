"""Experiments of Alvarez-Melis and Jaakkola, Gromov-Wasserstein Alignment of Word Embedding Spaces
(EMNLP 2018), on data that you have: ``python -m benchmarks.paper table1 --data DIR``.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

import gwfast
from gwfast.plot import plot_dendrogram, plot_distances, plot_dynamics
from gwfast.words import precision_at_k, read_embeddings

from ..common.data import translations
from ..common.runner import OPTIONS
from . import published
from .files import DINU, MUSE, find, normalized, percent, print_table, read


def tables(options):
    """Print how many words are translated right, beside the paper's numbers."""
    first = options.experiment == "table1"
    layout, paper = (MUSE, published.TABLE1) if first else (DINU, published.TABLE2)
    names = published.TABLE1_DIRECTIONS if first else published.TABLE2_DIRECTIONS
    scales = options.scale_costs or (["none"] if first else ["none", "mean", "median", "max"])
    accuracy, minutes, here = {}, {}, {}
    for label, (shares, times) in paper.items():
        accuracy[f"{label} (paper)"] = dict(zip(names, shares.split(), strict=True))
        times = {"mean": times} if first else dict(zip(names, times.split(), strict=True))
        minutes[f"{label} (paper)"] = times
    for direction in options.pairs or names:
        data = read(options, layout, direction)
        if data is None:
            continue
        if first and (train := read(options, layout, direction, "train")):
            here.setdefault("Procrustes", {})[direction] = supervised(*data, train[2], options)
        for epsilon, scale in itertools.product(options.epsilon, scales):
            label = f"GW {epsilon}" + (f" / {scale}" if scale != "none" else "")
            here.setdefault(label, {})[direction] = aligned(*data, epsilon, scale, options)
    for label, by_direction in here.items():
        methods = dict.fromkeys(m for shares, _ in by_direction.values() for m in shares)
        for method in methods:
            accuracy[f"{label}: {method}"] = {
                name: percent(shares.get(method)) for name, (shares, _) in by_direction.items()
            }
        times = {name: seconds / 60 for name, (_, seconds) in by_direction.items()}
        minutes[label] = {name: f"{t:.2f}" for name, t in times.items()}
        minutes[label]["mean"] = f"{np.mean([*times.values()]):.2f}"
    columns = [*dict.fromkeys([*names, *(options.pairs or ())])]
    print_table(f"{options.experiment}: P@1 in percent", columns, accuracy.items())
    print_table("minutes", [*columns, "mean"], minutes.items())


def supervised(x, y, test, train, options):
    """Return P@1 of Procrustes on the training dictionary by method, and seconds."""
    known = translations(train, x.words, y.words).items()
    rows, columns = np.array([(row, column) for row, right in known for column in right]).T
    began = time.perf_counter()
    source, target = (normalized(side.vectors) for side in (x, y))
    mapping = gwfast.procrustes(source[rows], target[columns])
    seconds, lists, shares = time.perf_counter() - began, (test, x.words, y.words), {}
    for method in ("nn", "csls"):
        best = gwfast.nearest_neighbors(source @ mapping, target, method=method, k=1).indices
        score = precision_at_k(best, *lists, ks=(1,), convention=options.convention)
        shares[method] = score.at[1]
    return shares, seconds


def aligned(x, y, test, epsilon, scale, options):
    """Return P@1 of a Gromov-Wasserstein alignment by method, and seconds."""
    steps = ("unit", "center", "unit") + (() if scale == "none" else (scale,))
    how = dict(epsilon=epsilon, seed=options.seed, n_threads=options.threads)
    result = gwfast.align(x, y, n_words=options.n_words, normalize=steps, **how)
    rules = {"ks": (1,), "convention": options.convention}
    found = result.evaluate(test, methods=("plan", "nn", "csls"), **rules)
    shares = {method: score.at[1] for method, score in found.items()}
    refined = result.refine(options.refine)
    found = refined.evaluate(test, methods=("csls",), **rules)
    return shares | {"refined": found["csls"].at[1]}, refined.seconds


def dynamics(options):
    """Print and draw objective and accuracy after every outer iteration."""
    for direction in options.pairs or ("en-fr", "en-ru"):
        # The training fold has frequent words, which take part in the transport.
        data = read(options, MUSE, direction, "train", options.n_words)
        if data is None:
            continue
        x, y, dictionary = data
        right = translations(dictionary, x.words, y.words)
        histories, accuracies, rows = {}, {}, {}
        for epsilon in options.epsilon:
            label = f"epsilon {epsilon}"
            shares = accuracies[label] = []

            def score(step, shares=shares, right=right):
                best = step.coupling.topk(1, list(right)).indices[:, 0].tolist()
                hits = sum(at in right[row] for row, at in zip(right, best, strict=True))
                shares.append(hits / len(right))

            how = dict(epsilon=epsilon, init="profile", seed=options.seed, callback=score)
            result = gwfast.align(x.vectors, y.vectors, n_threads=options.threads, **how)
            histories[label] = result.gw.history
            for step, share in zip(histories[label], shares, strict=True):
                text = f"{step.gw_cost:.5f} {percent(share):>5}"
                rows.setdefault(str(step.iteration), {})[label] = text
        title = f"{direction}: gw_cost, and P@1 of the plan in percent"
        print_table(title, list(histories), rows.items())
        path = options.output / f"dynamics-{direction}.png"
        plot_dynamics(histories, accuracy_history=accuracies, path=path)
    print(published.DYNAMICS)


def distances(options):
    """Print and draw distances between languages, by one-to-one matchings of frequent words."""
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
    sides = [rows[:n_words].astype(np.float64) for rows in spaces.values()]
    matrix = np.zeros((len(spaces), len(spaces)))
    for i, j in itertools.combinations(range(len(sides)), 2):
        x, y = sides[i], sides[j][matching(sides[i], sides[j], options)]
        # The mean of ``(C_ik - C'_jl)^2`` over all pairs of words.
        matrix[i, j] = matrix[j, i] = np.square(x @ x.T - y @ y.T).mean()
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
    how = dict(epsilon=options.epsilon[0], seed=options.seed, n_threads=options.threads, tol=1e-4)
    plan = gwfast.align(x, y, normalize=(), **how).gw.coupling
    state, best, matches = x.T @ plan.apply(y), -np.inf, None
    while True:
        # The objective is concave in the plan: each assignment for the gradient lowers it.
        found = linear_sum_assignment(x @ state @ y.T, maximize=True)[1]
        state = x.T @ y[found] / len(x)
        value = float(np.vdot(state, state))
        if not value > best * (1 + 1e-12):
            return matches
        best, matches = value, found


RUNS = {"table1": tables, "table2": tables, "dynamics": dynamics, "distances": distances}
N_WORDS = {"dynamics": 15_000, "distances": 2000}


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    add = parser.add_argument
    add("experiment", choices=RUNS)
    text = "MUSE's or vecmap's files"
    add("--data", type=Path, required=True, metavar="DIR", help=text)
    add("--pairs", nargs="*", metavar="XX-YY", help="directions; default: the paper's")
    add("--languages", nargs="*", default="en es fr de it ru zh".split())
    add("--epsilon", nargs="*", default=["auto"], help='numbers, "2%%" or "auto"')
    add("--scale-costs", nargs="*", choices=["none", "mean", "median", "max"])
    add("--n-words", type=int, help="words a side in the transport")
    add("--max-vocab", type=int, default=200_000)
    add("--convention", choices=["muse", "vecmap", "gwfast"])
    add("--refine", type=int, default=10, help="rounds of refinement")
    add("--output", type=Path, default=Path(), help="folder of the pictures")
    add("--seed", type=int, default=0)
    add("--threads", **OPTIONS["threads"])
    options = parser.parse_args(argv)
    usual = "vecmap" if options.experiment == "table2" else "muse"
    options.convention = options.convention or usual
    options.n_words = options.n_words or N_WORDS.get(options.experiment, 20_000)
    RUNS[options.experiment](options)


if __name__ == "__main__":
    main()
