"""How well early linear problems are solved: as well as the plan still moves, down to
the tolerance that was asked for. It does not move where the outer loop ends.
"""

# How much tighter inner solutions may get because the objective rose or the loop stands
# still.
MAX_TIGHTENING = 16


class InnerSchedule:
    """Tolerance and limit of the inner iterations, by the change of the outer ones.

    Attributes
    ----------
    limit : int
        Of the next linear problem, unless its plan may be the last.
    """

    def __init__(self, linearization):
        self._linearization = linearization
        self._precision = linearization.precision
        self.limit = linearization.inner_limit
        self._fraction = linearization.inner_fraction
        self._max_limit = MAX_TIGHTENING * self.limit
        self._min_fraction = self._fraction / MAX_TIGHTENING

    def allow(self, most):
        """Have the next linear problems take up to so many iterations at least."""
        self.limit = max(self.limit, most)

    def options(self, limits, change, thorough):
        """Tolerance and limit for the next linear problem, by the change of the last
        outer iteration; `thorough` if its plan may be the last.
        """
        rough = min(self._fraction * change, self._precision.rough)
        tol = limits.rule.inner_tol(limits.tol, rough, self._precision)
        tol, max_iter = min(limits.marginal_tol, tol), limits.max_inner
        if not thorough and self._linearization.mechanisms.rough_inner:
            tol, max_iter = max(tol, rough), min(self.limit, max_iter)
        return dict(tol=tol, max_iter=max_iter)

    def bounds(self, limits):
        """That tolerance as a fraction of the change, its largest and least, and the
        limit, of linear problems whose plans are not the last.
        """
        least = self.options(limits, 0.0, False)
        return self._fraction, self._precision.rough, least["tol"], least["max_iter"]

    def adapt(self, error, change, rose, stands=False):
        """Go on after an iteration with these errors, by whether the objective rose,
        and whether the loop stands still.
        """
        if stands:
            self._linearization.tighten()
        if error > change:
            # The plan now moves because its marginals are still settling.
            self.limit *= 2
        elif rose or stands:
            # So does the objective, or rough inner solutions have made the outer
            # iterations cycle, which exact ones cannot (for concave objectives).
            # What cycles nevertheless is not worth unlimited iterations.
            self.limit = max(self.limit, min(2 * self.limit, self._max_limit))
            self._fraction = max(self._fraction / 2, self._min_fraction)
