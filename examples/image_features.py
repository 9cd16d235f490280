"""
Aligning image features
=======================

Nothing here is about words: rows of two feature spaces are enough. The same small images are
described once by their pixels, and once by the directions of the edges in them, which have another
number of columns and no column in common. Which rows belong to the same image?

The images are scikit-learn's handwritten digits. It prints::

    pixels: 600 images, 64 columns; edges: 600 images, 128 columns
    converged: same image 95 %, same digit 100 %
    of 1197 new images, same digit 92 %
"""

import argparse
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

import gwfast

try:
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
except ImportError:
    sys.exit("image_features.py needs scikit-learn: pip install scikit-learn")

parser = argparse.ArgumentParser(description="Aligning image features.")
parser.add_argument("--output", type=Path, default=Path("pictures"))
output = parser.parse_args().output
output.mkdir(parents=True, exist_ok=True)

# %%
# Two feature spaces
# ------------------
# The image is cut into 4 x 4 cells. In each, the edges of eight directions are added
# up, weighted by how strong they are: a histogram of oriented gradients.

N_IMAGES, N_CELLS, N_DIRECTIONS = 600, 4, 8


def edges(images):
    down, across = np.gradient(images, axis=(1, 2))
    strength = np.hypot(down, across)
    angle = np.arctan2(down, across) / (2 * np.pi) * N_DIRECTIONS
    # Each edge counts for the directions on both sides of it.
    cells = []
    for direction in range(N_DIRECTIONS):
        away = (angle - direction + N_DIRECTIONS / 2) % N_DIRECTIONS - N_DIRECTIONS / 2
        share = strength * np.maximum(1 - np.abs(away), 0)
        size = images.shape[1] // N_CELLS
        share = share.reshape(len(images), N_CELLS, size, N_CELLS, size)
        cells.append(share.sum(axis=(2, 4)).reshape(len(images), -1))
    return np.stack(cells, axis=2).reshape(len(images), -1)


pixels, digits = load_digits(return_X_y=True)
images = pixels.reshape(-1, 8, 8)
order = np.random.default_rng(0).permutation(N_IMAGES)
left, right = pixels[:N_IMAGES], edges(images[order])
print(
    "pixels: {} images, {} columns; edges: {} images, {} columns".format(*left.shape, *right.shape)
)

# %%
# Align
# -----
# The aligner is a transformer, and can be the last step of a pipeline. The second
# space is its `y`. No feature is ever negative, so that all rows point to the same
# side: they are centered before they are compared by their angles.

aligner = gwfast.GromovWassersteinAligner(normalize=("center", "unit"))
pipeline = make_pipeline(PCA(30), aligner).fit(left, right)

result = aligner.result_
matched = order[result.match()]
same_image = matched == np.arange(N_IMAGES)
same_digit = digits[matched] == digits[:N_IMAGES]
print(
    f"{result.gw.status}: same image {100 * same_image.mean():.0f} %, "
    f"same digit {100 * same_digit.mean():.0f} %"
)

# %%
# New images
# ----------
# The other images of the data set were not there. The mapping takes their pixels to
# the space of the edges, and `predict` finds the nearest of the rows there.

found = order[pipeline.predict(pixels[N_IMAGES:])]
right_digit = digits[found] == digits[N_IMAGES:]
print(f"of {len(found)} new images, same digit {100 * right_digit.mean():.0f} %")

# %%
# A picture
# ---------
# Above, the first image of each digit as it is in the one space, and the edges of the
# row that it was matched with in the other. Below, images that were matched with
# another one, and which: only such as look alike.

BLUE = "#0072b2"


def draw_image(axes, number):
    axes.imshow(images[number], cmap="gray_r", interpolation="nearest")


def draw_edges(axes, features):
    cells = features.reshape(N_CELLS, N_CELLS, N_DIRECTIONS)
    angle = 2 * np.pi * np.arange(N_DIRECTIONS) / N_DIRECTIONS
    middle = np.stack(np.meshgrid(np.arange(N_CELLS), np.arange(N_CELLS)), axis=2)
    # An edge runs at a right angle to its gradient.
    along = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    arms = 0.55 * (cells / cells.max())[..., None] * along
    ends = middle[:, :, None] + np.stack([-arms, arms])
    axes.add_collection(
        LineCollection(ends.reshape(2, -1, 2).swapaxes(0, 1), color=BLUE, linewidth=1)
    )
    axes.set_xlim(-0.6, N_CELLS - 0.4)
    axes.set_ylim(N_CELLS - 0.4, -0.6)
    axes.set_aspect("equal")


first = [np.flatnonzero(digits == digit)[0] for digit in range(10)]
row_of = np.argsort(order)
wrong = np.flatnonzero(~same_image)[:10]
figure = plt.figure(figsize=(7.4, 3.8), layout="constrained")
above, below = figure.subfigures(2, 1, squeeze=False).flat
above.suptitle("Pixels, and the edges they were matched with", ha="left", x=0.01, fontsize="medium")
below.suptitle("Matched with another image", ha="left", x=0.01, fontsize="medium")
panels = np.concatenate([above.subplots(2, 10), below.subplots(2, 10)])
for axes in panels.flat:
    axes.set_xticks([])
    axes.set_yticks([])
for column, number in enumerate(first):
    draw_image(panels[0, column], number)
    draw_edges(panels[1, column], right[row_of[matched[number]]])
for column, number in enumerate(wrong):
    draw_image(panels[2, column], number)
    draw_image(panels[3, column], matched[number])
figure.savefig(output / "image_features.png", dpi=150)
