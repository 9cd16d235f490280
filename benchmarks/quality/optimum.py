"""Which optimum is found, and what it is worth: ``python -m benchmarks.optimum TABLE``.

Tables: ``starts`` (gw_cost and accuracy of every start, and of the search), ``epsilon``
(accuracy over epsilon), ``seeds`` (ten seeds of the search; rows permuted, x rotated,
and x and y swapped), ``search`` (its time
against one solve from the winning start), ``pot`` (the search against 50 random starts
in POT). Data that are not there are left out. Times are single runs.
"""

import argparse
import time
import warnings

import numpy as np

import gwfast
from gwfast import words

from ..common import pairs
from ..common.markdown import show

WORDS = (
    ("es-en", 2000), ("zh-en", 3000), ("es-fr", 2000), ("en-fr", 3000), ("en-es", 2000),
)  # fmt: skip
# Where single starts fail.
HARD_WORDS = (("zh-en", 1500),)
GRAPHS = (("scGEM", 5), ("scGEM", 10), ("scGEM", 30), ("scGEM", 50))
LARGE_GRAPHS = (("PBMC", 20),)
SHARES = (0.05, 0.04, 0.03, 0.025, 0.02, 0.0175, 0.015, 0.0125, 0.01, 0.0075, 0.005)
N_RANDOM, N_SEEDS, N_POT = 10, 10, 50


class Words:
    """A language pair; accuracy is P@1 of the plan and of CSLS over all words."""

    scores = "P@1 plan", "P@1 CSLS"

    def __init__(self, name, n):
        self.x, self.y, dictionary = pairs.language_pair(name)
        self.name, self.n_words = f"{name}, {n} words", n
        self.taking_part = dictionary, self.x.words[:n], self.y.words[:n]
        # The rarest words are hardly in the dictionaries, and not what is asked for.
        self.all = dictionary, self.x.words[:5000], self.y.words

    def solve(self, **options):
        result = gwfast.align(self.x.vectors, self.y.vectors, n_words=self.n_words, **options)
        found = []
        for lists, method in ((self.taking_part, "coupling"), (self.all, "csls")):
            best = result.translate(range(len(lists[1])), method=method, k=1).indices
            found.append(words.precision_at_k(best, *lists, ks=(1,)).at[1])
        return result.gw, found

    def turned(self, rng):
        """Objective with the words that take part in another order, and x rotated."""
        x, y = self.x.vectors.copy(), self.y.vectors.copy()
        for side in (x, y):
            side[: self.n_words] = rng.permutation(side[: self.n_words])
        x = x @ np.linalg.qr(rng.standard_normal((x.shape[1], x.shape[1])))[0]
        return gwfast.align(x, y, n_words=self.n_words).gw.gw_cost

    def swapped(self):
        vectors = self.y.vectors, self.x.vectors
        return gwfast.align(*vectors, n_words=self.n_words).gw.gw_cost


class Graphs:
    """Graphs over cells; accuracy is the share matched to a cell of their type."""

    scores = "same type", ""

    def __init__(self, name, k):
        x, y, self.types_x, self.types_y = pairs.cells(name)
        self.costs = pairs.hops(x, k), pairs.hops(y, k)
        self.name = f"{name}, {k} neighbors"

    def solve(self, **options):
        gw = gwfast.gromov_wasserstein(*self.costs, **options)
        hit = self.types_x == self.types_y[gw.plan.argmax(axis=1)]
        return gw, [hit.mean(), np.nan]

    def turned(self, rng):
        """Objective with the cells in another order."""
        orders = (rng.permutation(len(cost)) for cost in self.costs)
        costs = (cost[np.ix_(order, order)] for cost, order in zip(self.costs, orders, strict=True))
        return gwfast.gromov_wasserstein(*costs).gw_cost

    def swapped(self):
        return gwfast.gromov_wasserstein(*self.costs[::-1]).gw_cost


def cases(language_pairs=WORDS, graphs=GRAPHS):
    """All that the data allow, each when it is its turn."""
    made = [(Words, *one) for one in language_pairs]
    made += [(Graphs, *one) for one in graphs]
    for kind, *arguments in made:
        try:
            yield kind(*arguments)
        except FileNotFoundError as error:
            print(f"(left out: {error.filename or error})")


def row(label, gw, found, seconds=None):
    scores = [f"{score:.3f}" if np.isfinite(score) else "" for score in found]
    seconds = gw.seconds if seconds is None else seconds
    return [
        label, f"{gw.gw_cost:.5g}", *scores, gw.status, gw.n_iter, f"{seconds:.2f}"
    ]  # fmt: skip


def starts_table():
    for case in cases(WORDS + HARD_WORDS, GRAPHS + LARGE_GRAPHS):
        starts = {"product": "product", "profile 0.02": "profile"}
        rows = [row(name, *case.solve(init=start)) for name, start in starts.items()]
        random = [case.solve(init="random", seed=seed) for seed in range(N_RANDOM)]
        random.sort(key=lambda pair: pair[0].gw_cost)
        rows.append(row(f"random, best of {N_RANDOM}", *random[0]))
        rows.append(row(f"random, worst of {N_RANDOM}", *random[-1]))
        gw, found = case.solve()
        won = next(one.start for one in gw.candidates if one.fate in ("won", "tie"))
        rows.append(row(f"**auto** ({won})", gw, found))
        heads = ["start", "gw_cost", *case.scores, "status", "outer", "seconds"]
        show(f"{case.name}, epsilon {gw.epsilon:.3g}", heads, rows)


def epsilon_table():
    rows, names = {share: [f"{100 * share:g} %"] for share in SHARES}, []
    for case in cases():
        names.append(case.name)
        for share in SHARES:
            _, found = case.solve(
                epsilon=gwfast.Epsilon(relative=share),
                tol=1e-4,
                options=gwfast.SolverOptions(marginal_tol=1e-3),
            )
            scores = [f"{score:.3f}" for score in found if np.isfinite(score)]
            rows[share].append(" / ".join(scores))
    show("accuracy over relative epsilon", ["epsilon", *names], rows.values())


def seeds_table():
    rows = []
    for case in cases():
        made = [case.solve(seed=seed) for seed in range(N_SEEDS)]
        costs = np.array([gw.gw_cost for gw, _ in made])
        rng = np.random.default_rng(0)
        turned = np.array([case.turned(rng) for _ in range(3)] + [case.swapped()])
        scores = [found[0] for _, found in made]
        rows.append(
            [
                case.name,
                f"{costs.min():.5g}",
                f"{100 * (costs.max() / costs.min() - 1):.3f} %",
                f"{100 * np.abs(turned / costs.min() - 1).max():.3f} %",
                f"{min(scores):.3f} to {max(scores):.3f}",
            ]
        )
    show(
        f"{N_SEEDS} seeds of the search",
        ["data", "least gw_cost", "spread", "turned and swapped", "accuracy"],
        rows,
    )


def search_table(n_words=5000):
    rows = []
    for name in ("es-en", "es-fr"):
        case = Words(name, n_words)
        found, alone = [], []
        for _ in range(3):
            gw, score = case.solve()
            found.append(gw.seconds)
            won = next(one for one in gw.candidates if one.fate == "won")
            start = {"product": "product", "random 0": "random"}.get(won.start, "profile")
            one, _ = case.solve(init=start)
            alone.append(one.seconds)
        ratio = np.median(found) / np.median(alone)
        rows.append(
            [
                case.name,
                f"{np.median(found):.2f}",
                f"{np.median(alone):.2f} ({won.start})",
                f"{ratio:.2f}",
                f"{gw.gw_cost:.5g} / {one.gw_cost:.5g}",
                f"{score[0]:.3f}",
            ]
        )
    show(
        "time of the search, medians of 3",
        ["data", "search", "one solve", "ratio", "gw_cost", "P@1 plan"],
        rows,
    )


def pot_table():
    import ot

    rows = []
    for case in (Graphs(*one) for one in GRAPHS):
        cost_x, cost_y = case.costs
        n, m = len(cost_x), len(cost_y)
        p, q = np.full(n, 1 / n), np.full(m, 1 / m)
        gw, _ = case.solve()
        began, costs = time.perf_counter(), []
        for seed in range(N_POT):
            start = np.random.default_rng(seed).random((n, m))
            start = ot.sinkhorn(p, q, -np.log(start), 1.0)
            plan = ot.gromov.entropic_gromov_wasserstein(
                cost_x, cost_y, p, q, "square_loss",
                epsilon=2 * gw.epsilon, G0=start, max_iter=200, tol=1e-7,
            )  # fmt: skip
            if abs(plan.sum() - 1) < 1e-3:
                costs.append(objective(plan, cost_x, cost_y))
        seconds = time.perf_counter() - began
        ours = objective(gw.plan.astype(np.float64), cost_x, cost_y)
        rows.append(
            [
                case.name,
                f"{gw.epsilon:.3g}",
                f"{ours:.6g}",
                f"{gw.seconds:.2f}",
                f"{min(costs, default=np.nan):.6g}",
                f"{np.median(costs) if costs else np.nan:.6g}",
                f"{len(costs)} of {N_POT}",
                f"{seconds:.1f}",
            ]
        )
    heads = ["data", "epsilon", "gw_cost", "seconds", "POT: best", "median"]
    heads += ["plans of mass 1", "seconds"]
    show(f"the search against {N_POT} random starts in POT", heads, rows)


def objective(plan, cost_x, cost_y):
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    own = rows @ cost_x**2 @ rows + cols @ cost_y**2 @ cols
    return float(own - 2 * np.vdot(cost_x @ plan @ cost_y, plan))


TABLES = {
    "starts": starts_table,
    "epsilon": epsilon_table,
    "seeds": seeds_table,
    "search": search_table,
    "pot": pot_table,
}


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.optimum", description=__doc__)
    parser.add_argument("tables", nargs="+", choices=TABLES)
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # statuses are in the tables
    for name in options.tables:
        TABLES[name]()


if __name__ == "__main__":
    main()
