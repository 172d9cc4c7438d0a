"""The types that every layer shares: a kernel, its state, its info.

Kernels are pure: ``init`` makes a state from a position, ``step`` maps a key and a state to the next state and
an account of what happened. Positions are arbitrary pytrees of floating arrays; inside, every algorithm works on
the flat vector of ``jax.flatten_util.ravel_pytree``, which is also the order of mass vectors and matrices.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from chex import ArrayTree as PyTree
from chex import PRNGKey
from jax.tree_util import Partial

from vhmc_jax.functions import Function

__all__ = ["Array", "Info", "Kernel", "PRNGKey", "PyTree", "State", "as_pytree_function"]

Array = jax.Array
"""Not ``chex.Array``, which may also be NumPy's, and which type checkers do not see into: chex ships no types."""


class TrustWarning(UserWarning):
    """Something disagrees with the answer of ``sample``: it may be wrong."""


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


def as_pytree_function(function: Callable, name: str = "the argument") -> Callable:
    """Make a callable a pytree, so that it can be an argument of a compiled program.

    A callable that is a pytree of arrays stays as it is. The bound method of a pytree becomes a function of that
    pytree, and a ``functools.partial`` of arrays a function of these arrays, so that they are arguments and not
    constants. Any other callable is compared by identity: the same object gives the same program, and when it is gone,
    so are its programs.

    Parameters
    ----------
    function
        Any callable.
    name
        What the user calls it, for the error.

    Returns
    -------
    A callable pytree with the same values.
    """
    if not callable(function):
        raise TypeError(f"{name} must be a function, got {type(function).__name__}: {function!r}")
    if _is_pytree_of_arrays(function):
        return function
    if isinstance(function, functools.partial):
        bound = (function.args, function.keywords)
        if all(isinstance(leaf, Array | np.ndarray) for leaf in jax.tree.leaves(bound)):
            return Partial(function.func, *function.args, **function.keywords)
    owner = getattr(function, "__self__", None)
    if owner is not None and hasattr(function, "__func__") and _is_pytree_of_arrays(owner):
        return Partial(function.__func__, owner)
    try:
        return Function(function)
    except TypeError:  # there are no weak references to it
        return Partial(function)


def _is_pytree_of_arrays(value: Any) -> bool:
    """Whether it is a pytree that compiled programs take. A module of Equinox may have functions among its leaves."""
    if jax.tree_util.all_leaves([value]):
        return False
    try:
        leaves = jax.tree.leaves(value)
    except AttributeError:  # joint distributions of TensorFlow Probability are pytrees that cannot be flattened
        return False
    return all(hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex) for leaf in leaves)
