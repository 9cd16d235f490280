"""Solves whose advice is in the arguments of another function, for cells and for slices."""

import dataclasses
import warnings

from ..results.result import ConvergenceWarning
from ..results.status import Ending
from ..solvers.gromov import gromov_wasserstein
from ..utils.callers import outside

# `width` is the argument for the width of a plan, `others` are further arguments to change.
ADVICE = {
    Ending.CONVERGED: "",
    Ending.STOPPED: "",
    Ending.CYCLE: "try a larger {width}, or compare other {others}",
    Ending.TIME_LIMIT: "try a larger time_limit, a larger {width}, or fewer points",
    Ending.NEAR_PRODUCT: "the plan matches nothing; try a smaller {width}, or other {others}",
    Ending.LOST_MASS: "points have lost their mass; try a larger {width}",
    Ending.TRUNCATED: "try a smaller {width}, or options with a larger n_neighbors or tier='tiled'",
    Ending.UNCERTAIN: "a lower optimum may exist; compare other {others}",
    Ending.TIE: "another plan has the same objective, see gw.candidates; compare other {others}",
}
UNBALANCED = ADVICE | {
    Ending.UNCERTAIN: (
        "which points an unbalanced plan leaves out depends on rho; compare Partial(mass) with the "
        "mass that both sides share, or 'semirelaxed' if only the first side lacks points"
    )
}


def quiet_solve(*args, **kwargs):
    """Return the result of `gromov_wasserstein` without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return gromov_wasserstein(*args, **kwargs)


def advised(gw, width, others):
    """Return the `GWResult` with advice in the arguments `width` and `others`."""
    known = UNBALANCED if gw.marginals.name == "unbalanced" else ADVICE
    advice = known.get(gw.ending, "try a larger {width}").format(width=width, others=others)
    return dataclasses.replace(gw, advice=advice)


def warn_of(gw):
    """Warn of a `GWResult` that neither converged nor was stopped."""
    if gw.ending not in (Ending.CONVERGED, Ending.STOPPED):
        ended = f"Gromov-Wasserstein ended as {str(gw.status)!r} after {gw.n_iter} iterations"
        warnings.warn(f"{ended}: {gw.advice}", ConvergenceWarning, stacklevel=outside())
