"""Fused, proximal, semi-relaxed and partial problems of one small size."""

import numpy as np
from helpers.problems import masses, random_cost

import gwfast

N, M = 9, 7
P, Q = masses(N, 1), masses(M, 2)
BETWEEN = np.random.default_rng(3).random((N, M))

FUSED = dict(linear_cost=BETWEEN, alpha=0.3)
SEMIRELAXED = dict(marginals="semirelaxed")
PARTIAL = dict(marginals=gwfast.Partial(0.6))
# Rare settings flat: `helpers.settings` puts them where they belong.
VARIANTS = {
    "plain": {},
    "fused": FUSED,
    "ppa": dict(method="ppa"),
    "fused ppa": dict(method="ppa", **FUSED),
    "bapg": dict(method="bapg"),
    "fused bapg": dict(method="bapg", **FUSED),
    "semirelaxed": SEMIRELAXED,
    "fused semirelaxed": dict(**SEMIRELAXED, **FUSED),
    "semirelaxed ppa": dict(method="ppa", **SEMIRELAXED),
    "partial": PARTIAL,
    "fused partial": dict(**PARTIAL, **FUSED),
    "partial ppa": dict(method="ppa", **PARTIAL),
}


def costs(symmetric=True, n=N, m=M):
    return tuple(
        random_cost(size, seed, symmetric=symmetric) + 0.1 for size, seed in ((n, 4), (m, 5))
    )


def masses_of(options, p=P, q=Q):
    """What `gromov_wasserstein` takes of two marginals."""
    return (p, None) if options.get("marginals") == "semirelaxed" else (p, q)
