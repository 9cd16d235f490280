"""Where a solve stands, in a file: what was killed goes on from there.

A solve is a few stages, one after the other, and all of them outer loops. The file says
which stage it is, and has what that exports after an outer iteration: what makes a
state. On the same costs, which it is told by their digests, the stage goes on from
there, to the same optimum within the tolerances.
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
import time
import types
import warnings
from pathlib import Path

import numpy as np

from .. import _version
from ..problems.geometry import DenseCost, PointCloud
from ..utils.blocks import row_blocks
from ..utils.deadline import OutOfTime
from ..utils.trees import read_tree, write_tree

KIND = "checkpoint of gwfast"
# One more whenever a reader of the former would go wrong.
FORMAT = 2
# Most that writing may take, as a share of the time between two writings.
MAX_SHARE = 0.05
# The stages of a solve, in their order: the race of default starts, the warm starts of
# dense costs, and the descent that the result is of, after a race in float32 or not.
STARTS, LOW_RANK, FLOAT32, DESCENT = STAGES = "race", "low rank", "float32", "descent"
# The only one of a comparison of many spaces.
PAIRS = "pairs"


class Checkpoint:
    """The file in which one solve says where it stands.

    Parameters
    ----------
    path : Path or None
        None keeps nothing.
    identity : dict of str
        What the result depends on, each as a digest.

    Attributes
    ----------
    path : Path or None
    seconds : float
        Spent on the solve before it went on from the file.

    Raises
    ------
    ValueError
        If there is a file, and it is damaged, or of something else.
    """

    def __init__(self, path, identity):
        self.path, self._identity = path, identity
        self._began, self._ended, self._took = time.perf_counter(), -np.inf, 0.0
        self._saved, self.seconds, self._stopped = {"stage": None}, 0.0, False
        if path is not None and path.exists():
            found = read_tree(path, KIND, FORMAT)
            with self.restoring():
                identity, self._saved = {**found["identity"]}, {**found["state"]}
                self.seconds = float(found["seconds"])
                (*STAGES, PAIRS).index(self._saved["stage"])
            self._check(identity)

    @property
    def is_new(self):
        """Whether there is nothing to go on from."""
        return self._saved["stage"] is None

    def at(self, stage):
        """What a stage has to go on from, a tree, or None."""
        return self._saved if self._saved["stage"] == stage else None

    def is_past(self, stage):
        """Whether that stage is over."""
        if self.is_new:
            return False
        return STAGES.index(self._saved["stage"]) > STAGES.index(stage)

    @contextlib.contextmanager
    def restoring(self):
        """A ValueError with the path and the reason for what the block raises, but for
        OutOfTime.
        """
        try:
            yield
        except OutOfTime:
            raise
        # The tree may be any.
        except Exception as error:
            raise ValueError(f"{self.path}: damaged ({error!r})") from error

    def saver(self, stage, export):
        """What an outer loop is to call after its iterations: writes the file with the
        tree of ``export()``, if that is due. None where nothing is kept.
        """
        if self.path is None:
            return None
        return lambda: self._save(stage, export)

    def stop_if(self, late):
        """Keep nothing from now on where a time limit has cut something short, as what
        follows is not what would have been without.
        """
        if late and self.path is not None:
            self._stopped = True

    def _save(self, stage, export):
        began = time.perf_counter()
        if self._stopped or self._took > MAX_SHARE * (began - self._ended):
            return
        seconds = self.seconds + began - self._began
        state = {"stage": stage, **export()}
        tree = dict(identity=self._identity, seconds=seconds, state=state)
        try:
            write_tree(self.path, KIND, FORMAT, tree)
        except OSError as error:
            text = f"{self.path}: the checkpoint cannot be written, and the solve "
            warnings.warn(f"{text}goes on without ({error})", stacklevel=2)
        self._ended = time.perf_counter()
        self._took = self._ended - began

    def _check(self, identity):
        """Refuse what is not of this solve."""
        names = sorted({*identity, *self._identity})
        other = [n for n in names if identity.get(n) != self._identity.get(n)]
        if other:
            raise ValueError(
                f"{self.path}: the checkpoint of another solve, whose "
                f"{', '.join(other)} differ from this one's; remove it to start anew, "
                "or name another file"
            )


NOT_KEPT = Checkpoint(None, {})


def as_checkpoint(checkpoint):
    """What a caller may pass: a path, or None, which keeps nothing."""
    if checkpoint is None:
        return NOT_KEPT
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    try:
        path = Path(os.fsdecode(checkpoint))
    except TypeError:
        came = type(checkpoint).__name__
        raise TypeError(f"checkpoint must be a path or None, got {came}") from None
    if path.exists() and not path.is_file():
        raise ValueError(f"checkpoint must be a file, got {path}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"checkpoint must be in an existing folder, got {path}")
    return path


def opened(problem, options, **others):
    """The `Checkpoint` of a solve with `options`, whose `checkpoint` is checked; others
    are what else its result depends on.
    """
    path = options.checkpoint
    if isinstance(path, Checkpoint):
        return path
    limits, rule = options.limits, problem.rule
    parts = dict(
        cost_x=problem.x,
        cost_y=problem.y,
        p=rule.p,
        q=rule.q,
        mass=rule.mass,
        rho=rule.rho,
        marginals=rule.name,
        loss=problem.loss,
        linear_cost=problem.between,
        alpha=problem.alpha if problem.is_fused else None,
        max_inner=limits.max_inner,
        marginal_tol=limits.marginal_tol,
        dtype=options.precision.dtype.name,
        order=options.order,
        **_common(options),
        **others,
    )
    return Checkpoint(path, {name: digest(part) for name, part in parts.items()})


def opened_for(options, parts, **others):
    """The `Checkpoint` of something else than one solve, whose result depends on these
    parts and others, and on `options`.
    """
    path = options.checkpoint
    if isinstance(path, Checkpoint):
        return path
    parts = {**parts, **_common(options), **others}
    return Checkpoint(path, {name: digest(part) for name, part in parts.items()})


def _common(options):
    """What the result of any solve depends on."""
    limits = options.limits
    return dict(
        epsilon=options.epsilon,
        max_outer=limits.max_outer,
        tol=limits.tol,
        seed=options.seed,
        n_starts=options.n_starts,
        version=_version.__version__,
    )


def digest(value):
    """A text that tells values apart: arrays, geometries, dataclasses, numbers, texts,
    functions, collections of these, and what has them as attributes, by all that they
    hold; others by their `repr`.
    """
    made = hashlib.blake2b(digest_size=16)
    _feed(made, value, set())
    return made.hexdigest()


def _feed(made, value, inside):
    """Feed a value to a hash; `inside` are ids of what it is held by."""
    value = value.item() if isinstance(value, np.generic) else value
    kind = type(value)
    made.update(f"{kind.__module__}.{kind.__qualname__};".encode())
    if id(value) in inside:
        return
    if isinstance(value, np.ndarray):
        made.update(f"{value.dtype}{value.shape};".encode())
        if value.ndim == 2:
            for rows in row_blocks(*value.shape):
                made.update(np.ascontiguousarray(value[rows]))
        else:
            made.update(np.ascontiguousarray(value))
    elif isinstance(value, set | frozenset):
        made.update(";".join(sorted(map(digest, value))).encode())
    else:
        parts = _parts(value)
        if parts is None:
            made.update(f"{value!r};".encode())
        else:
            made.update(f"{len(parts)};".encode())
            for one in parts:
                _feed(made, one, inside | {id(value)})


def _parts(value):
    """What tells a value from others of its class; None where that is its `repr`."""
    if isinstance(value, PointCloud):
        return (*value.identity, value.signature, value.scale, value.metric)
    if isinstance(value, DenseCost):
        return value.matrix, value.symmetric
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return value.__qualname__, value.__code__, value.__defaults__, cells
    if isinstance(value, types.CodeType):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, np.random.Generator):
        return [value.bit_generator.state]
    names = [*getattr(value, "__dict__", ())]
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    if isinstance(value, type):
        return None
    if not names and type(value).__repr__ is not object.__repr__:
        return None  # that of others is their address
    # Of a caller's own class, such as a start.
    return [(name, getattr(value, name, None)) for name in sorted({*names})]
