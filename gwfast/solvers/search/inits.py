"""The starts that a caller may pass as `init`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard, cast

import numpy as np
from numpy.typing import DTypeLike

from ...problems.quadratic import QuadraticProblem
from ...quadratic.methods import PGD
from ...results.result import GWResult
from ...utils.labels import in_order
from ...utils.validation import one_of
from ..options import InitLike, OneInit, Settings
from .exact import exact_start
from .seeds import AnyStart, Seeds
from .starts import PRODUCT, PROFILE, Start, as_plan, given, random


def starts_of(settings: Settings, problem: QuadraticProblem) -> list[AnyStart] | None:
    """Return the starts of a solve, checked; None for a race of the default starts."""
    init, dtype = settings.init, settings.precision.dtype
    if isinstance(init, str) and init == "auto":
        return None if settings.method == PGD.name else [PRODUCT]
    if not is_list_of_starts(init):
        start = cast(OneInit | Start, init)  # a list here is of the rows of a plan
        return [as_start(start, problem, settings.seed, also=("auto",), dtype=dtype)]
    if not len(init):
        raise ValueError("init must not be an empty list")
    starts = enumerate(init, settings.seed)
    return [as_start(start, problem, seed, dtype=dtype) for seed, start in starts]


def as_start(
    init: OneInit | Start,
    problem: QuadraticProblem,
    seed: int = 0,
    *,
    also: Sequence[str] = (),
    dtype: DTypeLike = np.float32,
) -> AnyStart:
    """Return the start of a name, seeds, a result or a plan; `also` are names for messages."""
    if isinstance(init, GWResult):
        if init.coupling.shape != problem.shape:
            raise ValueError(
                f"init must have a plan of shape {problem.shape}, got {init.coupling.shape}"
            )
        return given(init.coupling, "result", "result")
    if isinstance(init, Start | Seeds):
        return init
    if isinstance(init, str):
        starts = {"product": PRODUCT, "profile": PROFILE, "random": random(seed)}
        starts["exact"] = exact_start(seed)
        return starts[one_of(init, "init", (*starts, *also))]
    if init is None or hasattr(init, "plan"):
        type_name = f"the class {init.__name__}" if isinstance(init, type) else type(init).__name__
        raise TypeError(f"init must be the name of a start, Seeds or a plan, got {type_name}")
    plan = in_order(init, "init", *problem.orders, of="x and y")
    return given(as_plan(plan, problem.shape, dtype))


def is_list_of_starts(init: InitLike | Start) -> TypeGuard[list[OneInit]]:
    """Return whether `init` is a list or tuple of starts rather than of the rows of a plan."""
    if not isinstance(init, list | tuple):
        return False
    starts = str, GWResult, Start, Seeds
    return not init or any(isinstance(one, starts) or np.ndim(one) == 2 for one in init)
