"""How chains moved between modes: transitions, jumps by pair of modes, and round trips."""

from typing import Any

import numpy as np


def path_of(labels: np.ndarray) -> np.ndarray:
    """Labels with −1 replaced by the mode that the chain was in last; −1 stays where it was in none yet."""
    last = np.maximum.accumulate(np.where(labels >= 0, np.arange(labels.shape[1]), 0), axis=1)
    return np.take_along_axis(labels, last, axis=1)


def pair_counts(before: np.ndarray, after: np.ndarray, counted: np.ndarray, k: int) -> np.ndarray:
    """Number of pairs (before, after) where counted, (k, k)."""
    pairs = before[counted].astype(np.int64) * k + after[counted]
    return np.bincount(pairs, minlength=k * k).reshape(k, k)


def round_trips(path: np.ndarray, k: int) -> np.ndarray:
    """Visits beyond the first to each mode, summed over chains: a visit is a run of equal labels."""
    starts = np.concatenate([np.ones_like(path[:, :1], bool), path[:, 1:] != path[:, :-1]], axis=1) & (path >= 0)
    chain = np.broadcast_to(np.arange(len(path))[:, None], path.shape)
    visits = np.bincount(chain[starts] * k + path[starts], minlength=len(path) * k).reshape(len(path), k)
    return np.maximum(visits - 1, 0).sum(0)


def jump_counts(
    infos: Any, shape: tuple[int, ...], k: int, mode_of: np.ndarray | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Jumps proposed and accepted by pair of modes, or None where infos do not say from where to where."""
    get = infos.get if isinstance(infos, dict) else lambda name: getattr(infos, name, None)
    fields = [get(name) for name in ("is_jump", "jump_accepted", "jump_from", "jump_to")]
    if any(field is None for field in fields):
        return None, None
    tried, accepted, before, after = (np.asarray(field) for field in fields)
    if any(field.shape != shape for field in (tried, accepted, before, after)):
        raise ValueError(f"jump fields of infos must have the shape of labels, {shape}")
    if mode_of is not None:
        # One more entry, so that component -1, no candidate, is mode -1.
        modes = np.append(mode_of, -1)
        before, after = modes[before], modes[after]
    tried = tried.astype(bool) & (before >= 0) & (after >= 0)
    return pair_counts(before, after, tried, k), pair_counts(before, after, tried & accepted.astype(bool), k)
