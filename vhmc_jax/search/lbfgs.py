"""The memory of L-BFGS: an estimate of the inverse curvature from the last few steps.

Notation: s a step, y the fall of the gradient along it, H⁻¹ an estimate of the inverse of the negative Hessian.

References
----------
.. [1] J. Nocedal, Updating quasi-Newton matrices with limited storage, Mathematics of Computation 35, 1980.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vhmc_jax.base import Array

SIZE = 8
"""Pairs (s, y) that are remembered."""


class Memory(NamedTuple):
    """The last few pairs, newest last.

    Attributes
    ----------
    steps, falls
        s and y, each of shape (SIZE, d).
    weights
        1/sᵀy, shape (SIZE,); zero in a row that is still empty.
    scale
        The estimate of H⁻¹ before the pairs correct it is this number times the identity.
    """

    steps: Array
    falls: Array
    weights: Array
    scale: Array


def empty_memory(dim: int, dtype: Any) -> Memory:
    """A memory without pairs."""
    rows = jnp.zeros((SIZE, dim), dtype)
    return Memory(rows, rows, rows[:, 0], jnp.ones((), dtype))


def has_pairs(memory: Memory) -> Array:
    """Whether anything has been remembered."""
    return memory.weights[-1] > 0


def remember(memory: Memory, step: Array, fall: Array) -> Memory:
    """Push a pair and drop the oldest. The scale becomes sᵀy/yᵀy."""
    product = step @ fall
    rows = (memory.steps, step), (memory.falls, fall), (memory.weights, 1.0 / product)
    steps, falls, weights = (jnp.concatenate([old[1:], new[None]]) for old, new in rows)
    return Memory(steps, falls, weights, product / (fall @ fall))


def precondition(memory: Memory, gradient: Array) -> Array:
    """H⁻¹g by the two-loop recursion [1]_."""

    def backward(q: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        step, fall, weight = row
        share = weight * (step @ q)
        return q - share * fall, share

    def forward(r: Array, row: tuple[tuple[Array, Array, Array], Array]) -> tuple[Array, None]:
        (step, fall, weight), share = row
        return r + step * (share - weight * (fall @ r)), None

    rows = memory.steps, memory.falls, memory.weights
    q, shares = jax.lax.scan(backward, gradient, rows, reverse=True)
    r, _ = jax.lax.scan(forward, memory.scale * q, (rows, shares))
    return r
