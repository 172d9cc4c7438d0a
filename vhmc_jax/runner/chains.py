"""Many chains in one compiled program.

The program is a loop over iterations of the vmapped step. How many iterations, where to stop for the progress bar,
burn-in and thinning are arguments of that program: only shapes, the kernel's structure and the log density decide
whether it is compiled again.
"""

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_position, describe, is_concrete
from vhmc_jax.base import Array, Info, Kernel, PyTree, as_pytree_function
from vhmc_jax.programs import SOON_COMPILED, program
from vhmc_jax.runner.progress import Interrupt, ProgressBar


class Chains(NamedTuple):
    """What a run leaves behind; leading axes are (chain, draw).

    Attributes
    ----------
    draws
        Positions of the stored iterations; None with a ``keep`` of the user's.
    infos
        Infos of the stored iterations; None with a ``keep`` of the user's.
    kept
        What ``keep`` returned; None without one.
    info_means
        Means of the info's fields over every iteration of this call, stored or not, for each chain.
    final_states
        States after the last iteration, to continue from.
    next_iteration
        Number of the iteration that would come next, to continue from.
    """

    draws: PyTree
    infos: Any
    kept: PyTree
    info_means: Any
    final_states: Any
    next_iteration: int


def run_chains(
    rng_key: Array,
    kernel: Kernel,
    initial_positions: PyTree = None,
    num_samples: int = 1000,
    *,
    initial_states: Any = None,
    first_iteration: int = 0,
    num_burnin: int = 0,
    thinning: int = 1,
    keep: Callable | None = None,
    progress: bool = False,
    stop_on_interrupt: bool = False,
) -> Chains:
    """Run independent chains of a kernel.

    Chain c takes iteration t with the key ``fold_in(fold_in(rng_key, c), t)``: draws do not depend on how a run was
    cut, nor on how many chains ran beside it.

    Parameters
    ----------
    rng_key
        Key of the whole run. To continue a run give the same one again.
    kernel
        A ``Kernel``, or anything with the same ``init`` and ``step`` (a BlackJAX algorithm, for instance).
    initial_positions
        Positions with chains on the leading axis. Either these or ``initial_states``.
    num_samples
        Stored draws of each chain.
    initial_states
        States with chains on the leading axis, ``chains.final_states`` of an earlier run for instance.
    first_iteration
        Number of the first iteration; ``chains.next_iteration`` of an earlier run continues it.
    num_burnin
        Iterations before the first that may be stored.
    thinning
        One iteration in ``thinning`` is stored; what is not stored takes no memory.
    keep
        ``keep(state, info)`` of one chain returns the pytree to store. By default position and info. The same
        function object on the next call means that nothing is compiled again.
    progress
        Whether to show a bar with iterations, rate and acceptance.
    stop_on_interrupt
        Whether Ctrl-C ends the run and returns the draws so far, where there are any, in place of raising.

    Returns
    -------
    The draws and what is needed to continue. Of a foreign kernel's info only the fields of ``Info`` that it has
    are stored.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> kernel = vj.hmc(lambda x: -0.5 * x @ x, step_size=0.5, num_integration_steps=5)
    >>> chains = vj.run_chains(jax.random.key(0), kernel, jax.numpy.zeros((4, 2)), num_samples=100)
    >>> chains.draws.shape
    (4, 100, 2)
    """
    num_samples = as_count("num_samples", num_samples, 1)
    first_iteration = as_count("first_iteration", first_iteration, 0)
    num_burnin = as_count("num_burnin", num_burnin, 0)
    thinning = as_count("thinning", thinning, 1)
    if (total := num_burnin + num_samples * thinning) >= 2**31 - first_iteration:
        raise ValueError(f"num_burnin + num_samples * thinning must stay below 2**31 iterations, got {total}")
    kernel = Kernel(as_pytree_function(kernel.init), as_pytree_function(kernel.step))
    starts = _checked_starts(initial_positions, initial_states)
    num_chains = jax.tree.leaves(starts)[0].shape[0]

    keep_fn = as_pytree_function(_keep_draw if keep is None else keep)
    chain_keys = random.as_jax_key(random.fold_in_each(rng_key, np.arange(num_chains, dtype=np.uint32)))
    schedule = Schedule(*(np.int32(number) for number in (first_iteration, num_burnin, thinning)))
    progress_of_run, store = _start(kernel, keep_fn, chain_keys, starts, initial_states is None, num_samples)
    _require_finite(progress_of_run.states, "initial_positions" if initial_states is None else "initial_states")
    bar = ProgressBar(total, f"{num_chains} chains", progress, is_chunked=progress or stop_on_interrupt)
    done = 0
    with Interrupt(stop_on_interrupt) as interrupt:
        for end in bar.chunk_ends():
            progress_of_run, store = _advance(
                kernel.step, keep_fn, chain_keys, schedule, np.int32(end), progress_of_run, store
            )
            if progress or stop_on_interrupt:
                done = int(progress_of_run.iteration)
                acceptance = getattr(progress_of_run.info_means, "acceptance_rate", None)
                bar.show(done, **({} if acceptance is None else {"acceptance": float(np.asarray(acceptance).mean())}))
            if interrupt.is_asked:
                break
    if interrupt.is_asked:
        num_complete = max(0, done - num_burnin) // thinning
        if num_complete == 0:
            raise KeyboardInterrupt("before the first draw")
        store, total = jax.tree.map(lambda buffer: buffer[:, :num_complete], store), done
    return Chains(
        draws=store[0] if keep is None else None,
        infos=store[1] if keep is None else None,
        kept=None if keep is None else store,
        info_means=progress_of_run.info_means,
        final_states=progress_of_run.states,
        next_iteration=first_iteration + total,
    )


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


@functools.partial(jax.jit, inline=True)
def _step(step: Callable, keys: Array, states: Any) -> tuple[Any, Any]:
    """One step of every chain. Compiled into its callers, but traced once for all of them."""
    return strongly_typed(jax.vmap(step)(keys, states))


def _iterate(
    step: Callable, keep: Callable, chain_keys: Array, schedule: Schedule, until: Array, run: Run, store: PyTree
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


_advance = jax.jit(_iterate, donate_argnames="store")


@functools.partial(program, options=SOON_COMPILED, static_argnames=("are_positions", "num_samples"))
def _start(
    kernel: Kernel, keep: Callable, chain_keys: Array, starts: Any, are_positions: bool, num_samples: int
) -> tuple[Run, PyTree]:
    """The carry before the first iteration, and the empty store."""
    states = strongly_typed(jax.vmap(kernel.init)(starts) if are_positions else starts)
    _, infos = jax.eval_shape(_step, kernel.step, chain_keys, states)
    kept = jax.eval_shape(jax.vmap(keep), states, infos)
    store = jax.tree.map(lambda a: jnp.zeros((a.shape[0], num_samples, *a.shape[1:]), a.dtype), kept)
    means = jax.tree.map(lambda a: jnp.zeros(a.shape, float), common_fields(infos))
    return Run(jnp.int32(0), states, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), infos), means), store


def _fold_in(rng_key: Array, number: Array) -> Array:
    """A key as ``jax.random`` takes it, since the kernel may be anyone's."""
    return random.as_jax_key(random.fold_in(rng_key, number))


def _checked_starts(positions: PyTree, states: Any) -> Any:
    """Positions or states of all chains, whichever are given."""
    if (positions is None) == (states is None):
        given = "neither" if positions is None else "both"
        raise ValueError(f"give either initial_positions or initial_states, got {given}")
    name, given = ("initial_positions", positions) if states is None else ("initial_states", states)
    sizes = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(given)}
    if len(sizes) != 1 or not sizes.isdisjoint({0, None}):
        raise ValueError(
            f"{name} must have at least one chain on a leading axis that all leaves share, got {describe(given)}"
        )
    return as_position(positions, name) if states is None else states


def _require_finite(states: Any, name: str) -> None:
    """Raise where a chain starts at density zero, before anything long starts."""
    logdensity = getattr(states, "logdensity", None)
    if logdensity is not None and is_concrete(logdensity) and not np.all(np.isfinite(logdensity)):
        chain = int(np.flatnonzero(~np.isfinite(logdensity))[0])
        position = jax.tree.map(lambda leaf: np.asarray(leaf[chain]), states.position)
        count = int(np.sum(~np.isfinite(logdensity)))
        raise ValueError(
            f"{name}: the log density must be finite at every start, got {float(logdensity[chain])} for chain {chain} "
            f"at {position} ({count} of {len(logdensity)} chains)"
        )


def strongly_typed(tree: PyTree) -> PyTree:
    """``tree`` without weak types: a foreign kernel that leaves one would be compiled twice."""

    def strong(leaf: Array) -> Array:
        is_number = jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == bool
        return jax.lax.convert_element_type(leaf, leaf.dtype) if is_number else leaf

    return jax.tree.map(strong, tree)


def _keep_draw(state: Any, info: Any) -> tuple[PyTree, Any]:
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
