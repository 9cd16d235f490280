"""Coverage-guided fuzzing of the readers of files by atheris, which is to be installed.

    python tests/heavy/fuzz_readers.py text 600 [FOLDER]

reads variants of the files in ``tests/words/corpus/text``, for that many seconds: each must
come to a value or to an error of ours that names the file, within 10 s and 1 GB. What does not is
kept in FOLDER, by default ``fuzz-text``, with all that was found to take another way; the smallest
of a kind belongs in the corpus, which ``tests/words/test_bad_files.py`` reads as a regression test.
"""

import argparse
import bz2
import contextlib
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

PACKED = {"gzip": gzip, "bzip2": bz2, "xz": lzma}


def mutate_packed(data, max_size, packed):
    """Change the content of a compressed file."""
    inside = b"2 2\na 1 2\nb 3 4\n"
    with contextlib.suppress(EOFError, OSError, ValueError, lzma.LZMAError, zipfile.zlib.error):
        inside = packed.decompress(data)
    return packed.compress(atheris.Mutate(inside, max_size))


def mutate_archive(data, max_size, chance):
    """One member changes, and lengths and sums fit it again; now and then it comes
    twice, by the same name or by one that NumPy takes for the same.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        changed = chance.choice(old.namelist())
        for name in old.namelist():
            content = old.read(name)
            if name == changed:
                if chance.random() < 0.2:
                    new.writestr(chance.choice((name, name.removesuffix(".npy"))), content)
                content = atheris.Mutate(content, max_size)
            new.writestr(name, content, chance.choice((0, 8, 12, 14)))
    return made.getvalue()


def mutate(reader, data, max_size, seed):
    """Change a file, mostly inside what packs it if it can be unpacked."""
    chance, made = random.Random(seed), None
    if chance.random() < 0.75:
        with contextlib.suppress(Exception):
            if reader in PACKED:
                made = mutate_packed(data, max_size, PACKED[reader])
            elif reader in ("npz", "alignment"):
                made = mutate_archive(data, max_size, chance)
    return made if made and len(made) <= max_size else atheris.Mutate(data, max_size)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("seconds", type=int)
    parser.add_argument("folder", type=Path, nargs="?")
    given = parser.parse_args()
    reader, folder = given.reader, given.folder or Path(f"fuzz-{given.reader}")
    folder.mkdir(exist_ok=True, parents=True)
    arguments = [
        sys.argv[0], *LIMITS, f"-max_total_time={given.seconds}", "-print_final_stats=1",
        f"-artifact_prefix={folder}/", str(folder), str(CORPUS / reader),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        atheris.Setup(
            arguments,
            lambda data: read(reader, data, scratch),
            custom_mutator=lambda *of_call: mutate(reader, *of_call),
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
