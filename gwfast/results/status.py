"""How a solver ended: the statuses of results, and the cases behind them."""

import enum


class Status(str, enum.Enum):
    """Why a solver stopped, and what its result is worth. A `str`: members compare, hash, print
    and serialize as their values.

    Attributes
    ----------
    value, meaning : str
        The name, and what it means.
    """

    meaning: str

    CONVERGED = "converged", "objective, plan and marginals are within tolerance"
    MAX_ITER = "max_iter", "a limit of iterations was reached"
    TIME_LIMIT = "time_limit", "time was up; the plan is the best that there was by then"
    STOPPED = "stopped", "by the callback"
    STALLED = "stalled", "the solution stays above a tolerance, as it is rounded or goes in a cycle"
    DEGENERATE = "degenerate", "the plan matches nothing, or has lost a part of the mass"
    UNCERTAIN = "uncertain", "within tolerance, but another plan may be as good or better"

    def __new__(cls, value, meaning):
        self = str.__new__(cls, value)
        self._value_, self.meaning = value, meaning
        return self

    __str__, __repr__ = str.__str__, str.__repr__
    __format__ = str.__format__  # type: ignore[assignment]


class Ending(enum.Enum):
    """The cases of each `Status`, and what to try in each; without advice if all is well, or if it
    depends on the result.
    """

    status: Status
    advice: str

    CONVERGED = Status.CONVERGED, ""
    SCALES = Status.CONVERGED, ""  # a term of a fused problem decides alone
    MAX_OUTER = Status.MAX_ITER, "try a larger max_iter, or a larger tol"
    MAX_INNER = (
        Status.MAX_ITER,
        "objective and plan stand still above the marginal tolerance; try a larger epsilon, or "
        "SolverOptions with a larger max_inner or marginal_tol",
    )
    TIME_LIMIT = Status.TIME_LIMIT, "try a larger time_limit, a larger tol, or fewer points"
    STOPPED = Status.STOPPED, ""
    PRECISION = (
        Status.STALLED,
        "rounding errors allow no more; try a larger epsilon or tol, or a larger marginal_tol of "
        "SolverOptions",
    )
    CYCLE = (
        Status.STALLED,
        "outer iterations go from one plan to another and back; try a larger epsilon, or "
        "the smaller steps of SolverOptions(method='ppa'), the proximal point method",
    )
    UNSOLVED = (
        Status.DEGENERATE,
        "time was up before the first iteration; try a larger time_limit, a larger tol, or fewer "
        "points",
    )
    NEAR_PRODUCT = Status.DEGENERATE, "the plan hardly differs from the product plan"
    EQUAL_COSTS = (
        Status.DEGENERATE,
        "all plans have the same objective, as all costs of a side are equal up to rounding; "
        "costs that differ, or a linear_cost, decide",
    )
    MISSED_ROWS = (
        Status.DEGENERATE,
        "try a larger epsilon, or the proximal point method, SolverOptions(method='ppa')",
    )
    LOST_MASS = Status.DEGENERATE, "points have lost their mass"
    TRUNCATED = Status.DEGENERATE, "the plan may have much of its mass outside of the neighbors"
    RIVAL = (
        Status.UNCERTAIN,
        "which of them is right cannot be known; more points or a few known pairs "
        "(init=Seeds(...)) decide",
    )
    UNCERTAIN = Status.UNCERTAIN, "a lower optimum may well exist, see confidence"
    TIE = (
        Status.UNCERTAIN,
        "another plan has the same objective: the spaces are symmetric, or tell too little apart; "
        "more points or a few known pairs (init=Seeds(...)) decide",
    )

    def __new__(cls, status, advice):
        self = object.__new__(cls)
        self._value_, self.status, self.advice = len(cls.__members__), status, advice
        return self
