"""The chunks of a run on disk: writing them while the run goes on, and going on from the last one."""

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Kernel, PRNGKey, PyTree
from vhmc_jax.runner.chunks import Window
from vhmc_jax.runner.devices import local_values
from vhmc_jax.runner.loop import Run, start, step_and_keep
from vhmc_jax.store.fingerprint import array_digest, arrays_of, digest_of, program_digest, versions
from vhmc_jax.store.folder import Folder
from vhmc_jax.store.run import Chunk, open_run

CHUNK_BYTES = 2**25
"""Most bytes of draws in one file, and in memory. With half of it, writing takes a little longer for each byte."""
FILE_SECONDS = 5.0
"""A file is written at least so often: the most work that a crash costs."""


def window_size(
    kernel: Kernel, keep: Callable, chain_keys: PRNGKey, starts: Any, are_positions: bool, num_samples: int
) -> int:
    """Draws of each chain for which there is memory at one time."""
    _, one = jax.eval_shape(lambda *programs: start(*programs, are_positions, 1), kernel, keep, chain_keys, starts)
    num_bytes = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(one))
    return min(num_samples, max(1, CHUNK_BYTES // max(1, num_bytes)))


def fingerprint_of(
    rng_key: PRNGKey,
    kernel: Kernel,
    keep: Callable,
    chain_keys: PRNGKey,
    starts: Any,
    states: Any,
    numbers: dict[str, Any],
) -> dict[str, Any]:
    """What tells this run from another one."""
    program = jax.make_jaxpr(step_and_keep)(kernel.step, keep, chain_keys, states)
    return {
        "rng_key": array_digest(rng_key),
        "num_chains": len(jax.tree.leaves(starts)[0]),
        **{name: int(number) for name, number in numbers.items()},
        "starts": digest_of(starts),
        "kernel": arrays_of(kernel.step),
        "keep": arrays_of(keep),
        "log density, or other code of the kernel": program_digest(program),
        "version": versions(),
    }


class StoredChunks:
    """Writes what a run has done, one file after another, in a thread of its own.

    Parameters
    ----------
    folder
        Where to.
    names
        Names of what is kept: ``draws`` and ``infos``, or ``kept``.
    window
        Draws for which there is memory.
    """

    def __init__(self, folder: Folder, names: tuple[str, ...], window: Window):
        self._folder, self._names, self._window = folder, names, window
        self._num_written = sum(entry["num_draws"] for entry in folder.entries)
        self._num_files = len(folder.entries)
        self._written_at = time.perf_counter()
        self._writer = ThreadPoolExecutor(1)
        self._pending: Future | None = None
        self._spare: PyTree = None

    def resumed(self, run: Run, total: int) -> tuple[Run, int]:
        """The run after the last file, and its iterations; the run as it is where there is no file."""
        if not self._folder.entries:
            return run, 0
        done, file = (self._folder.entries[-1][name] for name in ("iteration", "file"))
        if done > total:
            raise ValueError(
                f"store: {self._folder.path} holds {done} iterations, more than the {total} that are asked for"
            )
        leaves, treedef = jax.tree.flatten(run)
        stored = [jnp.asarray(leaf) for leaf in self._folder.read(file).carry]
        if [(leaf.shape, leaf.dtype) for leaf in stored] != [(leaf.shape, leaf.dtype) for leaf in leaves]:
            raise ValueError(f"store: the states in {self._folder.path} have other shapes or dtypes than this kernel's")
        return jax.tree.unflatten(treedef, stored), done

    def take(self, run: Run, buffer: PyTree, before: int, done: int, is_last: bool) -> PyTree:
        """Write the draws that are complete, where it is time to: the window is full, or the run ends, or waited long.

        Parameters
        ----------
        run, buffer
            What the loop carries, and the draws of the window.
        before, done
            Iterations before this chunk, and after it.
        is_last
            Whether the run ends here.

        Returns
        -------
        Memory for the draws that come next: the same, or another where these are being written.
        """
        is_due = time.perf_counter() - self._written_at > FILE_SECONDS
        is_full = done == self._window.end(before)
        if not (is_last or is_due or is_full):
            return buffer
        first, num_draws = self._window.first_draw(before), self._window.num_draws(done)
        part = slice(self._num_written - first, num_draws - first)
        values = jax.tree.map(lambda leaf: np.asarray(leaf)[:, part], buffer)
        if not is_full:  # the run goes on in the same memory
            values = jax.tree.map(np.array, values)
        kept = by_name(self._names, values)
        rates = getattr(run.info_means, "acceptance_rate", None)
        about = {"num_draws": num_draws - self._num_written, "iteration": done}
        if rates is not None:
            about["acceptance_rate"] = float(np.mean(local_values(rates)))
        self._wait()
        self._pending = self._writer.submit(
            self._folder.write, f"chunk-{self._num_files:06d}.npz", Chunk(kept, _host_leaves(run)), **about
        )
        self._num_written, self._num_files, self._written_at = num_draws, self._num_files + 1, time.perf_counter()
        if is_full and not is_last:  # what is being written is not copied, and free when the next window is full
            buffer, self._spare = jax.tree.map(jnp.copy, buffer) if self._spare is None else self._spare, buffer
        return buffer

    def finish(self) -> str:
        """Until the last file is written; how far the run has come, for an interrupt to say."""
        self._wait()
        draws = f"after {self._num_written:,} draws a chain" if self._num_written else "before the first draw"
        return f"{draws}; {self._folder.path} has the states to go on from"

    def _wait(self) -> None:
        """Until the last file is written; raises what went wrong with it."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown()


def read_kept(path: Any, names: tuple[str, ...], like: PyTree) -> dict[str, PyTree]:
    """What was kept, as arrays on disk in a pytree like the buffer's."""
    run = open_run(path)
    leaves = jax.tree.leaves([getattr(run, name) for name in names])
    values = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return by_name(names, values)


def by_name(names: tuple[str, ...], kept: PyTree) -> dict[str, PyTree]:
    """What ``keep`` returned under its names: a pair where there are two."""
    return dict(zip(names, kept if len(names) > 1 else (kept,), strict=True))


def _host_leaves(run: Run) -> list[Any]:
    """Arrays of what the loop carries, copied to the host; keys stay keys."""
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [leaf if is_key(leaf) else np.array(leaf) for leaf in jax.tree.leaves(run)]
