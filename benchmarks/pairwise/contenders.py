"""Who compares all pairs, each as a function from spaces to the costs (N, N)."""

import importlib.util
import itertools
import warnings

import numpy as np
from scipy.spatial.distance import squareform

import gwfast

GWFAST, POT, CAJAL = "gwfast", "POT", "cajal"


def contenders(n_threads, peers):
    """Triples of a name, its threads and the function.

    The solvers of `peers` have one: POT's and cajal's have no threads of their own, and
    BLAS is slower on two for matrices as small as these.
    """
    made = [(GWFAST, k, _ours(k)) for k in dict.fromkeys((1, n_threads))]
    made += [(name, 1, PEERS[name]) for name in peers if is_installed(name)]
    return made


def is_installed(name):
    """Whether a peer can be imported."""
    return importlib.util.find_spec({POT: "ot", CAJAL: "cajal"}[name]) is not None


def _ours(n_threads):
    def solve(spaces):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = dict(n_starts=0, n_threads=n_threads)
            found = gwfast.pairwise_gromov_wasserstein(spaces, **given)
            return found.costs

    return solve


def pot_loop(spaces):
    """POT's exact solver with its defaults, from the product plan."""
    from ot.gromov import gromov_wasserstein2

    masses = [np.full(len(one), 1 / len(one)) for one in spaces]
    costs = np.zeros((len(spaces),) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, j in itertools.combinations(range(len(spaces)), 2):
            costs[i, j] = costs[j, i] = gromov_wasserstein2(
                spaces[i], spaces[j], masses[i], masses[j], "square_loss"
            )
    return costs


def cajal_pairs(spaces):
    """cajal's compiled loop; its distances are half the roots of the costs."""
    from cajal.gw_cython import GW_cell, gw_pairwise

    cells = [GW_cell(one, np.full(len(one), 1 / len(one))) for one in spaces]
    return 4 * squareform(np.asarray(gw_pairwise(cells))) ** 2


PEERS = {POT: pot_loop, CAJAL: cajal_pairs}
