"""Optima of starts and searches, their accuracy, and the price of the search."""

import itertools
import statistics
import sys
import time

import numpy as np

import gwfast
from gwfast import words

from ..common import data, runner
from ..common.problems import PROBLEMS, parts

WORDS = ("es-en", 2000), ("zh-en", 3000), ("es-fr", 2000), ("en-fr", 3000), ("en-es", 2000)
# A single start fails here.
HARD_WORDS = (("zh-en", 1500),)
GRAPHS = ("scGEM", 5), ("scGEM", 10), ("scGEM", 30), ("scGEM", 50)
LARGE_GRAPHS = (("PBMC", 20),)
SHARES = (0.05, 0.04, 0.03, 0.025, 0.02, 0.0175, 0.015, 0.0125, 0.01, 0.0075, 0.005)
N_RANDOM = 10


class Words:
    """A pair of languages; accuracy is P@1 of the plan and of CSLS over all words."""

    scores = "P@1 plan", "P@1 CSLS"

    def __init__(self, name, n):
        self.x, self.y, dictionary = data.language_pair(name)
        self.name, self.n_words = f"{name}, {n} words", n
        # The rarest words are hardly in the dictionaries.
        self.lists = {
            "plan": (dictionary, self.x.words[:n], self.y.words[:n]),
            "csls": (dictionary, self.x.words[:5000], self.y.words),
        }

    def solve(self, **options):
        result = gwfast.align(self.x.vectors, self.y.vectors, n_words=self.n_words, **options)
        found = []
        for method, lists in self.lists.items():
            best = result.translate(range(len(lists[1])), method=method, k=1).indices
            found.append(f"{words.precision_at_k(best, *lists, ks=(1,)).at[1]:.3f}")
        return result.gw, found


class Graphs:
    """Graphs over cells; accuracy is the share matched to a cell of their type."""

    scores = ("same type",)

    def __init__(self, name, k):
        x, y, self.types_x, self.types_y = data.cells(name)
        self.costs = data.hops(x, k), data.hops(y, k)
        self.name = f"{name}, {k} neighbors"

    def solve(self, **options):
        gw = gwfast.gromov_wasserstein(*self.costs, **options)
        hit = self.types_x == self.types_y[gw.plan.argmax(axis=1)]
        return gw, [f"{hit.mean():.3f}"]


def cases(options, pairs=WORDS, graphs=GRAPHS):
    """Yield the problems with all of some words in their names that the data allow."""
    for kind, arguments in [*((Words, x) for x in pairs), *((Graphs, x) for x in graphs)]:
        if not all(word in f"{arguments}" for word in options.only):
            continue
        try:
            yield kind(*arguments)
        except FileNotFoundError as error:
            print(f"({arguments[0]} left out: {runner.reason(error)})")


def starts(options):
    """Print objective and accuracy of every start, and of ten seeds of the search."""
    for case in cases(options, WORDS + HARD_WORDS, GRAPHS + LARGE_GRAPHS):
        found = {start: case.solve(init=start) for start in ("product", "profile")}
        for label, start in ("random", "random"), ("**auto**", "auto"):
            solves = [case.solve(init=start, seed=seed) for seed in range(N_RANDOM)]
            solves.sort(key=lambda solve: solve[0].gw_cost)
            found[f"{label}, best of {N_RANDOM}"] = solves[0]
            found[f"{label}, worst of {N_RANDOM}"] = solves[-1]
        rows = [
            (label, f"{gw.gw_cost:.5g}", *scores, gw.status, gw.n_iter, f"{gw.seconds:.2f}")
            for label, (gw, scores) in found.items()
        ]
        heads = "start", "gw_cost", *case.scores, "status", "outer", "seconds"
        runner.show(f"{case.name}, epsilon {found['product'][0].epsilon:.3g}", heads, rows)


def epsilon(options):
    """Print accuracy over the relative epsilon."""
    rows, names = {share: [f"{100 * share:g} %"] for share in SHARES}, []
    for case in cases(options):
        names.append(case.name)
        for share in SHARES:
            how = dict(epsilon=gwfast.Epsilon(relative=share), tol=1e-4)
            _, found = case.solve(**how, options=gwfast.SolverOptions(marginal_tol=1e-3))
            rows[share].append(" / ".join(found))
    runner.show("accuracy over relative epsilon", ["epsilon", *names], rows.values())


LANGUAGES = "it-ja es-en zh-en it-en ja-en ja-es it-zh ja-zh zh-es it-es".split()


VARIATIONS = "all rows", "first 6000", "first 4500", "first 3000", "half 1", "half 2"


def varied(side, name, number):
    """Return some rows of `Embeddings`, in their order: the first, which changes the center, or a
    random half, which is another on each side.
    """
    kind, _, count = name.partition(" ")
    rows = np.arange(len(side))
    if kind == "first":
        rows = rows[: int(count)]
    elif kind == "half":
        rng = np.random.default_rng([int(count), number])
        rows = np.sort(rng.permutation(len(side))[: len(side) // 2])
    return words.Embeddings([side.words[row] for row in rows], side.vectors[rows])


def languages(options):
    """Print ten pairs of the languages of UBiLexAT in variations, from the search and 300 known
    pairs; a search has found the optimum if it ends at most .5 % above the lower end.
    """
    rows, ends = [], []
    cases = itertools.product(options.sizes or (3000,), VARIATIONS, LANGUAGES)
    for n_words, variation, pair in cases:
        if not all(word in f"{pair} {variation}" for word in options.only):
            continue
        names = pair.split("-")
        sides = [varied(data.embeddings(name), variation, k) for k, name in enumerate(names)]
        dictionary = data.dictionary(*names)
        known = data.known_pairs(dictionary, *(side.words[:n_words] for side in sides), 300)
        solved = []
        for start in ("auto", gwfast.Seeds(known)):
            began = time.process_time()
            result = gwfast.align(*sides, n_words=n_words, refine=5, init=start)
            seconds, gw = time.process_time() - began, result.gw
            solved.append(gw)
            precision = result.evaluate(dictionary, methods=("csls",))["csls"].at[1]
            label = "auto" if isinstance(start, str) else f"{len(known)} known pairs"
            row = [n_words, pair, variation, label, f"{gw.gw_cost:.6f}", gw.status]
            agree = " / ".join(f"{one.cosine:.3f}" for one in result.evidence)
            row += [f"{gw.confidence:.2f}", agree, f"{precision:.3f}", f"{seconds:.1f}"]
            rows.append(row)
            print(*row, file=sys.stderr, flush=True)
        least = min(gw.gw_cost for gw in solved)
        ends.append((solved[0].gw_cost <= 1.005 * least, solved[0].converged))
    heads = "words", "pair", "rows", "start", "gw_cost", "status", "confidence", "mutual cosine"
    heads = *heads, "P@1 CSLS", "CPU s"
    runner.show("ten pairs in variations, 5 rounds of refinement", heads, rows)
    found, wrong = sum(end[0] for end in ends), sum(end == (False, True) for end in ends)
    print(f'{found} of {len(ends)} found; {wrong} not found and "converged".\n')


# A pair, words that take part, words of each side, source words that are scored.
TRANSLATIONS = (
    ("es-en", 2000, None, None),
    ("zh-en", 2000, None, None),
    ("es-fr", 2000, 20_000, 5000),
    ("es-fr", 10_000, 10_000, 5000),
    ("en-fr", 3000, 20_000, 5000),
    ("en-es", 3000, 20_000, 5000),
)
METHODS = "plan", "barycentric", "nn", "csls", "inverted_softmax"


def translations(options):
    """Print P@1, unrefined and refined, beside Procrustes on half of the dictionary."""
    rows = []
    for name, n_words, n_vocabulary, n_scored in TRANSLATIONS:
        if not all(word in name for word in options.only):
            continue
        x, y, dictionary = data.language_pair(name)
        x, y = (
            words.Embeddings(side.words[:n_vocabulary], side.vectors[:n_vocabulary])
            for side in (x, y)
        )
        scored = set(x.words[:n_scored])
        dictionary = {word: dictionary[word] for word in dictionary if word in scored}
        plain = gwfast.align(x, y, n_words=n_words)
        ceiling = supervised(plain, data.translations(dictionary, x.words, y.words))
        title = f"{name}, {n_words:,} of {len(x):,} x {len(y):,} words"
        for label, result in (("none", plain), ("5 rounds", plain.refine(5))):
            found = result.evaluate(dictionary, methods=METHODS, ks=(1,))
            shares = [f"{score.at[1]:.3f}" for score in found.values()]
            queries = f"{found['plan'].n_queries:,} / {found['nn'].n_queries:,}"
            rows.append([title, label, *shares, queries, f"{ceiling:.3f}"])
    runner.show("P@1", ["data", "refinement", *METHODS, "queries", "supervised"], rows)


def supervised(result, translations):
    """Return P@1 of CSLS on half of the queries after Procrustes on the other half."""
    x, y = result.source.rows, result.target.rows
    known, asked = np.array_split(np.random.default_rng(0).permutation(list(translations)), 2)
    rows, columns = np.array([(row, target) for row in known for target in translations[row]]).T
    mapped = x @ gwfast.procrustes(x[rows], y[columns])
    found = gwfast.nearest_neighbors(mapped[asked], y, k=1, sources=mapped).indices[:, 0]
    return np.mean([best in translations[row] for row, best in zip(asked, found, strict=True)])


# Settings that say how a problem of the list is solved, which `price` leaves to the search.
HOW = {"dtype", "method", "marginals", "tier"}


def price(options):
    """Print CPU seconds of the default search over CPU seconds of a solve from the product plan,
    for the balanced problems of the list in float32, of 500 to 2000 points a side.
    """
    rows, ratios, seen = [], [], []
    low, high = options.sizes or (500, 2000)
    for name, spaces, epsilon, how in PROBLEMS:
        key = spaces, epsilon, how.get("loss"), how.get("alpha")
        if not {*options.only} <= {*name.split()} or not epsilon or HOW & {*how} or key in seen:
            continue
        seen.append(key)
        try:
            sides, terms, how = parts(name)
        except FileNotFoundError as error:
            print(f"({name} left out: {runner.reason(error)})")
            continue
        problem = gwfast.QuadraticProblem(*sides, **terms)
        if not low <= max(problem.shape) <= high:
            continue
        how = {**how, "n_threads": 1}
        alone, least = least_seconds(problem, options.rounds, **{**how, "init": "product"})
        result, seconds = least_seconds(problem, options.rounds, **{**how, "init": "auto"})
        ratios.append(seconds / least)
        gained = f"{100 * (1 - result.gw_cost / alone.gw_cost):.1f} %"
        times = f"{least:.2f}", f"{seconds:.2f}", f"{ratios[-1]:.1f}"
        rows.append((name.removesuffix(" product"), *times, gained, result.status))
        print(*rows[-1], file=sys.stderr, flush=True)
    heads = "problem", "product, s", "search, s", "ratio", "gained", "status"
    runner.show("the default search, in solves from the product plan", heads, rows)
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"Geometric mean of the ratios {mean:.2f}, worst {max(ratios):.1f}.\n")


def least_seconds(problem, rounds, **how):
    """Return a result, and the least CPU seconds of a few solves, of a solve that takes long."""
    seconds = []
    while not seconds or (len(seconds) < rounds and min(seconds) < 1):
        began = time.process_time()
        result = gwfast.gromov_wasserstein(problem, **how)
        seconds.append(time.process_time() - began)
    return result, min(seconds)
