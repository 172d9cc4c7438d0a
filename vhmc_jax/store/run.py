"""Reading a run from its folder, also while it goes on."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from vhmc_jax.base import PyTree
from vhmc_jax.store.files import load
from vhmc_jax.store.folder import ABOUT, damage, path_of, read_about, read_manifest
from vhmc_jax.store.stitched import Joined, Stitched

PRODUCTIONS = ("reproduce", "produce", "pilot")
"""Folders of chains within the folder of a call of ``sample``, the last one first."""
SHARE = "process-"
"""Folders of several processes that share the chains begin with this, and end with their numbers."""


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
        The folder that was given as ``store``. Where several processes shared a run, it has a folder of each, and what
        all of them have done counts.
    """

    def __init__(self, path: Any):
        self.path = folder_of_chains(path_of(path, "path"))
        self._folders = _shares(self.path)
        self._abouts = [read_about(folder) for folder in self._folders]
        self._entries: list[list[dict]] = [[] for _ in self._folders]
        self._kept: dict[str, PyTree] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look for files that were completed since."""
        self._entries = [read_manifest(folder) for folder in self._folders]
        if all(self._entries):
            kept = [_stitched(*share) for share in zip(self._folders, self._entries, strict=True)]
            self._kept = kept[0] if len(kept) == 1 else jax.tree.map(lambda *leaves: Joined(leaves), *kept)

    @property
    def num_samples(self) -> int:
        """Draws of each chain so far."""
        return min(sum(entry["num_draws"] for entry in entries) for entries in self._entries)

    @property
    def total_samples(self) -> int:
        """Draws of each chain that were asked for."""
        return self._abouts[0]["num_samples"]

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return sum(about["num_chains"] for about in self._abouts)

    @property
    def next_iteration(self) -> int:
        """Number of the iteration that comes next, of the chains that are least far."""
        done = min(entries[-1]["iteration"] if entries else 0 for entries in self._entries)
        return self._abouts[0]["first_iteration"] + done

    @property
    def acceptance_rate(self) -> float:
        """Mean acceptance rate so far; NaN where the kernel does not tell."""
        if not all(self._entries):
            return np.nan
        return float(np.mean([entries[-1].get("acceptance_rate", np.nan) for entries in self._entries]))

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
        """The files one after another: ``draws`` and ``infos``, or ``kept``, mapped and not loaded.

        Of several processes first those of one, then those of the next.
        """
        for file, _ in self._files():
            yield load(file, is_mapped=True).kept

    def verify(self) -> None:
        """Compare every file with its checksum, and raise where one is damaged."""
        for file, entry in self._files():
            if why := damage(file.parent, entry):
                raise ValueError(f"{file} is {why}; the same call again makes it again")

    def _files(self) -> Iterator[tuple[Path, dict]]:
        """All files, with what the manifest says about each."""
        for folder, entries in zip(self._folders, self._entries, strict=True):
            yield from ((folder / entry["file"], entry) for entry in entries)


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
    if _shares(path) != [path] or "num_chains" in read_about(path):
        return path
    found = [path / name for name in PRODUCTIONS if (_shares(path / name)[0] / ABOUT).exists()]
    if not found:
        raise ValueError(f"{path} holds no draws yet: the phases before production are under way")
    return found[0]


def share_folder(path: Path, number: int) -> Path:
    """The folder of one of several processes within that of the run."""
    return path / f"{SHARE}{number:03d}"


def _shares(path: Path) -> list[Path]:
    """The folders of the processes of a run; the folder of the run itself where there was one process."""
    return sorted(path.glob(f"{SHARE}*")) or [path]


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
