"""How a solver ended: the one list of all the ways."""

import enum


class Status(str, enum.Enum):
    """Why a solver stopped, and what its result is worth. A `str`: members compare, hash, print
    and serialize as their values.

    Attributes
    ----------
    value : str
    meaning : str
        For people.
    advice : str
        What to try; empty if all is well, or if it depends on the result.
    """

    meaning: str
    advice: str

    CONVERGED = "converged", "objective, plan and marginals are within tolerance"
    MAX_OUTER = (
        "max_outer",
        "the limit of outer iterations was reached",
        "try a larger max_outer, or a larger tol",
    )
    MAX_INNER = (
        "max_inner",
        "objective and plan stand still, the marginal tolerance was not reached within the limit "
        "of Sinkhorn iterations",
        "try a larger max_inner, a larger epsilon or a larger marginal_tol",
    )
    CYCLE = (
        "cycle",
        "outer iterations go in a cycle, from one plan to another and back",
        "try method='ppa', whose steps are smaller, or a larger epsilon",
    )
    TIME_LIMIT = (
        "time_limit",
        "time was up; the plan is the best that there was by then",
        "try a larger time_limit, a larger tol, or fewer points",
    )
    MAX_ITER = "max_iter", "the limit of Sinkhorn iterations was reached"
    PRECISION = (
        "precision",
        "rounding errors keep the solution above a tolerance",
        "rounding errors allow no more; try a larger epsilon, tol or marginal_tol",
    )
    STOPPED = "stopped", "by the callback"
    # The solver converged, but the plan should not be trusted as it is:
    NEAR_PRODUCT = (
        "near_product",
        "the plan hardly differs from the product plan and matches nothing",
    )
    MISSED_ROWS = (
        "missed_rows",
        "fitting rows and columns in turn has settled on a plan whose rows have other masses than "
        "p",
        "try a larger epsilon, or the proximal point method, which has both marginals",
    )
    LOST_MASS = "lost_mass", "points have lost their mass"
    TRUNCATED = (
        "truncated",
        "within tolerance on the neighbors of each point, outside of which the plan may have too "
        "much of its mass",
    )
    UNCERTAIN = (
        "uncertain",
        "within tolerance, but other optima are so near, or this one was met so rarely, that a "
        "lower one may well exist",
        "see confidence",
    )
    TIE = (
        "tie",
        "another plan is as good: the spaces are symmetric, or do not say enough",
        "another plan has the same objective, see candidates: the spaces are symmetric, or tell "
        "too little apart; more points or a few known pairs (init=Seeds(...)) decide",
    )

    def __new__(cls, value, meaning, advice=""):
        self = str.__new__(cls, value)
        self._value_, self.meaning, self.advice = value, meaning, advice
        return self

    __str__, __repr__ = str.__str__, str.__repr__
    __format__ = str.__format__  # type: ignore[assignment]
