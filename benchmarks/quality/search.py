"""Whether the search finds what known matches lead to: ``python -m benchmarks.search TABLE``.

Tables: ``copies`` (50 graphs of 10 to 60 nodes against themselves in another order,
under every marginal rule and two epsilons), ``languages`` (all ten pairs of the five
languages of UBiLexAT, from 300 known pairs, too; ``--sizes`` are words a side),
``ladders`` (problems that get harder, see ladders.py; ``--random 0`` leaves out its
random starts, ``--only digits`` all ladders but those whose names have this),
``families`` (nearly 500 problems with known matches, by family, see families/; ``--json
FILE`` keeps what every solve saw, and goes on from there, ``--limit`` stops early),
``missed`` (what a minute each finds of what the default missed, of all or ``--limit``,
from what ``families --json FILE`` has written),
``confidence`` (how well the results' confidence is calibrated, from the same file;
``--picture FILE`` draws it),
``price`` (CPU seconds of the default search over the CPU seconds of one solve from the
product plan, for problems of the ablation of 500 to 2000 points),
``pairs`` (accuracy from 0 to 500 known pairs, beside Procrustes on these).
All choices are by the objective alone; times are single runs.
"""

import argparse
import itertools
import sys
import time
import warnings

import numpy as np
from scipy.sparse import csgraph

import gwfast
from gwfast.results.status import Ending

from ..common import pairs
from ..common.markdown import show
from .confidence import confidence_table
from .families.collect import families_table, missed_table
from .known_pairs import known_pairs_table
from .ladders import ladders_table
from .price import price_table

N_GRAPHS, SIZES = 50, (10, 61)
RULES = {
    "balanced": {},
    "semi-relaxed": dict(marginals="semirelaxed"),
    "partial, 70 %": dict(marginals=gwfast.Partial(0.7), max_iter=100),
    "unbalanced, rho 3": dict(marginals=gwfast.Unbalanced(3.0)),
    "balanced, exact": dict(epsilon=0),
}
SHARES = (0.0175, 0.005)
# An objective within this of that from the known match, or so small beside that of the
# product plan, is as good.
NEAR, NOTHING = 1e-3, 1e-6
# The hard one first.
PAIRS = (
    "it-ja", "es-en", "zh-en", "it-en", "ja-en", "ja-es", "it-zh", "ja-zh", "zh-es",
    "it-es",
)  # fmt: skip
N_WORDS, N_KNOWN = [3000], 300


def copies_table():
    rows = []
    for (name, rule), share in itertools.product(RULES.items(), SHARES):
        if "epsilon" in rule and share != SHARES[0]:
            continue
        rows.append(_copies_row(name, share, rule))
    titles = (
        "marginals", "epsilon", "found by default", "from product", "s, mean", "most"
    )  # fmt: skip
    show(f"{N_GRAPHS} graphs and their copies", titles, rows)


def _copies_row(name, share, rule):
    found, alone, seconds = 0, 0, []
    options = {"epsilon": gwfast.Epsilon(relative=share), **rule}
    for seed in range(N_GRAPHS):
        rng = np.random.default_rng(seed)
        cost = _graph(rng, int(rng.integers(*SIZES)))
        n = len(cost)
        order = rng.permutation(n)
        costs, match = (cost, cost[np.ix_(order, order)]), np.zeros((n, n))
        match[order, np.arange(n)] = getattr(rule.get("marginals"), "mass", 1.0) / n
        began = time.perf_counter()
        result = gwfast.gromov_wasserstein(*costs, **options)
        seconds.append(time.perf_counter() - began)
        product, known = (
            gwfast.gromov_wasserstein(*costs, init=init, **options) for init in ("product", match)
        )
        least = known.gw_cost * (1 + NEAR) + NOTHING * float(np.square(cost).mean())
        found += result.gw_cost <= least or result.ending is Ending.TIE
        alone += product.gw_cost <= least
    epsilon = "0" if "epsilon" in rule else f"{100 * share:g} %"
    times = f"{np.mean(seconds):.2f}", f"{max(seconds):.2f}"
    return name, epsilon, str(found), str(alone), *times


def _graph(rng, n):
    """Steps between the nodes of a random graph, a tree, a chain with rings and
    branches, or of nearest neighbors in the plane.
    """
    linked, kind = np.zeros((n, n)), rng.integers(4)
    if kind == 3:
        points = rng.random((n, 2))
        near = np.argsort(np.linalg.norm(points[:, None] - points, axis=2), axis=1)
        np.put_along_axis(linked, near[:, 1:4], 1, axis=1)
    else:
        reach = 3 if kind == 2 else n
        for node in range(1, n):
            linked[node, rng.integers(max(node - reach, 0), node)] = 1
        if kind == 0:
            ends = rng.integers(n, size=(n, 2))
            linked[ends[:, 0], ends[:, 1]] = 1
        if kind == 2:
            rings = np.arange(6, n, 7)
            linked[rings, rings - 5] = 1
    np.fill_diagonal(linked, 0)
    steps = csgraph.shortest_path(linked, directed=False, unweighted=True)
    steps[np.isinf(steps)] = steps[np.isfinite(steps)].max() + 1
    return steps


def languages_table(sizes=N_WORDS):
    rows = []
    for n_words, pair in itertools.product(sizes, PAIRS):
        names = pair.split("-")
        try:
            x, y = map(pairs.embeddings, names)
            dictionary = pairs.dictionary(*names)
        except FileNotFoundError:
            continue
        for row in _language_rows(pair, x, y, dictionary, n_words):
            print(*row, file=sys.stderr, flush=True)
            rows.append(row)
    titles = (
        "words", "pair", "start", "gw_cost", "status", "confidence", "P@1 CSLS", "s",
        "CPU s", "won",
    )  # fmt: skip
    show("ten pairs, 5 rounds of refinement", titles, rows)


def _language_rows(name, x, y, dictionary, n_words):
    known = pairs.known_pairs(dictionary, x.words[:n_words], y.words[:n_words], N_KNOWN)
    for label, options in (
        ("auto", {}),
        (f"{len(known)} known pairs", dict(init=gwfast.Seeds(known))),
    ):
        clocks = time.perf_counter, time.process_time
        began = [clock() for clock in clocks]
        result = gwfast.align(x, y, n_words=n_words, refine=5, **options)
        seconds = [f"{clock() - t:.1f}" for clock, t in zip(clocks, began, strict=True)]
        score = result.evaluate(dictionary, methods=("csls",))
        won = [row.start for row in result.gw.candidates if row.fate == "won"]
        chance = f"{result.gw.confidence:.2f}"
        facts = f"{result.gw.gw_cost:.6f}", str(result.gw.status), chance
        precision = f"{score['csls'].at[1]:.3f}"
        shown = label, *facts, precision, *seconds, " ".join(won[-1:])
        yield str(n_words), name, *shown


TABLES = {
    "copies": copies_table,
    "languages": languages_table,
    "ladders": ladders_table,
    "families": families_table,
    "missed": missed_table,
    "confidence": confidence_table,
    "price": price_table,
    "pairs": known_pairs_table,
}


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.search", description=__doc__)
    parser.add_argument("tables", nargs="*", help=", ".join(TABLES))
    for name, kind, of in (
        ("--random", int, "ladders"),
        ("--only", str, "ladders`, `families` and `price"),
        ("--json", str, "families`, `missed` and `confidence"),
        ("--picture", str, "confidence"),
        ("--limit", int, "families` and `missed"),
    ):
        parser.add_argument(name, type=kind, help=f"of `{of}`")
    text = "of `languages`: words a side"
    parser.add_argument("--sizes", type=int, nargs="+", default=N_WORDS, help=text)
    parser.set_defaults(random=50, only="")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
    for name in options.tables or TABLES:
        if name not in TABLES:
            parser.error(f"TABLE must be one of {', '.join(TABLES)}, got {name}")
        given = {
            "ladders": (options.random, options.only),
            "languages": (options.sizes,),
            "families": (options.only, options.json, options.limit),
            "missed": (options.json, options.limit),
            "confidence": (options.json, options.picture),
            "price": (options.only,),
        }
        TABLES[name](*given.get(name, ()))


if __name__ == "__main__":
    main()
