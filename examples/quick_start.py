"""
Quick start
===========

Align the words of two languages without a dictionary, see how it went, translate,
score, refine, and keep the result.

The data are the bundled sample, vectors of the 2500 most frequent words of Spanish and
of French novels, trained apart. Beside a table of what was tried this prints::

    converged, objective 0.00818
    casa -> maison, chambre, demeure
    right by CSLS: 74 % of 396 words
    casa -> maison, demeure, logis
    right by CSLS, refined: 81 % of 396 words
    saved and read again: 2500 words, 200 columns
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import gwfast
from gwfast.plot import plot_candidates, plot_dynamics
from gwfast.words import Embeddings, load_sample, read_embeddings, write_embeddings

parser = argparse.ArgumentParser(description="Quick start.")
parser.add_argument("--output", type=Path, default=Path("pictures"))
output = parser.parse_args().output
output.mkdir(parents=True, exist_ok=True)

# %%
# Align
# -----
# Words with their vectors go in, frequent words first. 2000 words of each side
# take part in the transport; the mapping that follows from it holds for all.

spanish, french, dictionary = load_sample()
result = gwfast.align(spanish, french, n_words=2000)

# %%
# Did it work?
# ------------
# The problem is not convex, so that starts raced, and the lowest objective won; no
# dictionary was looked at. `status` says whether the solver got where it wanted;
# where it did not, `result.gw.advice` says what to try.

print(f"{result.gw.status}, objective {result.gw.gw_cost:.5f}")
print(result.gw.candidates)

# %%
# Translate and score
# -------------------
# CSLS ranks French words by their angle to the mapped Spanish word, less for those
# that are near everything. The sample's word list has translations of 396 words.


EXAMPLES = "casa", "sangre", "muerte", "mujer"


def report(result, name):
    found = result.translate(EXAMPLES, k=3)
    for word, translations in zip(EXAMPLES, found.words or (), strict=True):
        print(word, "->", ", ".join(translations))
    score = result.evaluate(dictionary)["csls"]
    print(f"right by {name}: {100 * score.at[1]:.0f} % of {score.n_queries} words")


report(result, "CSLS")

# %%
# Refine
# ------
# Words of both sides that are each other's best match make a new mapping, which makes
# new matches, and so on. This looks at all words, also those that took no part in the
# transport. ``align(..., refine=5)`` does both at once.

refined = result.refine()
report(refined, "CSLS, refined")

# %%
# Save
# ----
# The vectors of both languages where they can be compared, in a format that other
# programs read. More vectors of the same Spanish model get there by
# ``refined.transform(vectors)``, French ones by ``refined.transform_target(vectors)``.

with tempfile.TemporaryDirectory() as folder:
    for name, words, vectors in (
        ("spanish.vec", spanish.words, refined.mapped_source),
        ("french.vec", french.words, refined.mapped_target),
    ):
        write_embeddings(Path(folder) / name, Embeddings(words, vectors))
    back = read_embeddings(Path(folder) / "spanish.vec")
print(f"saved and read again: {len(back)} words, {back.vectors.shape[1]} columns")

# %%
# A picture
# ---------
# Above, the starts by the objective that each had when it was dropped: the one that won
# is the leftmost, and the product start, which knows nothing, is nearly the last.
# Below, the iterations of the winner: its objective has found the floor after 20 of
# them, and the other 60 bring change and error down to the tolerance.
#
# Those at home in scikit-learn get the same from
# ``gwfast.GromovWassersteinAligner(n_words=2000, refine=5)`` with `fit`, `transform`
# and `predict`; ``image_features.py`` has one in a pipeline.

figure = plt.figure(figsize=(7, 7), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(3, 4), squeeze=False).flat
plot_candidates(result.gw.candidates, figure=above)
plot_dynamics(result.gw.history, figure=below)
figure.savefig(output / "quick_start.png", dpi=150)
