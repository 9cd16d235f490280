"""Points in a file, of which every worker reads its own."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..alignment.normalize import Normalizer, NormalizeStep, check_steps
from ..problems.geometry import ROUNDING, Metric, PointCloud, features_of, radius_of, signature_of
from ..quadratic.placement import over
from ..utils.types import Float32Array, Float64Array, PathLike
from ..utils.validation import as_count, one_of
from .row_files import Rows, open_rows

# Rows that are made at a time to add something up: so many bytes of float64.
PART_BYTES = 1 << 27
# Those whose costs have factors.
FILE_METRICS: tuple[Metric, ...] = ("cosine", "sqeuclidean", "dot")


class FilePart(NamedTuple):
    """Some rows of a file, and what makes features of them."""

    rows: Rows
    start: int
    stop: int
    steps: tuple[NormalizeStep, ...] = ()
    means: tuple[Float64Array, ...] = ()
    metric: Metric = "dot"
    center: Float64Array | float = 0.0
    radius: float = 1.0

    def normalized(self) -> Float32Array:
        read, nothing = self.rows.read(self.start, self.stop), np.empty((0, 0))
        learned = Normalizer(self.steps, self.means, cast(Float32Array, nothing))
        return learned(read, self.rows.path)

    def features(self) -> Float32Array:
        """As those of a `PointCloud`."""
        normalized = self.normalized()
        return features_of(normalized, self.metric, self.center, self.radius)


class PointFile(PointCloud):
    """A `PointCloud` of the rows of a file, for problems that no machine has room for.

    It reads the file a few times, a part at a time, to learn what belongs to all rows;
    within `cluster` the workers do, each a part. They then read the rows that they are
    to keep. The file must be there under the same path on all of them.

    Parameters
    ----------
    path : path-like
        Vectors as an ``.npy`` file, which is mapped into memory; as the only array of
        an ``.npz`` file, or that named "vectors"; or as text, ``word x1 ... xd`` a
        line, with or without a first line ``n d`` (word2vec, GloVe).
    metric : {"cosine", "sqeuclidean", "dot"}, default="cosine"
        See `PointCloud`.
    normalize : sequence of {"unit", "center"}, default=()
        See `align`, which does ``("unit", "center", "unit")``.
    n_words : int or None, default=None
        How many of the first rows to take; None is all.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong, or the file; the message names it.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile, numpy as np, gwfast
    >>> from gwfast.distributed import PointFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.random.default_rng(0).normal(size=(50, 3)))
    ...     cloud = PointFile(f"{folder}/x.npy", normalize=["unit", "center"])
    ...     result = gwfast.gromov_wasserstein(cloud, cloud)
    >>> cloud.n, round(result.gw_cost, 3) < 0.1
    (50, True)
    """

    def __init__(
        self,
        path: PathLike,
        metric: Metric = "cosine",
        *,
        normalize: Sequence[NormalizeStep] = (),
        n_words: int | None = None,
    ) -> None:
        self.metric, steps = (one_of(metric, "metric", FILE_METRICS), check_steps(normalize))
        rows = open_rows(os.fsdecode(path), over)
        self.n = rows.n if n_words is None else min(as_count(n_words, "n_words"), rows.n)
        status = os.stat(rows.path)
        self._file = rows.path, status.st_size, status.st_mtime_ns
        means: tuple[Float64Array, ...] = ()
        for at, step in enumerate(steps):
            if step == "center":
                self._part = FilePart(rows, 0, self.n, steps[:at], means)
                means += (sum(self._over(_summed)) / self.n,)
        self._part = FilePart(rows, 0, self.n, steps, means)
        center: Float64Array | float = 0.0
        radius = 1.0
        if metric == "sqeuclidean":
            center = sum(self._over(_summed)) / self.n
        if metric != "cosine":
            radius = radius_of(max(self._over(_largest, center)), rows.d)
        self._part = FilePart(rows, 0, self.n, steps, means, metric, center, radius)
        self.scale = radius**2
        self._rank = rows.d + 2 * (metric == "sqeuclidean")
        self.signature = signature_of(self._rank, metric)

    @functools.cached_property
    def features(self) -> Float32Array:  # type: ignore[override]
        """All of them, in this process."""
        return self._part.features()

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells this cloud from others, without reading it."""
        part = self._part
        return *self._file, self.n, *part.steps, part.metric

    @property
    def is_constant(self) -> bool:
        low, high = (np.array(one) for one in zip(*self._over(_range), strict=True))
        return bool((high.max(axis=0) - low.min(axis=0)).max() <= ROUNDING)

    def part(self, rows: slice) -> FilePart:
        """Some of it, to be read elsewhere."""
        return self._part._replace(start=rows.start, stop=rows.stop)

    def take(self, rows: NDArray[Any]) -> PointCloud:
        order, found = np.argsort(rows, kind="stable"), []
        for part in self._parts():
            inside = rows[order]
            inside = inside[(inside >= part.start) & (inside < part.stop)]
            if len(inside):
                # What comes before is not read.
                low, high = int(inside.min()), int(inside.max()) + 1
                made = part._replace(start=low, stop=high).features()
                found.append(made[inside - low])
        cloud = PointCloud.__new__(PointCloud)
        cloud.metric, cloud.n = self.metric, len(rows)
        cloud.scale, cloud.signature = self.scale, self.signature
        cloud.features = np.empty((len(rows), self.rank), dtype=np.float32)
        cloud.features[order] = np.concatenate(found)
        return cloud

    def mean(self, masses: Float64Array) -> Float64Array:
        return sum(self._over(_weighted, masses))

    def mean_square(self, masses: Float64Array) -> float:
        return float(sum(self._over(_mean_square, masses, self.n_coordinates)))

    def square_times(self, p: Float64Array) -> Float64Array:
        gram = self.signature @ sum(self._over(_gram, p)) @ self.signature
        return np.concatenate(self._over(_quadratic, gram))

    def _parts(self) -> list[FilePart]:
        step = max(PART_BYTES // (8 * self._part.rows.d), 1)
        return [
            self.part(slice(start, min(start + step, self.n))) for start in range(0, self.n, step)
        ]

    def _over(self, function: Any, *given: Any) -> list[Any]:
        """What a function says of each part and these arguments, of those that have an
        entry for each row only the part's.
        """
        items = []
        for part in self._parts():
            own = [
                one[part.start : part.stop] if np.shape(one) == (self.n,) else one for one in given
            ]
            items.append((part, *own))
        return over(function, items)


def part_of(cloud: PointCloud, rows: slice | None = None) -> Float32Array | FilePart:
    """The features of some points, or where to read them."""
    rows = slice(0, cloud.n) if rows is None else rows
    return cloud.part(rows) if isinstance(cloud, PointFile) else cloud.features[rows]


def _summed(part):
    return part.normalized().sum(axis=0, dtype=np.float64)


def _largest(part, center):
    return np.abs(part.normalized() - center).max()


def _range(part):
    features = part.features()
    return features.min(axis=0), features.max(axis=0)


def _weighted(part, masses):
    return masses @ part.features()


def _mean_square(part, masses, n_coordinates):
    return masses @ np.square(part.features()[:, :n_coordinates]).sum(axis=1)


def _gram(part, masses):
    features = part.features().astype(np.float64)
    return (features.T * masses) @ features


def _quadratic(part, gram):
    features = part.features().astype(np.float64)
    return np.einsum("ij,ij->i", features @ gram, features)
