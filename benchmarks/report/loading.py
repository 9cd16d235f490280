"""Reading vectors from text, beside pandas' C reader and gensim."""

import tempfile
from pathlib import Path

import numpy as np

from gwfast.words import read_embeddings, write_embeddings

from ..common import runner

N_COLUMNS = 300


def loading(options):
    """Print times of the readers that are installed, in turns."""
    n_rows = (options.sizes or [200_000])[0]
    with tempfile.TemporaryDirectory() as folder:
        path, archive = Path(folder, "vectors.vec"), Path(folder, "vectors.npz")
        rng = np.random.default_rng(0)
        row = " ".join(["w%d"] + ["%.4f"] * N_COLUMNS) + "\n"
        with path.open("w") as stream:
            stream.write(f"{n_rows} {N_COLUMNS}\n")
            for i in range(n_rows):
                stream.write(row % (i, *0.1 * rng.standard_normal(N_COLUMNS)))
        write_embeddings(archive, read_embeddings(path))
        readers = {
            "gwfast": lambda: read_embeddings(path).vectors,
            "gwfast, .npz": lambda: read_embeddings(archive).vectors,
        }
        try:
            import pandas

            dtype = {0: str, **dict.fromkeys(range(1, N_COLUMNS + 1), np.float32)}
            how = {"sep": " ", "quoting": 3, "header": None, "skiprows": 1, "na_filter": False}
            readers["pandas"] = lambda: pandas.read_csv(path, dtype=dtype, **how).iloc[:, 1:]
        except ImportError:
            print("(pandas left out: not installed)")
        try:
            from gensim.models import KeyedVectors

            readers["gensim"] = lambda: KeyedVectors.load_word2vec_format(path).vectors
        except ImportError:
            print("(gensim left out: not installed)")
        seconds, _ = runner.in_turns(list(readers.values()), options.rounds, 300)
    rows = [
        (name, runner.shown(taken), runner.ratio(taken, seconds[0]))
        for name, taken in zip(readers, seconds, strict=True)
    ]
    heads = "reader", "s, median [min]", "times gwfast"
    runner.show(f"{n_rows} x {N_COLUMNS} numbers of text", heads, rows)
