"""How good the translations are, and what refinement adds to the plan's mapping.

``python -m benchmarks.accuracy [NAMES]`` prints P@1 for each pair of languages whose data are
there (``GWFAST_DATA``, see benchmarks/README.md), without refinement and with it. The supervised
ceiling is Procrustes on a random half of the dictionary, CSLS on the other half.
"""

import argparse

import numpy as np

import gwfast
from gwfast import words

from ..common import pairs

# Pair, words that take part, words of each side, source words that are scored.
CASES = (
    ("es-en", 2000, None, None),
    ("zh-en", 2000, None, None),
    ("es-fr", 2000, 20_000, 5000),
    ("es-fr", 10_000, 10_000, 5000),
    ("en-fr", 3000, 20_000, 5000),
    ("en-es", 3000, 20_000, 5000),
)
METHODS = ("coupling", "barycentric", "nn", "csls", "inverted_softmax")


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="pairs; all by default")
    names = parser.parse_args(argv).names
    heads = ["data", "refinement", *METHODS, "queries", "supervised"]
    print("| " + " | ".join(heads) + " |\n| :-- | :-- |" + " --: |" * (len(heads) - 2))
    for case in CASES:
        if not names or case[0] in names:
            for row in measured(*case):
                print("| " + " | ".join(row) + " |", flush=True)


def measured(name, n_words, n_vocabulary, n_scored):
    """Return the rows of the table, without refinement and with it."""
    try:
        x, y, dictionary = pairs.language_pair(name)
    except FileNotFoundError as error:
        yield [name, f"not run: no {error.filename}"] + ["-"] * (len(METHODS) + 2)
        return
    x, y = (
        words.Embeddings(side.words[:n_vocabulary], side.vectors[:n_vocabulary]) for side in (x, y)
    )
    scored = set(x.words[:n_scored])
    dictionary = {word: dictionary[word] for word in dictionary if word in scored}
    plain = gwfast.align(x, y, n_words=n_words)
    ceiling = supervised(plain, pairs.translations(dictionary, x.words, y.words))
    title = f"{name}, {n_words:,} of {len(x):,} x {len(y):,} words"
    if n_scored is not None:
        title += f", first {n_scored:,} scored"
    for label, result in (("none", plain), ("5 rounds", plain.refine(5))):
        found = result.evaluate(dictionary, methods=METHODS, ks=(1,))
        shares = [f"{score.at[1]:.3f}" for score in found.values()]
        queries = f"{found['coupling'].n_queries:,} / {found['nn'].n_queries:,}"
        yield [title, label, *shares, queries, f"{ceiling:.3f}"]


def supervised(result, translations):
    """P@1 of CSLS on one half of the queries after Procrustes on the other."""
    x, y = result.source.rows, result.target.rows
    known, asked = np.array_split(np.random.default_rng(0).permutation(list(translations)), 2)
    rows, columns = np.array([(row, target) for row in known for target in translations[row]]).T
    mapped = x @ gwfast.procrustes(x[rows], y[columns])
    found = gwfast.nearest_neighbors(mapped[asked], y, k=1, sources=mapped)
    best = zip(asked, found.indices[:, 0].tolist(), strict=True)
    hits = [column in translations[row] for row, column in best]
    return float(np.mean(hits))


if __name__ == "__main__":
    main()
