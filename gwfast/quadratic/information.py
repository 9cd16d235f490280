"""Mutual information of a plan: how much it says about which points match."""

from ..kernels._kernels import mass_entropy


def mutual_information(rows, cols, entropy):
    """Kullback-Leibler divergence of a plan, given by marginals and entropy, from the
    product of its marginals; and its upper bound.
    """
    of_rows, of_cols = mass_entropy(rows), mass_entropy(cols)
    return of_rows + of_cols - entropy, min(of_rows, of_cols)
