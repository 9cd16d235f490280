"""The numbers that the paper printed, from its LaTeX source: P@1 in percent, and minutes."""

TABLE1_DIRECTIONS = "en-es es-en en-fr fr-en en-de de-en en-it it-en en-ru ru-en".split()
TABLE2_DIRECTIONS = "en-it en-de en-fi en-es".split()

# Table 1, on the data of Conneau et al. (ICLR 2018): P@1 by direction, mean CPU minutes.
TABLE1 = {
    "Procrustes": ("77.6 77.2 74.9 75.9 68.4 67.7 73.9 73.8 47.2 58.2", "3"),
    "Procrustes + CSLS": ("81.2 82.3 81.2 82.2 73.6 71.9 76.3 75.5 51.7 63.7", "3"),
    "Conneau et al. 2018": ("81.7 83.3 82.3 82.1 74.0 72.2 77.4 76.1 52.4 61.4", "957"),
    "G-W, lambda 1e-4": ("78.3 79.5 79.3 78.3 69.6 66.9 75.3 74.1 26.1 35.4", "70"),
    "G-W, lambda 1e-5": ("81.7 80.4 81.3 78.9 71.9 72.8 78.9 75.2 45.1 43.7", "37"),
}
# Table 2, on the data of Dinu et al. (2015): P@1 and minutes by direction.
TABLE2 = {
    "Zhang et al. 2017": ("0 0 0.07 0.07", "46.6 46.0 44.9 43.0"),
    "Conneau et al. 2018": ("45.40 47.27 1.62 36.20", "46.1 45.4 44.4 45.3"),
    "Artetxe et al. 2018": ("48.53 48.47 33.50 37.60", "8.9 7.3 12.9 9.1"),
    "G-W": ("44.4 37.83 6.8 12.5", "35.2 36.7 15.6 18.4"),
    "G-W + normalize": ("49.21 46.5 18.3 37.60", "36 33.2 42.1 38.2"),
}
DYNAMICS = (
    "The paper draws this for en-fr at lambda 5e-4 and 1e-4 and en-ru at 1e-4, 15,000 words each: "
    "the objective falls monotonically, accuracy follows it closely, and near languages take fewer "
    "iterations than distant ones."
)
DISTANCES = (
    "The paper draws this matrix for 2000 words of en, es, fr, de, it, ru and zh: Romance "
    "languages are nearest to one another, Chinese is farthest from all others, Russian is nearest "
    "to Spanish, and English is as far from German as from French."
)
