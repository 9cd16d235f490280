"""Where the files of the two benchmarks lie, under the names they were published with.

Nothing is ever downloaded: what is missing is named, with where to get it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Compressed files, and what was read from a file kept beside it, are as good.
_SUFFIXES = ("", ".gz", ".bz2", ".xz", ".npz")


@dataclass(frozen=True)
class BenchmarkFiles:
    """Names of files below the folder that ``--data`` names, the usual one first."""

    vectors: tuple[str, ...]  # with {language}, and {LANGUAGE} in capitals
    # Dictionaries for "train" and "test", with {source} and {target}.
    folds: dict[str, tuple[str, ...]]
    advice: str  # where to get them

    def vectors_names(self, language: str) -> list[str]:
        """What the file of a language may be called."""
        spelled = {"language": language, "LANGUAGE": language.upper()}
        names = [name.format(**spelled) for name in self.vectors]
        return [name + suffix for name in names for suffix in _SUFFIXES] + [
            str(Path(name).with_suffix(".npz")) for name in names
        ]

    def dictionary_names(self, direction: str, fold: str) -> list[str]:
        """What the file of a direction such as "en-es" and a fold may be called."""
        source, target = direction.split("-")
        names = [name.format(source=source, target=target) for name in self.folds[fold]]
        return [name + suffix for name in names for suffix in ("", ".gz")]

    def find(
        self, folder: Path, directions: Sequence[str], fold: str
    ) -> tuple[dict[str, dict[str, Path]], dict[str, list[str]]]:
        """Of each direction vectors of both languages and the dictionary of a fold; of
        those that lack some what these files are usually called.
        """
        found: dict[str, dict[str, Path]] = {}
        absent: dict[str, list[str]] = {}
        for direction in directions:
            source, target = map(self.vectors_names, direction.split("-"))
            dictionary = self.dictionary_names(direction, fold)
            names = {"source": source, "target": target, "dictionary": dictionary}
            files = {
                part: path
                for part, each in names.items()
                if (path := first_file(folder, each)) is not None
            }
            needs = [each[0] for part, each in names.items() if part not in files]
            if needs:
                absent[direction] = needs
            else:
                found[direction] = files
        return found, absent

    def languages(self, folder: Path) -> list[str]:
        """All languages that there are vectors of, sorted; names without capitals."""
        before = self.vectors[0].split("{language}")[0]
        found = {
            path.name.removeprefix(before).split(".")[0] for path in Path(folder).glob(before + "*")
        }
        return sorted(name for name in found if first_file(folder, self.vectors_names(name)))

    def describe_absent(
        self, folder: Path | None, absent: Mapping[str, Sequence[str]]
    ) -> list[str]:
        """Lines of prose on what is not run, and where to get the files.

        `absent` are names of missing files, by what needs them.
        """
        if not absent:
            return []
        return [
            f"Not run, as files are missing in {folder}:",
            *(f"  {name}: {', '.join(needs)}" for name, needs in absent.items()),
            f"{self.advice} Nothing is downloaded for you.",
        ]


def first_file(folder: Path, names: Sequence[str]) -> Path | None:
    """The first of these names that there is a file of."""
    paths = (Path(folder) / name for name in names)
    return next((path for path in paths if path.is_file()), None)


MUSE = BenchmarkFiles(
    vectors=("wiki.{language}.vec",),
    folds={
        fold: tuple(
            folder + "{source}-{target}." + ranks + ".txt"
            for folder in ("crosslingual/dictionaries/", "dictionaries/", "")
        )
        for fold, ranks in (("train", "0-5000"), ("test", "5000-6500"))
    },
    advice=(
        "Vectors are fastText's of Wikipedia in text format, wiki.xx.vec, see"
        " https://fasttext.cc/docs/en/pretrained-vectors.html. Dictionaries are those"
        " of MUSE, see https://github.com/facebookresearch/MUSE."
    ),
)

_WORD2VEC = "{LANGUAGE}.200K.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt"
DINU = BenchmarkFiles(
    vectors=(
        _WORD2VEC,
        "data/" + _WORD2VEC,
        "embeddings/original/{language}.emb.txt",
        "embeddings/{language}.emb.txt",
        "{language}.emb.txt",
    ),
    folds={
        fold: (
            "OPUS_{source}_{target}_europarl_" + name + ".txt",
            "data/OPUS_{source}_{target}_europarl_" + name + ".txt",
            "dictionaries/{source}-{target}." + fold + ".txt",
            "{source}-{target}." + fold + ".txt",
        )
        for fold, name in (("train", "train_5K"), ("test", "test"))
    },
    advice=(
        "English and Italian vectors with their dictionaries are those of Dinu et al."
        " (transmat.zip); German, Finnish and Spanish, in the same format, are those of"
        " Artetxe et al. The script get_data.sh of https://github.com/artetxem/vecmap"
        " gets all of them; its names (embeddings/original/en.emb.txt,"
        " dictionaries/en-it.test.txt) are found here as well."
    ),
)
