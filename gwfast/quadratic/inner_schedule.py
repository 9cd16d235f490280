"""The tolerance of early linear problems: a fraction of the change of the plan, down to
the tolerance that was asked for. The fixed points of the outer loop stay the same.
"""

# Factor by which inner solutions may get tighter because the objective rose or the loop
# stands still.
MAX_TIGHTENING = 16


class InnerSchedule:
    """Tolerance and limit of inner iterations, by the change of the outer ones.

    Attributes
    ----------
    limit : int
        Inner iterations of the next linear problem, unless its plan may be the last.
    least_error : float
        That of the `Linearization` before the last linear problem.
    """

    def __init__(self, linearization):
        self._linearization = linearization
        self._precision = linearization.precision
        self.limit, self.least_error = linearization.inner_limit, 0.0
        self._fraction = linearization.inner_fraction
        self._max_limit = MAX_TIGHTENING * self.limit
        self._min_fraction = self._fraction / MAX_TIGHTENING

    def allow(self, most):
        """Raise the limit to `most`."""
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
        self.least_error = self._linearization.least_error
        return dict(tol=max(tol, self.least_error), max_iter=max_iter)

    def adapt(self, error, change, rose, stands=False):
        """Adapt after an iteration: to its error of the marginals beside its change,
        and to whether the objective rose or the loop stands still.
        """
        if stands:
            self._linearization.tighten()
        if error > change:
            # The plan now moves because its marginals are still settling.
            self.limit *= 2
        elif rose or stands:
            # Marginals are still settling, or rough inner solutions make the outer
            # iterations cycle, which exact ones cannot for concave objectives. Other
            # cycles are not worth unlimited iterations.
            self.limit = max(self.limit, min(2 * self.limit, self._max_limit))
            self._fraction = max(self._fraction / 2, self._min_fraction)
