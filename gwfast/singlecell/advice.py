"""Advice about alignments of cells, in the arguments of `align`."""

from __future__ import annotations

import dataclasses

from ..results.result import GWResult
from ..results.status import Ending

ADVICE = {
    Ending.MAX_OUTER: "try a larger epsilon",
    Ending.MAX_INNER: "try a larger epsilon",
    Ending.CYCLE: "try a larger epsilon, or other n_neighbors",
    Ending.TIME_LIMIT: "try a larger time_limit, or fewer cells",
    Ending.PRECISION: "try a larger epsilon",
    Ending.NEAR_PRODUCT: (
        "the plan hardly differs from the product plan and matches nothing; try a "
        "smaller epsilon (Epsilon(relative=0.015) is usual), or other n_neighbors"
    ),
    Ending.LOST_MASS: "points have lost their mass; try a larger epsilon",
    Ending.UNCERTAIN: "a lower optimum may exist; compare other n_neighbors, metric and use_rep",
    Ending.TIE: (
        "another plan has the same objective, see gw.candidates: the graphs are "
        "symmetric, or tell too little apart; compare other n_neighbors, metric and use_rep"
    ),
}
# Where the mass of the plan is free.
UNBALANCED = {
    Ending.MAX_OUTER: "try a larger rho or epsilon",
    Ending.CYCLE: "try a larger rho or epsilon",
    Ending.LOST_MASS: "no match is worth its cost at this rho; try a larger rho",
    Ending.UNCERTAIN: (
        "which cells an unbalanced plan leaves out depends on rho and n_neighbors; try "
        "marginals=Partial(mass) with the mass that both sides share, or "
        "'semirelaxed' if only adata_x lacks cells"
    ),
}


def advised(gw: GWResult, uneven: bool = False) -> GWResult:
    """Return the result with advice in the arguments of `align`. A result that converged is
    "uncertain" if lengths of rows are `uneven`, or if it is unbalanced: then it has no confidence.
    """
    unbalanced = gw.marginals.name == "unbalanced"
    if gw.ending == Ending.CONVERGED and (uneven or unbalanced):
        advice = (
            "lengths of rows differ and may hide what cells are; normalize the rows first"
            if uneven
            else UNBALANCED[Ending.UNCERTAIN]
        )
        return dataclasses.replace(gw, ending=Ending.UNCERTAIN, advice=advice)
    known = ADVICE | UNBALANCED if unbalanced else ADVICE
    return dataclasses.replace(gw, advice=known.get(gw.ending, ""))
