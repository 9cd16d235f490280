"""Where a solve stands, in a file: a solve that was killed goes on from there.

A solve is a sequence of stages, all of them outer loops. The file has the name of the
stage and what that exports after an outer iteration: its state. On the same costs, by
their digests, the stage goes on from there, to the same optimum within the tolerances.
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
# Increased whenever a reader of the format before would go wrong.
FORMAT = 2
# Largest share of the time between two writings that writing may take.
MAX_SHARE = 0.05
# The stages of a solve, in their order: the race of default starts, the warm starts of
# dense costs over eigenvectors and in float32, and the descent that the result is of.
STARTS, LOW_RANK, FLOAT32, DESCENT = STAGES = "race", "low rank", "float32", "descent"
# The only stage of a comparison of many spaces.
PAIRS = "pairs"


class Checkpoint:
    """The file in which one solve keeps its state, where `path` is not None, and the seconds that
    the solve took before it went on from the file. The `identity` has digests, by name, of all
    that the result depends on. ValueError if the file is damaged, or of another solve.
    """

    def __init__(self, path, identity):
        self.path, self._identity = path, identity
        self._began, self._ended, self._took = time.perf_counter(), -np.inf, 0.0
        self._saved, self.seconds, self._stopped = {"stage": None}, 0.0, False
        if path is None or not path.exists():
            return
        found = read_tree(path, KIND, FORMAT)
        with self.restoring():
            saved, self._saved = {**found["identity"]}, {**found["state"]}
            self.seconds = float(found["seconds"])
            (*STAGES, PAIRS).index(self._saved["stage"])
        names = sorted({*saved, *identity})
        other = [name for name in names if saved.get(name) != identity.get(name)]
        if other:
            raise ValueError(
                f"{path}: the checkpoint of another solve, whose {', '.join(other)} "
                "differ from this one's; remove it to start anew, or name another file"
            )

    @property
    def is_new(self):
        """Whether there is no state to go on from."""
        return self._saved["stage"] is None

    def at(self, stage):
        """The state that the stage goes on from, a tree, or None."""
        return self._saved if self._saved["stage"] == stage else None

    def is_past(self, stage):
        """Whether the stage is over."""
        if self.is_new:
            return False
        return STAGES.index(self._saved["stage"]) > STAGES.index(stage)

    @contextlib.contextmanager
    def restoring(self):
        """Turns exceptions of the block, but OutOfTime, into a ValueError with the path
        and the reason.
        """
        try:
            yield
        except OutOfTime:
            raise
        # A damaged tree may have any content.
        except Exception as error:
            raise ValueError(f"{self.path}: damaged ({error!r})") from error

    def saver(self, stage, export):
        """A function for an outer loop to call after each iteration, which writes the
        tree ``export()`` to the file if that is due; None where nothing is kept.
        """
        if self.path is None:
            return None
        return lambda: self._save(stage, export)

    def stop_if(self, late):
        """Keep nothing from now on if a time limit has cut a stage short: the stages
        that follow are not those of a solve without the limit.
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
    """The `Checkpoint` of a solve of this problem with these options; its result also
    depends on the others.
    """
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
    )
    return opened_for(options, parts, **others)


def opened_for(options, parts, **others):
    """The `Checkpoint` of a computation whose result depends on the options, on these
    parts, and on the others.
    """
    path, limits = options.checkpoint, options.limits
    if isinstance(path, Checkpoint):
        return path
    parts = dict(
        parts,
        epsilon=options.epsilon,
        max_outer=limits.max_outer,
        tol=limits.tol,
        seed=options.seed,
        n_starts=options.n_starts,
        search_time=options.search_time,
        version=_version.__version__,
        **others,
    )
    return Checkpoint(path, {name: digest(part) for name, part in parts.items()})


def digest(value):
    """A text that tells values apart: arrays, geometries, dataclasses, numbers, texts,
    functions, collections of these and objects with such attributes by their content,
    other values by their `repr`.
    """
    made = hashlib.blake2b(digest_size=16)
    _feed(made, value, set())
    return made.hexdigest()


def _feed(made, value, inside):
    """Feed a value to the hash `made`; `inside` are ids of the objects that hold it."""
    value = value.item() if isinstance(value, np.generic) else value
    kind = type(value)
    made.update(f"{kind.__module__}.{kind.__qualname__};".encode())
    if id(value) in inside:
        return
    if isinstance(value, np.ndarray):
        made.update(f"{value.dtype}{value.shape};".encode())
        blocks = row_blocks(*value.shape) if value.ndim == 2 else [...]
        for rows in blocks:
            made.update(np.ascontiguousarray(value[rows]))
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
    """The content that tells a value from others of its class; None for its `repr`."""
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
        return None
    # A class of the caller's, such as a start, whose `repr` may be an address.
    return [(name, getattr(value, name, None)) for name in sorted({*names})]
