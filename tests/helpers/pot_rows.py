"""Calls of POT's functions of several spaces, of matrices and of unbalanced problems, as rows."""

import inspect

import numpy as np
from helpers.pot_calls import ours, row
from helpers.pot_names import DICTIONARIES, EXACT_BARYCENTERS, SEMIRELAXED_BARYCENTERS
from helpers.pot_spaces import between, costs, weights
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


def lists(sizes, total=1.0, symmetric=True):
    """Return costs, masses and features of spaces."""
    numbered = list(enumerate(sizes))
    return {
        "Cs": [costs(n, s, symmetric=symmetric) for s, n in numbered],
        "ps": [total * weights(n, s) for s, n in numbered],
        "Ys": [np.random.default_rng(s).normal(size=(n, 2)) for s, n in numbered],
    }


def barycenter(name, sizes=None, total=1.0, believed=False, **options):
    """Return arguments for spaces with more (and, if masses are free, fewer) points than N."""
    sizes = sizes or ((9, 7, 3) if name in SEMIRELAXED_BARYCENTERS else (9, 7, 8))
    arguments = {"N": N, "p": total * weights(N, 3), "lambdas": [0.5, 0.2, 0.3], "alpha": 0.7}
    arguments |= {"epsilon": 0.5 if name == FUSED else 0.3, **lists(sizes, total, not believed)}
    arguments = known(name, **arguments)
    return arguments | {"max_iter": 5, "tol": 0.0, "log": True, "random_state": 3} | options


def barycenter_rows():
    """Yield names and arguments of barycenters."""
    believed, fused = {"believed": True}, {"init_X": INIT_Y}
    for options in ({}, OTHERS | {"solver": "PPA"}, BY_LOSS | believed):
        yield PLAIN, options
    yield PLAIN, believed | {"symmetric": False}
    yield FUSED, OTHERS | {"fixed_features": True, "init_Y": INIT_Y}
    for name in EXACT_BARYCENTERS:
        alone = {"sizes": (7,), "lambdas": None, "N": 7, "p": None}
        for options in ({}, OTHERS, believed, alone, {"lambdas": None, "ps": None, "p": None}):
            yield name, options
    yield EXACT_FUSED, fused | {"init_C": INIT_C}
    for name in SEMIRELAXED_BARYCENTERS:
        yield name, {}
        yield name, {"G0": "random_product", "warmstartT": True, "total": 3.0}
        yield name, {"G0": "random", "believed": True}
        yield name, OTHERS | {"G0": "random"} | (fused if name == SEMIRELAXED_FUSED else {})
        for start in ("fluid", "fluid_soft", "spectral", "kmeans", "kmeans_soft"):
            yield name, {"sizes": (9, 5, 8), "G0": start, "max_iter": 1, "random_state": 1}
        yield name, {"sizes": (7,), "lambdas": None, "stop_criterion": "loss"}
        for n in (1, 2):
            yield name, {"N": n, "sizes": (2, 4, 3)}
    yield SEMIRELAXED_FUSED, fused
    for name in (EXACT_FUSED, SEMIRELAXED_FUSED):
        for part in ("structure", "features"):
            yield name, BY_LOSS | fused | {f"fixed_{part}": True}


NT = 6
SPACES = lists((9, 7, 8, 11, 5))
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


def dictionary_rows():
    """Yield names and arguments of dictionaries."""
    for name in (UNMIXING, FUSED_UNMIXING):
        yield name, dictionary(name)
        yield name, dictionary(name, 1, reg=0.02, symmetric=True)
        yield name, dictionary(name, 2, symmetric=False, p=None, q=None)
        for symmetric in (None, True):
            yield name, dictionary(name, Cdict=ASYMMETRIC, symmetric=symmetric)
    for name in (LEARNING, FUSED_LEARNING):
        yield name, dictionary(name)
        some = {"ps": None, "q": None, "batch_size": 2, "projection": "symmetric"}
        yield name, dictionary(name, 0, FIRST, **some)
        yield name, dictionary(name, batch_size=2, reg=0.02, projection="nonnegative")
        yield name, dictionary(name, 0, FIRST, use_adam_optimizer=False, projection="")


MASSES = ("wx_samp", "wx_feat", "wy_samp", "wy_feat")
TIGHT_COOT = {"nits_ot": 10**5, "tol_sinkhorn": 1e-12, "early_stopping_tol": 0, "log": True}


def matrices(x=(13, 5), y=(9, 7), given=(*MASSES, "M_samp", "M_feat"), empty=False, **options):
    """Return arguments of co-optimal transport; `empty` takes the mass of a row and a column."""
    rng = np.random.default_rng(0)
    arguments = {"X": rng.normal(size=x), "Y": 1.2 * rng.normal(size=y)}
    arguments |= {name: masses(n, rng) for name, n in zip(MASSES, (*x, *y), strict=True)}
    for name in ("wx_samp", "wy_feat") if empty else ():
        arguments[name][2] = 0.0
        arguments[name] /= arguments[name].sum()
    arguments |= {"M_samp": rng.random((x[0], y[0])), "M_feat": rng.random((x[1], y[1]))}
    return {name: arguments[name] for name in ("X", "Y", *given)} | TIGHT_COOT | options


MATRICES = [
    matrices(epsilon=(0.2, 0), alpha=(0.7, 1.5)),
    matrices((4, 17), (6, 19), MASSES, epsilon=0.3),
    matrices((12, 1), (7, 3), (), epsilon=(0, 0.4)),
    matrices((1, 4), (3, 2), alpha=(0.7, 1.5)),
    matrices(given=(), epsilon=0.5, nits_bcd=2),
    matrices(given=(), epsilon=0.5, eval_bcd=3, nits_bcd=7),
    matrices(given=MASSES),
    matrices(empty=True),
    matrices(epsilon=0.5, early_stopping_tol=1e-3),
]
TIGHT_UNBALANCED = {"max_iter": 300, "tol": 1e-10, "max_iter_ot": 3000, "tol_ot": 1e-11}


def unbalanced(n=8, m=6, **options):
    rng = np.random.default_rng(0)
    arguments = {"Cx": distances(rng.standard_normal((n, 3)))}
    arguments |= {"Cy": distances(rng.standard_normal((m, 3))), "M": rng.random((n, m))}
    arguments |= {"wx": masses(n, 1), "wy": 1.5 * masses(m, 2), "epsilon": 0.3, "log": True}
    return arguments | {"unbalanced_solver": "sinkhorn"} | TIGHT_UNBALANCED | options


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


def spaces_rows():
    """Yield all rows of this file."""
    for name, options in barycenter_rows():
        close, rough = (1e-5, 1e-4) if "entropic" in name else (1e-9, 1e-9)
        but = {"err": rough, "err_rel_loss": rough}
        yield row(name, close=close, but=but, **barycenter(name, **options))
    for name, arguments in dictionary_rows():
        yield row(name, **arguments)
    but = {"duals_sample": None, "duals_feature": None}  # unique up to constants
    for arguments in MATRICES:
        yield row("co_optimal_transport", but=but, **arguments)
    yield row("co_optimal_transport2", but=but, **MATRICES[0])
    # With acceleration errors fall sooner.
    but = {"backend": None, "error": 1e-2, "duals": 1e-6}
    yield row(UNBALANCED, close=1e-7, but=but, **unbalanced(reg_marginals=10.0))
    for name in (UNBALANCED, f"{UNBALANCED}2"):
        arguments = unbalanced(reg_marginals=(0.5, 3.0), alpha=0.7)
        yield row(name, close=1e-7, but=but, **arguments)
    arguments = unbalanced(wx=None, wy=None, reg_marginals=[1.0])
    begun = {"init_pi": between(8, 6, 0) / 24, "init_duals": (costs(8, 1)[0], costs(6, 1)[0])}
    for options in ({}, begun):
        yield row(UNBALANCED, close=1e-7, but=but, **arguments | options)
    # So early the two plans differ.
    arguments = unbalanced(reg_marginals=(0.03, 0.02), epsilon=0.1, max_iter=3)
    yield row(UNBALANCED, close=1e-6, but={"backend": None, "duals": None}, **arguments)
