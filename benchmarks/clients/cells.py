"""Programs for single cells: SCOT and Pamona."""

import contextlib
import io

import numpy as np

from gwfast import pot
from gwfast.singlecell import foscttm

from ..common import data
from .rows import Program, compared, coupling, quadratic, timed

# --- SCOT (version 1), whose calls are written out here -------------------------------


def scot(rounds):
    """Compare at SCOT's defaults for these cells, and at the first values of its search."""
    import ot

    x, y, *_ = data.cells("scGEM")
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    for k, epsilon in ((35, 1e-3), (29, 1e-2)):
        # SCOT counts a cell among its own neighbors.
        costs = [data.hops(data.correlated(side), k - 1) for side in (x, y)]

        def theirs(costs=costs, epsilon=epsilon):
            p, q = (ot.unif(len(cost)) for cost in costs)
            return ot.gromov.entropic_gromov_wasserstein(
                *costs, p, q, loss_fun="square_loss", epsilon=epsilon, log=True
            )[0]

        yield compared(
            f"scGEM, k={k}, e={epsilon:g}",
            theirs,
            pot.patched()(theirs),
            lambda plan, costs=costs: quadratic(coupling(plan), *costs),
            "FOSCTTM, lower is better",
            lambda plan: foscttm(plan @ y / plan.sum(axis=1, keepdims=True), y),
            rounds,
        )


# --- Pamona: partial plans, and both modalities in a space of leading directions ------


def pamona(rounds):
    """Compare with all cells, and without the cells of a type in the second modality."""
    from pamona.Pamona import Pamona
    from sklearn.neighbors import KNeighborsClassifier

    class Timed(Pamona):
        entropic_gromov_wasserstein = timed(Pamona.entropic_gromov_wasserstein)

    class Changed(Pamona):
        entropic_gromov_wasserstein = timed(pamona_solver)

    def objective(found):
        """Judge the plan without virtual cells, with its marginals if all are matched."""
        C1, C2 = found[0].dist
        plan = found[0].T[0][: len(C1), : len(C2)]
        plan = coupling(plan) if len(C1) == len(C2) else plan
        return quadratic(plan / plan.sum(), C1, C2)

    x, y, x_types, y_types = data.cells("scGEM")
    for lacks in (False, True):
        kept = y_types < y_types.max() if lacks else np.full(len(y), True)

        def score(found, kept=kept):
            # Pamona's own measure is of a NumPy that had ``np.int``.
            _, (cells, others) = found
            near = KNeighborsClassifier(max(10, (len(cells) + len(others)) // 100))
            return near.fit(cells, x_types).score(others, y_types[kept])

        for epsilon in (1e-3, 5e-3):

            def run(program, epsilon=epsilon, kept=kept):
                model = program(n_shared=[kept.sum()], epsilon=epsilon, verbose=False)
                with contextlib.redirect_stdout(io.StringIO()):
                    return model, model.run_Pamona([x, y[kept]])[0]

            yield compared(
                f"scGEM, {kept.sum()} of {len(y)} cells, epsilon={epsilon:g}",
                lambda run=run: run(Timed),
                lambda run=run: run(Changed),
                objective,
                "label transfer accuracy",
                score,
                rounds,
            )


def pamona_solver(self, C1, C2, p, q, m, M=None, loss_fun="square_loss"):
    """Stand in for Pamona's function, whose gradient is half of it unless all is matched, and
    whose plan is divided by the mass, virtual cells included.
    """
    if abs(m - 1) < 1e-10:
        return pot.entropic_gromov_wasserstein(C1, C2, p, q, epsilon=self.epsilon)
    reg = 2 * self.epsilon * (p.sum() + q.sum() - m)
    return pot.entropic_partial_gromov_wasserstein(C1, C2, p, q, reg, m)


PROGRAMS = {
    "scot": Program("SCOT", "", 1, scot),
    "pamona": Program("Pamona", "pamona scikit-learn matplotlib torch umap-learn", 4, pamona),
}
