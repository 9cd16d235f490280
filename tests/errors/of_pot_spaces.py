"""Refusals of barycenters, dictionaries, co-optimal transport, templates, unbalanced problems."""

import numpy as np
import scipy.sparse
from helpers import pot_rows as rows

from gwfast import pot

COOT, LAYER, UNBALANCED = "co_optimal_transport", "FGW_distance_to_templates", rows.UNBALANCED
FGW, FUSED, SEMIRELAXED = rows.EXACT_FUSED, rows.FUSED, rows.SEMIRELAXED
UNMIXING, FUSED_UNMIXING, LEARNING, FUSED_LEARNING = rows.DICTIONARIES
CS, PS, YS = (rows.barycenter(FGW)[name] for name in ("Cs", "ps", "Ys"))
APART, CDICT = scipy.sparse.csr_array((7, 7)), rows.CDICT
ONE_WAY, HUGE = rows.templates()["G_edges"][:, :1], 1e200
TILTED = rows.templates()["tplt_adjacencies"] + np.eye(6, k=1)
# A function, its bad argument, and the name and the value in the message.
BAD = [
    (FGW, {"stop_criterion": "never"}, "stop_criterion", "never"),
    (FGW, {"Cs": [CS[0].tolist(), *CS[1:]]}, "Cs[0]", "list"),
    (FGW, {"Cs": [CS[0], -CS[1], CS[2]], "loss_fun": "kl_loss"}, "Cs[1]", "negative"),
    (FGW, {"Cs": [CS[0], APART, CS[2]]}, "Cs[1]", "connected"),
    (FGW, {"Cs": []}, "Cs", None),
    (FGW, {"ps": PS[:2]}, "ps", 2),
    (FGW, {"ps": [PS[0], 2 * PS[1], PS[2]]}, "ps[1]", 2),
    (FGW, {"ps": [*PS[:2], PS[1]]}, "ps[2]", "(7,)"),
    (FGW, {"init_C": CS[0]}, "init_C", "(9, 9)"),
    (FGW, {"lambdas": [1.0]}, "lambdas", "(1,)"),
    (FGW, {"p": np.array([0.0, 1.0]), "N": 2}, "p", None),
    (FGW, {"N": 0}, "N", 0),
    (FGW, {"Ys": [YS[0], YS[0], YS[2]]}, "Ys[1]", "(9, 2)"),
    (FGW, {"fixed_structure": True}, "init_C", None),
    (FGW, {"fixed_features": True}, "init_X", None),
    (FUSED, {"fixed_features": True}, "init_Y", None),
    (SEMIRELAXED, {"G0": "weird"}, "G0", "weird"),
    (UNMIXING, {"Cdict": CDICT[0]}, "Cdict", "(6, 6)"),
    (UNMIXING, {"Cdict": CDICT[:0]}, "Cdict", "(0, 6, 6)"),
    (UNMIXING, {"Cdict": CDICT[:, 1:]}, "Cdict", "(3, 5, 6)"),
    (UNMIXING, {"tol_inner": -1.0}, "tol_inner", -1.0),
    (UNMIXING, {"max_iter_outer": 0.5}, "max_iter_outer", 0.5),
    (UNMIXING, {"reg": -1.0}, "reg", -1.0),
    (FUSED_UNMIXING, {"alpha": 2.0}, "alpha", 2.0),
    (FUSED_UNMIXING, {"alpha": None}, "alpha", None, TypeError),
    (FUSED_UNMIXING, {"Y": None}, "Y", None, TypeError),
    (FUSED_UNMIXING, {"Ydict": None}, "Ydict", None, TypeError),
    (FUSED_LEARNING, {"Ys": None}, "Ys[0]", None, TypeError),
    (FUSED_LEARNING, {"learning_rate_Y": 0.0}, "learning_rate_Y", 0.0),
    (LEARNING, {"Cdict_init": CDICT[:2]}, "Cdict_init", "(2, 6, 6)"),
    (LEARNING, {"D": 0}, "D", 0),
    (LEARNING, {"batch_size": 0}, "batch_size", 0),
    (LEARNING, {"learning_rate": HUGE, "use_adam_optimizer": False}, "learning rates", HUGE),
    (COOT, {"epsilon": (1, 2, 3)}, "epsilon", 3),
    (COOT, {"epsilon": -1.0}, "epsilon", -1.0),
    (COOT, {"epsilon": 1e-30}, "epsilon", 1e-30),
    (COOT, {"method_sinkhorn": "newton"}, "method_sinkhorn", "newton"),
    (COOT, {"X": np.full((13, 5), HUGE)}, "X", HUGE),
    (COOT, {"M_samp": np.ones((9, 13))}, "M_samp", "(9, 13)"),
    (COOT, {"wy_feat": np.ones(7)}, "wy_feat", 7),
    (COOT, {"nits_bcd": 0}, "nits_bcd", 0),
    (COOT, {"warmstart": {"pi_sample": 1}}, "warmstart", "pi_feature"),
    (LAYER, {"tplt_features": np.zeros((2, 3))}, "tplt_features", "(2, 3)"),
    (LAYER, {"G_features": np.zeros((17, 3))}, "G_features", "(17, 3)"),
    (LAYER, {"G_features": np.full((17, 2), HUGE)}, "G_features", HUGE),
    (LAYER, {"G_features": np.full((17, 2), np.nan)}, "G_features", None),
    (LAYER, {"tplt_weights": np.ones((3, 6))}, "tplt_weights", 5),
    (LAYER, {"alpha": [0.1, 0.2]}, "alpha", 2),
    (LAYER, {"alpha": 1.5}, "alpha", 1.5),
    (LAYER, {"batch": np.zeros(3, int)}, "batch", "(3,)"),
    (LAYER, {"batch": np.full(17, 1)}, "batch", 0),
    (LAYER, {"batch": np.full(17, 0.5)}, "batch", 0.5),
    (LAYER, {"G_edges": np.zeros((3, 2), int)}, "G_edges", "(3, 2)"),
    (LAYER, {"G_edges": np.full((2, 1), 17)}, "G_edges", 17),
    (LAYER, {"G_edges": np.full((2, 1), -1)}, "G_edges", -1),
]
# Left to POT while its functions are swapped.
LEFT = [
    (LAYER, {"G_edges": ONE_WAY}, "G_edges", None),
    (LAYER, {"tplt_adjacencies": TILTED}, "tplt_adjacencies", None),
    (LAYER, {"tplt_weights": np.eye(6)[:3]}, "tplt_weights", 0),
    (LAYER, {"alpha": 0.0}, "alpha", 0),
    (UNBALANCED, {"epsilon": 0}, "epsilon", 0),
    (UNBALANCED, {"divergence": "l2", "unbalanced_solver": "mm"}, "divergence", "l2"),
    (UNBALANCED, {"reg_marginals": (0, 1)}, "reg_marginals", (0, 1)),
    (UNBALANCED, {"divergence": "x"}, "divergence", "x"),
]


def refusal(name, bad):
    options = {COOT: rows.matrices, LAYER: rows.templates, UNBALANCED: rows.unbalanced}.get(name)
    family = rows.dictionary if name in rows.DICTIONARIES else rows.barycenter
    arguments = options(**bad) if options else family(name, **bad)

    def call():
        with np.errstate(all="ignore"):  # of atoms that overflow
            return getattr(pot, name)(**arguments)

    return call


ROWS = [(refusal(name, bad), *message) for name, bad, *message in BAD]
ROWS += [(refusal(name, bad), *message, NotImplementedError) for name, bad, *message in LEFT]
