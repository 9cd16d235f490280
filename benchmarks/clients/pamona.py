"""Pamona (Cao et al., Bioinformatics 2022): cells of two modalities by partial plans,
and both in a space of the plan's leading directions.

Without the cells of a type in one of them, so many fewer are shared. (The
measure is written out here, as Pamona's own is of a NumPy that had ``np.int``.)
"""

import contextlib
import io

import numpy as np

from gwfast import pot

from ..common import pairs
from .rows import SOLVER, compared, coupling, quadratic

NAME, INSTALL, LINES = ("Pamona", "pamona POT scikit-learn matplotlib torch umap-learn", 4)
# Whether a type lacks in the second modality, and epsilon; 1e-3 is the default.
PROBLEMS = ((False, 1e-3), (False, 5e-3), (True, 1e-3), (True, 5e-3))


def rows(repeats):
    from pamona.Pamona import Pamona

    class Timed(Pamona):
        entropic_gromov_wasserstein = SOLVER.timed(Pamona.entropic_gromov_wasserstein)

    class Changed(Pamona):
        entropic_gromov_wasserstein = SOLVER.timed(entropic_gromov_wasserstein)

    x, y, x_types, y_types = pairs.cells("scGEM")
    for lacks, epsilon in PROBLEMS:
        kept = y_types < y_types.max() if lacks else np.full(len(y), True)

        def run(program, epsilon=epsilon, kept=kept):
            made = program(n_shared=[kept.sum()], epsilon=epsilon, verbose=False)
            with contextlib.redirect_stdout(io.StringIO()):
                return made, made.run_Pamona([x, y[kept]])[0]

        def score(found, kept=kept):
            _, (one, other) = found
            return transferred(other, one, y_types[kept], x_types)

        yield compared(
            f"scGEM, {kept.sum()} of {len(y)} cells, epsilon={epsilon:g}",
            lambda run=run: run(Timed),
            lambda run=run: run(Changed),
            objective,
            "label transfer accuracy",
            score,
            repeats,
        )


def entropic_gromov_wasserstein(self, C1, C2, p, q, m, M=None, loss_fun="square_loss"):
    """In place of Pamona's, whose gradient is half of it where not all is matched, and
    whose plan is divided by the mass with that of virtual cells."""
    if abs(m - 1) < 1e-10:
        return pot.entropic_gromov_wasserstein(C1, C2, p, q, epsilon=self.epsilon)
    reg = 2 * self.epsilon * (p.sum() + q.sum() - m)
    return pot.entropic_partial_gromov_wasserstein(C1, C2, p, q, reg, m)


def objective(found):
    """Of the plan without virtual cells, with its marginals if all are matched."""
    made, _ = found
    C1, C2 = made.dist
    plan = made.T[0][: len(C1), : len(C2)]
    if len(C1) == len(C2):
        plan = coupling(plan)
    return quadratic(plan / plan.sum(), C1, C2)


def transferred(cells, others, types, other_types):
    """How many types of cells are those of their nearest ones in the other modality."""
    from sklearn.neighbors import KNeighborsClassifier

    k = max(10, (len(cells) + len(others)) // 100)
    return KNeighborsClassifier(k).fit(others, other_types).score(cells, types)
