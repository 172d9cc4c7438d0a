"""Running many chains: checks, the compiled program (``loop``), and what comes back."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_position, describe, is_concrete
from vhmc_jax.base import Kernel, PRNGKey, PyTree, as_pytree_function
from vhmc_jax.runner.advance import Advance
from vhmc_jax.runner.chunks import Window
from vhmc_jax.runner.devices import Placed, local_values, mesh_of
from vhmc_jax.runner.hosts import Hosts, Stop
from vhmc_jax.runner.loop import Run, Schedule, keep_draw
from vhmc_jax.runner.progress import ProgressBar
from vhmc_jax.runner.stored import by_name, fingerprint_of, read_kept, window_size
from vhmc_jax.store.folder import Folder, require_resume


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
    is_complete
        Whether all iterations were taken: not where Ctrl-C or SIGTERM ended the run.
    """

    draws: PyTree
    infos: Any
    kept: PyTree
    info_means: Any
    final_states: Any
    next_iteration: int
    is_complete: bool = True


def run_chains(
    rng_key: PRNGKey,
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
    store: Any = None,
    resume: str = "same",
    devices: Any = None,
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
        Whether Ctrl-C and SIGTERM end the run and return the draws so far, where there are any, in place of raising.
        With a store they do in any case.
    store
        A folder to which draws and states are written, chunk by chunk. Memory then holds one chunk. The same call again
        goes on from the last complete chunk, and ends with the same bits. ``open_run`` reads the draws meanwhile.
    resume
        ``"same"`` to refuse a store of another run: another key, kernel, density, shape or version. ``"as is"`` to go
        on with it in spite of that, with a greater ``num_samples`` for instance.
    devices
        A number of devices, or a list of JAX's, among which the chains are divided evenly; by default the one that JAX
        takes. A chain's draws depend on the other devices by no more than rounding: a program for fewer chains may
        round differently. The devices may be those of several processes, which then all make this call. With a store,
        on a disk that all of them share, each writes files of its own, and goes on from its own last one.

    Returns
    -------
    The draws and what is needed to continue. Of a foreign kernel's info only the fields of ``Info`` that it has
    are stored. With a store, draws and infos are arrays on disk: ``numpy.asarray`` loads one, indexing a part of it.

    Raises
    ------
    KeyboardInterrupt
        In each of several processes, where a signal ended one of them: what they had done is in the store.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> kernel = vj.hmc(lambda x: -0.5 * x @ x, step_size=0.5, num_integration_steps=5)
    >>> chains = vj.run_chains(jax.random.key(0), kernel, jax.numpy.zeros((4, 2)), num_samples=100)
    >>> chains.draws.shape
    (4, 100, 2)
    """
    num_samples = as_count("num_samples", num_samples, 1)
    require_resume(resume)
    schedule, total = _checked_schedule(num_samples, first_iteration, num_burnin, thinning)
    kernel = Kernel(as_pytree_function(kernel.init), as_pytree_function(kernel.step))
    keep_fn = as_pytree_function(keep_draw if keep is None else keep, "keep")
    starts = _checked_starts(initial_positions, initial_states)
    num_chains = jax.tree.leaves(starts)[0].shape[0]
    if store is not None and not is_concrete(rng_key, kernel, starts):
        raise ValueError("store cannot be given within a compiled program: its arrays have no values there")

    numbers, mesh = np.arange(num_chains, dtype=np.uint32), mesh_of(devices, num_chains)
    hosts, folder_path = Hosts(), store
    if store is not None and (hosts := Hosts.of(mesh)).are_several:
        # Each process runs its chains by itself, so that none waits for another and each goes on from its own files.
        numbers, starts, mesh, folder_path = hosts.share(numbers), hosts.share(starts), hosts.mesh, hosts.folder(store)
    chain_keys = random.as_jax_key(random.fold_in_each(rng_key, numbers))
    placed = Placed(mesh)
    kernel, keep_fn = placed.copied((kernel, keep_fn))
    chain_keys, starts = placed.spread((chain_keys, starts))
    programs = kernel, keep_fn, chain_keys, starts, initial_states is None
    window = Window(schedule, num_samples if store is None else window_size(*programs, num_samples))
    run, buffer = placed.start(*programs, window.size)
    _require_finite(run.states, "initial_positions" if initial_states is None else "initial_states")
    bar = ProgressBar(total, f"{len(numbers)} chains", is_shown=progress)

    def advance_to(end: int, done: int, run: Run, buffer: PyTree) -> tuple[Run, PyTree]:
        schedule = window.schedule_at(done)
        return placed.advance(kernel.step, keep_fn, chain_keys, schedule, np.int32(end), run, buffer)

    is_shared = not all(leaf.is_fully_addressable for leaf in jax.tree.leaves(run) if is_concrete(leaf))
    stop = Stop(hosts.are_several or (is_shared and stop_on_interrupt))
    advance = Advance(advance_to, window, total, bar, stop, stop_on_interrupt or store is not None)
    names = ("draws", "infos") if keep is None else ("kept",)
    if store is None:
        run, buffer, done = advance.in_memory(run, buffer)
        kept = by_name(names, buffer)
    else:
        if is_shared:
            raise ValueError("store: states of several processes need devices=jax.devices() beside them")
        amounts = {"num_samples": num_samples, "num_devices": placed.num_devices, **schedule._asdict(), **hosts.amounts}
        fingerprint = fingerprint_of(rng_key, kernel, keep_fn, chain_keys, starts, run.states, amounts)
        with Folder(folder_path, fingerprint, resume) as folder:
            run, done = advance.to_folder(folder, names, hosts, run, buffer)
        kept = read_kept(store, names, buffer)
    return Chains(
        draws=kept.get("draws"),
        infos=kept.get("infos"),
        kept=kept.get("kept"),
        info_means=hosts.gathered(run.info_means),
        final_states=hosts.gathered(run.states),
        next_iteration=int(schedule.first_iteration) + done,
        is_complete=done == total,
    )


def _checked_schedule(num_samples: int, first_iteration: Any, num_burnin: Any, thinning: Any) -> tuple[Schedule, int]:
    """The numbers of iterations, and their total in this run."""
    first_iteration = as_count("first_iteration", first_iteration, 0)
    num_burnin = as_count("num_burnin", num_burnin, 0)
    thinning = as_count("thinning", thinning, 1)
    if (total := num_burnin + num_samples * thinning) >= 2**31 - first_iteration:
        raise ValueError(f"num_burnin + num_samples * thinning must stay below 2**31 iterations, got {total}")
    return Schedule(*(np.int32(number) for number in (first_iteration, num_burnin, thinning))), total


def _checked_starts(positions: PyTree, states: Any) -> Any:
    """Positions or states of all chains, whichever are given."""
    if (positions is None) == (states is None):
        given = "neither" if positions is None else "both"
        raise ValueError(f"give either initial_positions or initial_states, got {given}")
    name, given = ("initial_positions", positions) if states is None else ("initial_states", states)
    given = as_position(given, name) if states is None else given
    sizes = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(given)}
    if len(sizes) != 1 or not sizes.isdisjoint({0, None}):
        raise ValueError(
            f"{name} must have at least one chain on a leading axis that all leaves share, got {describe(given)}"
        )
    return given


def _require_finite(states: Any, name: str) -> None:
    """Raise where a chain starts at density zero, before anything long starts."""
    logdensity = getattr(states, "logdensity", None)
    if logdensity is None or not is_concrete(logdensity):
        return
    logdensity = local_values(logdensity)
    if not np.all(np.isfinite(logdensity)):
        chain = int(np.flatnonzero(~np.isfinite(logdensity))[0])
        position = jax.tree.map(lambda leaf: local_values(leaf)[chain], states.position)
        count = int(np.sum(~np.isfinite(logdensity)))
        raise ValueError(
            f"{name}: the log density must be finite at every start, got {float(logdensity[chain])} for chain {chain} "
            f"at {position} ({count} of {len(logdensity)} chains)"
        )
