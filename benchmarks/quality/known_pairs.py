"""How much a few known pairs of words help: transport that starts from them, beside
Procrustes on them alone, either with and without the same refinement.
"""

import dataclasses
import sys

import gwfast

from ..common import pairs
from ..common.markdown import show

LANGUAGES, COUNTS = ("es-en", "zh-en"), (0, 5, 25, 100, 500)
N_WORDS, N_ROUNDS = 3000, 5


def known_pairs_table():
    """P@1 by CSLS over all words whose translations were not among those known."""
    rows = []
    for name in LANGUAGES:
        try:
            x, y, dictionary = pairs.language_pair(name)
        except FileNotFoundError as error:
            print(f"{name} left out: no {error.filename}", file=sys.stderr)
            continue
        taking_part = x.words[:N_WORDS], y.words[:N_WORDS]
        known = pairs.known_pairs(dictionary, *taking_part, max(COUNTS))
        told = {x.words[row] for row in known[:, 0]}
        asked = {word: dictionary[word] for word in dictionary if word not in told}
        rows += [_row(name, x, y, asked, known[:count]) for count in COUNTS]
    titles = (
        "languages",
        "known pairs",
        *(
            f"{method}{more}"
            for method in ("transport", "Procrustes")
            for more in ("", ", refined")
        ),
    )
    show(f"{N_WORDS} words a side, {N_ROUNDS} rounds of refinement", titles, rows)


def _row(name, x, y, dictionary, known):
    """Four numbers; Procrustes needs pairs."""
    start = gwfast.Seeds(known) if len(known) else "auto"
    found = gwfast.align(x, y, n_words=N_WORDS, init=start)
    alone = None
    if len(known):
        rows, columns = known.T
        mapping = gwfast.procrustes(found.source.rows[rows], found.target.rows[columns])
        alone = dataclasses.replace(found, mapping=mapping)
    shown = []
    for one in (found, alone):
        for spaces in (one, one and one.refine(N_ROUNDS)):
            shown.append("-" if spaces is None else _precision(spaces, dictionary))
    print(name, len(known), *shown, file=sys.stderr, flush=True)
    return name, str(len(known)), *shown


def _precision(spaces, dictionary):
    score = spaces.evaluate(dictionary, methods=("csls",), ks=(1,))
    return f"{score['csls'].at[1]:.3f}"
