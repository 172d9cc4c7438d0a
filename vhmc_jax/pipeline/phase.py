"""Phases: what each costs, and where its record is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
from tqdm import tqdm

from vhmc_jax.pipeline.clock import Clock
from vhmc_jax.runner.chunks import Interrupt
from vhmc_jax.runner.hosts import Hosts
from vhmc_jax.store.fingerprint import digest_of
from vhmc_jax.store.folder import Folder

DONE = "done.npz"
"""File that is written when all phases are done."""


class Cost(NamedTuple):
    """Evaluations of one phase.

    Attributes
    ----------
    num_gradients
        Gradients taken.
    num_densities
        Density values taken.
    """

    num_gradients: int
    num_densities: int


class Phase(NamedTuple):
    """Cost of one phase.

    Attributes
    ----------
    name
        What it did.
    seconds
        Time, compiling included.
    compile_seconds
        The part of it that JAX spent on tracing and compiling.
    num_gradients
        Gradients taken.
    num_densities
        Density values taken.
    """

    name: str
    seconds: float
    compile_seconds: float
    num_gradients: int
    num_densities: int


class Stored(NamedTuple):
    """Where the records of the phases are kept.

    Attributes
    ----------
    path
        The folder.
    fingerprint
        What tells this call from another one.
    resume
        ``"same"`` to refuse the folder of another call, ``"as is"`` to take it.
    """

    path: Path
    fingerprint: dict[str, Any]
    resume: str

    def folder(self) -> Folder:
        """The folder, locked while it is open."""
        return Folder(self.path, self.fingerprint, self.resume)


class Phases:
    """Runs one phase after another, and keeps what each took. With a store, a phase that is done is not run again.

    Parameters
    ----------
    progress
        Whether to show the phase that is running.
    stored
        Where records are kept; None for nowhere.
    hosts
        The processes that make the call together. The first runs the phases, but for those that run chains.
    """

    def __init__(self, progress: bool, stored: Stored | None = None, hosts: Hosts | None = None):
        self._progress, self._stored, self._hosts = progress, stored, hosts or Hosts()
        self.done: tuple[Phase, ...] = ()
        self.is_interrupted = False

    def check_store(self) -> None:
        """Raise where there is something wrong with the folder, before anything long starts."""
        if self._stored is not None:
            stored = self._stored
            self._hosts.from_first(lambda: stored.folder().close())

    def run(self, name: str, function: Callable, *arguments: Any) -> Any:
        """The record that the phase's function returns; its ``cost`` is noted.

        With a store, Ctrl-C or SIGTERM let the phase end and its record be written, and are raised then.
        """
        record = self.run_to_end(name, function, *arguments, is_lasting=self._stored is not None)
        if self.is_interrupted and self._stored is not None:
            raise KeyboardInterrupt(f"after the phase {name}; {self._stored.path} has it, and the same call goes on")
        return record

    def run_to_end(self, name: str, function: Callable, *arguments: Any, is_lasting: bool = True) -> Any:
        """``run`` for a phase that takes much less time than the work it would lose.

        A signal is noted in ``is_interrupted``.
        """
        with Interrupt(is_lasting) as interrupt:
            record, phase = self._hosts.from_first(lambda: self._kept(name, function, *arguments))
        # What one of several processes was asked, all of them do: else the others would wait for it.
        self.is_interrupted = not self._hosts.all(not (self.is_interrupted or interrupt.is_asked))
        self.done = (*self.done, phase)
        return record

    def _kept(self, name: str, function: Callable, *arguments: Any) -> tuple[Any, Phase]:
        """Record and cost of a phase, from its file where it has been run before."""
        if self._stored is None:
            return self._run(name, function, *arguments)
        with self._stored.folder() as folder:
            file, shapes = f"{name}.npz", _shapes(arguments)
            entry = folder.find(file)
            if entry is None or entry["shapes"] != shapes:
                folder.write(file, self._run(name, function, *arguments), shapes=shapes)
            # Always as it was read: then a call that is resumed sees the same arrays, to the last stride.
            return folder.read(file)

    def run_chains(self, name: str, function: Callable, *arguments: Any) -> Any:
        """The same for a phase that runs chains. It has a folder of its own, to which it writes them by itself."""
        if self._stored is None:
            record, phase = self._run(name, function, *arguments)
        else:
            record, phase = self._run(name, function, *arguments, self._stored.path / name, self._stored.resume)
            if not record.is_complete:
                self._stored = None  # what follows from a part of the draws is not what would be stored
        self.done = (*self.done, phase)
        return record

    def finish(self, notes: tuple[str, ...]) -> None:
        """Write down that all phases are done."""
        if self._stored is not None and self._hosts.number == 0:
            with self._stored.folder() as folder:
                if folder.find(DONE) is None:
                    folder.write(DONE, notes, is_last=True)

    def _run(self, name: str, function: Callable, *arguments: Any) -> tuple[Any, Phase]:
        with Clock() as clock, tqdm(total=1, desc=name, bar_format="{desc}: {elapsed}", disable=not self._progress):
            record = function(*arguments)
        return record, Phase(name, clock.seconds, clock.compile_seconds, *record.cost)


def _shapes(arguments: Any) -> str:
    """Shapes of all arrays in the arguments of a phase. More draws than before are judged anew."""
    return digest_of([str(leaf.shape) for leaf in jax.tree.leaves(arguments) if hasattr(leaf, "shape")])
