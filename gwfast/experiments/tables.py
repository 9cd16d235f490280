"""Tables 1 and 2 of the paper: how many words are translated right."""

from dataclasses import asdict

import numpy as np

from .._version import __version__
from ..words import CONVENTIONS
from . import published
from .alignments import Direction, align, supervise
from .data import DINU, MUSE, BenchmarkFiles
from .runner import Experiment, Job
from .show import percent, print_columns
from .store import identity

# What is scored of an alignment, and what it is called here.
SCORED = {
    "coupling": "plan",
    "nn": "nearest",
    "csls": "CSLS",
    "refined": "refined, CSLS",
}


class Table(Experiment):
    """One of the paper's two tables.

    Parameters
    ----------
    folder : Path
    directions : sequence of str
        Such as "en-es", in the order of the columns.
    settings : TableSettings
    """

    layout: BenchmarkFiles
    supervised: bool
    paper: dict
    paper_epsilon: str
    remark: str
    default_directions: tuple[str, ...]

    def __init__(self, folder, directions, settings):
        self.folder, self.settings = folder, settings
        self.directions, self.absent = {}, {}
        for name in directions:
            files, needs = self.layout.find(folder, name, "test")
            if needs:
                self.absent[name] = needs
                continue
            train = self.layout.find_dictionary(folder, *name.split("-"), "train")
            self.directions[name] = Direction(*files, train)

    def jobs(self):
        made = []
        for name, direction in self.directions.items():
            if self.supervised and direction.train is not None:
                made.append(self._job(name, direction, supervise, "Procrustes"))
            for epsilon in self.settings.epsilons:
                for scale in self.settings.scales:
                    label = _label(epsilon, scale)
                    made.append(
                        self._job(name, direction, align, label, epsilon, scale)
                    )
        return made

    def _job(self, name, direction, function, label, epsilon=None, scale=None):
        settings = self.settings
        files = asdict(direction)
        key = {
            "experiment": self.name,
            "gwfast": __version__,
            "direction": name,
            "method": function.__name__,
            "n_words": settings.n_words,
            "max_vocab": settings.max_vocab,
            "convention": settings.convention,
        }
        if function is align:
            files["train"] = None
            key |= {
                "epsilon": epsilon,
                "scale_costs": scale,
                "rounds": settings.rounds,
                "seed": settings.seed,
            }
        key["files"] = {
            part: identity(path) for part, path in files.items() if path is not None
        }
        arguments = (direction, settings)
        if function is align:
            arguments += (epsilon, scale)
        return Job(f"{name}, {label}", key, function, arguments)

    def missing(self):
        absent = dict(self.absent)
        if self.supervised:
            for name, direction in self.directions.items():
                if direction.train is None:
                    train = self.layout.dictionary_name(*name.split("-"), "train")
                    absent[f"Procrustes of {name}"] = [train]
        return self.layout.describe_absent(self.folder, absent)

    def collect(self, jobs, results):
        """Results by direction, by method, epsilon and scale."""
        found = {}
        for job, result in zip(jobs, results, strict=True):
            key = job.key
            method = (key["method"], key.get("epsilon"), key.get("scale_costs"))
            found.setdefault(method, {})[key["direction"]] = result
        return found

    def show(self, found, out):
        print_columns(
            out,
            f"{self.title}: P@1 in percent",
            ("method", ""),
            list(self.directions),
            list(self._accuracy_rows(found)),
        )
        print_columns(
            out,
            "words of the dictionary that were scored",
            ("of", ""),
            list(self.directions),
            list(self._query_rows(found)),
        )
        print_columns(
            out,
            "minutes",
            ("method", ""),
            self._minute_columns,
            list(self._minute_rows(found)),
            note=self.note(),
        )

    def _accuracy_rows(self, found):
        for name, row in self.paper.items():
            yield row.label, "paper", row.accuracy
            if self.supervised and ("supervise", None, None) in found:
                kind = {"procrustes": "nn", "procrustes csls": "csls"}.get(name)
                if kind is not None:
                    yield "", "here", _accuracy(found["supervise", None, None], kind)
        for (method, epsilon, scale), by_direction in found.items():
            if method == "align":
                for kind, called in SCORED.items():
                    label = f"GW {_label(epsilon, scale)}: {called}"
                    yield label, "here", _accuracy(by_direction, kind)

    def _query_rows(self, found):
        kinds = {"plan": "coupling", "all other methods": "csls"}
        for label, kind in kinds.items():
            scored, words, covered = {}, {}, {}
            for by_direction in found.values():
                for name, result in by_direction.items():
                    score = result["scores"].get(kind)
                    if score is not None:
                        scored[name] = str(score["queries"])
                        words[name] = str(score["words"])
                        covered[name] = percent(score["coverage"])
            yield label, "scored", scored
            yield "", "of", words
            rules = CONVENTIONS[self.settings.convention]
            yield "", f"{rules.coverage} covered %", covered

    @property
    def _minute_columns(self):
        columns = [*self.directions]
        if any("" in row.minutes for row in self.paper.values()):
            columns.append("mean")
        return columns

    def _minute_rows(self, found):
        for row in self.paper.values():
            minutes = dict(row.minutes)
            minutes["mean"] = minutes.pop("", "")
            yield row.label, "paper", minutes
        for (method, epsilon, scale), by_direction in found.items():
            label = "Procrustes"
            if method == "align":
                label = f"GW {_label(epsilon, scale)}"
            minutes = {
                name: f"{result['solve_seconds'] / 60:.2f}"
                for name, result in by_direction.items()
            }
            seconds = [result["solve_seconds"] for result in by_direction.values()]
            yield label, "here", {**minutes, "mean": f"{np.mean(seconds) / 60:.2f}"}

    def note(self):
        settings = self.settings
        return (
            f"Here: at most {settings.n_words:,} words of each side in the transport,"
            f" {settings.max_vocab:,} in the vocabularies, scored by the convention"
            f" {settings.convention!r}; at most {settings.rounds} rounds of refinement."
            " Minutes are for the alignment with its refinement, without reading and"
            " scoring. The paper's G-W is 20,000 words, costs divided by their mean,"
            " its lambda, and the mapping of the plan with CSLS: --n-words 20000"
            f" --scale-costs mean --epsilon {self.paper_epsilon}, and the row CSLS."
            f" {self.remark}"
        ).rstrip()

    def draw(self, found, folder):
        return []

    def summary(self, found):
        return {
            "settings": asdict(self.settings),
            "missing": self.absent,
            "paper": {name: row._asdict() for name, row in self.paper.items()},
        }


class Table1(Table):
    """The data of Conneau et al., with supervised baselines."""

    name = "table1"
    title = "Table 1"
    layout = MUSE
    supervised = True
    paper = published.TABLE1
    paper_epsilon = "1e-4"
    remark = ""
    default_directions = published.TABLE1_DIRECTIONS


class Table2(Table):
    """The data of Dinu et al., with costs scaled in several ways."""

    name = "table2"
    title = "Table 2"
    layout = DINU
    supervised = False
    paper = published.TABLE2
    paper_epsilon = "5e-5"
    remark = (
        "Dividing the costs of the sides by a and b does to the plan what multiplying"
        " epsilon by ab does, and nothing else: where epsilon is auto or a percentage,"
        " which follow the costs, it changes next to nothing."
    )
    default_directions = published.TABLE2_DIRECTIONS


def _label(epsilon, scale):
    return epsilon if scale == "none" else f"{epsilon} / {scale}"


def _accuracy(by_direction, kind):
    return {
        name: percent(result["scores"][kind]["P@1"])
        for name, result in by_direction.items()
        if kind in result["scores"]
    }
