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
    """Names of files below the folder that ``--data`` names, the usual one first.

    Attributes
    ----------
    vectors : tuple of str
        With ``{language}``, and ``{LANGUAGE}`` in capitals.
    folds : dict of str to tuple of str
        Dictionaries for "train" and "test", with ``{source}`` and ``{target}``.
    advice : str
        Where to get them.
    """

    vectors: tuple[str, ...]
    folds: dict[str, tuple[str, ...]]
    advice: str

    def find_vectors(self, folder: Path, language: str) -> Path | None:
        """The file of a language, or None."""
        names = [
            name.format(language=language, LANGUAGE=language.upper())
            for name in self.vectors
        ]
        names = [name + suffix for name in names for suffix in _SUFFIXES] + [
            str(Path(name).with_suffix(".npz")) for name in names
        ]
        return _first(folder, names)

    def find_dictionary(
        self, folder: Path, source: str, target: str, fold: str
    ) -> Path | None:
        """The file of a pair and a fold, or None."""
        names = [name.format(source=source, target=target) for name in self.folds[fold]]
        return _first(folder, [name + zip for name in names for zip in ("", ".gz")])

    def find(
        self, folder: Path, direction: str, fold: str
    ) -> tuple[list[Path | None], list[str]]:
        """Files of a direction such as "en-es".

        Returns
        -------
        files : list of Path or None
            Vectors of both languages, and the dictionary of the fold.
        needs : list of str
            What those that are None are usually called.
        """
        source, target = direction.split("-")
        files = [self.find_vectors(folder, language) for language in (source, target)]
        files.append(self.find_dictionary(folder, source, target, fold))
        names = [
            self.vectors_name(source),
            self.vectors_name(target),
            self.dictionary_name(source, target, fold),
        ]
        needs = [name for name, path in zip(names, files, strict=True) if path is None]
        return files, needs

    def vectors_name(self, language: str) -> str:
        """What the file is usually called."""
        return self.vectors[0].format(language=language, LANGUAGE=language.upper())

    def dictionary_name(self, source: str, target: str, fold: str) -> str:
        return self.folds[fold][0].format(source=source, target=target)

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

        Parameters
        ----------
        folder : Path
        absent : dict of str to sequence of str
            Names of missing files, by what needs them.
        """
        if not absent:
            return []
        return [
            f"Not run, as files are missing in {folder}:",
            *(f"  {name}: {', '.join(needs)}" for name, needs in absent.items()),
            f"{self.advice} Nothing is downloaded for you.",
        ]


def _first(folder, names):
    for name in names:
        path = Path(folder) / name
        if path.is_file():
            return path
    return None


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
