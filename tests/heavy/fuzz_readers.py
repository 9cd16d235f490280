"""Coverage-guided fuzzing of the readers of files by atheris, which is to be installed.

    python tests/heavy/fuzz_readers.py text 600 [FOLDER]

reads variants of the files in ``tests/words/corpus/text``, for that many seconds: each must
come to a value or to an error of ours that names the file, within 10 s and 1 GB. What does not is
kept in FOLDER, by default ``fuzz-text``, with all that was found to take another way; the smallest
of a kind belongs in the corpus, which ``tests/words/test_bad_files.py`` reads as a regression test.
"""

import argparse
import bz2
import gzip
import io
import lzma
import random
import sys
import tempfile
import zipfile
from pathlib import Path

import atheris

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "words" / "corpus"
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]
LIMITS = ["-timeout=10", "-rss_limit_mb=1024", "-max_len=8192"]

with atheris.instrument_imports(include=["gwfast", "zipfile", "gzip", "numpy.lib"]):
    from helpers.readers import READERS, read

PACKED = {
    "gzip": (gzip.decompress, gzip.compress),
    "bzip2": (bz2.decompress, bz2.compress),
    "xz": (lzma.decompress, lzma.compress),
}


def mutate_packed(reader, data, max_size):
    """Change the content of a compressed file."""
    unpack, pack = PACKED[reader]
    try:
        inside = unpack(data)
    except (EOFError, OSError, ValueError, lzma.LZMAError, zipfile.zlib.error):
        inside = b"2 2\na 1 2\nb 3 4\n"
    return pack(atheris.Mutate(inside, max_size))


def mutate_archive(data, max_size, chance):
    """One member changes, and lengths and sums fit it again; now and then it comes
    twice, by the same name or by one that NumPy takes for the same.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        changed = chance.choice(names)
        for name in names:
            content = old.read(name)
            if name == changed:
                if chance.random() < 0.2:
                    twin = chance.choice((name, name.removesuffix(".npy")))
                    new.writestr(twin, content)
                content = atheris.Mutate(content, max_size)
            new.writestr(name, content, chance.choice((0, 8, 12, 14)))
    return made.getvalue()


def mutator(reader):
    def mutate(data, max_size, seed):
        chance = random.Random(seed)
        made = None
        if chance.random() < 0.75:
            try:
                if reader in PACKED:
                    made = mutate_packed(reader, data, max_size)
                elif reader in ("npz", "alignment"):
                    made = mutate_archive(data, max_size, chance)
            except Exception:
                pass
        if made is not None and len(made) <= max_size:
            return made
        return atheris.Mutate(data, max_size)

    return mutate


def fuzz(reader, seconds, folder):
    folder.mkdir(exist_ok=True, parents=True)
    seeds = CORPUS / reader
    with tempfile.TemporaryDirectory() as scratch:

        def once(data):
            read(reader, data, scratch)

        arguments = [
            sys.argv[0], *LIMITS, f"-max_total_time={seconds}", "-print_final_stats=1",
            f"-artifact_prefix={folder}/", str(folder), str(seeds),
        ]  # fmt: skip
        atheris.Setup(arguments, once, custom_mutator=mutator(reader))
        atheris.Fuzz()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("seconds", type=int)
    parser.add_argument("folder", type=Path, nargs="?")
    given = parser.parse_args()
    fuzz(given.reader, given.seconds, given.folder or Path(f"fuzz-{given.reader}"))


if __name__ == "__main__":
    main()
