"""A conditional that stays lazy under ``vmap``.

Under ``vmap``, ``lax.cond`` becomes a select: every chain pays for both branches. Here the chains whose predicate holds
are gathered into blocks of a fixed size. The function is evaluated on these blocks, one after another, and the results
are scattered back. A lane is one entry of a batch. Lanes of nested ``vmap``s are gathered together.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from vhmc_jax.base import Array, PyTree

MIN_BLOCK_SIZE = 8
"""Fewest lanes of a block. It was chosen by ``benchmarks/lazy.py``, as were the shares that the kernels use."""


def lazy_cond(
    predicate: Array, function: Callable, otherwise: PyTree | Callable, *operands: PyTree, block_share: float = 1 / 16
) -> PyTree:
    """``function(*operands)`` where the predicate holds, else ``otherwise``.

    Parameters
    ----------
    predicate
        A boolean scalar.
    function
        A function of the operands. It may close over other arrays, batched ones too.
    otherwise
        What to return where the predicate does not hold: a pytree like the function's value, or a function that makes
        one from the shapes and dtypes of that value.
    operands
        Pytrees of arrays.
    block_share
        Share of a batch that makes one block. Choose about the share of lanes that will need the function, or less
        where the function is expensive. With 1 nothing is gathered, and under ``vmap`` the function is evaluated for
        every lane. That is right where nearly all lanes need it.

    Returns
    -------
    The chosen value. Under ``vmap`` the function is evaluated for the lanes that need it, and for those that fill up
    the last block.
    """
    program: Any
    shape: Any
    program, shape = jax.make_jaxpr(function, return_shape=True)(*operands)
    tree: Any = jax.tree.structure(shape)
    if callable(otherwise):
        otherwise = otherwise(shape)
    if jax.tree.structure(otherwise) != tree:
        raise TypeError(f"otherwise must have the structure of the function's value, {tree}, got {otherwise}")

    def flat_function(*arguments: Array) -> list[Array]:
        constants, flat_operands = arguments[: len(program.consts)], arguments[len(program.consts) :]
        return jax.core.eval_jaxpr(program.jaxpr, constants, *flat_operands)

    arguments = [jnp.asarray(value) for value in (*program.consts, *jax.tree.leaves(operands))]
    otherwise = jax.tree.leaves(jax.tree.map(lambda leaf, out: jnp.asarray(leaf, dtype=out.dtype), otherwise, shape))
    return jax.tree.unflatten(
        tree, _conditional(flat_function, block_share, 0)(jnp.asarray(predicate), arguments, otherwise)
    )


def _conditional(function: Callable, block_share: float, num_axes: int) -> Callable:
    """The conditional for lanes along ``num_axes`` leading axes.

    Each argument has all of these axes. An axis has size one where the argument is the same for all its lanes, so that
    nothing shared is copied.
    """

    @jax.custom_batching.custom_vmap
    def conditional(predicate: Array, arguments: Any, otherwise: Any) -> Any:
        if num_axes == 0:
            return jax.lax.cond(predicate, lambda: list(function(*arguments)), lambda: list(otherwise))
        if block_share == 1:
            return _everywhere(function, predicate, arguments, otherwise)
        return _in_blocks(function, block_share, predicate, arguments, otherwise)

    @conditional.def_vmap
    def _(axis_size: int, is_batched: Any, predicate: Array, arguments: Any, otherwise: Any) -> Any:
        def with_axis(value: Array, is_batched: bool) -> Array:
            return value if is_batched else value[None]

        predicate = jnp.broadcast_to(
            with_axis(predicate, is_batched[0]), (axis_size, *predicate.shape[is_batched[0] :])
        )
        arguments = jax.tree.map(with_axis, arguments, is_batched[1])
        otherwise = jax.tree.map(with_axis, otherwise, is_batched[2])
        values = _conditional(function, block_share, num_axes + 1)(predicate, arguments, otherwise)
        return values, [True] * len(values)

    return conditional


def _everywhere(function: Callable, predicate: Array, arguments: Any, otherwise: Any) -> Any:
    """Evaluate every lane, then select."""
    num_axes = predicate.ndim
    function_of_lanes = function
    for axis in reversed(range(num_axes)):
        # Lanes share an axis of size one. Without that axis, what does not depend on the lane is computed once.
        axes = tuple(None if value.shape[axis] == 1 else 0 for value in arguments)
        function_of_lanes = jax.vmap(function_of_lanes, in_axes=axes, axis_size=predicate.shape[axis])
    squeezed = [
        value.reshape([size for i, size in enumerate(value.shape) if i >= num_axes or size != 1]) for value in arguments
    ]
    results = function_of_lanes(*squeezed)
    return [
        jnp.where(predicate.reshape(predicate.shape + (1,) * (new.ndim - num_axes)), new, old)
        for new, old in zip(results, otherwise, strict=True)
    ]


def _active_lanes(predicate: Array, padding: int) -> tuple[Array, Array]:
    """The numbers of the lanes whose predicate holds, filled up with a number beyond the last lane; and their count.

    ``jnp.nonzero`` would take twice as long. The filling is clipped when it is read, and dropped when it is written.
    """
    num_lanes = len(predicate)
    rank = jnp.cumsum(predicate, dtype=jnp.int32)
    slots = jnp.where(predicate, rank - 1, num_lanes + padding)
    lanes = jnp.full(num_lanes + padding, num_lanes, jnp.int32)
    return lanes.at[slots].set(jnp.arange(num_lanes, dtype=jnp.int32), mode="drop"), rank[-1]


def _in_blocks(function: Callable, block_share: float, predicate: Array, arguments: Any, otherwise: Any) -> Any:
    lanes_shape = predicate.shape
    num_lanes, num_axes = math.prod(lanes_shape), len(lanes_shape)
    block_size = min(max(MIN_BLOCK_SIZE, round(block_share * num_lanes)), num_lanes)
    lanes, num_active = _active_lanes(predicate.ravel(), block_size)

    is_shared = [all(size == 1 for size in value.shape[:num_axes]) for value in arguments]
    shared_or_lanes = [
        value.reshape(value.shape[num_axes:]) if shared else value
        for value, shared in zip(arguments, is_shared, strict=True)
    ]
    function_of_block = jax.vmap(
        function, in_axes=tuple(None if shared else 0 for shared in is_shared), axis_size=block_size
    )

    def gather(value: Array, shared: bool, indices: tuple[Array, ...]) -> Array:
        if shared:
            return value
        # Clipping lets every lane read the one value of an axis of size one, and lets the filling read the last lane.
        return value[tuple(jnp.minimum(i, size - 1) for i, size in zip(indices, value.shape[:num_axes], strict=True))]

    def evaluate_block(carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        start, values = carry
        block = jax.lax.dynamic_slice_in_dim(lanes, start, block_size)
        indices = (block,) if num_axes == 1 else jnp.unravel_index(jnp.minimum(block, num_lanes - 1), lanes_shape)
        results = function_of_block(
            *(gather(value, shared, indices) for value, shared in zip(shared_or_lanes, is_shared, strict=True))
        )
        values = [value.at[block].set(result, mode="drop") for value, result in zip(values, results, strict=True)]
        return start + block_size, values

    initial = [
        jnp.broadcast_to(value, (*lanes_shape, *value.shape[num_axes:])).reshape(num_lanes, *value.shape[num_axes:])
        for value in otherwise
    ]
    _, values = jax.lax.while_loop(lambda carry: carry[0] < num_active, evaluate_block, (jnp.int32(0), initial))
    return [value.reshape(*lanes_shape, *value.shape[1:]) for value in values]
