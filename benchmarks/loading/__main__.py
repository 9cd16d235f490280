"""Seconds and memory of reading vectors from text: ``python -m benchmarks.loading``.

A file of random numbers is made, with four decimals as fastText's, and read by gwfast,
by pandas' C reader and by gensim, those that are installed, in turns, each time in a
process of its own. `peak MB` is the most that was resident beyond what the process held
with the package imported; `of the array` is that over the bytes of the vectors.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

import numpy as np

from ..common.footprint import Footprint
from ..common.markdown import show
from ..common.processes import command
from ..common.versions import installed, load

# Rows that pandas is given at once, where it is helped to need little memory.
CHUNK = 10000


def gwfast_reader(path):
    from gwfast.words import read_embeddings

    return lambda: read_embeddings(path).vectors


def archive_reader(path):
    """Reads a copy in NumPy's format."""
    from gwfast.words import read_embeddings, write_embeddings

    copy = f"{path}.npz"
    if not os.path.exists(copy):
        write_embeddings(copy, read_embeddings(path))
    return lambda: read_embeddings(copy).vectors


def pandas_reader(path, **options):
    import pandas

    with open(path, "rb") as stream:
        n, d = map(int, stream.readline().split())
    options |= {"sep": " ", "quoting": 3, "header": None, "skiprows": 1}
    options |= {"dtype": {0: str, **dict.fromkeys(range(1, d + 1), np.float32)}}

    def read():
        table = pandas.read_csv(path, na_filter=False, **options)
        if "chunksize" not in options:
            return table.iloc[:, 1:].to_numpy()
        vectors, words, start = np.empty((n, d), np.float32), [], 0
        with table:
            for part in table:
                vectors[start : start + len(part)] = part.iloc[:, 1:]
                start += len(part)
                words += part[0].tolist()
        return vectors

    return read


def pandas_in_parts_reader(path):
    return pandas_reader(path, chunksize=CHUNK)


def gensim_reader(path):
    from gensim.models import KeyedVectors

    return lambda: KeyedVectors.load_word2vec_format(path).vectors


READERS = {
    "gwfast": gwfast_reader,
    "gwfast, .npz": archive_reader,
    "pandas": pandas_reader,
    f"pandas, {CHUNK} rows at a time": pandas_in_parts_reader,
    "gensim": gensim_reader,
}


def make(path, n_rows, n_columns):
    """Write a file of as many words and numbers."""
    rng = np.random.default_rng(0)
    row = " ".join(["w%d"] + ["%.4f"] * n_columns) + "\n"
    with open(path, "w") as stream:
        stream.write(f"{n_rows} {n_columns}\n")
        for i in range(n_rows):
            values = 0.1 * rng.standard_normal(n_columns)
            stream.write(row % (i, *values.tolist()))


def measure(name, path):
    """Read it once, in this process."""
    try:
        read = READERS[name](path)
    except ImportError as error:
        return {"failed": f"not installed: {error.name}"}
    footprint = Footprint()
    began = time.perf_counter()
    vectors = read()
    seconds = time.perf_counter() - began
    footprint.look()
    return {
        "seconds": seconds,
        "peak": footprint.above,
        "bytes": vectors.nbytes if vectors.dtype == np.float32 else None,
        "sum": float(vectors.sum(dtype=np.float64)),
    }


def run(name, path):
    """The same in a process of its own."""
    again = command(__spec__.name, "--one", name, path)
    done = subprocess.run(again, capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return json.loads(done.stdout)


def table(runs):
    """Rows of a table, of what each reader's runs say."""
    rows = []
    for name, results in runs.items():
        if "failed" in results[0]:
            rows.append([name, results[0]["failed"], "", "", "", ""])
            continue
        seconds = [result["seconds"] for result in results]
        ratios = [
            result["seconds"] / own["seconds"]
            for result, own in zip(results, runs["gwfast"], strict=True)
        ]
        peak = max(result["peak"] for result in results)
        rows.append(
            [
                name,
                f"{median(seconds):.2f} [{min(seconds):.2f}]",
                f"{median(ratios):.2f}",
                f"{peak:.0f}",
                f"{peak * 1e6 / results[0]['bytes']:.2f}",
                str(len(results)),
            ]
        )
    return rows


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.loading", description=__doc__)
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--columns", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5, help="turns")
    parser.add_argument("--one", nargs=2, metavar=("READER", "PATH"), help="internal")
    options = parser.parse_args(argv)
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vectors.vec")
        make(path, options.rows, options.columns)
        run("gwfast, .npz", path)  # makes it, and the file is in memory
        runs = {name: [] for name in READERS}
        for _ in range(options.runs):
            for name in READERS:
                runs[name].append(run(name, path))
        megabytes = os.path.getsize(path) / 1e6
    sums = [result["sum"] for results in runs.values() for result in results[:1]
            if "sum" in result]  # fmt: skip
    if max(sums) - min(sums) > 1e-6 * options.rows * options.columns:
        sys.exit(f"the readers do not agree: sums {sums}")
    heads = ["reader", "s, median [min]", "time / gwfast, median", "peak MB"]
    heads += ["of the array", "runs"]
    title = f"{options.rows} x {options.columns}, {megabytes:.0f} MB of text"
    show(title, heads, table(runs))
    versions = ", ".join(installed(("numpy", "pandas", "gensim")))
    print(f"{versions}; load {load():.1f} at the end.")


if __name__ == "__main__":
    main()
