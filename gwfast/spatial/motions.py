"""Rigid motions between slices, and stacks of slices in one frame."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..results.coupling import ArrayCoupling, Coupling
from ..results.result import GWResult
from ..singlecell.cells import is_anndata, names_of
from ..utils.callers import outside
from ..utils.labels import in_order
from ..utils.types import Float64Array
from ..utils.validation import as_matrix
from .slices import coordinates


class RigidMotion(NamedTuple):
    """A motion: a `rotation` (d, d), perhaps with a reflection, and then a `shift` (d,)."""

    rotation: Float64Array
    shift: Float64Array

    def __call__(self, points: ArrayLike) -> Float64Array:
        """Return points (n, d) after the motion."""
        return as_matrix(points, "points").astype(np.float64) @ self.rotation + self.shift

    def inverse(self) -> RigidMotion:
        """Return the inverse motion."""
        return RigidMotion(self.rotation.T, -self.shift @ self.rotation.T)

    @property
    def angle(self) -> float:
        """Degrees by which points of the plane turn, counterclockwise; NaN for other dimensions."""
        if self.rotation.shape != (2, 2):
            return float("nan")
        return float(np.rad2deg(np.arctan2(self.rotation[0, 1], self.rotation[0, 0])))

    @property
    def is_reflection(self) -> bool:
        """True if the slice is turned over as well."""
        return bool(np.linalg.det(self.rotation) < 0)


def rigid_motion(
    coupling: Coupling, a: Float64Array, b: Float64Array, reflection: bool, name: str
) -> RigidMotion:
    """Return the motion of the spots `a` that is nearest to the spots `b`, by the mean square over
    all pairs, weighted by the plan (Procrustes, as in PASTE). A warning names a slice that has to
    be turned over.
    """
    rows, cols = coupling.marginals
    mass = rows.sum()
    if not mass > 0:
        raise ValueError("the plan must have mass for a rigid motion, got none")
    center, goal = rows @ a / mass, cols @ b / mass
    a, b = a - center, b - goal
    moments = a.T @ coupling.apply(b).astype(np.float64)
    left, sizes, right = np.linalg.svd(moments / mass)
    if not reflection and np.linalg.det(left @ right) < 0:
        left[:, -1] *= -1.0
        total = float(rows @ np.square(a).sum(axis=1) + cols @ np.square(b).sum(axis=1)) / mass
        best, more = max(total - 2 * sizes.sum(), 0.0), 4 * sizes[-1]
        # Spots in a line, and plans that match nothing, fit either way.
        if more > max(best, 0.01 * total):
            warnings.warn(
                f"{name} fits better turned over: its spots are off by {math.sqrt(best):.3g} with "
                f"a reflection, by {math.sqrt(best + more):.3g} without; pass reflection=True",
                stacklevel=outside(),
            )
    rotation = left @ right
    return RigidMotion(rotation, goal - center @ rotation)


def stack_slices(
    slices: Sequence[Any],
    alignments: Sequence[Any],
    *,
    reflection: bool = False,
    key_added: str | None = "spatial_aligned",
) -> list[Float64Array]:
    """Bring successive slices into the frame of the first.

    The rigid motion that is best for the plan between two slices moves each slice onto the slice
    before (PASTE: Zeira, Land, Strzalkowski and Raphael, Nature Methods 2022).

    Parameters
    ----------
    slices : sequence of k AnnData objects, pairs, or arrays of shape (n_i, d)
        The slices, or the coordinates of their spots.
    alignments : sequence of k - 1 SliceAlignment, GWResult, or arrays
        Alignment of each slice with the next slice, from `pairwise_align`; or plans of
        shape (n_i, n_(i + 1)).
    reflection : bool, default=False
        Whether slices may be turned over.
    key_added : str or None, default="spatial_aligned"
        Write the coordinates into ``obsm[key_added]`` of AnnData objects; None writes nothing.

    Returns
    -------
    list of (n_i, d) float64 ndarrays
        Coordinates of all slices; the first slice stays where it is.

    Warns
    -----
    UserWarning
        If a slice fits far better turned over, and `reflection` is false.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.spatial import stack_slices
    >>> spots = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    >>> turned = spots @ [[0.0, 1.0], [-1.0, 0.0]] + 7.0
    >>> first, second = stack_slices([spots, turned], [np.eye(3) / 3])
    >>> bool(np.allclose(first, second))
    True
    """
    if len(slices) < 2 or len(alignments) != len(slices) - 1:
        raise ValueError(
            "alignments must be one fewer than slices, and slices at least two, got "
            f"{len(alignments)} and {len(slices)}"
        )
    spots = [coordinates(data, f"slices[{k}]") for k, data in enumerate(slices)]
    moved = [spots[0]]
    for k, alignment in enumerate(alignments):
        name, shape = f"alignments[{k}]", (len(spots[k]), len(spots[k + 1]))
        orders = names_of(slices[k]), names_of(slices[k + 1])
        plan = in_order(alignment, name, *orders, of=f"slices[{k}] and slices[{k + 1}]")
        plan = getattr(plan, "gw", plan)
        if isinstance(plan, GWResult):
            coupling = plan.coupling
        else:
            plan = np.ascontiguousarray(as_matrix(plan, name), dtype=np.float64)
            coupling = ArrayCoupling(plan, 1)
        if coupling.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {coupling.shape}")
        # The next slice onto this slice, where it is in the stack.
        motion = rigid_motion(coupling.T, spots[k + 1], moved[k], reflection, f"slices[{k + 1}]")
        moved.append(motion(spots[k + 1]))
    if key_added is not None:
        for data, places in zip(slices, moved, strict=True):
            if is_anndata(data):
                data.obsm[key_added] = places
    return moved
