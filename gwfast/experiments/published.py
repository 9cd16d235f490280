"""What the paper printed: Alvarez-Melis and Jaakkola, Gromov-Wasserstein Alignment of
Word Embedding Spaces, EMNLP 2018.

Transcribed from its LaTeX source, as text, so that digits stay as they were printed:
P@1 in percent, times in minutes. Its figures of the training dynamics and of the
distances between languages are pictures, and their numbers are not in the source.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """A line of a table."""

    label: str
    accuracy: dict[str, str]  # P@1 by direction, such as "en-es"
    minutes: dict[str, str]  # by direction; "" is the average over all


TABLE1_DIRECTIONS = (
    "en-es", "es-en", "en-fr", "fr-en", "en-de", "de-en", "en-it", "it-en", "en-ru",
    "ru-en",
)  # fmt: skip
TABLE2_DIRECTIONS = ("en-it", "en-de", "en-fi", "en-es")


def _table1(label, minutes, accuracy):
    cells = zip(TABLE1_DIRECTIONS, accuracy.split(), strict=True)
    return Row(label, dict(cells), {"": minutes})


def _table2(label, numbers):
    """Accuracy and minutes of each direction in turn."""
    numbers = numbers.split()
    accuracy, minutes = (
        dict(zip(TABLE2_DIRECTIONS, column, strict=True))
        for column in (numbers[::2], numbers[1::2])
    )
    return Row(label, accuracy, minutes)


#: Table 1, on the data of Conneau et al. (ICLR 2018): ten directions, CPU minutes.
TABLE1 = {
    "procrustes": _table1(
        "Procrustes", "3", "77.6 77.2 74.9 75.9 68.4 67.7 73.9 73.8 47.2 58.2"
    ),
    "procrustes csls": _table1(
        "Procrustes + CSLS", "3", "81.2 82.3 81.2 82.2 73.6 71.9 76.3 75.5 51.7 63.7"
    ),
    "conneau": _table1(
        "Conneau et al. 2018", "957",
        "81.7 83.3 82.3 82.1 74.0 72.2 77.4 76.1 52.4 61.4",
    ),
    "gw 1e-4": _table1(
        "G-W, lambda 1e-4", "70", "78.3 79.5 79.3 78.3 69.6 66.9 75.3 74.1 26.1 35.4"
    ),
    "gw 1e-5": _table1(
        "G-W, lambda 1e-5", "37", "81.7 80.4 81.3 78.9 71.9 72.8 78.9 75.2 45.1 43.7"
    ),
}  # fmt: skip

#: Table 2, on the data of Dinu et al. (2015): English into four languages. The first
#: three rows are copied there from Artetxe et al. (ACL 2018), with minutes on a GPU.
TABLE2 = {
    "zhang": _table2("Zhang et al. 2017", "0 46.6 0 46.0 0.07 44.9 0.07 43.0"),
    "conneau": _table2("Conneau et al. 2018", "45.40 46.1 47.27 45.4 1.62 44.4 36.20 45.3"),
    "artetxe": _table2("Artetxe et al. 2018", "48.53 8.9 48.47 7.3 33.50 12.9 37.60 9.1"),
    "gw": _table2("G-W", "44.4 35.2 37.83 36.7 6.8 15.6 12.5 18.4"),
    "gw normalize": _table2("G-W + normalize", "49.21 36 46.5 33.2 18.3 42.1 37.60 38.2"),
}

DYNAMICS = (
    "It draws this for en-fr at lambda 5e-4 and 1e-4 and en-ru at 1e-4, 15,000"
    " words each. Its curves are pictures without numbers, so that there is nothing to"
    " print beside these. It says: the objective falls monotonically, accuracy follows"
    " it closely, and near languages (en-fr) take fewer iterations than distant ones"
    " (en-ru)."
)
DISTANCES = (
    "The paper draws this matrix for the fastText vectors of Wikipedia, 2000 words a"
    " language. It is a picture without numbers in the source, so that there is"
    " nothing to print beside it. It says: Romance languages are among the nearest to"
    " one another, Chinese is farthest from all others, Russian is rather near the"
    " Romance ones and nearest to Spanish, and English is as far from German as from"
    " French."
)
#: Languages that its text names.
DISTANCES_LANGUAGES = ("en", "es", "fr", "de", "it", "ru", "zh")
