"""Several processes that run one call together, by JAX's own runtime: ``jax.distributed.initialize``.

Every process calls the same function with the same arguments. Each runs its share of the chains on devices of its own,
and with a store it writes files of its own. What is decided once, the first process decides, and the others receive it.
"""

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from vhmc_jax.base import PyTree
from vhmc_jax.runner.devices import local_values
from vhmc_jax.store.files import load, save_to
from vhmc_jax.store.folder import ABOUT, path_of
from vhmc_jax.store.run import share_folder


class Hosts(NamedTuple):
    """The processes that share the chains of a run.

    Attributes
    ----------
    number
        Number of this process.
    num_processes
        Number of processes.
    mesh
        Devices of this process; None where JAX decides.
    """

    number: int = 0
    num_processes: int = 1
    mesh: Mesh | None = None

    @classmethod
    def of(cls, mesh: Mesh | None) -> Self:
        """The processes whose devices a mesh has: this one alone, or all of them with as many devices each."""
        owners = [] if mesh is None else [device.process_index for device in mesh.devices.ravel()]
        if mesh is None or set(owners) == {jax.process_index()}:
            return cls(mesh=mesh)
        numbers, counts = np.unique(owners, return_counts=True)
        if len(numbers) < jax.process_count() or len(set(counts.tolist())) > 1:
            raise ValueError(
                f"devices must be those of this process, or as many of each of the {jax.process_count()} processes, "
                f"got {dict(zip(numbers.tolist(), counts.tolist(), strict=True))} by process: give jax.devices()"
            )
        own = [device for device in mesh.devices.ravel() if device.process_index == jax.process_index()]
        return cls(jax.process_index(), len(numbers), Mesh(np.array(own, dtype=object), mesh.axis_names))

    @property
    def are_several(self) -> bool:
        """Whether there is more than this process."""
        return self.num_processes > 1

    @property
    def amounts(self) -> dict[str, int]:
        """What tells a run of several processes from that of one."""
        return {"num_processes": self.num_processes, "process": self.number} if self.are_several else {}

    def share(self, tree: PyTree) -> PyTree:
        """The chains of this process, of arrays with all chains on the leading axis."""

        def part(leaf: Any) -> Any:
            if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
                return local_values(leaf)
            size = len(leaf) // self.num_processes
            return leaf[self.number * size : (self.number + 1) * size]

        return jax.tree.map(part, tree) if self.are_several else tree

    def folder(self, store: Any) -> Path:
        """The folder of this process within that of the run."""
        path = path_of(store)
        if (path / ABOUT).exists():
            raise ValueError(
                f"store: {store} holds a run of one process, got {self.num_processes} processes: give another one"
            )
        return share_folder(path, self.number)

    def gathered(self, tree: PyTree) -> PyTree:
        """The shares of all processes, one after another, in each of them."""
        return multihost_utils.process_allgather(tree, tiled=True) if self.are_several else tree

    def all(self, is_true: bool) -> bool:
        """Whether something holds in every process. Each of them asks, and waits for the others' answers."""
        return bool(np.all(multihost_utils.process_allgather(np.bool_(is_true)))) if self.are_several else is_true

    def wait(self, store: Any) -> None:
        """Until all processes have written their files; raises where this one cannot see those of another."""
        if not self.are_several:
            return
        multihost_utils.sync_global_devices("the chains are stored")
        for number in range(self.num_processes):
            if not (folder := share_folder(Path(store), number)).exists():
                raise ValueError(f"store must be on a disk that all processes share, got {store} without {folder.name}")

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What a function returns in the first process, which alone calls it.

        Parameters
        ----------
        make
            Returns a record that can be stored.
        """
        if not self.are_several:
            return make()
        content = b""
        try:
            if self.number == 0:
                file = io.BytesIO()
                save_to(file, make())
                content = file.getvalue()
        finally:  # where the first process failed, the others hear of it
            content = self._sent(content)
        if not content:
            raise RuntimeError("the first process failed; its own message says why")
        return load(io.BytesIO(content))

    def _sent(self, content: bytes) -> bytes:
        """Bytes of the first process, in all of them."""
        size = int(multihost_utils.broadcast_one_to_all(np.int32(len(content))))
        if not size:
            return b""
        buffer = np.zeros(size, np.uint8)
        buffer[: len(content)] = np.frombuffer(content, np.uint8)
        return np.asarray(multihost_utils.broadcast_one_to_all(buffer)).astype(np.uint8).tobytes()


class Stop:
    """One word that a process may say to the others of a run, and each hears between chunks: stop.

    Parameters
    ----------
    is_shared
        Whether there are others. Then all of them make one of these for the same run, in the same order.
    """

    _numbers = itertools.count()

    def __init__(self, is_shared: bool):
        self._name = f"vhmc_jax/stop/{next(self._numbers)}" if is_shared else None

    def is_said(self, is_asked: bool) -> bool:
        """Whether this process is asked to stop, or another one was. The others will hear of it."""
        if self._name is None:
            return is_asked
        from jax._src import distributed  # there is no public way to what JAX's processes tell one another

        client: Any = distributed.global_state.client
        if is_asked:
            client.key_value_set(f"{self._name}/{jax.process_index()}", "asked")
        return is_asked or bool(client.key_value_dir_get(self._name))

    def latest(self, done: int) -> int:
        """Iterations of the process that has done most. Each of them asks, and waits for the others' numbers."""
        return done if self._name is None else int(np.max(multihost_utils.process_allgather(np.int32(done))))


def whole(tree: PyTree) -> PyTree:
    """Arrays of which each process has a part, whole and in each of them."""

    def one(leaf: Any) -> Any:
        is_shared = isinstance(leaf, jax.Array) and not leaf.is_fully_addressable
        return multihost_utils.process_allgather(leaf, tiled=True) if is_shared else leaf

    return jax.tree.map(one, tree)
