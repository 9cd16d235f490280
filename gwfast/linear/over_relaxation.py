"""Over-relaxed Sinkhorn iterations: how far to go beyond the plain step."""

import numpy as np

# Best at a plain rate of .9994: the estimate of a rate nearer to one is rounding, and an omega of
# two diverges.
MAX_OMEGA = 1.95


class OverRelaxation:
    """The factor `omega`, by how fast errors of the marginals fall; 1.0 is plain."""

    omega, _error = 1.0, np.inf

    def rate(self, error, n_iter):
        """Factor of the error in each of the last `n_iter` iterations."""
        return (error / self._error) ** (1.0 / n_iter)

    def adapt(self, error, rate):
        """Choose omega for the next iterations, after `error` that fell by `rate`."""
        self.omega, self._error = _next_omega(self.omega, rate), error


def _next_omega(omega, rate):
    """Over-relaxation for an error that fell by `rate` an iteration under `omega`.

    Near the solution Sinkhorn is a Gauss-Seidel iteration: if its plain rate is `eta`, the rate
    under omega fulfills Young's ``(rate + omega - 1)^2 = rate omega^2 eta``, and the best omega is
    ``2 / (1 + sqrt(1 - eta))`` (Lehmann, von Renesse, Sambale and Uschmajew, Optimization Letters
    2022). An error that does not fall is a sign that the solution is far.
    """
    if not rate < 1.0:
        return 1.0
    if rate <= omega - 1.0:
        return omega
    eta = (rate + omega - 1.0) ** 2 / (rate * omega**2)
    if eta >= 1.0:
        return omega
    return max(omega, min(2.0 / (1.0 + np.sqrt(1.0 - eta)), MAX_OMEGA))
