"""Reading a run from its folder, also while it goes on."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from vhmc_jax.base import PyTree
from vhmc_jax.store.files import load
from vhmc_jax.store.folder import damage, read_about, read_manifest
from vhmc_jax.store.stitched import Stitched

PRODUCTIONS = ("reproduce", "produce", "pilot")
"""Folders of chains within the folder of a call of ``sample``, the last one first."""


class Chunk(NamedTuple):
    """What one file of a run holds.

    Attributes
    ----------
    kept
        What was stored of each iteration: ``draws`` and ``infos``, or ``kept`` with a function of the user's; leading
        axes are (chain, draw).
    carry
        What the loop over iterations carries, to go on from: arrays, in the order of the pytree.
    """

    kept: dict[str, PyTree]
    carry: list[np.ndarray]


class StoredRun:
    """A run on disk. It shows what was complete when it was opened, or at the last :meth:`refresh`.

    Parameters
    ----------
    path
        The folder that was given as ``store``.
    """

    def __init__(self, path: Any):
        self.path = folder_of_chains(Path(path))
        self.about = read_about(self.path)
        self._entries: list[dict] = []
        self._kept: dict[str, PyTree] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look for files that were completed since."""
        self._entries = read_manifest(self.path)
        if self._entries:
            self._kept = _stitched(self.path, self._entries)

    @property
    def num_samples(self) -> int:
        """Draws of each chain so far."""
        return sum(entry["num_draws"] for entry in self._entries)

    @property
    def total_samples(self) -> int:
        """Draws of each chain that were asked for."""
        return self.about["num_samples"]

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return self.about["num_chains"]

    @property
    def next_iteration(self) -> int:
        """Number of the iteration that comes next."""
        return self.about["first_iteration"] + (self._entries[-1]["iteration"] if self._entries else 0)

    @property
    def acceptance_rate(self) -> float:
        """Mean acceptance rate so far; NaN where the kernel does not tell."""
        return self._entries[-1].get("acceptance_rate", np.nan) if self._entries else np.nan

    @property
    def is_complete(self) -> bool:
        """Whether all draws are there."""
        return self.num_samples >= self.total_samples

    @property
    def draws(self) -> PyTree:
        """Positions (chain, draw, ...), read where they are looked at; None with a ``keep`` of the user's."""
        return self._kept.get("draws")

    @property
    def infos(self) -> Any:
        """Infos (chain, draw), read where they are looked at; None with a ``keep`` of the user's."""
        return self._kept.get("infos")

    @property
    def kept(self) -> PyTree:
        """What the user's ``keep`` returned, read where it is looked at; None without one."""
        return self._kept.get("kept")

    def chunks(self) -> Iterator[dict[str, PyTree]]:
        """The files one after another: ``draws`` and ``infos``, or ``kept``, mapped and not loaded."""
        for entry in self._entries:
            yield load(self.path / entry["file"], is_mapped=True).kept

    def verify(self) -> None:
        """Compare every file with its checksum, and raise where one is damaged."""
        for entry in self._entries:
            if why := damage(self.path, entry):
                raise ValueError(f"{self.path / entry['file']} is {why}; the same call again makes it again")


def open_run(path: Any) -> StoredRun:
    """Open the draws of a run that was given ``store=path``. Nothing is loaded, and the run may go on.

    Parameters
    ----------
    path
        The folder: that of ``run_chains``, or that of ``sample``.

    Returns
    -------
    The run. Its ``draws`` and ``infos`` have shapes and can be indexed; only what is indexed is read.

    Examples
    --------
    >>> import jax, tempfile, vhmc_jax as vj
    >>> kernel = vj.hmc(lambda x: -0.5 * x @ x, step_size=0.5, num_integration_steps=5)
    >>> with tempfile.TemporaryDirectory() as path:
    ...     chains = vj.run_chains(jax.random.key(0), kernel, jax.numpy.zeros((4, 2)), num_samples=100, store=path)
    ...     run = vj.open_run(path)
    ...     run.draws.shape, run.draws[:, -10:].shape, run.is_complete
    ((4, 100, 2), (4, 10, 2), True)
    """
    return StoredRun(path)


def folder_of_chains(path: Path) -> Path:
    """The folder itself, or that of the last production within the folder of a call of ``sample``."""
    if not path.is_dir():
        raise ValueError(
            f"path must be the folder of a run, got {path}, which is {'a file' if path.exists() else 'not there'}"
        )
    if "num_chains" in read_about(path):
        return path
    found = [path / name for name in PRODUCTIONS if (path / name / "about.json").exists()]
    if not found:
        raise ValueError(f"{path} holds no draws yet: the phases before production are under way")
    return found[0]


def _stitched(path: Path, entries: list[dict]) -> dict[str, PyTree]:
    """What the files hold, as arrays that are read where they are looked at."""
    lengths = [entry["num_draws"] for entry in entries]

    def stitch(number: int, like: np.ndarray) -> Stitched:
        def part(file: str) -> np.ndarray:
            return jax.tree.leaves(load(path / file, is_mapped=True).kept)[number]

        shape = (like.shape[0], *like.shape[2:])
        parts = [functools.partial(part, entry["file"]) for entry in entries]
        return Stitched(parts, lengths, shape, like.dtype)

    first = load(path / entries[0]["file"], is_mapped=True).kept
    leaves, treedef = jax.tree.flatten(first)
    return jax.tree.unflatten(treedef, [stitch(number, leaf) for number, leaf in enumerate(leaves)])
