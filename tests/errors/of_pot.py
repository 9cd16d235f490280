"""Refusals of the functions that POT has, too."""

import numpy as np
import scipy.sparse
from helpers.pot_calls import call
from helpers.pot_names import BALANCED, EXACT, PARTIAL, SEMIRELAXED
from helpers.pot_spaces import C1, C2, G0, M, P, Q, batch

from gwfast import pot

BATCH = batch()
NAN = np.full((9, 9), np.nan)


def calling(function, given, **bad):
    arguments = given | bad
    return lambda: function(**arguments)


def plan(name=BALANCED[0], **bad):
    return calling(getattr(pot, name), call(name), **bad)


def several(**bad):
    return calling(pot.solve_gromov_batch, BATCH, **bad)


def unified(**bad):
    return calling(pot.solve_gromov, {"Ca": C1, "Cb": C2, "reg": 0.1}, **bad)


ROWS = [
    (plan(C1=C1[:, :5]), "C1", (12, 5)),
    (plan(max_iter=-1), "max_iter", -1),
    (plan(epsilon=0.0), "epsilon", 0.0),
    (plan(numItermx=3), BALANCED[0], "numItermx", TypeError),
    (lambda: pot.gromov_wasserstein2(C1, C2, x=3), "gromov_wasserstein2", "x", TypeError),
    (plan(EXACT[0], tol_rel=-1.0), "tol_rel", -1.0),
    (plan(EXACT[1], alpha=1.5), "alpha", 1.5),
    (plan(EXACT[2], G0=2 * G0), "G0", "p"),
    (plan(EXACT[4], G0=1.5 * G0), "G0", "p"),
    (plan(EXACT[4], numItermax=-1), "numItermax", -1),
    (plan(PARTIAL[0], reg=-1.0), "reg", -1.0),
    (plan(PARTIAL[0], m=1.5), "m", 1.5),
    (plan(C2=NAN), "C2", "nan"),
    (plan(C1=C1.astype(complex)), "C1", "complex", TypeError),
    (plan(C1=C1.astype(np.float16)), "C1", "float16", TypeError),
    (plan(C1=[["a"]]), "C1", None, TypeError),
    (plan(C2=np.ma.masked_array(C2)), "C2", "masked", TypeError),
    (plan(BALANCED[1], M=scipy.sparse.csr_array(M)), "M", "sparse", TypeError),
    (plan(p=P[:-1]), "p", (11,)),
    (plan(p=-P), "p", -P[0]),
    (plan(p=0 * P), "p", None),
    (plan(q=2 * Q), "q", 2),
    (plan(G0=G0.T), "G0", (9, 12)),
    (plan(G0=-G0), "G0", "[0, 0]"),
    (plan(G0=0 * G0), "G0", "zeros"),
    (plan(G0=np.where(G0 > 0, np.inf, 0)), "G0", "inf"),
    (plan(BALANCED[1], M=M.T), "M", (9, 12)),
    (plan(loss_fun="weird"), "loss_fun", "weird"),
    (plan(C1=-C1, loss_fun="kl_loss"), "C1", None),
    (plan(max_iter="9"), "max_iter", "str", TypeError),
    (plan(solver="BAPG"), "solver", "BAPG"),
    (plan(SEMIRELAXED[0], G0="diagonal"), "G0", "diagonal"),
    (unified(reg_type="cryptic"), "reg_type", "cryptic", NotImplementedError),
    (unified(loss="weird"), "loss", "weird", NotImplementedError),
    (unified(unbalanced_type="weird"), "unbalanced_type", "weird", NotImplementedError),
    (unified(b=3 * Q), "b", 3),
    (unified(Cb=1e80 * C2), "Cb", "e+80"),
    (unified(unbalanced_type="partial", unbalanced=1.5), "unbalanced", 1.5),
    (unified(unbalanced_type="semirelaxed", plan_init="weird"), "plan_init", "weird"),
    (several(Ca=BATCH["Ca"][0]), "Ca", (7, 7)),
    (several(Ca=np.ones((0, 3, 3))), "Ca", None),
    (several(Cb=BATCH["Cb"][1:]), "Cb", (3, 5, 5)),
    (several(M=BATCH["M"][:, 1:]), "M", (4, 6, 5)),
    (several(Ca=BATCH["Ca"] * np.array([1, 1, np.nan, 1])[:, None, None]), "Ca[2]", "nan"),
    (several(b=2 * BATCH["b"]), "b[0]", "a[0]"),
    (several(M=None), "M", "alpha"),
    (several(max_iter=0), "max_iter", 0),
    (several(loss="l1"), "loss", "l1"),
    (several(grad="all"), "grad", "all"),
    (lambda: pot.init_matrix(C1, C2, P, P), "q", (12,)),
    (lambda: pot.init_matrix_semirelaxed(C1, NAN, P), "C2", "nan"),
    (lambda: pot.init_matrix(C1, -C2, P, Q, "kl_loss"), "C2", None),
    (lambda: pot.gwloss(M, C1, C2, M.T), "T", (9, 12)),
    (lambda: pot.gwggrad(M, C1, C2, [["a"]]), "T", None, TypeError),
]
