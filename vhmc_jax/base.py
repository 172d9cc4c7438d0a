"""The types that every layer shares: a kernel, its state, its info, and a log density on flat vectors.

Kernels are pure: ``init`` makes a state from a position, ``step`` maps a key and a state to the next state and
an account of what happened. Positions are arbitrary pytrees of floating arrays; inside, every algorithm works on
the flat vector of ``jax.flatten_util.ravel_pytree``, which is also the order of mass vectors and matrices.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jax.tree_util import Partial

Array = jax.Array
PyTree = Any
FEW_NUMBERS = 12
"""Matrices of so few numbers are multiplied by sums, which XLA fuses with what is around them. For the others it
calls a library, and in a step of some ten microseconds those calls took a quarter of the time."""


class Kernel(NamedTuple):
    """A Markov kernel: two pure functions.

    Attributes
    ----------
    init
        ``init(position, rng_key=None) -> State``.
    step
        ``step(rng_key, state) -> (State, Info)``, with the structure and dtypes of ``state`` kept.
    """

    init: Callable
    step: Callable


class State(NamedTuple):
    """Where a chain is, with what the next step needs and nothing else.

    Attributes
    ----------
    position
        A pytree of floating arrays.
    logdensity
        The log density there, up to a constant.
    logdensity_grad
        Its gradient, with the structure of ``position``.
    """

    position: PyTree
    logdensity: Array
    logdensity_grad: PyTree


class Info(NamedTuple):
    """What happened in one step.

    Attributes
    ----------
    acceptance_rate
        Probability with which the proposal was accepted.
    is_accepted
        Whether it was.
    is_divergent
        Whether the proposal's energy was not finite, or above the current one by more than
        ``metropolis.DIVERGENCE_THRESHOLD``. Such a proposal is rejected (the latter with certainty in practice).
    num_gradients
        Evaluations of the gradient, or of the value with its directional derivative.
    num_densities
        Evaluations of the value alone.
    """

    acceptance_rate: Array
    is_accepted: Array
    is_divergent: Array
    num_gradients: Array
    num_densities: Array


def as_pytree_function(function: Callable) -> Callable:
    """Make a callable a pytree, so that it can be an argument of a compiled program.

    A callable that is a pytree already stays as it is. The bound method of a pytree becomes a function of that
    pytree, so that its arrays are arguments and not constants. Any other callable is compared by identity: the
    same object gives the same program.

    Parameters
    ----------
    function
        Any callable.

    Returns
    -------
    A callable pytree with the same values.
    """
    if not callable(function):
        raise TypeError(f"expected a function, got {type(function).__name__}: {function!r}")
    if not jax.tree_util.all_leaves([function]):
        return function
    owner = getattr(function, "__self__", None)
    if owner is not None and hasattr(function, "__func__") and not jax.tree_util.all_leaves([owner]):
        return Partial(function.__func__, owner)
    return Partial(function)


def is_concrete(*values: Any) -> bool:
    """Whether the values can be looked at, that is, are not being traced."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def as_parameter(
    name: str, value: Any, *, positive: bool = False, nonnegative: bool = False, at_most: float | None = None
) -> Array:
    """Turn a scalar setting into an array of the default float type, and check its sign where it can be seen.

    Always the same type, whatever the user wrote, so that another number never means another program.
    """
    array = as_array(value, jnp.result_type(float))
    if array.ndim != 0:
        raise ValueError(f"{name} must be a scalar, got shape {array.shape}")
    if is_concrete(array):
        number = float(array)
        if not np.isfinite(number):
            raise ValueError(f"{name} must be finite, got {value}")
        if positive and not number > 0:
            raise ValueError(f"{name} must be positive, got {value}")
        if nonnegative and not number >= 0:
            raise ValueError(f"{name} must not be negative, got {value}")
        if at_most is not None and number > array.dtype.type(at_most):
            raise ValueError(f"{name} must be at most {at_most:g}, got {value}")
    return array


def as_count(name: str, value: Any, minimum: int) -> int:
    """Check that ``value`` is an integer of at least ``minimum``."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}: {value!r}")
    if (count := value.__index__()) < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {count}")
    return count


def cast(tree: PyTree, dtype: Any) -> PyTree:
    """Every array of ``tree`` in the given dtype."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=dtype), tree)


@dataclass(frozen=True)
class FlatDensity:
    """A log density on flat vectors, and the way back to the user's pytree.

    Attributes
    ----------
    logdensity_fn
        The user's function of a pytree.
    unravel
        From a flat vector to that pytree.
    """

    logdensity_fn: Callable
    unravel: Callable

    def value(self, x: Array) -> Array:
        """Log density, in the dtype of ``x``."""
        return _flat_value(as_pytree_function(self.logdensity_fn), self.unravel, x)

    def gradient(self, x: Array) -> Array:
        """Gradient of the log density."""
        return self.state_at(x).logdensity_grad

    def state_at(self, x: Array) -> State:
        """The flat state at ``x``: one evaluation of value and gradient."""
        return State(x, *_flat_value_and_grad(as_pytree_function(self.logdensity_fn), self.unravel, x))

    def unflatten(self, state: Any) -> Any:
        """The state with position and gradient as the user's pytrees; further fields are kept."""
        return state._replace(
            position=self.unravel(state.position), logdensity_grad=self.unravel(state.logdensity_grad)
        )


@functools.partial(jax.jit, static_argnames="unravel", inline=True)
def _flat_value(logdensity_fn: Callable, unravel: Callable, x: Array) -> Array:
    """Compiled into its callers, but traced once for all of them."""
    return jnp.asarray(logdensity_fn(unravel(x)), dtype=x.dtype)


@functools.partial(jax.jit, static_argnames="unravel", inline=True)
def _flat_value_and_grad(logdensity_fn: Callable, unravel: Callable, x: Array) -> tuple[Array, Array]:
    return jax.value_and_grad(_flat_value, argnums=2)(logdensity_fn, unravel, x)


def flatten(logdensity_fn: Callable, state: Any) -> tuple[FlatDensity, State]:
    """A log density and a state on flat vectors.

    Parameters
    ----------
    logdensity_fn
        The user's function of a pytree.
    state
        A state at a pytree position; only its three common fields are read.

    Returns
    -------
    The density on flat vectors, and the state with flat position and gradient.
    """
    x, unravel = ravel_pytree(state.position)
    gradient, _ = ravel_pytree(state.logdensity_grad)
    return FlatDensity(logdensity_fn, unravel), State(x, state.logdensity, gradient)


def init_state(logdensity_fn: Callable, position: PyTree, rng_key: Array | None = None) -> State:
    """The state at a position: checks it, then evaluates value and gradient once.

    Parameters
    ----------
    logdensity_fn
        Log density of a pytree position, up to a constant.
    position
        A pytree of floating arrays.
    rng_key
        Not used: a state is a function of its position. It is here because other libraries' runners pass one.

    Returns
    -------
    The state at ``position``.
    """
    position = as_position(position)
    x, unravel = ravel_pytree(position)
    require_scalar(logdensity_fn, position)
    density = FlatDensity(logdensity_fn, unravel)
    return density.unflatten(density.state_at(x))


def require_scalar(logdensity_fn: Callable, position: PyTree) -> None:
    """Raise unless the log density of a position is one real number. Nothing is evaluated, and traced once alone."""
    value = _value.eval_shape(as_pytree_function(logdensity_fn), position)
    if not (hasattr(value, "shape") and value.shape == () and jnp.issubdtype(value.dtype, jnp.floating)):
        raise ValueError(f"logdensity_fn must return one real number (a scalar), got {describe(value)}")


@jax.jit
def _value(logdensity_fn: Callable, position: PyTree) -> Any:
    return logdensity_fn(position)


def as_position(position: PyTree, name: str = "position") -> PyTree:
    """``position`` with array leaves of definite floating types, or an error that names the leaf."""
    leaves = jax.tree_util.tree_leaves_with_path(position)
    if not leaves:
        raise ValueError(f"{name} must hold at least one array, got the empty pytree {position!r}")
    for path, leaf in leaves:
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            where = name + jax.tree_util.keystr(path)
            raise TypeError(f"{where} must be of a floating dtype, got {dtype}; write 1.0 instead of 1")
    return jax.tree.map(_definite, position)


def _definite(leaf: Any) -> Array:
    """An array as it is; anything else, and an array whose type is weak, as one of its definite type."""
    is_definite = isinstance(leaf, jax.Array) and not leaf.weak_type
    return leaf if is_definite else as_array(leaf, jnp.result_type(leaf))


def as_array(values: Any, dtype: Any) -> Array:
    """An array of a dtype; of what is at hand converted in NumPy, since what JAX does once, it compiles."""
    if isinstance(values, str | bytes):  # which NumPy would read
        raise TypeError(f"expected a number or an array, got {values!r}")
    return jnp.asarray(np.asarray(values, dtype) if is_concrete(values) else values, dtype)


def products(matrices: Array, vectors: Array) -> Array:
    """Products of matrices (..., d, d) with vectors (..., d), in full precision on accelerators too."""
    if matrices.size <= FEW_NUMBERS:
        return jnp.sum(matrices * vectors[..., None, :], axis=-1)
    return jnp.einsum("...ij,...j->...i", matrices, vectors, precision="highest")


def inverse_factors(factors: Array) -> Array:
    """Inverses of lower triangular matrices (..., d, d); of those at hand in NumPy and in double precision."""
    if is_concrete(factors):
        return as_array(np.tril(np.linalg.inv(np.asarray(factors, np.float64))), factors.dtype)
    identities = jnp.broadcast_to(jnp.eye(factors.shape[-1], dtype=factors.dtype), factors.shape)
    return solve_triangular(factors, identities, lower=True)


def unravel_rows(rows: np.ndarray, template: PyTree) -> PyTree:
    """Positions with a leading axis from flat ones (n, d)."""
    leaves, treedef = jax.tree.flatten(template)
    parts = np.split(np.asarray(rows), np.cumsum([np.size(leaf) for leaf in leaves])[:-1], axis=1)
    arrays = [
        as_array(part.reshape(len(rows), *np.shape(leaf)), jnp.result_type(leaf))
        for part, leaf in zip(parts, leaves, strict=True)
    ]
    return jax.tree.unflatten(treedef, arrays)


def describe(tree: PyTree) -> str:
    """Shapes and dtypes of a pytree of arrays, for error messages."""
    return str(jax.tree.map(lambda leaf: f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}", tree))
