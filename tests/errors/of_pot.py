"""Refusals of the functions that POT has, too."""

import numpy as np
import scipy.sparse
from helpers.pot_calls import call
from helpers.pot_names import BALANCED, EXACT, PARTIAL, SEMIRELAXED
from helpers.pot_spaces import C1, C2, G0, M, P, Q, batch
from helpers.refusals import refused, row

from gwfast import pot

BATCH = batch()
NAN = np.full((9, 9), np.nan)


def calling(function, given):
    return lambda **bad: function(**given | bad)


def plan(name):
    return calling(getattr(pot, name), call(name))


first, fused, partial = plan(BALANCED[0]), plan(BALANCED[1]), plan(PARTIAL[0])
several = calling(pot.solve_gromov_batch, BATCH)
unified = calling(pot.solve_gromov, {"Ca": C1, "Cb": C2, "reg": 0.1})
LEFT = dict(reg_type=["cryptic"], loss=["weird"], unbalanced_type=["weird"])
SPOILED = BATCH["Ca"] * np.array([1, 1, np.nan, 1])[:, None, None]

ROWS = [
    *refused(first, C1={"(12, 5)": C1[:, :5]}, C2={"nan": NAN}, max_iter=[-1], epsilon=[0.0]),
    *refused(first, p={"(11,)": P[:-1], -P[0]: -P, "": 0 * P}, q={2: 2 * Q}),
    *refused(first, G0={"(9, 12)": G0.T, "[0, 0]": -G0, "zeros": 0 * G0, "inf": np.inf * (G0 + 1)}),
    *refused(first, loss_fun=["weird"], solver=["BAPG"]),
    row(first, "C1", -C1, "", loss_fun="kl_loss"),
    *refused(first, TypeError, C1={"complex": C1.astype(complex), "": [["a"]]}, max_iter=["9"]),
    *refused(first, TypeError, C1={"float16": C1.astype(np.float16)}),
    *refused(first, TypeError, C2={"masked": np.ma.masked_array(C2)}),
    (lambda: first(numItermx=3), BALANCED[0], "numItermx", TypeError),
    (lambda: pot.gromov_wasserstein2(C1, C2, x=3), "gromov_wasserstein2", "x", TypeError),
    *refused(plan(EXACT[0]), tol_rel=[-1.0]),
    *refused(plan(EXACT[1]), alpha=[1.5]),
    *refused(plan(EXACT[2]), G0={"p": 2 * G0}),
    *refused(plan(EXACT[4]), G0={"p": 1.5 * G0}, numItermax=[-1]),
    *refused(partial, reg=[-1.0], m=[1.5]),
    *refused(fused, M={"(9, 12)": M.T}),
    *refused(fused, TypeError, M={"sparse": scipy.sparse.csr_array(M)}),
    *refused(plan(SEMIRELAXED[0]), G0=["diagonal"]),
    *refused(unified, NotImplementedError, **LEFT),
    *refused(unified, b={3: 3 * Q}, Cb={"e+80": 1e80 * C2}),
    row(unified, "unbalanced", 1.5, unbalanced_type="partial"),
    row(unified, "plan_init", "weird", unbalanced_type="semirelaxed"),
    *refused(several, Ca={"(7, 7)": BATCH["Ca"][0], "": np.ones((0, 3, 3))}),
    *refused(several, Cb={"(3, 5, 5)": BATCH["Cb"][1:]}, M={"(4, 6, 5)": BATCH["M"][:, 1:]}),
    *refused(several, max_iter=[0], loss=["l1"], grad=["all"], M={"alpha": None}),
    (lambda: several(Ca=SPOILED), "Ca[2]", "nan"),
    (lambda: several(b=2 * BATCH["b"]), "b[0]", "a[0]"),
    (lambda: pot.init_matrix(C1, C2, P, P), "q", "(12,)"),
    (lambda: pot.init_matrix_semirelaxed(C1, NAN, P), "C2", "nan"),
    (lambda: pot.init_matrix(C1, -C2, P, Q, "kl_loss"), "C2", None),
    (lambda: pot.gwloss(M, C1, C2, M.T), "T", "(9, 12)"),
    (lambda: pot.gwggrad(M, C1, C2, [["a"]]), "T", None, TypeError),
]
