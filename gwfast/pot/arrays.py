"""Arrays of other libraries: taken as NumPy arrays without copying, and given back."""

import math
import sys

import numpy as np

from ..problems.geometry import DenseCost, PointCloud
from ..problems.graphs import as_geometry, is_graph
from ..utils.labels import in_order, labels_of
from ..utils.validation import NO_LIMIT, as_array, as_positive

# Space of each axis of the arguments that have points of the first or of the second space.
SIDES: dict[str, tuple[int, ...]] = {
    "C1": (0, 0),
    "Ca": (0, 0),
    "C2": (1, 1),
    "Cb": (1, 1),
    "M": (0, 1),
    "G0": (0, 1),
    "p": (0,),
    "q": (1,),
    "a": (0,),
    "b": (1,),
}


class Arrays:
    """Arguments of one call by their names in messages, as NumPy arrays; None is left out.

    They are of one library; lists go with any. If all arrays are float32 the dtype is; else it is
    float64. Tensors that ask for gradients are refused, or with `traces` kept in `asking`.
    """

    def __init__(self, named, *, traces=False):
        named = {name: x for name, x in named.items() if x is not None}
        self.asking, libraries = {}, dict.fromkeys(named, "numpy")
        if not all(type(x) is np.ndarray for x in named.values()):
            named = _in_one_order(named)
            if traces:
                self.asking = {name: x for name, x in named.items() if is_traced(x)}
                named |= {name: x.detach() for name, x in self.asking.items()}
            libraries = {
                name: library for name, x in named.items() if (library := library_of(x)) is not None
            }
            if len(set(libraries.values())) > 1:
                came = ", ".join(f"{name} ({library})" for name, library in libraries.items())
                raise ValueError(f"arrays must all be of one library, got {came}")
        self.library = next(iter(libraries.values()), "numpy")
        self.like = next((named[name] for name in libraries), None)
        self._arrays = {name: as_host(x, name) for name, x in named.items()}
        single = {self._arrays[name].dtype for name in libraries} == {np.dtype(np.float32)}
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def __getitem__(self, name):
        """Return the array of that name, or None."""
        return self._arrays.get(name)

    def back(self, x, dtype=None):
        """Return a NumPy array or a number in the caller's library, by default in its dtype."""
        x = np.asarray(x, dtype=dtype or self.dtype)
        if self.library == "torch":
            import torch

            return torch.from_numpy(x)
        if self.library == "numpy" or not hasattr(self.like, "__array_namespace__"):
            return x if x.ndim else x[()]
        library = self.like.__array_namespace__()
        try:
            return library.asarray(x, device=self.like.device)
        except (AttributeError, TypeError):  # before the standard said how
            return library.asarray(x)


def _in_one_order(named):
    """Return the arguments of a call with pandas objects of a space in one order."""
    orders = [(None, "")] * 2
    for name, sides in SIDES.items():
        x = named.get(name)
        for axis, side in enumerate(sides):
            labels, of = orders[side]
            if labels is None:
                orders[side] = labels_of(x, axis), name
            elif hasattr(x, "iloc"):
                order = [None] * axis + [labels]
                named[name] = x = in_order(x, name, *order, of=of)
    return named


def as_costs(x, name):
    """Return the costs of a graph or of an object of gwfast in float64; others as they came."""
    if type(x) is np.ndarray or not (is_graph(x) or isinstance(x, PointCloud | DenseCost)):
        return x
    return as_geometry(x, name).to_dense().matrix.astype(np.float64)


def library_of(x):
    """Return the name of the library that `x` is an array of, None for a list."""
    if type(x) is np.ndarray:
        return "numpy"
    if isinstance(x, list | tuple):
        return None
    foreign = hasattr(x, "__dlpack__") or hasattr(x, "__array_namespace__")
    if isinstance(x, np.ndarray | np.generic) or not foreign:
        return "numpy"
    return type(x).__module__.partition(".")[0].replace("jaxlib", "jax")


def as_host(x, name):
    """Return `x` as a NumPy array of real numbers, in memory that it shares if it can."""
    if type(x) is not np.ndarray:
        jax = sys.modules.get("jax")
        if is_traced(x) or (jax is not None and isinstance(x, jax.core.Tracer)):
            raise NoGradients(name)
        x = _shared(x, name)
    x = as_array(x, name)
    if x.dtype == np.float16:
        raise TypeError(f"{name} must be of float32 or float64, got {x.dtype}")
    return x


def _shared(x, name):
    """Return an array of another library as an array of NumPy, anything else as it is."""
    if isinstance(x, np.ndarray | np.generic):
        return x
    if hasattr(x, "detach") and hasattr(x, "numpy"):  # as by DLPack, but sooner
        try:
            return x.detach().numpy()
        except (RuntimeError, TypeError):
            pass  # of another device, layout or dtype
    if hasattr(x, "__dlpack_device__"):
        try:
            device = int(x.__dlpack_device__()[0])
        except (BufferError, RuntimeError, TypeError, ValueError):
            device = None  # unknown to DLPack
        # Memory that this processor can read: its own, and what CUDA and ROCm keep pinned for it.
        if device not in (1, 3, 11):
            devices = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda"}
            place = getattr(x, "device", None) or devices.get(device, f"device {device}")
            raise TypeError(f"{name} must be in the memory of the CPU, got an array on {place}")
    if not hasattr(x, "__dlpack__"):
        return x
    x = x.detach() if hasattr(x, "detach") else x
    try:
        return np.from_dlpack(x)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        pass  # DLPack has no word for it: another byte order, for example
    try:
        return np.asarray(x)
    except (RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be a dense array of float32 or float64, got "
            f"{type(x).__name__} of {getattr(x, 'dtype', 'unknown dtype')} ({error})"
        ) from None


class NoGradients(TypeError):
    """Gradients are asked for that are not computed here."""

    def __init__(self, name):
        super().__init__(
            f"{name} asks for gradients (or is traced), which gwfast does not compute here: pass "
            "x.detach() of torch, or jax.lax.stop_gradient(x) outside of jit and grad"
        )


def is_traced(x):
    """Return whether `x` is a tensor of torch that asks for gradients."""
    if getattr(x, "requires_grad", False) and type(x).__module__.partition(".")[0] == "torch":
        return sys.modules["torch"].is_grad_enabled()
    return False


def as_number(x, name, *, zero=False):
    """Return a positive (or zero, if asked) float, from a number or an array of one number."""
    if not isinstance(x, float | np.generic) and math.prod(getattr(x, "shape", (0,))) == 1:
        x = as_host(x, name).item()
    return as_positive(x, name, zero=zero)


def as_limit(x, name, minimum=1):
    """Return `x` as a count; as in POT it may be a float such as ``1e4``, or infinity."""
    x = as_number(NO_LIMIT if x == np.inf else x, name, zero=minimum == 0)
    if x < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {x:g}")
    return min(int(x), NO_LIMIT)


def pots_choice(x, name, choices):
    """Return `x` if it is among `choices`; else raise an error in POT's words."""
    if not isinstance(x, str) or x not in choices:
        raise ValueError(f"Unknown {name}={x!r}: use one of {sorted(choices)}")
    return x
