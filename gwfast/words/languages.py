"""How far apart languages are: Gromov-Wasserstein distances between their words."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import time
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..alignment.align import align
from ..alignment.normalize import Normalizer, NormalizeStep
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..problems.epsilon import EpsilonLike, as_epsilon
from ..problems.geometry import STATISTICS, PointCloud, Statistic
from ..results.result import ConvergenceWarning
from ..utils.blocks import row_blocks
from ..utils.callers import outside
from ..utils.parallel import in_parallel
from ..utils.progress import ProgressEvent, reporting
from ..utils.types import Float32Array, Float64Array, IntArray, Progress
from ..utils.validation import as_count, as_matrix, one_of
from .embeddings import Embeddings

# Tolerance of the entropic plan: a matching is made from it, and improved.
PLAN_TOL = 1e-4
# Ways for the entropic solve to end that leave little to make a matching from.
POOR = ("near_product", "lost_mass", "max_outer", "cycle", "time_limit")
# Limit of the rounds of assignment after the entropic plan; two or three are usual.
MAX_ROUNDS = 100
# Rounding of a root, relatively, in what the triangle inequality is checked with.
ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class LanguagePair:
    """The distance between two languages, and how it was found.

    Attributes
    ----------
    source, target : str
        Names of the languages.
    gw_cost : float
        The distance, in squared units: what the matching costs.
    plan_cost : float
        What the entropic plan costs that the matching was made from: `gw_cost` of
        `gwfast.align`.
    product_cost : float
        What the product plan costs, which matches nothing.
    epsilon : float or None
        The effective one of the entropic plan, where there is one.
    status : str
        How the entropic solve ended, see `gwfast.GWResult`; "same" where the two
        languages have the same vectors in the same order, and nothing was solved.
    via : str or None
        A language over which the matching was composed, as this was better than the
        direct one.
    matches : (n_words,) int64 ndarray
        The target word of each source word, one to one.
    seconds : float

    Examples
    --------
    >>> from gwfast.words import language_distances, load_sample
    >>> spanish, french, _ = load_sample()
    >>> (pair,) = language_distances({"es": spanish, "fr": french}, n_words=100).pairs
    >>> pair.source, pair.target, bool(pair.gw_cost < pair.product_cost)
    ('es', 'fr', True)
    """

    source: str
    target: str
    gw_cost: float
    plan_cost: float
    product_cost: float
    epsilon: float | None
    status: str
    via: str | None
    matches: IntArray
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageDistances:
    """Distances between languages, see `language_distances`.

    Attributes
    ----------
    names : tuple of str, length L
    matrix : (L, L) float64 ndarray
        `gw_cost` of every pair, in squared units: symmetric, zero on the diagonal.
    roots : (L, L) float64 ndarray
        Its square roots, which obey the triangle inequality.
    pairs : tuple of LanguagePair
        Every pair once, in the order of `names`.
    n_words : int
        Words of each language that were compared.

    Examples
    --------
    >>> from gwfast.words import language_distances, load_sample
    >>> spanish, french, _ = load_sample()
    >>> found = language_distances({"es": spanish, "fr": french}, n_words=100)
    >>> found.names, found.matrix.shape
    (('es', 'fr'), (2, 2))
    """

    names: tuple[str, ...]
    matrix: Float64Array
    pairs: tuple[LanguagePair, ...]
    n_words: int

    @property
    def roots(self) -> Float64Array:
        return np.sqrt(self.matrix)

    def __repr__(self) -> str:
        return f"LanguageDistances({', '.join(self.names)}; {self.n_words:,} words)"


def language_distances(
    embeddings: Mapping[str, Embeddings | ArrayLike],
    *,
    n_words: int = 2000,
    normalize: Sequence[NormalizeStep] = ("unit", "center", "unit"),
    scale_costs: Statistic | None = None,
    epsilon: EpsilonLike = "auto",
    seed: int = 0,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    n_threads: int | None = 1,
    progress: Progress = False,
) -> LanguageDistances:
    """Gromov-Wasserstein distances between languages, from their words' vectors.

    The value of a pair is the smallest mean of ``(C_ik - C'_jl)^2`` that was found over
    all one-to-one matchings of the most frequent words, where ``i, k`` are any two
    words of one language, ``j, l`` those they are matched with, and `C`, `C'` the
    cosine distances within each (Alvarez-Melis and Jaakkola, EMNLP 2018, section 5.4;
    the paper scales it by 100). Its square root is a metric.

    Parameters
    ----------
    embeddings : mapping of str to Embeddings or array-like of shape (n, d)
        Languages by name, most frequent words first; `d` may differ.
    n_words : int, default=2000
        Most frequent words of each language that are compared; fewer where a language
        has fewer, the same number of all. Values for different numbers can't be
        compared.
    normalize : sequence of {"unit", "center"}, default=("unit", "center", "unit")
        Applied to these words' vectors, see `gwfast.align`.
    scale_costs : {"mean", "median", "max"} or None, default=None
        Divide the costs within each language by this statistic of them, see
        `gwfast.PointCloud.scaled_by`. It changes the values, and hardly the matchings.
    epsilon : float, str or Epsilon, default="auto"
        Of the entropic plans that the matchings are made from. The values hardly
        depend on it.
    seed : int, default=0
        For random starts.
    time_limit : float or None, default=None
        Seconds after which the solve of each pair ends with the plan it has.
    n_jobs : int or None, default=None
        Pairs computed at a time, by joblib: inside ``joblib.parallel_config(...)`` by
        Dask or Ray, and so on. The result does not depend on it.
    n_threads : int or None, default=1
        Threads of each of them.
    progress : bool or callable, default=False
        As in `gwfast.gromov_wasserstein`.

    Returns
    -------
    LanguageDistances

    Raises
    ------
    ImportError
        If joblib is not installed.
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it, and the language.

    Warns
    -----
    ConvergenceWarning
        Once, if plans are poor that matchings were made from; `LanguagePair.status`
        says which and why.

    Notes
    -----
    *What is computed.* The ``gw_cost`` of an entropic plan depends on epsilon, does not vanish
    between a space and itself, and is above the minimum that the definition asks for: by 7 to 11 %
    at the default epsilon, on word vectors. Subtracting what the spaces cost with themselves, as
    Sinkhorn divergences do, takes away less than 1 % of it, as each is matched with itself far
    more sharply than with another. Without entropy, with similarities of vectors, the squared loss
    and uniform masses, the problem is concave, and its minima are at permutations. From the
    entropic plan that `gwfast.align` finds, which has escaped poor minima, linear assignments lead
    to one, each lowering the objective: the Frank-Wolfe method, with full steps. One to three are
    enough; annealing epsilon takes longer and mostly ends higher.

    *What holds exactly.* A permutation costs the same in both directions, and every pair is
    computed in an order of its own, whatever that of the arguments: the matrix is symmetric. The
    identity costs nothing. The root of the cost of a composed matching is at most the sum of the
    roots of its two parts: where a pair violates the triangle inequality, composing its matching
    over the third language, and improving it, repairs that.

    *How to read it.* The value is an upper bound, as no search is sure to find the lowest minimum;
    at 2000 words other starts and epsilons change it by up to 0.5 %, so that differences below a
    percent mean little, and at fewer words by more (6 % at 800). 0 is: the same relations between
    words. Matching nothing costs `LanguagePair.product_cost`, and the best matching of noise with
    the variances of Spanish vectors 63 % of that, at 2000 words in 200 dimensions. On vectors of
    Zhang et al. (ACL 2017), 50 dimensions, two corpora of English were at 11 % of that, Spanish
    and English at 23 %, Chinese and English at 33 %; on small corpora of novels, 200 dimensions,
    Spanish and French at 50 %, French and English at 53 %. Compare vectors of like dimension and
    corpus: both count as much as the language.

    It takes O(n_words^2) memory and about O(n_words^3) time a pair: 2 to 6 s for 2000
    words on one core.

    Examples
    --------
    >>> from gwfast.words import language_distances, load_sample
    >>> spanish, french, _ = load_sample()
    >>> found = language_distances({"es": spanish, "fr": french}, n_words=100)
    >>> bool(found.matrix[0, 1] > 0)
    True
    """
    spaces = prepare(embeddings, n_words, normalize, scale_costs)
    epsilon, seed = as_epsilon(epsilon), as_count(seed, "seed", least=0)
    n_threads = resolve_n_threads(n_threads)
    matchings = {}
    todo = [in_order(*pair) for pair in itertools.combinations(spaces.values(), 2)]
    options = scale_costs, epsilon, seed, time_limit, n_threads
    calls = [(a.rows, b.rows, *options) for a, b in todo]
    with reporting(progress) as report_progress:
        report_progress(ProgressEvent("match", "matching", 1, 0, len(todo)))
        for done, (number, found) in enumerate(in_parallel(match, calls, n_jobs), 1):
            one, other = todo[number]
            matchings[one.name, other.name] = found
            text = f"matched {one.name} and {other.name}"
            report_progress(ProgressEvent("match", text, done, done, len(todo)))
    distances = assemble(spaces, matchings)
    bad = [pair for pair in distances.pairs if pair.status in POOR]
    if bad:
        shown = [f"{pair.source} and {pair.target} ({pair.status})" for pair in bad[:5]]
        warnings.warn(
            f"{len(bad)} of {len(distances.pairs)} pairs have poor plans:"
            f" {', '.join(shown)}{', ...' if len(bad) > 5 else ''}",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    return distances


@dataclasses.dataclass(frozen=True, eq=False)
class Space:
    """The words of a language that are compared."""

    name: str
    rows: Float32Array  # of unit length
    scale: float  # factor of the costs ``1 - cos``
    digest: str  # of `rows`


def prepare(embeddings, n_words, normalize, scale_costs):
    """`Space` of every language, by name; arguments of `language_distances`."""
    if not isinstance(embeddings, Mapping):
        raise TypeError(
            "embeddings must map names of languages to their vectors, got "
            f"{type(embeddings).__name__}"
        )
    names = list(embeddings)
    if len(names) < 2:
        raise ValueError(f"embeddings must hold at least two languages, got {names}")
    n_words = as_count(n_words, "n_words", least=2)
    if scale_costs is not None:
        one_of(scale_costs, "scale_costs", STATISTICS)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"embeddings must have str as names, got {name!r}")
    vectors = {
        name: as_matrix(getattr(given, "vectors", given), f"embeddings[{name!r}]")
        for name, given in embeddings.items()
    }
    n_words = min(n_words, *map(len, vectors.values()))
    if n_words < 2:
        raise ValueError("embeddings must have at least two words of each language")
    spaces = {}
    for name, rows in vectors.items():
        rows = Normalizer.fit(normalize, rows[:n_words], f"embeddings[{name!r}]").rows
        cloud = PointCloud(rows)
        rows = cloud.features
        scale = cloud.scaled_by(scale_costs).scale if scale_costs else 1.0
        digest = hashlib.sha256(rows.tobytes() + str(rows.shape).encode()).hexdigest()
        spaces[name] = Space(name, rows, scale, digest)
    return spaces


def in_order(one, other):
    """Two spaces in the order in which their pair is computed."""
    return (one, other) if one.digest <= other.digest else (other, one)


@dataclasses.dataclass(frozen=True, eq=False)
class Matching:
    """What `match` finds; see `LanguagePair`."""

    matches: IntArray
    plan_cost: float
    epsilon: float | None
    status: str
    seconds: float


def match(x, y, scale_costs, epsilon, seed, time_limit, n_threads, progress=False):
    """The cheapest one-to-one matching that is found of rows of unit length, float32;
    see `gwfast.align`."""
    began = time.perf_counter()
    if x.shape == y.shape and np.array_equal(x, y):
        return Matching(np.arange(len(x)), 0.0, None, "same", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status tells
        gw = align(
            x,
            y,
            normalize=(),
            scale_costs=scale_costs,
            epsilon=epsilon,
            seed=seed,
            tol=PLAN_TOL,
            marginal_tol=PLAN_TOL,
            time_limit=time_limit,
            n_threads=n_threads,
            progress=progress,
        ).gw
    state = x.T.astype(np.float64) @ gw.coupling.apply(y)
    return Matching(
        matches=_settle(x, y, state),
        plan_cost=float(gw.gw_cost),
        epsilon=float(gw.epsilon),
        status=gw.status,
        seconds=time.perf_counter() - began,
    )


def _settle(x, y, state):
    """A permutation that no linear assignment improves, from ``X' T Y`` of a plan.

    The objective depends on the plan by ``-2 |X' T Y|^2``, which is concave, so that it
    falls in every step to the plan that is best for the gradient.
    """
    # As long to import as all that reading and aligning two languages takes of SciPy.
    from scipy.optimize import linear_sum_assignment

    x, y = x.astype(np.float64), y.astype(np.float64)
    best, matches = -math.inf, None
    with single_threaded_blas():
        for _ in range(MAX_ROUNDS):
            found = linear_sum_assignment(x @ state @ y.T, maximize=True)[1]
            state = x.T @ y[found] / len(x)
            value = float(np.vdot(state, state))
            if not value > best * (1.0 + ROUNDING):
                break
            best, matches = value, found
    return matches


def matching_cost(one, other, matches):
    """Mean of ``(C_ik - C'_jl)^2`` over all pairs of words, made block by block."""
    x = one.rows.astype(np.float64)
    y = other.rows.astype(np.float64)[matches]
    total = 0.0
    with single_threaded_blas():
        for rows in row_blocks(len(x), len(x)):
            left = one.scale * (1.0 - x[rows] @ x.T)
            total += np.square(left - other.scale * (1.0 - y[rows] @ y.T)).sum()
    return total / len(x) ** 2


def _moments(space):
    """Mean of the costs within a language, and mean of their squares."""
    x = space.rows.astype(np.float64)
    # Of cosines.
    mean, square = np.sum(x.mean(axis=0) ** 2), np.sum((x.T @ x / len(x)) ** 2)
    return space.scale * (1.0 - mean), space.scale**2 * (1.0 - 2.0 * mean + square)


def product_cost(one, other):
    """Mean of ``(C_ik - C'_jl)^2`` over all pairs of words and all pairs of others."""
    (mean_x, square_x), (mean_y, square_y) = _moments(one), _moments(other)
    return float(square_x + square_y - 2.0 * mean_x * mean_y)


def assemble(spaces, matchings):
    """`LanguageDistances` of `Space` by name, with `Matching` by pair of names, each in
    one of its orders."""
    names = tuple(spaces)
    costs, matches, via = {}, {}, {}

    def keep(one, other, found):
        matches[one, other], matches[other, one] = found, np.argsort(found)
        cost = matching_cost(spaces[one], spaces[other], found)
        costs[one, other] = costs[other, one] = cost

    for (one, other), matching in matchings.items():
        keep(one, other, matching.matches)
    # In an order that does not depend on that of the arguments.
    ordered = sorted(names, key=lambda name: (spaces[name].digest, name))
    while violated := _violation(ordered, costs):
        one, middle, other = violated
        composed = matches[middle, other][matches[one, middle]]
        x, y = spaces[one].rows, spaces[other].rows
        better = _settle(x, y, x.T.astype(np.float64) @ y[composed] / len(x))
        keep(one, other, composed)
        if matching_cost(spaces[one], spaces[other], better) < costs[one, other]:
            keep(one, other, better)
        via[one, other] = via[other, one] = middle
    pairs = []
    for one, other in itertools.combinations(names, 2):
        found = matchings.get((one, other)) or matchings[other, one]
        pairs.append(
            LanguagePair(
                source=one,
                target=other,
                gw_cost=costs[one, other],
                plan_cost=found.plan_cost,
                product_cost=product_cost(spaces[one], spaces[other]),
                epsilon=found.epsilon,
                status=found.status,
                via=via.get((one, other)),
                matches=matches[one, other],
                seconds=found.seconds,
            )
        )
    matrix = np.array([[costs.get((i, j), 0.0) for j in names] for i in names])
    return LanguageDistances(names, matrix, tuple(pairs), len(spaces[names[0]].rows))


def _violation(names, costs):
    """Three names whose triangle inequality is violated, by that in the middle."""
    for one, middle, other in itertools.permutations(names, 3):
        direct = math.sqrt(costs[one, other])
        detour = math.sqrt(costs[one, middle]) + math.sqrt(costs[middle, other])
        if one < other and direct > detour * (1.0 + ROUNDING) + ROUNDING:
            return one, middle, other
    return None
