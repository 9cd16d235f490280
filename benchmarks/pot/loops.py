"""What loops of others call, in either module: Sinkhorn's problem, exact transport, and
conditional gradient around a Gromov-Wasserstein loss.
"""

import warnings
from statistics import median

import numpy as np
import ot

from ..common.markdown import show
from .timings import in_turns

SIZES, SHARES = (10, 20, 50, 100, 300, 1000), (0.5, 0.1, 0.02)
HEADS = (
    "call",
    "points",
    "ms, POT, median [min]",
    "ms, gwfast.pot",
    "ratio",
    "objectives",
)


def loops_table(_, ours):
    """With random masses; entropy in shares of the largest cost."""
    rows = []
    for n in SIZES:
        rng = np.random.default_rng(n)
        x, y = rng.standard_normal((2, n, 3))
        p, q = (z / z.sum() for z in 0.1 + rng.random((2, n)))
        M, C1, C2 = ot.dist(x, y), ot.dist(x, x), ot.dist(y, y)
        terms = ot.gromov.init_matrix(C1, C2, p, q)

        def f(G, terms=terms):
            return ot.gromov.gwloss(*terms, G)

        def df(G, terms=terms):
            return ot.gromov.gwggrad(*terms, G)

        def search(cost, G, deltaG, Mi, cost_G, df_G, M=M, C1=C1, C2=C2, **_):
            costs = G, deltaG, cost_G, C1, C2
            return ot.gromov.solve_gromov_linesearch(*costs, M=M, reg=1.0)

        for share in SHARES:
            given = p, q, M, share * M.max()
            calls = [lambda f=g.sinkhorn, x=given: f(*x) for g in (ot, ours)]
            rows.append(_row(f"sinkhorn, {share:g}", n, calls, _of_costs(M)))
        calls = [lambda g=g, x=(p, q, M): g(*x) for g in (ot.emd, ours.emd)]
        rows.append(_row("emd", n, calls, _of_costs(M)))
        given = p, q, M, 1.0, f, df
        calls = [
            lambda g=g, x=given, s=search: g(*x, line_search=s)
            for g in (ot.optim.cg, ours.cg)
        ]
        rows.append(_row("cg", n, calls, lambda G, M=M, f=f: np.vdot(G, M) + f(G)))
    show("steps of loops", HEADS, rows)


def _of_costs(M):
    return lambda G: np.vdot(G, M)


def _row(name, n, calls, objective):
    """Both modules' times, and objectives of both plans."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, plans = in_turns(calls)
    middle = [1e3 * median(some) for some in seconds]
    times = [
        f"{value:.3g} [{1e3 * min(some):.3g}]"
        for value, some in zip(middle, seconds, strict=True)
    ]
    both = ", ".join(f"{objective(plan):.6g}" for plan in plans)
    return [name, str(n), *times, f"{middle[0] / middle[1]:.2f}", both]
