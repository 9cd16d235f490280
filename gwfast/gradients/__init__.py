"""Losses of torch and JAX by which networks learn: Gromov-Wasserstein objectives of native calls,
searches and all, with gradients in costs and masses.

Arrays of either library are taken as they are, and neither is imported to do so.
"""

from .losses import gromov_wasserstein_loss

__all__ = ["gromov_wasserstein_loss"]
