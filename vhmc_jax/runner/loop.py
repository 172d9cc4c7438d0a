"""The compiled program of a run: a loop over iterations of the vmapped step.

How many iterations, where to come back to the host, burn-in and thinning are arguments of that program. Only shapes,
the kernel's structure and the log density decide whether it is compiled again.
"""

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.base import Array, Info, Kernel, PRNGKey, PyTree
from vhmc_jax.programs import SOON_COMPILED, program

NO_ITERATION = np.uint32(2**32 - 1)
"""Number of the key that ``init`` gets. Those of iterations stay below 2³¹."""


class Schedule(NamedTuple):
    """Numbers of iterations, as arguments of the compiled program."""

    first_iteration: Any
    num_burnin: Any
    thinning: Any


class Run(NamedTuple):
    """What the loop over iterations carries."""

    iteration: Array
    states: Any
    infos: Any
    info_means: Any


@functools.partial(program, inline=True)
def _step(step: Callable, keys: PRNGKey, states: Any) -> tuple[Any, Any]:
    """One step of every chain. Compiled into its callers, but traced once for all of them."""
    return strongly_typed(jax.vmap(step)(keys, states))


def step_and_keep(step: Callable, keep: Callable, keys: PRNGKey, states: Any) -> tuple[Any, PyTree]:
    """One step of every chain, and what is stored of it: all that decides what a run is."""
    states, infos = _step(step, keys, states)
    return states, jax.vmap(keep)(states, infos)


@functools.partial(program, donate_argnames="store")
def advance(
    step: Callable, keep: Callable, chain_keys: PRNGKey, schedule: Schedule, until: Array, run: Run, store: PyTree
) -> tuple[Run, PyTree]:
    """Take iterations until ``until`` of them are done, storing one in ``thinning`` after the burn-in."""

    def one_iteration(run: Run) -> Run:
        keys = jax.vmap(_fold_in, (0, None))(chain_keys, schedule.first_iteration + run.iteration)
        states, infos = _step(step, keys, run.states)
        iteration = run.iteration + 1
        info_means = jax.tree.map(
            lambda mean, value: mean + (value.astype(mean.dtype) - mean) / iteration.astype(mean.dtype),
            run.info_means,
            common_fields(infos),
        )
        return Run(iteration, states, infos, info_means)

    def fill_slot(carry: tuple[Run, PyTree]) -> tuple[Run, PyTree]:
        run, store = carry
        slot = jnp.maximum(run.iteration - schedule.num_burnin, 0) // schedule.thinning
        slot_end = jnp.minimum(schedule.num_burnin + (slot + 1) * schedule.thinning, until)
        run = jax.lax.while_loop(lambda run: run.iteration < slot_end, one_iteration, run)
        # A chunk may end within a slot: the unfinished draw is overwritten when the slot is complete.
        kept = jax.vmap(keep)(run.states, run.infos)
        return run, jax.tree.map(
            lambda buffer, value: jax.lax.dynamic_update_index_in_dim(buffer, value, slot, axis=1), store, kept
        )

    return jax.lax.while_loop(lambda carry: carry[0].iteration < until, fill_slot, (run, store))


@functools.partial(program, options=SOON_COMPILED, static_argnames=("are_positions", "num_samples"))
def start(
    kernel: Kernel, keep: Callable, chain_keys: PRNGKey, starts: Any, are_positions: bool, num_samples: int
) -> tuple[Run, PyTree]:
    """The carry before the first iteration, and the empty store."""
    init_keys = jax.vmap(_fold_in, (0, None))(chain_keys, NO_ITERATION)
    states = strongly_typed(jax.vmap(kernel.init)(starts, init_keys) if are_positions else starts)
    _, infos = _step.eval_shape(kernel.step, chain_keys, states)
    kept = jax.eval_shape(jax.vmap(keep), states, infos)
    store = jax.tree.map(lambda a: jnp.zeros((a.shape[0], num_samples, *a.shape[1:]), a.dtype), kept)
    means = jax.tree.map(lambda a: jnp.zeros(a.shape, float), common_fields(infos))
    return Run(jnp.int32(0), states, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), infos), means), store


def _fold_in(rng_key: PRNGKey, number: Any) -> PRNGKey:
    """A key as ``jax.random`` takes it, since the kernel may be anyone's."""
    return random.as_jax_key(random.fold_in(rng_key, number))


def strongly_typed(tree: PyTree) -> PyTree:
    """``tree`` without weak types: a foreign kernel that leaves one would be compiled twice."""

    def strong(leaf: Array) -> Array:
        is_number = jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == bool
        return jax.lax.convert_element_type(leaf, leaf.dtype) if is_number else leaf

    return jax.tree.map(strong, tree)


def keep_draw(state: Any, info: Any) -> tuple[PyTree, Any]:
    """What is stored by default: position and info."""
    return state.position, common_fields(info)


@functools.cache
def _partial_info(fields: tuple[str, ...]) -> type:
    return namedtuple("Info", fields)


def common_fields(info: Any) -> Any:
    """Our kernels' info whole; of a foreign one the fields that ``Info`` has too."""
    fields = tuple(name for name in Info._fields if hasattr(info, name))
    if len(fields) == len(Info._fields):
        return info
    return _partial_info(fields)(*(getattr(info, name) for name in fields))
