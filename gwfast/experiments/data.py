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

    def find_vectors(self, folder: Path, language: str) -> Path | None:
        """The file of a language, or None."""
        names = self._vectors_names(language)
        names = [name + suffix for name in names for suffix in _SUFFIXES] + [
            str(Path(name).with_suffix(".npz")) for name in names
        ]
        return _first(folder, names)

    def find_dictionary(self, folder: Path, direction: str, fold: str) -> Path | None:
        """The file of a direction such as "en-es" and a fold, or None."""
        names = self._dictionary_names(direction, fold)
        return _first(folder, [name + zip for name in names for zip in ("", ".gz")])

    def find(
        self, folder: Path, direction: str, fold: str
    ) -> tuple[list[Path | None], list[str]]:
        """Vectors of both languages and the dictionary of a fold, None where there is
        no file; and what those that are None are usually called.
        """
        languages = direction.split("-")
        files = [self.find_vectors(folder, language) for language in languages]
        files.append(self.find_dictionary(folder, direction, fold))
        names = [*map(self.vectors_name, languages)]
        names.append(self.dictionary_name(direction, fold))
        needs = [name for name, path in zip(names, files, strict=True) if path is None]
        return files, needs

    def vectors_name(self, language: str) -> str:
        """What the file is usually called."""
        return self._vectors_names(language)[0]

    def dictionary_name(self, direction: str, fold: str) -> str:
        return self._dictionary_names(direction, fold)[0]

    def _vectors_names(self, language):
        spelled = {"language": language, "LANGUAGE": language.upper()}
        return [name.format(**spelled) for name in self.vectors]

    def _dictionary_names(self, direction, fold):
        source, target = direction.split("-")
        return [name.format(source=source, target=target) for name in self.folds[fold]]

    def languages(self, folder: Path) -> list[str]:
        """All languages that there are vectors of, sorted; names without capitals."""
        before = self.vectors[0].split("{language}")[0]
        found = {
            path.name.removeprefix(before).split(".")[0]
            for path in Path(folder).glob(before + "*")
        }
        return sorted(name for name in found if self.find_vectors(folder, name))

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


def _first(folder, names):
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
