"""Tables 1 and 2: how many words are translated right."""

import itertools
import time

import numpy as np

import gwfast
from gwfast.words import precision_at_k

from ..common.pairs import translations
from . import published
from .files import DINU, MUSE, normalized, percent, print_table, read


def run(options, table):
    """Print one of both tables beside the paper's."""
    first = table == "table1"
    layout, paper = (MUSE, published.TABLE1) if first else (DINU, published.TABLE2)
    names = published.TABLE1_DIRECTIONS if first else published.TABLE2_DIRECTIONS
    scales = options.scale_costs or (["none"] if first else ["none", "mean", "median", "max"])
    accuracy, minutes = {}, {}
    for label, (shares, times) in paper.items():
        accuracy[f"{label} (paper)"] = dict(zip(names, shares.split(), strict=True))
        times = {"mean": times} if first else dict(zip(names, times.split(), strict=True))
        minutes[f"{label} (paper)"] = times
    here = {}
    for direction in options.pairs or names:
        if first and (data := read(options.data, layout, direction, options, "train")):
            _keep(here, direction, "Procrustes", supervised(*data, layout, direction, options))
        data = read(options.data, layout, direction, options)
        for epsilon, scale in itertools.product(options.epsilon, scales if data else ()):
            label = f"GW {epsilon}" + (f" / {scale}" if scale != "none" else "")
            _keep(here, direction, label, aligned(*data, epsilon, scale, options))
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
    print_table(f"{table}: P@1 in percent", columns, accuracy.items())
    print_table("minutes", [*columns, "mean"], minutes.items())


def _keep(here, direction, label, found):
    if found is not None:
        here.setdefault(label, {})[direction] = found


def supervised(x, y, train, layout, direction, options):
    """Return P@1 of Procrustes on the training dictionary by method, and seconds."""
    data = read(options.data, layout, direction, options)
    if data is None:
        return None
    known = translations(train, x.words, y.words).items()
    rows, columns = np.array([(row, column) for row, right in known for column in right]).T
    began = time.perf_counter()
    source, target = (normalized(side.vectors) for side in (x, y))
    mapping = gwfast.procrustes(source[rows], target[columns])
    seconds = time.perf_counter() - began
    lists = data[2], x.words, y.words
    shares = {}
    for method in ("nn", "csls"):
        best = gwfast.nearest_neighbors(source @ mapping, target, method=method, k=1).indices
        score = precision_at_k(best, *lists, ks=(1,), convention=options.convention)
        shares[method] = score.at[1]
    return shares, seconds


def aligned(x, y, test, epsilon, scale, options):
    """Return P@1 of a Gromov-Wasserstein alignment by method, and seconds."""
    result = gwfast.align(
        x,
        y,
        n_words=options.n_words,
        normalize=("unit", "center", "unit")
        if scale == "none"
        else ("unit", "center", "unit", scale),
        epsilon=epsilon,
        seed=options.seed,
        n_threads=options.threads,
    )
    rules = {"ks": (1,), "convention": options.convention}
    found = result.evaluate(test, methods=("coupling", "nn", "csls"), **rules)
    shares = {method: score.at[1] for method, score in found.items()}
    refined = result.refine(options.rounds)
    found = refined.evaluate(test, methods=("csls",), **rules)
    return shares | {"refined": found["csls"].at[1]}, refined.seconds
