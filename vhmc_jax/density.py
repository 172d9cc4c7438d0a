"""The user's log density as a function of flat vectors."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax.arguments import as_array, as_position, describe
from vhmc_jax.base import Array, PyTree, State, as_pytree_function
from vhmc_jax.programs import program


@functools.partial(jax.tree_util.register_dataclass, data_fields=["logdensity_fn"], meta_fields=["unravel"])
@dataclass(frozen=True)
class FlatDensity:
    """A log density on flat vectors, and the way back to the user's pytree.

    It is a callable pytree, so it can be an argument of a compiled program where its function is a pytree: see
    :meth:`at`.

    Attributes
    ----------
    logdensity_fn
        The user's function of a pytree.
    unravel
        From a flat vector to that pytree.
    """

    logdensity_fn: Callable
    unravel: Callable

    @classmethod
    def at(cls, logdensity_fn: Callable, template: PyTree) -> Self:
        """The flat density of positions like a template, as an argument of compiled programs.

        Two that are made of the same function and of templates of the same structure, shapes and dtypes share their
        programs: JAX compares ``unravel`` by these.

        Parameters
        ----------
        logdensity_fn
            The user's function of a pytree.
        template
            One position. Only its structure, shapes and dtypes are read.

        Returns
        -------
        The density.
        """
        unravels: list[Callable] = []
        # Under eval_shape nothing is computed. Called directly, ravel_pytree would compile a program.
        jax.eval_shape(lambda position: unravels.append(ravel_pytree(position)[1]), template)
        return cls(as_pytree_function(logdensity_fn, "logdensity_fn"), unravels[0])

    def __call__(self, x: Array) -> Array:
        """Log density, in the dtype of ``x``."""
        return self.value(x)

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


@functools.partial(program, static_argnames="unravel", inline=True)
def _flat_value(logdensity_fn: Callable, unravel: Callable, x: Array) -> Array:
    """Compiled into its callers, but traced once for all of them."""
    return jnp.asarray(logdensity_fn(unravel(x)), dtype=x.dtype)


@functools.partial(program, static_argnames="unravel", inline=True)
def _flat_value_and_grad(logdensity_fn: Callable, unravel: Callable, x: Array) -> tuple[Array, Array]:
    try:
        return jax.value_and_grad(_flat_value, argnums=2)(logdensity_fn, unravel, x)
    except (NotImplementedError, TypeError, ValueError) as error:
        _flat_value.eval_shape(logdensity_fn, unravel, x)  # raises where the value itself is at fault
        raise ValueError(
            f"logdensity_fn must have a gradient by jax.grad, got {type(error).__name__}: {str(error).splitlines()[0]}"
        ) from error


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
    try:
        value = _value.eval_shape(as_pytree_function(logdensity_fn, "logdensity_fn"), position)
    except Exception as error:
        error.add_note(f"logdensity_fn was called with a position like {describe(position)}.")
        if isinstance(position, tuple | list):
            error.add_note("Where region is meant as two corners, write vj.box(low, high).")
        raise
    if not (hasattr(value, "shape") and value.shape == () and jnp.issubdtype(value.dtype, jnp.floating)):
        raise ValueError(f"logdensity_fn must return one real number (a scalar), got {describe(value)}")


def require_gradient(logdensity_fn: Callable, position: PyTree) -> None:
    """Raise unless the log density has a gradient at positions like this one. Nothing is evaluated."""
    density, leaves = FlatDensity.at(logdensity_fn, position), jax.tree.leaves(position)
    x = jax.ShapeDtypeStruct((sum(np.size(leaf) for leaf in leaves),), jnp.result_type(*leaves))
    _flat_value_and_grad.eval_shape(density.logdensity_fn, density.unravel, x)


@program
def _value(logdensity_fn: Callable, position: PyTree) -> Any:
    return logdensity_fn(position)


def unravel_rows(rows: np.ndarray, template: PyTree) -> PyTree:
    """Positions with a leading axis from flat ones (n, d)."""
    leaves, treedef = jax.tree.flatten(template)
    parts = np.split(np.asarray(rows), np.cumsum([np.size(leaf) for leaf in leaves])[:-1], axis=1)
    arrays = [
        as_array(part.reshape(len(rows), *np.shape(leaf)), jnp.result_type(leaf))
        for part, leaf in zip(parts, leaves, strict=True)
    ]
    return jax.tree.unflatten(treedef, arrays)
