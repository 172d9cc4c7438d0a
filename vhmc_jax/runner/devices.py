"""Chains over several devices: each device runs its share of the chains, and none waits for another.

The program of a run is the same on every device, by ``jax.shard_map`` over a mesh of one axis. Nothing in it is a sum
or an exchange over chains, so that devices need not speak to one another until the draws are read.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vhmc_jax.base import Kernel, PRNGKey, PyTree
from vhmc_jax.programs import program
from vhmc_jax.runner.loop import Run, Schedule, advance, start

CHAINS, EVERYWHERE = PartitionSpec("chains"), PartitionSpec()
"""How an array lies on the devices: its leading axis divided among them, or the whole of it on each."""
RUN: Any = Run(EVERYWHERE, CHAINS, CHAINS, CHAINS)  # type: ignore[arg-type]
"""The same for what the loop carries."""


def mesh_of(devices: Any, num_chains: int, what: str = "chains") -> Mesh | None:
    """The devices of a run as a mesh of one axis, checked.

    Parameters
    ----------
    devices
        A number of devices, or the devices themselves; None for the one that JAX takes by default.
    num_chains
        Chains, which the devices share evenly.
    what
        What they are, if not chains.

    Returns
    -------
    The mesh; None where JAX decides.
    """
    if devices is None:
        return None
    chosen = _devices(devices)
    if num_chains % len(chosen):
        raise ValueError(
            f"devices must share the {what} evenly, got {num_chains} {what} on {len(chosen)} devices: give "
            f"{-(-num_chains // len(chosen)) * len(chosen)} {what}, or other devices"
        )
    # Devices of one process side by side, so that its chains are.
    return Mesh(np.array(sorted(chosen, key=lambda device: device.process_index), dtype=object), ("chains",))


def _devices(devices: Any) -> tuple[Any, ...]:
    if isinstance(devices, Sequence | np.ndarray) and not isinstance(devices, str):
        chosen = tuple(np.ravel(np.array(devices, dtype=object)))
        if not chosen or not all(isinstance(device, jax.Device) for device in chosen):
            raise TypeError(f"devices must be a number or a list of JAX's devices, got {devices!r}")
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"devices must be different ones, got {devices!r}")
        return chosen
    if isinstance(devices, bool) or not hasattr(devices, "__index__"):
        raise TypeError(f"devices must be a number or a list of JAX's devices, got {devices!r}")
    there = jax.devices()
    if not 1 <= devices.__index__() <= len(there):
        raise ValueError(f"devices must be from 1 to the {len(there)} that are there, got {devices}")
    return tuple(there[: devices.__index__()])


class Placed:
    """The programs of a run, where it is to run.

    Parameters
    ----------
    mesh
        Devices that share the chains; None for one device.
    """

    def __init__(self, mesh: Mesh | None):
        self._mesh = mesh

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return 1 if self._mesh is None else self._mesh.size

    def spread(self, tree: PyTree) -> PyTree:
        """Arrays with chains on their leading axis, on the devices that run them."""
        return self._put(tree, CHAINS)

    def copied(self, tree: PyTree) -> PyTree:
        """Arrays that every device needs, on each of them."""
        return self._put(tree, EVERYWHERE)

    def _put(self, tree: PyTree, spec: PartitionSpec) -> PyTree:
        if self._mesh is None:
            return tree
        return jax.tree.map(functools.partial(_put, sharding=NamedSharding(self._mesh, spec)), tree)

    def start(
        self, kernel: Kernel, keep: Callable, chain_keys: PRNGKey, starts: Any, are_positions: bool, num_samples: int
    ) -> tuple[Run, PyTree]:
        """The carry before the first iteration, and the empty store."""
        if self._mesh is None:
            return start(kernel, keep, chain_keys, starts, are_positions, num_samples)
        return _start_on(self._mesh, are_positions, num_samples)(kernel, keep, chain_keys, starts)

    def advance(
        self, step: Callable, keep: Callable, keys: PRNGKey, schedule: Schedule, until: Any, run: Run, store: PyTree
    ) -> tuple[Run, PyTree]:
        """Take iterations until ``until`` of them are done."""
        run_on = advance if self._mesh is None else advance_on(self._mesh)
        return run_on(step, keep, keys, schedule, until, run, store)


def _put(leaf: Any, sharding: NamedSharding) -> Any:
    """An array on the devices of a sharding, which may be those of several processes: then each puts its own part."""
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return leaf
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        words = _put(jax.random.key_data(leaf), sharding)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


@functools.cache
def advance_on(mesh: Mesh) -> Any:
    """The program of a run on the devices of a mesh."""
    placed = jax.shard_map(
        advance.plain,
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, CHAINS, EVERYWHERE, EVERYWHERE, RUN, CHAINS),
        out_specs=(RUN, CHAINS),
        check_vma=False,  # it would ask for an exchange to see that all devices are at the same iteration
    )
    return program(placed, donate_argnums=6)


@functools.cache
def _start_on(mesh: Mesh, are_positions: bool, num_samples: int) -> Any:
    placed = jax.shard_map(
        functools.partial(start.plain, are_positions=are_positions, num_samples=num_samples),
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, CHAINS, CHAINS),
        out_specs=(RUN, CHAINS),
        check_vma=False,
    )
    return program(placed)


def local_values(array: Any) -> np.ndarray:
    """An array on the host; of one that several processes share, the part that this process has."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        shards = {str(shard.index): shard for shard in array.addressable_shards}  # a copy counts once
        ordered = sorted(shards.values(), key=lambda shard: [part.start or 0 for part in shard.index])
        return np.concatenate([np.atleast_1d(np.asarray(shard.data)) for shard in ordered])
    return np.asarray(array)
