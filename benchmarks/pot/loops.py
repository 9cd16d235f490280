"""What loops of others call, in either module: Sinkhorn's problem, exact transport, and
conditional gradient around a Gromov-Wasserstein loss.
"""

import functools
import warnings
from statistics import median

import numpy as np
import ot

from ..common.markdown import show
from .timings import in_turns

SIZES, SHARES = (10, 20, 50, 100, 300, 1000), (0.5, 0.1, 0.02)
HEADS = ("call", "points", "ms, POT, median [min]", "ms, gwfast.pot", "ratio", "objectives")


def loops_table(_, ours):
    """With random masses; entropy in shares of the largest cost."""
    rows = [row for n in SIZES for row in _rows(ours, n)]
    show("steps of loops", HEADS, rows)


def _rows(ours, n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n, 3))
    p, q = (z / z.sum() for z in 0.1 + rng.random((2, n)))
    M, C1, C2 = ot.dist(x, y), ot.dist(x, x), ot.dist(y, y)
    terms = ot.gromov.init_matrix(C1, C2, p, q)

    def of_costs(G):
        return np.vdot(G, M)

    def f(G):
        return ot.gromov.gwloss(*terms, G)

    def df(G):
        return ot.gromov.gwggrad(*terms, G)

    def search(cost, G, deltaG, Mi, cost_G, df_G, **_):
        costs = G, deltaG, cost_G, C1, C2
        return ot.gromov.solve_gromov_linesearch(*costs, M=M, reg=1.0)

    for share in SHARES:
        given, functions = (p, q, M, share * M.max()), (ot.sinkhorn, ours.sinkhorn)
        yield _row(f"sinkhorn, {share:g}", n, functions, given, of_costs)
    yield _row("emd", n, (ot.emd, ours.emd), (p, q, M), of_costs)
    loops = (functools.partial(g, line_search=search) for g in (ot.optim.cg, ours.cg))
    given = p, q, M, 1.0, f, df
    yield _row("cg", n, loops, given, lambda G: of_costs(G) + f(G))


def _row(name, n, functions, given, objective):
    """Both modules' times, and objectives of both plans."""
    calls = [functools.partial(function, *given) for function in functions]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, plans = in_turns(calls)
    middle = [1e3 * median(some) for some in seconds]
    times = [
        f"{value:.3g} [{1e3 * min(some):.3g}]" for value, some in zip(middle, seconds, strict=True)
    ]
    both = ", ".join(f"{objective(plan):.6g}" for plan in plans)
    return [name, str(n), *times, f"{middle[0] / middle[1]:.2f}", both]
