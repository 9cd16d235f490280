"""Calls of POT's functions of several spaces, of matrices and of unbalanced problems, as rows."""

import inspect

import numpy as np
from helpers.pot_calls import ours, row
from helpers.pot_names import DICTIONARIES, EXACT_BARYCENTERS, SEMIRELAXED_BARYCENTERS
from helpers.pot_spaces import costs, weights
from helpers.problems import distances, masses

N = 5
INIT_C, INIT_Y = costs(N, 4), np.random.default_rng(4).normal(size=(N, 2))
PLAIN, FUSED = "entropic_gromov_barycenters", "entropic_fused_gromov_barycenters"
EXACT, EXACT_FUSED = EXACT_BARYCENTERS
SEMIRELAXED, SEMIRELAXED_FUSED = SEMIRELAXED_BARYCENTERS
UNMIXING, FUSED_UNMIXING, LEARNING, FUSED_LEARNING = DICTIONARIES
UNBALANCED = "fused_unbalanced_gromov_wasserstein"
BY_LOSS = {"stop_criterion": "loss", "init_C": INIT_C}
OTHERS = BY_LOSS | {"loss_fun": "kl_loss", "warmstartT": True}


def known(name, **arguments):
    """Return the arguments that a function has."""
    parameters = inspect.signature(ours(name)).parameters
    return {key: x for key, x in arguments.items() if key in parameters}


def barycenter(name, sizes=None, total=1.0, believed=False, **options):
    """Return arguments for spaces with more (and, if masses are free, fewer) points than N."""
    sizes = sizes or ((9, 7, 3) if name in SEMIRELAXED_BARYCENTERS else (9, 7, 8))
    arguments = known(
        name,
        N=N,
        Cs=[costs(n, s, symmetric=not believed) for s, n in enumerate(sizes)],
        ps=[total * weights(n, s) for s, n in enumerate(sizes)],
        Ys=[np.random.default_rng(s).normal(size=(n, 2)) for s, n in enumerate(sizes)],
        p=total * weights(N, 3),
        lambdas=[0.5, 0.2, 0.3],
        epsilon=0.5 if name == FUSED else 0.3,
        alpha=0.7,
    )
    return arguments | {"max_iter": 5, "tol": 0.0, "log": True, "random_state": 3} | options


def barycenter_row(name, **options):
    close, rough = (1e-5, 1e-4) if "entropic" in name else (1e-9, 1e-9)
    but = {"err": rough, "err_rel_loss": rough}
    return row(name, close=close, but=but, **barycenter(name, **options))


BARYCENTERS = [
    barycenter_row(PLAIN),
    barycenter_row(PLAIN, **OTHERS, solver="PPA"),
    barycenter_row(PLAIN, **BY_LOSS, believed=True),
    barycenter_row(PLAIN, believed=True, symmetric=False),
    barycenter_row(FUSED, **OTHERS, fixed_features=True, init_Y=INIT_Y),
    *(barycenter_row(name) for name in (*EXACT_BARYCENTERS, *SEMIRELAXED_BARYCENTERS)),
    *(barycenter_row(name, believed=True) for name in EXACT_BARYCENTERS),
    *(barycenter_row(name, **OTHERS) for name in EXACT_BARYCENTERS),
    barycenter_row(EXACT_FUSED, init_C=INIT_C, init_X=INIT_Y),
    barycenter_row(EXACT, lambdas=None, ps=None, p=None),
    *(
        barycenter_row(name, **BY_LOSS, init_X=INIT_Y, **fixed)
        for name in (EXACT_FUSED, SEMIRELAXED_FUSED)
        for fixed in ({"fixed_structure": True}, {"fixed_features": True})
    ),
    *(
        barycenter_row(name, **options)
        for name in SEMIRELAXED_BARYCENTERS
        for options in (
            {"G0": "random_product", "warmstartT": True, "total": 3.0},
            {"G0": "random", "believed": True},
            {"N": 1, "sizes": (2, 4, 3)},
            {"N": 2, "sizes": (2, 4, 3)},
        )
    ),
    barycenter_row(SEMIRELAXED, **OTHERS, G0="random"),
    barycenter_row(SEMIRELAXED_FUSED, init_X=INIT_Y),
    barycenter_row(SEMIRELAXED_FUSED, **OTHERS, G0="random", init_X=INIT_Y),
]

NT = 6
SPACES = {
    "Cs": [costs(n, s) for s, n in enumerate((9, 7, 8, 11, 5))],
    "ps": [weights(n, s) for s, n in enumerate((9, 7, 8, 11, 5))],
    "Ys": [np.random.default_rng(s).normal(size=(n, 2)) for s, n in enumerate((9, 7, 8, 11, 5))],
}
LEARNED = {"D": 3, "nt": NT, "epochs": 2, "random_state": 0, "use_log": True}
LEARNED |= {"learning_rate": 0.1, "learning_rate_C": 0.1, "learning_rate_Y": 0.2}
Q = weights(NT, 7)
CDICT = np.array([costs(NT, s) for s in (3, 4, 5)])
YDICT = np.random.default_rng(4).normal(size=(3, NT, 2))
ASYMMETRIC = np.array([costs(NT, s, symmetric=False) for s in (3, 4, 5)])
FIRST = {"Cdict_init": CDICT - 0.5, "Ydict_init": YDICT}


def dictionary(name, s=0, first=None, **options):
    """Return arguments, of the space `s` if it is unmixed, and with `first` atoms if any."""
    C, p, Y = (SPACES[key][s] for key in ("Cs", "ps", "Ys"))
    atoms = {"Cdict": CDICT, "Ydict": YDICT, "q": Q, "alpha": 0.4} | (first or {})
    return known(name, C=C, p=p, Y=Y, **atoms, **SPACES, **LEARNED) | options


DICTIONARY_ROWS = [
    row(name, **arguments)
    for name in (UNMIXING, FUSED_UNMIXING)
    for arguments in (
        dictionary(name),
        dictionary(name, 1, reg=0.02, symmetric=True),
        dictionary(name, 2, symmetric=False, p=None, q=None),
        dictionary(name, 4, reg=0.02, symmetric=None),
        dictionary(name, Cdict=ASYMMETRIC, symmetric=None),
        dictionary(name, Cdict=ASYMMETRIC, symmetric=True),
    )
] + [
    row(name, **arguments)
    for name in (LEARNING, FUSED_LEARNING)
    for arguments in (
        dictionary(name),
        dictionary(name, 0, FIRST, ps=None, q=None, batch_size=2, projection="symmetric"),
        dictionary(name, batch_size=2, reg=0.02, projection="nonnegative"),
        dictionary(name, 0, FIRST, use_adam_optimizer=False, projection=""),
    )
]

MASSES = ("wx_samp", "wx_feat", "wy_samp", "wy_feat")
DUALS = {"duals_sample": None, "duals_feature": None}  # up to constants
TIGHT_COOT = {"nits_ot": 10**5, "tol_sinkhorn": 1e-12, "early_stopping_tol": 0, "log": True}


def matrices(x=(13, 5), y=(9, 7), given=(*MASSES, "M_samp", "M_feat"), **options):
    """Return arguments of co-optimal transport."""
    rng = np.random.default_rng(0)
    arguments = {"X": rng.normal(size=x), "Y": 1.2 * rng.normal(size=y)}
    arguments |= {name: masses(n, rng) for name, n in zip(MASSES, (*x, *y), strict=True)}
    arguments |= {"M_samp": rng.random((x[0], y[0])), "M_feat": rng.random((x[1], y[1]))}
    return {name: arguments[name] for name in ("X", "Y", *given)} | TIGHT_COOT | options


COOT_ROWS = [
    row(name, but=DUALS, **arguments)
    for name, arguments in (
        ("co_optimal_transport", matrices(epsilon=(0.2, 0), alpha=(0.7, 1.5))),
        ("co_optimal_transport", matrices((4, 17), (6, 19), MASSES, epsilon=0.3)),
        ("co_optimal_transport", matrices((12, 1), (7, 3), (), epsilon=(0, 0.4))),
        ("co_optimal_transport", matrices((1, 4), (3, 2), alpha=(0.7, 1.5))),
        ("co_optimal_transport", matrices(given=(), epsilon=0.5, nits_bcd=2)),
        ("co_optimal_transport", matrices(given=(), epsilon=0.5, eval_bcd=3, nits_bcd=7)),
        ("co_optimal_transport", matrices(given=MASSES)),
        ("co_optimal_transport", matrices(epsilon=0.5, early_stopping_tol=1e-3)),
        ("co_optimal_transport2", matrices(epsilon=(0.2, 0), alpha=(0.7, 1.5))),
    )
]

TIGHT_UNBALANCED = {"max_iter": 300, "tol": 1e-10, "max_iter_ot": 3000, "tol_ot": 1e-11}


def unbalanced(n=8, m=6, **options):
    rng = np.random.default_rng(0)
    arguments = {"Cx": distances(rng.standard_normal((n, 3)))}
    arguments |= {"Cy": distances(rng.standard_normal((m, 3))), "M": rng.random((n, m))}
    arguments |= {"wx": masses(n, 1), "wy": 1.5 * masses(m, 2), "epsilon": 0.3, "log": True}
    return arguments | {"unbalanced_solver": "sinkhorn"} | TIGHT_UNBALANCED | options


UNBALANCED_ROWS = [
    # With acceleration errors fall sooner.
    row(name, close=1e-7, but={"backend": None, "error": 1e-2, "duals": 1e-6}, **arguments)
    for name, arguments in (
        (UNBALANCED, unbalanced(reg_marginals=10.0)),
        (UNBALANCED, unbalanced(reg_marginals=(0.5, 3.0), alpha=0.7)),
        (f"{UNBALANCED}2", unbalanced(reg_marginals=(0.5, 3.0), alpha=0.7)),
    )
]
EARLY = unbalanced(reg_marginals=(0.03, 0.02), epsilon=0.1, max_iter=3)  # the two plans differ
UNBALANCED_ROWS.append(row(UNBALANCED, close=1e-6, but={"backend": None, "duals": None}, **EARLY))


def templates(multi_alpha=False, **options):
    """Return arguments of a layer: graphs with their nodes mixed up, one of a single node.

    An edge is there twice, and an edge between two graphs does not count.
    """
    rng, size, m = np.random.default_rng(0), 3, 6
    batch = rng.permutation(np.repeat(np.arange(4), (5, 1, 7, 4)))
    pairs = np.argwhere(np.triu(rng.random((len(batch), len(batch))) < 0.6, 1)).T
    within = batch[pairs[0]] == batch[pairs[1]]
    edges = np.hstack([pairs[:, within], pairs[:, within][:, :1], pairs[:, ~within][:, :1]])
    C = rng.random((size, m, m))
    return {
        "G_edges": np.hstack([edges, edges[::-1]]),
        "tplt_adjacencies": C + C.swapaxes(1, 2),
        "G_features": rng.standard_normal((len(batch), 2)),
        "tplt_features": rng.standard_normal((size, m, 2)),
        "tplt_weights": np.array([masses(m, rng) for _ in range(size)]),
        "alpha": np.array([0.3, 0.8, 0.5] if multi_alpha else 0.6),
        "multi_alpha": multi_alpha,
        "batch": batch,
    } | options


SPACES_ROWS = BARYCENTERS + DICTIONARY_ROWS + COOT_ROWS + UNBALANCED_ROWS
