"""What cells are best compared by: ``python -m benchmarks.cells [PAIR ...]``.

Pairs of data sets, most of them simulated, so that which cells belong together is known; each way
to compare their cells leads to a plan of `gwfast.singlecell.align`. Told are FOSCTTM (0 is best,
0.5 chance) and the share of types that are transferred rightly, on the mean of several draws of
the same kind; single draws end in another optimum now and then. It takes two to three minutes.
Real data that are not there are left out.
"""

import argparse
import functools
import sys
import warnings

import numpy as np

from gwfast.singlecell import align, principal_components

from ..common import pairs
from ..common.markdown import show

N_DRAWS, N_CELLS, N_NEIGHBORS = 3, 150, 20


def drawn_places(rng):
    """Cells on a path that forks, with a little that is not of it, and their types."""
    along, left = rng.random(N_CELLS), rng.random(N_CELLS) < 0.4
    past = np.maximum(along - 0.5, 0)
    path = [np.where(left, -0.7, 1.3) * past, along - 0.3 * past]
    rest = 0.05 * rng.standard_normal((6, N_CELLS))
    grown = np.where(left, 2, 3)
    types = np.where(along < 0.25, 0, np.where(along < 0.55, 1, grown))
    return 3 * np.vstack([path, rest]).T, types


def drawn_clusters(rng):
    """Cells of five types in eight dimensions, some of each far from its middle."""
    types = rng.choice(5, N_CELLS, p=[0.35, 0.25, 0.2, 0.12, 0.08])
    middles = rng.standard_normal((5, 8))
    return middles[types] + 0.5 * rng.standard_normal((N_CELLS, 8)), types


def features(rng, places, n_columns, noise=0.05):
    """Smooth functions of the places, by a net of random weights."""
    weights = rng.standard_normal((places.shape[1], 32)) / np.sqrt(places.shape[1])
    hidden = np.tanh(places @ weights + rng.standard_normal(32) / 2)
    made = hidden @ rng.standard_normal((32, n_columns)) / np.sqrt(32)
    return made + noise * made.std() * rng.standard_normal(made.shape)


def shares(rng, places, n_columns):
    """Shares of topics, which sum to one in each cell."""
    made = np.exp(2 * features(rng, places, n_columns))
    return made / made.sum(axis=1, keepdims=True)


def components(rng, places, n_columns):
    """Principal components of many noisy columns: data that was reduced before."""
    return principal_components(features(rng, places, 200, noise=0.5), n_columns)


def counts(rng, places, n_columns):
    """Counts, of cells that were read more or less deeply."""
    made = shares(rng, places, n_columns) * rng.lognormal(8.0, 0.5, (N_CELLS, 1))
    return rng.poisson(made).astype(float)


def log_counts(rng, places, n_columns):
    return log_normalized(counts(rng, places, n_columns))


def log_normalized(table):
    return np.log1p(1e4 * table / table.sum(axis=1, keepdims=True))


def unit_rows(rng, places, n_columns):
    made = features(rng, places, n_columns)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def of_any_length(make, rng, places, n_columns):
    """Rows by factors that mean nothing."""
    made = make(rng, places, n_columns)
    return made * rng.lognormal(0.0, 0.7, (N_CELLS, 1))


def simulated(places, *sides):
    """Two tables and the types of their rows, which are the same cells; `sides` are
    pairs of what makes a table, and how many columns.
    """

    def draw(rng):
        found, types = places(rng)
        tables = [make(rng, found, n_columns) for make, n_columns in sides]
        return *tables, types, types

    return draw


def scgem(rng):
    tables = pairs.cells("scGEM")
    rows = rng.permutation(len(tables[0]))[:N_CELLS]
    return tuple(table[rows] for table in tables)


def pbmc(rng):
    """Different cells on both sides."""
    x, y, *types = pairs.cells("PBMC")
    rows, others = (rng.permutation(len(z))[:N_CELLS] for z in (x, y))
    return x[rows], y[others], types[0][rows], types[1][others]


def tissue(rng):
    """Two halves of the genes of the same spots, without types."""
    table = np.load(pairs.FOLDER / "tissue" / "slice1.npz")["counts"].astype(float)
    genes = rng.permutation(table.shape[1])
    rows = rng.permutation(len(table))[:N_CELLS]
    halves = np.array_split(log_normalized(table)[rows][:, genes], 2, axis=1)
    return *halves, None, None


TOPICS = (shares, 19), (components, 10)
SCALED = [(functools.partial(of_any_length, make), n) for make, n in TOPICS]
FEW = (features, 19), (features, 10)
PAIRS = {
    "scGEM": scgem,
    "PBMC": pbmc,
    "features, path": simulated(drawn_places, *FEW),
    "features, types": simulated(drawn_clusters, *FEW),
    "unit rows, path": simulated(drawn_places, (unit_rows, 19), (unit_rows, 10)),
    "topics, path": simulated(drawn_places, *TOPICS),
    "topics, types": simulated(drawn_clusters, *TOPICS),
    "topics of any length, path": simulated(drawn_places, *SCALED),
    "topics of any length, types": simulated(drawn_clusters, *SCALED),
    "components, path": simulated(drawn_places, (components, 20), (components, 15)),
    "features, 60 and 45": simulated(drawn_places, (features, 60), (features, 45)),
    "log counts": simulated(drawn_places, (log_counts, 200), (log_counts, 1000)),
    "counts": simulated(drawn_places, (counts, 200), (counts, 1000)),
    "tissue, log counts": tissue,
}
# What is compared: tables as they are, or 30 components, by these metrics; and the
# default, which should be near the best of each row.
WAYS = {
    "default": {},
    "as is, cosine": {"n_components": None, "metric": "cosine"},
    "as is, correlation": {"n_components": None, "metric": "correlation"},
    "as is, euclidean": {"n_components": None, "metric": "euclidean"},
    "components, cosine": {"n_components": 30, "metric": "cosine"},
    "components, euclidean": {"n_components": 30, "metric": "euclidean"},
}


def measured(name):
    """The columns of both tables, and scores (ways, 2) on the mean of the draws:
    FOSCTTM and the share of right types, NaN where they are not known.
    """
    made, sizes = np.zeros((len(WAYS), 2)), ""
    for seed in range(N_DRAWS):
        x, y, types_x, types_y = PAIRS[name](np.random.default_rng(seed))
        sizes = f"{x.shape[1]}, {y.shape[1]}"
        for row, how in zip(made, WAYS.values(), strict=True):
            found = align(x, y, n_neighbors=N_NEIGHBORS, **how)
            right = np.nan
            if types_x is not None:
                right = (found.transfer_labels(types_y).labels == types_x).mean()
            row += np.nan if name == "PBMC" else found.foscttm(), right
    return sizes, made / N_DRAWS


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.cells", description=__doc__)
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help=", ".join(PAIRS))
    names = parser.parse_args(argv).pairs or list(PAIRS)
    rows, scores = [], []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                sizes, made = measured(name)
        except FileNotFoundError as error:
            print(f"{name} left out: no {error.filename}", file=sys.stderr)
            continue
        scores.append(made)
        rows.append([name, sizes, *map(_text, made)])
    if len(scores) > 1:
        rows.append(["mean", "", *map(_text, np.nanmean(scores, axis=0))])
    title = f"FOSCTTM / types right, {N_CELLS} cells, mean of {N_DRAWS} draws"
    show(title, ["pair", "columns", *WAYS], rows)


def _text(scores):
    return " / ".join("–" if np.isnan(one) else f"{one:.2f}" for one in scores)
