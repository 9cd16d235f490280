"""Tables 1 and 2 of the paper: how many words are translated right."""

from itertools import product

import numpy as np

from ..words import CONVENTIONS
from . import published
from .alignments import align, supervise
from .data import DINU, first_file
from .runner import Experiment
from .show import percent, print_columns
from .store import identity

# What is scored of an alignment, and what it is called here.
SCORED = {"coupling": "plan", "nn": "nearest", "csls": "CSLS", "refined": "refined, CSLS"}


class Table(Experiment):
    """One of the paper's two tables; the directions are columns, in their order."""

    supervised: bool
    paper: dict
    paper_epsilon: str
    remark = ""
    default_directions: tuple[str, ...]
    default_scales: tuple[str, ...]
    default_convention: str
    help: str  # of the command

    def __init__(self, folder, directions, settings):
        self.folder, self.settings = folder, settings
        self.directions, self.absent = self.layout.find(folder, directions, "test")
        for name, files in self.directions.items():
            train = first_file(folder, self.layout.dictionary_names(name, "train"))
            if train is not None:
                files["train"] = train

    def jobs(self):
        settings = self.settings
        for name, files in self.directions.items():
            if self.supervised and "train" in files:
                yield self._job(name, files, supervise, "Procrustes")
            untrained = {part: files[part] for part in files if part != "train"}
            names = ("rounds", "seed", "time_limit")
            options = {name: getattr(settings, name) for name in names}
            for epsilon, scale in product(settings.epsilons, settings.scales):
                given = {"epsilon": epsilon, "scale_costs": scale}
                label = _label(epsilon, scale)
                yield self._job(name, untrained, align, label, given, **options)

    def _job(self, name, files, function, label, given=None, **options):
        """`given` are arguments of the function."""
        given, settings = given or {}, self.settings
        return self.job(
            f"{name}, {label}",
            function,
            (files, settings, *given.values()),
            direction=name,
            method=function.__name__,
            n_words=settings.n_words,
            max_vocab=settings.max_vocab,
            convention=settings.convention,
            **given,
            **options,
            files={part: identity(path) for part, path in files.items()},
        )

    def missing(self):
        absent = {
            f"Procrustes of {name}": self.layout.dictionary_names(name, "train")[:1]
            for name, files in self.directions.items()
            if self.supervised and "train" not in files
        }
        return self.layout.describe_absent(self.folder, self.absent | absent)

    def collect(self, jobs, results):
        """Results by direction, by method, epsilon and scale."""
        found = {}
        for job, result in zip(jobs, results, strict=True):
            key = job.key
            method = (key["method"], key.get("epsilon"), key.get("scale_costs"))
            found.setdefault(method, {})[key["direction"]] = result
        return found

    def show(self, found, out):
        title = f"{self.title}: P@1 in percent"
        names, heads = list(self.directions), ("method", "")
        print_columns(out, title, heads, names, list(self._accuracy_rows(found)))
        title = "words of the dictionary that were scored"
        print_columns(out, title, ("of", ""), names, list(self._query_rows(found)))
        if any("" in row.minutes for row in self.paper.values()):
            names.append("mean")
        rows = list(self._minute_rows(found))
        print_columns(out, "minutes", heads, names, rows, note=self.note())

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
        covered = f"{CONVENTIONS[self.settings.convention].coverage} covered %"
        for label, kind in (("plan", "coupling"), ("all other methods", "csls")):
            scores = {
                name: result["scores"][kind]
                for by_direction in found.values()
                for name, result in by_direction.items()
                if kind in result["scores"]
            }
            for first, what, key, text in (
                (label, "scored", "queries", str),
                ("", "of", "words", str),
                ("", covered, "coverage", percent),
            ):
                yield (first, what, {name: text(one[key]) for name, one in scores.items()})

    def _minute_rows(self, found):
        for row in self.paper.values():
            minutes = dict(row.minutes)
            minutes["mean"] = minutes.pop("", "")
            yield row.label, "paper", minutes
        for (method, *given), by_direction in found.items():
            label = f"GW {_label(*given)}" if method == "align" else "Procrustes"
            minutes = {name: result["solve_seconds"] / 60 for name, result in by_direction.items()}
            minutes["mean"] = np.mean([*minutes.values()])
            yield label, "here", {name: f"{one:.2f}" for name, one in minutes.items()}

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


class Table1(Table):
    """The data of Conneau et al., with supervised baselines."""

    name = "table1"
    title = "Table 1"
    supervised = True
    paper = published.TABLE1
    paper_epsilon = "1e-4"
    default_directions = published.TABLE1_DIRECTIONS
    default_scales = ("none",)
    default_convention = "muse"
    help = """Translation on the data of Conneau et al.: Table 1.

    DIR is laid out as by MUSE: wiki.xx.vec, and dictionaries xx-yy.0-5000.txt (for the
    supervised baseline) and xx-yy.5000-6500.txt, in crosslingual/dictionaries or not.
    Files may be compressed, or .npz.
    """


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
    default_scales = ("none", "mean", "median", "max")
    default_convention = "vecmap"
    help = """Translation on the data of Dinu et al.: Table 2.

    DIR holds EN.200K.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt and its like for
    other languages, and OPUS_en_it_europarl_test.txt and its like; or the same under
    vecmap's names, embeddings/original/en.emb.txt and dictionaries/en-it.test.txt.
    """


def _label(epsilon, scale):
    return epsilon if scale == "none" else f"{epsilon} / {scale}"


def _accuracy(by_direction, kind):
    return {
        name: percent(result["scores"][kind]["P@1"])
        for name, result in by_direction.items()
        if kind in result["scores"]
    }
