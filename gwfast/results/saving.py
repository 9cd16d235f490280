"""The file of a saved result."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..kernels.threads import resolve_n_threads
from ..utils.archives import read_fields
from ..utils.atomic_files import replacing
from ..utils.labels import Labels
from ..utils.types import PathLike
from ..utils.validation import as_positive, one_of
from .coupling import ArrayCoupling, Coupling, FactoredCoupling, LostCoupling, SparseCoupling
from .records import Masses, OuterStep
from .status import Ending
from .tables import Candidate, Candidates

FORMAT = 1
NUMBERS = "gw_cost", "reg_cost", "linear_cost", "epsilon", "marginal_error", "gap", "seconds"


def write_result(fields: Mapping[str, Any], path: PathLike) -> None:
    """Write the fields of a result; raise a TypeError for labels that are not texts or numbers."""
    arrays = arrays_of(fields) | fields["coupling"].parts()
    with replacing(path) as file:
        np.savez(file, **arrays)


def arrays_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays of all fields but the plan."""
    marginals, coupling = fields["marginals"], fields["coupling"]
    about = {name: fields[name] for name in (*NUMBERS, "advice", "method")} | dict(
        format=FORMAT,
        ending=fields["ending"].name,
        confidence=fields["candidates"].confidence,
        marginals=[marginals.name, marginals.mass, marginals.rho],
        history=fields["history"],
        candidates=fields["candidates"],
        remarks=fields["remarks"],
        labels=[_written(labels) for labels in fields["labels"]],
        left_out=coupling.left_out,
        n_threads=coupling.n_threads,
    )
    f, g = fields["potentials"]
    text = np.array(json.dumps(about, default=float))
    return dict(about=text, f=f, g=g, p=marginals.p, q=marginals.q)


def _written(labels: Labels) -> list[Any] | int | None:
    """Return labels as JSON has them; an index that only numbers points is their number."""
    if labels is None:
        return None
    if isinstance(labels, range):
        return len(labels)
    values = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for value in values:
        if not isinstance(value, str | int | float):
            came = type(value).__name__
            raise TypeError(f"labels must be texts or numbers to be saved, got {came}")
    return values


def _read(labels: list[Any] | int | None, n: int) -> Labels:
    if labels is None:
        return None
    read = range(labels) if isinstance(labels, int) else tuple(labels)
    if not all(isinstance(label, str | int | float) for label in read):
        raise ValueError("expected labels that are texts or numbers")
    if len(read) != n:
        raise ValueError(f"expected {n} labels, got {len(read)}")
    return read


def read_result(path: PathLike) -> dict[str, Any]:
    """Return the fields of the result that `write_result` has written."""
    return read_fields(
        os.fsdecode(path),
        "GWResult.save",
        lambda read, names: fields_of({name: read(name) for name in names}),
    )


def fields_of(saved: Mapping[str, Any], *, has_plan: bool = True) -> dict[str, Any]:
    """Return the fields of a result of its arrays."""
    about = json.loads(str(saved["about"]))
    if about["format"] != FORMAT:
        raise ValueError(f"in format {about['format']!r}, and this version reads {FORMAT}")
    name, mass, rho = about["marginals"]
    one_of(name, "marginals", ("balanced", "semirelaxed", "partial", "unbalanced"))
    one_of(about["method"], "method", ("pgd", "ppa", "bapg", "cg"))
    if (rho is None) is (name == "unbalanced"):
        raise ValueError(f"expected two prices with unbalanced marginals alone, got {rho}")
    rho = rho and tuple(as_positive(float(x), "rho") if x != math.inf else x for x in rho)
    if not 0 <= about["left_out"] <= 1:
        raise ValueError(f"left_out must be in [0, 1], got {about['left_out']}")
    rows = itertools.starmap(Candidate, about["candidates"])
    p, q, f, g = (_array(saved, key, 1) for key in ("p", "q", "f", "g"))
    if (len(p), len(q)) != (len(f), len(g)):
        raise ValueError(f"expected {len(p)} and {len(q)} potentials")
    for key, values in dict(p=p, q=q).items():
        if not (values.min() >= 0 and 0 < values.sum() < np.inf):
            raise ValueError(f"expected masses in {key!r}")
    numbers = {key: float(+about[key]) for key in NUMBERS}
    for key, value in numbers.items():
        if key in ("epsilon", "marginal_error", "seconds"):
            as_positive(value, key, zero=True)
        elif key != "gap" and not np.isfinite(value):
            raise ValueError(f"{key} must be finite, got {value}")
    if not (about["confidence"] != about["confidence"] or 0 <= about["confidence"] <= 1):
        raise ValueError(f"confidence must be in [0, 1], got {about['confidence']}")
    masses = Masses(name, p, q, as_positive(mass, "mass"), rho)
    about["n_threads"] = resolve_n_threads(about["n_threads"])
    if has_plan:
        coupling = _coupling_of(about, saved, (len(p), len(q)))
        _check_sums(coupling, masses, numbers["marginal_error"])
    else:
        coupling = LostCoupling((len(p), len(q)), about["n_threads"])
    return dict(
        **numbers,
        advice=about["advice"],
        method=about["method"],
        coupling=coupling,
        potentials=(f, g),
        ending=Ending[about["ending"]],
        remarks=tuple(map(str, about.get("remarks", ()))),
        history=tuple(map(OuterStep._make, about["history"])),
        candidates=Candidates(rows, about["confidence"]),
        marginals=masses,
        labels=tuple(map(_read, about["labels"], (len(p), len(q)))),
    )


def _array(saved: Mapping[str, Any], name: str, ndim: int) -> NDArray[Any]:
    """Return an array of numbers with `ndim` axes: of a plan, none is negative."""
    array: NDArray[Any] = saved[name]
    if array.ndim != ndim or array.dtype.char not in "fdilq" or not array.dtype.isnative:
        raise ValueError(f"expected {ndim}-D numbers in {name!r}, got {array.ndim}-D {array.dtype}")
    least = 0.0 if name in ("plan", "data") else -np.inf
    if array.size and not (array.min() >= least and array.max() < np.inf):
        raise ValueError(f"expected numbers from {least} in {name!r}, got {array.min()}")
    return array


def _check_sums(coupling: Coupling, masses: Masses, error: float) -> None:
    """Raise a ValueError unless a plan misses its marginals by this error."""
    # Up to this number, entries of a plan of factors are made to add them up in a second or two.
    if coupling.form == "factors" and math.prod(coupling.shape) > 1 << 28:
        return
    rows, cols = coupling.marginals
    more = rows - masses.p, cols - masses.q
    measured = {
        "balanced": abs(more[0]).sum() + abs(more[1]).sum(),
        "semirelaxed": abs(more[0]).sum(),
        "partial": sum(x.clip(0).sum() for x in more) + abs(rows.sum() - masses.mass),
        # Its sums are free, at a price.
        "unbalanced": error if np.isfinite(rows.sum()) else np.inf,
    }[masses.name]
    # Adding up float32 in another order may make a difference of 1e-4.
    if not abs(measured - error) <= 1e-4 * masses.mass + 0.01 * error:
        raise ValueError(
            f"expected sums that miss the marginals by {error:.3g}, got {measured:.3g}"
        )


def _coupling_of(about: Mapping[str, Any], saved: Mapping[str, Any], shape: tuple[int, int]) -> Any:
    """Return the coupling of its parts, of the shape of the masses."""
    coupling: Coupling
    if "left" in saved:
        left, right = (_array(saved, name, 2) for name in ("left", "right"))
        f, g, u, v = (_array(saved, name, 1) for name in ("left_f", "right_g", "u", "v"))
        if left.shape[1] != right.shape[1] or {len(left), len(f), len(u)} != {shape[0]}:
            raise ValueError(f"expected factors of {shape[0]} rows")
        if {len(right), len(g), len(v)} != {shape[1]}:
            raise ValueError(f"expected factors of {shape[1]} columns")
        unit, n_threads = as_positive(float(saved["unit"]), "unit"), about["n_threads"]
        coupling = FactoredCoupling(left, right, f, g, unit, n_threads, (u, v))
    elif "indptr" in saved:
        parts = (_array(saved, name, 1) for name in ("data", "indices", "indptr"))
        csr = sparse.csr_array(tuple(parts), shape=shape)
        csr.check_format(full_check=True)
        coupling = SparseCoupling(csr, about["n_threads"])
    else:
        plan = _array(saved, "plan", 2)
        if plan.shape != shape:
            raise ValueError(f"expected a plan of shape {shape}, got {plan.shape}")
        coupling = ArrayCoupling(plan, about["n_threads"])
    return coupling.replace(left_out=about["left_out"])
