"""The public loss, and how torch and JAX are told of its gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..linear.marginals import Marginals
from ..pot.arrays import Arrays, as_number, library_of
from ..pot.gradients import traced
from ..problems.epsilon import EpsilonLike
from ..problems.graphs import CostLike
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem
from ..results.result import GWResult
from ..solvers.gromov import gromov_wasserstein
from ..solvers.options import InitLike, SolverOptions, as_options
from ..utils.precision import Dtype
from .envelope import Minimum, refuse_gradients


def gromov_wasserstein_loss(
    x: CostLike | Any,
    y: CostLike | Any,
    p: ArrayLike | Any | None = None,
    q: ArrayLike | Any | None = None,
    *,
    loss: LossName = "square",
    linear_cost: ArrayLike | Any | None = None,
    alpha: float | Any = 0.5,
    marginals: Marginals = "balanced",
    epsilon: EpsilonLike = "auto",
    init: InitLike = "auto",
    tol: float = 1e-5,
    max_iter: int = 1000,
    dtype: Dtype | None = None,
    seed: int = 0,
    on_result: Callable[[GWResult], object] | None = None,
    options: SolverOptions | None = None,
) -> Any:
    """Return the least objective that `gromov_wasserstein` finds, with gradients for torch and JAX.

    Its value is `GWResult.reg_cost`, or `GWResult.gw_cost` if `epsilon` is 0 or the method "ppa".
    Gradients hold the plan still (the envelope theorem); in the masses they are dual potentials.
    They are as exact as the plan has converged: about three digits by default, more with
    ``dtype="float64"`` and lower tolerances. There are no second derivatives.

    Parameters
    ----------
    x, y : tensor of torch, array of JAX, or what `gromov_wasserstein` takes
        Costs within the spaces. These, `linear_cost` and `alpha` have gradients; arrays of JAX may
        be traced. All arguments must be arrays of one library.
    p, q : array-like of shape (n,) and (m,) or None, default=None
        Masses. They have gradients in balanced problems, `p` in semi-relaxed ones, and in
        unbalanced ones each whose price is finite. If masses must have the sum one, gradients have
        the mean zero.
    loss, linear_cost, alpha, marginals, epsilon, init, tol, max_iter, dtype, seed, options
        As in `gromov_wasserstein`, except the method "bapg", whose plans are no minimum.
        ``epsilon="auto"`` differs from problem to problem: to compare losses, pass a number.
    on_result : callable or None, default=None
        ``on_result(result)`` is called with the `GWResult` of each solve. JAX may solve a compiled
        loss several times, or not at all.

    Returns
    -------
    tensor or array of shape ()
        Of the library that came; of NumPy's arrays, a number. Float32 if all arrays are.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; or if gradients are asked for in masses
        that have none.

    Examples
    --------
    >>> import torch
    >>> from gwfast.gradients import gromov_wasserstein_loss
    >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    >>> scale = torch.tensor(2.0, requires_grad=True)
    >>> loss = gromov_wasserstein_loss(
    ...     scale * torch.cdist(x, x), torch.cdist(x, x), epsilon=0
    ... )
    >>> loss.backward()  # of (scale - 1)^2 times the mean of squared distances
    >>> round(scale.grad.item() / loss.item(), 4)
    2.0
    """
    if as_options(options).method == "bapg":
        raise ValueError("method must be 'pgd' or 'ppa', got 'bapg', whose plans are no minimum")
    arguments: dict[str, Any] = dict(x=x, y=y, p=p, q=q, linear_cost=linear_cost, alpha=alpha)

    def solved(arrays: dict[str, Any]) -> Minimum:
        now = arguments | arrays
        now["alpha"] = as_number(now["alpha"], "alpha", zero=True)
        problem = QuadraticProblem(**now, loss=loss, marginals=marginals)
        result = gromov_wasserstein(
            problem,
            epsilon=epsilon,
            init=init,
            tol=tol,
            max_iter=max_iter,
            dtype=dtype,
            seed=seed,
            options=options,
        )
        if on_result is not None:
            on_result(result)
        return Minimum(problem, result)

    refuse = functools.partial(refuse_gradients, marginals=marginals)
    libraries = {name: library_of(x) for name, x in arguments.items()}
    # Arrays of NumPy are the same in every solve.
    libraries = {
        name: library for name, library in libraries.items() if library not in (None, "numpy")
    }
    in_library = _in_jax if {*libraries.values()} == {"jax"} else _in_torch
    return in_library(solved, refuse, {name: arguments[name] for name in libraries})


def _in_torch(solved, refuse, arrays):
    """Return the loss of tensors, or of arguments without gradients."""
    tensors = Arrays(arrays, traces=True)
    refuse(tensors.asking)
    minimum = solved({name: tensors[name] for name in arrays})
    # Now, as tensors may be written to before they are asked for.
    gradients = minimum.gradients(tensors.asking)

    def gradient(upstream):
        return {name: upstream * x for name, x in gradients.items()}

    return traced(tensors.back(minimum.value), tensors, gradient)


def _in_jax(solved, refuse, arrays):
    """Return the loss of arrays of JAX, which calls the solver when compiled code runs."""
    import jax
    import jax.numpy as jnp

    dtype = jnp.result_type(*arrays.values(), float)

    def value_and_gradients(values, names):
        def host(*values):
            arguments = map(np.asarray, values)
            minimum = solved(dict(zip(arrays, arguments, strict=True)))
            gradients = minimum.gradients(names)
            results = minimum.value, *(gradients[name] for name in names)
            pairs = zip(results, shapes, strict=True)
            return tuple(np.asarray(x, dtype).reshape(shape) for x, shape in pairs)

        shapes = (), *(arrays[name].shape for name in names)
        structs = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)
        return jax.pure_callback(host, structs, *values, vmap_method="sequential")

    @jax.custom_jvp
    def value(*values):
        return value_and_gradients(values, ())[0]

    @functools.partial(value.defjvp, symbolic_zeros=True)
    def in_direction(values, tangents):
        directions = dict(zip(arrays, tangents, strict=True))
        still = jax.custom_derivatives.SymbolicZero
        directions = {name: x for name, x in directions.items() if not isinstance(x, still)}
        refuse(directions)
        loss, *gradients = value_and_gradients(values, tuple(directions))
        return loss, sum(map(jnp.vdot, gradients, directions.values()), jnp.zeros((), dtype))

    return value(*arrays.values())
