"""Phases: what each costs, and where its record is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
from tqdm import tqdm

from vhmc_jax.pipeline.clock import Clock
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
    """

    def __init__(self, progress: bool, stored: Stored | None = None):
        self._progress, self._stored = progress, stored
        self.done: tuple[Phase, ...] = ()

    def run(self, name: str, function: Callable, *arguments: Any) -> Any:
        """The record that the phase's function returns; its ``cost`` is noted."""
        if self._stored is None:
            record, phase = self._run(name, function, *arguments)
        else:
            with self._stored.folder() as folder:
                file, shapes = f"{name}.npz", _shapes(arguments)
                entry = folder.find(file)
                if entry is None or entry["shapes"] != shapes:
                    folder.write(file, self._run(name, function, *arguments), shapes=shapes)
                # Always as it was read: then a call that is resumed sees the same arrays, to the last stride.
                record, phase = folder.read(file)
        self.done = (*self.done, phase)
        return record

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
        if self._stored is not None:
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
