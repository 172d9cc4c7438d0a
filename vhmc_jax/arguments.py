"""What users pass: checked, and turned into arrays of definite types.

A check that fails names the argument, what was expected and what came.
"""

import operator
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array, PyTree


def is_concrete(*values: Any) -> bool:
    """Whether the values can be looked at, that is, are not being traced."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def as_parameter(
    name: str, value: Any, *, positive: bool = False, nonnegative: bool = False, at_most: float | None = None
) -> Array:
    """Turn a scalar setting into an array of the default float type, and check its sign where it can be seen.

    Always the same type, whatever the user wrote, so that another number never means another program.
    """
    array = as_array(value, jnp.result_type(float), name)
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
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}: {value!r}")
    if count < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {count}")
    return count


def as_path(name: str, value: Any, what: str) -> Path:
    """A path, or a TypeError that says what it must be."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be {what}, got {type(value).__name__}: {value!r}")
    return Path(value)


def cast(tree: PyTree, dtype: Any) -> PyTree:
    """Every array of ``tree`` in the given dtype."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=dtype), tree)


def as_position(position: PyTree, name: str = "position") -> PyTree:
    """``position`` with array leaves of definite floating types, or an error that names the leaf."""
    leaves = jax.tree_util.tree_leaves_with_path(position)
    if not leaves:
        raise ValueError(f"{name} must hold at least one array, got the empty pytree {position!r}")
    for path, leaf in leaves:
        try:
            dtype = jnp.result_type(leaf)
        except (TypeError, ValueError):
            where = name + jax.tree_util.keystr(path)
            raise TypeError(f"{where} must be an array of numbers, got {type(leaf).__name__}: {leaf!r}") from None
        if not jnp.issubdtype(dtype, jnp.floating):
            where = name + jax.tree_util.keystr(path)
            raise TypeError(f"{where} must be of a floating dtype, got {dtype}; write 1.0 instead of 1")
        if np.size(leaf) == 0:
            raise ValueError(f"{name}{jax.tree_util.keystr(path)} must not be empty, got shape {np.shape(leaf)}")
    return jax.tree.map(_definite, position)


def _definite(leaf: Any) -> Array:
    """An array as it is; anything else, and an array whose type is weak, as one of its definite type."""
    is_definite = isinstance(leaf, jax.Array) and not leaf.weak_type
    return leaf if is_definite else as_array(leaf, jnp.result_type(leaf))


def as_array(values: Any, dtype: Any, name: str = "it") -> Array:
    """An array of a dtype. Concrete values are converted with NumPy, since JAX would compile a program for it."""
    if not is_concrete(values):
        return jnp.asarray(values, dtype)
    try:
        if isinstance(values, str | bytes):  # which NumPy would read
            raise TypeError
        array = np.asarray(values, dtype)
    except (TypeError, ValueError):
        kind = type(values).__name__
        raise TypeError(f"{name} must be a number or an array of numbers, got {kind}: {values!r}") from None
    return jnp.asarray(array, dtype)


def describe(tree: PyTree) -> str:
    """Shapes and dtypes of a pytree of arrays, for error messages."""
    return str(jax.tree.map(lambda leaf: f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}", tree))
