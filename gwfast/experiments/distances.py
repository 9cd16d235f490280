"""The paper's figure of distances between languages."""

import functools
import itertools

import numpy as np

from ..plot import plot_dendrogram, plot_distances
from ..problems.epsilon import as_epsilon
from ..words.languages import Matching, assemble, in_order, match, prepare
from . import published
from .alignments import read
from .data import MUSE
from .runner import Experiment
from .show import print_columns
from .store import identity

# Of a `LanguagePair`, in results.json.
_PAIR_FIELDS = (
    "source", "target", "gw_cost", "plan_cost", "product_cost", "epsilon", "status",
    "via",
)  # fmt: skip


class Distances(Experiment):
    """Distances between all languages that there are vectors of.

    `wanted` are languages that were looked for in `folder`, and may be missing.
    """

    paper = published.DISTANCES
    name = "distances"
    title = "Gromov-Wasserstein distances between languages"
    needs = "files of at least two languages"

    def __init__(self, files, wanted, folder, settings):
        self.files, self.folder = files, folder
        self.absent = [name for name in wanted if name not in files]
        self.settings = settings

    @functools.cached_property
    def spaces(self):
        """What is compared, by name; empty without at least two languages."""
        if len(self.files) < 2:
            return {}
        n_words = self.settings.n_words
        embeddings = {name: read(path, n_words) for name, path in self.files.items()}
        normalize, scale_costs = self.settings.normalize, self.settings.scale_costs
        return prepare(embeddings, n_words, normalize, scale_costs)

    def jobs(self):
        for names in itertools.combinations(self.spaces, 2):
            sides = in_order(*(self.spaces[name] for name in names))
            rows = [side.rows for side in sides]
            yield self.job(
                " and ".join(names),
                match_pair,
                (*rows, self.settings),
                files=[identity(self.files[side.name]) for side in sides],
                # Of all languages, as the shortest vocabulary limits the others.
                words=[len(each) for each in rows],
                **vars(self.settings),
            )

    def missing(self):
        absent = {name: MUSE.vectors_names(name)[:1] for name in self.absent}
        return MUSE.describe_absent(self.folder, absent)

    def collect(self, jobs, results):
        matchings = {}
        pairs = itertools.combinations(self.spaces, 2)
        for names, result in zip(pairs, results, strict=True):
            one, other = in_order(*(self.spaces[name] for name in names))
            matches = np.array(result["matches"])
            matchings[one.name, other.name] = Matching(**{**result, "matches": matches})
        return assemble(self.spaces, matchings)

    def show(self, found, out):
        for title, matrix in (
            (f"{self.title}, times 100", 100 * found.matrix),
            ("their square roots, a metric", found.roots),
        ):
            rows = [
                (name, dict(zip(found.names, map(_digits, row), strict=True)))
                for name, row in zip(found.names, matrix, strict=True)
            ]
            print_columns(out, title, ("",), found.names, rows)
        rows = [
            (
                f"{pair.source}, {pair.target}",
                {
                    "distance": _digits(100 * pair.gw_cost),
                    "unmatched": _digits(100 * pair.product_cost),
                    "share": f"{pair.gw_cost / pair.product_cost:.0%}",
                    "epsilon": "-" if pair.epsilon is None else f"{pair.epsilon:.2g}",
                    "plan": _digits(100 * pair.plan_cost),
                    "status": pair.status,
                },
            )
            for pair in found.pairs
        ]
        note = (
            f"Most frequent {found.n_words:,} words of each language. A distance is"
            " what the best one-to-one matching found costs, an upper bound: at"
            " 2,000 words good to about half a percent, at 500 to several. Unmatched:"
            " what the product plan costs, which matches nothing; share: of that (63 %"
            " for noise of 2,000 words in 200 dimensions). Plan: what the entropic plan"
            " costs that the matching was made from.\n" + self.paper
        )
        print_columns(out, "pairs, times 100", ("",), [*rows[0][1]], rows, note=note)

    def draw(self, found, folder):
        files = ["distances.png", "dendrogram.png"]
        paths = [folder / file for file in files]
        title = "Gromov-Wasserstein distances, times 100"
        plot_distances(100 * found.matrix, found.names, title=title, path=paths[0])
        title = "Clusters of average distance, in square roots"
        plot_dendrogram(found.roots, found.names, title=title, path=paths[1])
        return files

    def summary(self, found):
        return {
            **super().summary(found),
            "names": found.names,
            "files": self.files,
            "n_words": found.n_words,
            "matrix": found.matrix,
            "roots": found.roots,
            "pairs": [{name: getattr(pair, name) for name in _PAIR_FIELDS} for pair in found.pairs],
        }


def match_pair(x, y, settings, *, n_threads, progress):
    """What `gwfast.words.languages.match` finds."""
    epsilon = as_epsilon(settings.epsilon)
    options = settings.scale_costs, epsilon, settings.seed, settings.time_limit
    return vars(match(x, y, *options, n_threads, progress=progress))


def _digits(value):
    """Four significant digits, and 0 as such."""
    return "0" if value == 0 else f"{value:#.4g}"
