"""Refusals of barycenters, dictionaries, co-optimal transport, templates, unbalanced problems."""

import numpy as np
from helpers import pot_rows as rows
from helpers.pot_calls import ours

COOT, LAYER, UNBALANCED = "co_optimal_transport", "FGW_distance_to_templates", rows.UNBALANCED
FGW, UNMIXING, LEARNING = rows.EXACT_FUSED, rows.FUSED_UNMIXING, rows.LEARNING
LEFT = NotImplementedError  # to POT, while its functions are swapped
CS, PS, YS = (rows.barycenter(FGW)[name] for name in ("Cs", "ps", "Ys"))
ONE_WAY, TILTED = rows.templates()["G_edges"][:, :1], rows.ASYMMETRIC
BAD = [
    (FGW, {"stop_criterion": "never"}, "stop_criterion", "never"),
    (FGW, {"Cs": [CS[0].tolist(), *CS[1:]]}, "Cs[0]", "list"),
    (FGW, {"Cs": [CS[0], -CS[1], CS[2]], "loss_fun": "kl_loss"}, "Cs[1]", "negative"),
    (FGW, {"Cs": []}, "Cs", None),
    (FGW, {"ps": PS[:2]}, "ps", 2),
    (FGW, {"ps": [PS[0], 2 * PS[1], PS[2]]}, "ps[1]", 2),
    (FGW, {"ps": [*PS[:2], PS[1]]}, "ps[2]", "(7,)"),
    (FGW, {"init_C": CS[0]}, "init_C", "(9, 9)"),
    (FGW, {"lambdas": [1.0]}, "lambdas", "(1,)"),
    (FGW, {"p": np.array([0.0, 1.0]), "N": 2}, "p", None),
    (FGW, {"Ys": [YS[0], YS[0], YS[2]]}, "Ys[1]", "(9, 2)"),
    (FGW, {"fixed_structure": True}, "init_C", None),
    (FGW, {"fixed_features": True}, "init_X", None),
    (rows.SEMIRELAXED, {"G0": "weird"}, "G0", "weird"),
    (UNMIXING, {"Cdict": rows.CDICT[0]}, "Cdict", "(6, 6)"),
    (UNMIXING, {"Cdict": rows.CDICT[:0]}, "Cdict", "(0, 6, 6)"),
    (UNMIXING, {"reg": -1.0}, "reg", -1.0),
    (UNMIXING, {"alpha": None}, "alpha", None, TypeError),
    (UNMIXING, {"Y": None}, "Y", None, TypeError),
    (UNMIXING, {"Ydict": None}, "Ydict", None, TypeError),
    (LEARNING, {"Cdict_init": rows.CDICT[:2]}, "Cdict_init", "(2, 6, 6)"),
    (LEARNING, {"batch_size": 0}, "batch_size", 0),
    (LEARNING, {"learning_rate": 1e200, "use_adam_optimizer": False}, "learning rates", 1e200),
    (COOT, {"epsilon": (1, 2, 3)}, "epsilon", 3),
    (COOT, {"epsilon": 1e-30}, "epsilon", 1e-30),
    (COOT, {"method_sinkhorn": "newton"}, "method_sinkhorn", "newton"),
    (COOT, {"X": np.full((13, 5), 1e200)}, "X", 1e200),
    (COOT, {"wy_feat": np.ones(7)}, "wy_feat", 7),
    (COOT, {"warmstart": {"pi_sample": 1}}, "warmstart", "pi_feature"),
    (LAYER, {"tplt_features": np.zeros((2, 3))}, "tplt_features", "(2, 3)"),
    (LAYER, {"G_features": np.zeros((17, 3))}, "G_features", "(17, 3)"),
    (LAYER, {"G_features": np.full((17, 2), np.nan)}, "G_features", None),
    (LAYER, {"tplt_weights": np.ones((3, 6))}, "tplt_weights", 5),
    (LAYER, {"alpha": [0.1, 0.2]}, "alpha", 2),
    (LAYER, {"alpha": 1.5}, "alpha", 1.5),
    (LAYER, {"batch": np.full(17, 1)}, "batch", 0),
    (LAYER, {"batch": np.full(17, 0.5)}, "batch", 0.5),
    (LAYER, {"G_edges": np.zeros((3, 2), int)}, "G_edges", "(3, 2)"),
    (LAYER, {"G_edges": np.full((2, 1), 17)}, "G_edges", 17),
    (LAYER, {"G_edges": ONE_WAY}, "G_edges", None, LEFT),
    (LAYER, {"tplt_adjacencies": TILTED}, "tplt_adjacencies", None, LEFT),
    (LAYER, {"tplt_weights": np.eye(6)[:3]}, "tplt_weights", 0, LEFT),
    (LAYER, {"alpha": 0.0}, "alpha", 0, LEFT),
    (UNBALANCED, {"divergence": "l2", "unbalanced_solver": "mm"}, "divergence", "l2", LEFT),
    (UNBALANCED, {"reg_marginals": (0, 1)}, "reg_marginals", (0, 1), LEFT),
    (UNBALANCED, {"divergence": "x"}, "divergence", "x", LEFT),
]


def refusal(name, bad):
    good = {COOT: rows.matrices, LAYER: rows.templates, UNBALANCED: rows.unbalanced}.get(name)
    family = rows.dictionary if name in rows.DICTIONARIES else rows.barycenter
    arguments = (good() if good else family(name)) | bad
    # Atoms overflow.
    return np.errstate(over="ignore")(lambda: ours(name)(**arguments))


ROWS = [(refusal(name, bad), *message) for name, bad, *message in BAD]
