"""How much a plan says about who matches whom."""

import numpy as np


def mass_entropy(masses):
    """``-sum masses log masses``."""
    masses = masses[masses > 0]
    return -float(masses @ np.log(masses))


def mutual_information(rows, cols, entropy):
    """Kullback-Leibler divergence of a plan with these marginals and this entropy from
    the product of its marginals, and the most that it could be.
    """
    of_rows, of_cols = mass_entropy(rows), mass_entropy(cols)
    return of_rows + of_cols - entropy, min(of_rows, of_cols)
