"""The file of a saved result."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from ..utils.archives import default_budget, open_archive, read_array, shortened
from ..utils.atomic_files import replacing
from ..utils.types import PathLike
from .coupling import ArrayCoupling, Coupling, FactoredCoupling, SparseCoupling
from .records import Masses, OuterStep
from .status import Ending
from .tables import Candidate, Candidates

FORMAT = 1
NUMBERS = "gw_cost", "reg_cost", "linear_cost", "epsilon", "marginal_error", "gap", "seconds"


def write_result(fields: Mapping[str, Any], path: PathLike) -> None:
    """Write the fields of a result; raise a TypeError for labels that are not texts or numbers."""
    marginals, coupling = fields["marginals"], fields["coupling"]
    about = {name: fields[name] for name in (*NUMBERS, "advice", "method")} | dict(
        format=FORMAT,
        ending=fields["ending"].name,
        confidence=fields["candidates"].confidence,
        marginals=[marginals.name, marginals.mass, marginals.rho],
        history=fields["history"],
        candidates=fields["candidates"],
        labels=[None if names is None else list(names) for names in fields["labels"]],
        form=coupling.form,
        left_out=coupling.left_out,
        n_threads=coupling.n_threads,
    )
    try:
        text = json.dumps(about, default=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"labels must be texts or numbers to be saved ({error})") from error
    f, g = fields["potentials"]
    arrays: dict[str, Any] = dict(f=f, g=g, p=marginals.p, q=marginals.q, about=np.array(text))
    with replacing(path) as file:
        np.savez(file, **arrays | _arrays_of(coupling))


def read_result(path: PathLike) -> dict[str, Any]:
    """Return the fields of the result that `write_result` has written."""
    path = os.fsdecode(path)
    with open(path, "rb") as stream:
        try:
            with open_archive(stream) as archive:
                budget = default_budget(os.path.getsize(path))
                saved = {name: read_array(archive, name, budget) for name in archive.files}
            about = json.loads(str(saved["about"]))
            name, mass, rho = about["marginals"]
            rows = map(Candidate._make, about["candidates"])
            labels = (None if names is None else tuple(names) for names in about["labels"])
            return dict(
                **{name: about[name] for name in (*NUMBERS, "advice", "method")},
                coupling=_coupling_of(about, saved),
                potentials=(saved["f"], saved["g"]),
                ending=Ending[about["ending"]],
                history=tuple(map(OuterStep._make, about["history"])),
                candidates=Candidates(rows, about["confidence"]),
                marginals=Masses(name, saved["p"], saved["q"], mass, rho and tuple(rho)),
                labels=tuple(labels),
            )
        # zipfile, NumPy, JSON and wrong shapes raise errors of many kinds.
        except Exception as error:
            raise ValueError(
                f"{path}: damaged, or no file of GWResult.save ({shortened(error)})"
            ) from error


def _arrays_of(coupling: Coupling) -> dict[str, Any]:
    if isinstance(coupling, FactoredCoupling):
        u, v = coupling.logarithms
        return dict(
            left=coupling.left, right=coupling.right, left_f=coupling.f, right_g=coupling.g,
            u=u, v=v, unit=np.array(coupling.epsilon),
        )  # fmt: skip
    if isinstance(coupling, SparseCoupling):
        csr = coupling.csr
        return dict(data=csr.data, indices=csr.indices, indptr=csr.indptr)
    return dict(plan=coupling.toarray())


def _coupling_of(about: dict[str, Any], saved: dict[str, Any]) -> Coupling:
    made: Coupling
    if about["form"] == "factors":
        made = FactoredCoupling(
            saved["left"], saved["right"], saved["left_f"], saved["right_g"], float(saved["unit"]),
            about["n_threads"], (saved["u"], saved["v"]),
        )  # fmt: skip
    elif about["form"] == "sparse":
        shape = len(saved["p"]), len(saved["q"])
        csr = sparse.csr_array((saved["data"], saved["indices"], saved["indptr"]), shape=shape)
        made = SparseCoupling(csr, about["n_threads"])
    else:
        made = ArrayCoupling(saved["plan"], about["n_threads"])
    return made.replace(left_out=about["left_out"])
