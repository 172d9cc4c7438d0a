"""How far a run is, in the terminal."""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vhmc_jax.store.folder import read_about, read_manifest
from vhmc_jax.store.run import StoredRun

NUM_RECENT = 200
"""Draws of each chain from which means and deviations are shown."""
MOST_COORDINATES = 4


def progress_line(path: Any) -> str:
    """How far a run is, as text: its phases, draws, acceptance, and moments of the last draws.

    Parameters
    ----------
    path
        The folder that was given as ``store``.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"path must be the folder of a run, got {folder}")
    about = read_about(folder)
    phases = [] if "num_chains" in about else [Path(entry["file"]).stem for entry in read_manifest(folder)]
    lines = [f"phases done: {', '.join(phases) or 'none'}"] if "num_chains" not in about else []
    try:
        run = StoredRun(path)
    except ValueError:
        return "\n".join(lines)
    share = run.num_samples / run.total_samples
    lines.append(
        f"{run.num_chains} chains: {run.num_samples:,} of {run.total_samples:,} draws ({share:.1%}), "
        f"iteration {run.next_iteration:,}, acceptance {run.acceptance_rate:.3f}"
    )
    if run.draws is not None and run.num_samples:
        recent = [np.asarray(leaf[:, -NUM_RECENT:], np.float64) for leaf in jax.tree.leaves(run.draws)]
        flat = np.concatenate([leaf.reshape(leaf.shape[0] * leaf.shape[1], -1) for leaf in recent], axis=1)
        moments = zip(flat.mean(0)[:MOST_COORDINATES], flat.std(0)[:MOST_COORDINATES], strict=True)
        lines.append("last draws: " + ", ".join(f"{mean:.3g} ± {deviation:.2g}" for mean, deviation in moments))
    return "\n".join(lines)


def watch(path: Any, seconds: float = 2.0) -> None:
    """Print how far a run is whenever that changes, until it is complete.

    Parameters
    ----------
    path
        The folder that was given as ``store``.
    seconds
        Time between two looks.
    """
    shown = ""
    while True:
        if (text := progress_line(path)) != shown:
            print(text, flush=True)
            shown = text
        if _is_complete(Path(path)):
            return
        time.sleep(seconds)


def _is_complete(path: Path) -> bool:
    """Whether all draws are there; of a call of ``sample`` also whether it has judged them."""
    if "num_chains" in read_about(path):
        return StoredRun(path).is_complete
    return any(entry.get("is_last") for entry in read_manifest(path))
