"""
Single words by hand
====================

Twelve English and twelve Spanish words and no vectors: the cost between two words of
one language is a number that can be counted on the fingers. The plan between the
languages is printed and drawn, first with no pair known, then with one.

It prints, among other things::

    from sun to fish 4 links, from sol to pez 4 links
    no pair known: converged at objective 0.36, 8 of 12 words sure, 8 right
      sun    luna 48 %, sol 48 %
      sky    cielo 91 %, lluvia 4 %, sure
    from many starts: uncertain at objective 0.29
    sun = sol given: converged at objective 0.29, 12 of 12 words sure, 12 right
      sun    sol 95 %, luna 3 %, sure
"""

import argparse
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.csgraph import shortest_path

import gwfast
from gwfast.plot import plot_plans

parser = argparse.ArgumentParser(description="Single words by hand.")
parser.add_argument("--output", type=Path, default=Path("pictures"))
output = parser.parse_args().output
output.mkdir(parents=True, exist_ok=True)

# %%
# Costs that can be checked
# -------------------------
# A speaker of each language was asked which words go together. The cost between two
# words is the number of links on the shortest way from one to the other. The two did
# not quite agree: only the Spanish speaker links the rain with the tree.

ENGLISH = """sun-day day-night night-moon moon-sky sky-sun sky-bird bird-tree sky-wind
    wind-boat boat-sea sea-fish sea-rain rain-sky"""
SPANISH = """sol-día día-noche noche-luna luna-cielo cielo-sol cielo-pájaro pájaro-árbol
    cielo-viento viento-barco barco-mar mar-pez mar-lluvia lluvia-cielo lluvia-árbol"""


def count_links(text):
    links = [link.split("-") for link in text.split()]
    words = sorted({word for link in links for word in link})
    linked = np.zeros((len(words), len(words)))
    for one, other in links:
        linked[words.index(one), words.index(other)] = 1
    return words, links, shortest_path(linked, directed=False, unweighted=True)


# The words are in alphabetical order, which gives nothing away.
english, english_links, english_costs = count_links(ENGLISH)
spanish, spanish_links, spanish_costs = count_links(SPANISH)
n_english = english_costs[english.index("sun"), english.index("fish")]
n_spanish = spanish_costs[spanish.index("sol"), spanish.index("pez")]
print(f"from sun to fish {n_english:.0f} links, from sol to pez {n_spanish:.0f} links")

# %%
# No pair known
# -------------
# Two words are a mutual match if neither gives more of its mass to any other. If that
# is more than half of it, we call the match sure.
#
# Eight words have one. The other four can't: swap sun with moon and day with night,
# and every cost stays what it was. The plan says so by splitting their mass in halves.

TRANSLATIONS = {
    "sun": "sol", "day": "día", "night": "noche", "moon": "luna", "sky": "cielo",
    "bird": "pájaro", "tree": "árbol", "wind": "viento", "boat": "barco",
    "sea": "mar", "fish": "pez", "rain": "lluvia",
}  # fmt: skip


def report(name, result):
    shares = result.plan / result.plan.sum(axis=1, keepdims=True)
    best, back = result.plan.argmax(axis=1), result.plan.argmax(axis=0)
    mutual = back[best] == np.arange(len(best))
    sure = mutual & (shares.max(axis=1) > 0.5)
    right = [TRANSLATIONS[english[i]] == spanish[best[i]] for i in np.flatnonzero(sure)]
    print(
        f"{name}: {result.status} at objective {result.gw_cost:.2f}, "
        f"{sure.sum()} of {len(sure)} words sure, {sum(right)} right"
    )
    for word in TRANSLATIONS:
        i = english.index(word)
        first, second = np.argsort(-shares[i].round(2), kind="stable")[:2]
        print(
            f"  {word:6} {spanish[first]} {100 * shares[i, first]:.0f} %, "
            f"{spanish[second]} {100 * shares[i, second]:.0f} %"
            f"{', sure' if sure[i] else ''}"
        )


# In units of squared links; epsilon_and_the_plan.py shows what it does.
EPSILON = 0.2
costs = english_costs, spanish_costs
unknown = gwfast.gromov_wasserstein(*costs, epsilon=EPSILON, init="product")
report("no pair known", unknown)

# %%
# That was one start, and halves are a compromise: their objective is not the lowest.
# By default many starts are tried, some of which end in one of the two mirror images.
# Both are as good; a search that goes on for a second finds the other one, and then
# `status` and `advice` (and a warning, not shown here) tell.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
    several = gwfast.gromov_wasserstein(
        *costs, epsilon=EPSILON, options=gwfast.SolverOptions(search_time=1.0)
    )
print(f"from many starts: {several.status} at objective {several.gw_cost:.2f}")
print(f"  advice: {several.advice}")

# %%
# One pair known
# --------------
# `Seeds` are row numbers of words that belong together. They only say where to start,
# and one pair is enough for all four.

pair = [english.index("sun"), spanish.index("sol")]
seeded = gwfast.gromov_wasserstein(*costs, epsilon=EPSILON, init=gwfast.Seeds([pair]))
report("sun = sol given", seeded)

# %%
# A picture
# ---------
# Above, the links, with the one that only Spanish has in orange. Fold the left end of
# each drawing about its middle: sun falls on moon, and day on night. Below, the two
# plans, with the right matches on the diagonal. On the left the four words have two
# candidates each; on the right the one pair that was given has decided for all four.

BLUE, ORANGE = "#0072b2", "#d55e00"
PLACES = {
    "sun": (1, 2), "day": (0, 1.5), "night": (0, 0.5), "moon": (1, 0), "sky": (2, 1),
    "bird": (2.6, 2), "tree": (4, 2), "rain": (3.3, 1.25), "wind": (2.8, 0),
    "boat": (4, 0), "sea": (4.4, 1), "fish": (5.6, 1),
}  # fmt: skip


def draw_links(axes, links, name, shown):
    places = {shown[word]: place for word, place in PLACES.items()}
    for one, other in links:
        extra = {one, other} == {"lluvia", "árbol"}
        axes.plot(
            *zip(places[one], places[other], strict=True),
            color=ORANGE if extra else BLUE,
            linewidth=2 if extra else 1.2,
            zorder=1,
        )
    for word, place in places.items():
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(*place, word, ha="center", va="center", fontsize=9, bbox=box)
    axes.set_title(name, fontsize="medium", loc="left")
    axes.margins(0.08, 0.12)
    axes.set_axis_off()


figure = plt.figure(figsize=(7.4, 6), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(2, 3.4), squeeze=False).flat
left, right = above.subplots(1, 2)
draw_links(left, english_links, "Links of the English words", {word: word for word in PLACES})
draw_links(right, spanish_links, "Links of the Spanish words", TRANSLATIONS)
rows = [english.index(word) for word in TRANSLATIONS]
cols = [spanish.index(word) for word in TRANSLATIONS.values()]
plot_plans(
    {
        "No pair known": unknown.plan[np.ix_(rows, cols)],
        "sun = sol given": seeded.plan[np.ix_(rows, cols)],
    },
    list(TRANSLATIONS),
    list(TRANSLATIONS.values()),
    figure=below,
)
figure.savefig(output / "words_by_hand.png", dpi=150)
