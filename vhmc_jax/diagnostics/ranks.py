"""Normal scores of ranks, on the host: one sort of packed integers and one table of normal quantiles.

XLA's sort on a CPU is many times slower than NumPy's, and ranks are never differentiated or compiled.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array


def map_components(function: Callable[[np.ndarray], Any], x: Any) -> Array:
    """Stack ``function`` of each (chain, draw) component of a (chain, draw, ...) array: (...).

    NumPy's sorts release the interpreter lock, so components are ranked side by side in threads.
    """
    host = np.asarray(x)
    event = host.shape[2:]
    host = host.reshape(*host.shape[:2], -1)
    components = (np.ascontiguousarray(host[:, :, j]) for j in range(host.shape[2]))
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, max(host.shape[2], 1))) as pool:
        values = list(pool.map(function, components))
    dtype = jax.dtypes.canonicalize_dtype(host.dtype)
    # Without the dtype JAX would compile a copy for each shape.
    return jnp.asarray(np.array(values, dtype=dtype).reshape(event), dtype)


def _argsort(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values of a flat array without NaN, and the order that sorts it."""
    if x.dtype != np.float32 or x.size >= 2**32:
        order = np.argsort(x)
        return x[order], order
    # A float32 and its index fit in one 64-bit integer. Sorting these is several times faster than an argsort.
    bits = (x + np.float32(0)).view(np.uint32)  # adding zero turns -0.0 into 0.0: they are one value
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(0x80000000))
    packed = (ordered.astype(np.uint64) << np.uint64(32)) | np.arange(x.size, dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64(0xFFFFFFFF)).astype(np.intp)
    return x[order], order


@lru_cache(maxsize=2)
def _score_table(size: int, dtype: np.dtype) -> np.ndarray:
    """Normal quantiles of Blom's plotting positions at ranks 1, 1.5, 2, ..., size."""
    ranks = np.arange(2, 2 * size + 1) / 2
    positions = (ranks - 0.375) / (size + 0.25)
    # Φ⁻¹ is odd, so the lower half is enough. There single precision still resolves positions, which are near zero.
    lower = positions[:size].astype(dtype)
    half = scipy.special.ndtri(lower)
    half[-1] = 0  # the middle rank
    return np.concatenate([half, -half[-2::-1]])


def _scores_of_sorted(sorted_values: np.ndarray) -> np.ndarray:
    """Normal scores of values in ascending order; equal values share their mean rank."""
    size = sorted_values.size
    table = _score_table(size, sorted_values.dtype)
    changes = np.flatnonzero(sorted_values[1:] != sorted_values[:-1]) + 1
    if changes.size == size - 1:
        return table[::2]
    edges = np.concatenate([[0], changes, [size]])
    # Ranks first + 1 to last of a run have mean (first + last + 1) / 2: entry first + last - 1 of the table.
    return np.repeat(table[edges[:-1] + edges[1:] - 1], np.diff(edges))


def normal_scores(x: np.ndarray) -> np.ndarray:
    r"""Φ⁻¹((r − 3/8) / (S + 1/4)) of the mean ranks r of all S values of x; NaN if any value is NaN.

    References
    ----------
    Blom (1958); Vehtari et al. (2021), equation 14.
    """
    if np.isnan(x).any():
        return np.full_like(x, np.nan)
    values, order = _argsort(x.ravel())
    return _scatter(_scores_of_sorted(values), order, x.shape)


def normal_scores_and_folded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores of x and of |x − median|, with one sort for both."""
    if np.isnan(x).any():
        return np.full_like(x, np.nan), np.full_like(x, np.nan)
    values, order = _argsort(x.ravel())
    middle = values.size // 2
    median = values[middle] if values.size % 2 else (values[middle - 1] + values[middle]) / 2
    with np.errstate(invalid="ignore"):
        distances = np.where(values == median, 0, np.abs(values - median)).astype(values.dtype)
    # Distances fall up to the median and rise after it. These are two runs, which a merge sort joins in linear time.
    below = np.searchsorted(values, median)
    runs = np.concatenate([np.arange(below)[::-1], np.arange(below, values.size)])
    merge = runs[np.argsort(distances[runs], kind="stable")]
    folded = _scores_of_sorted(distances[merge])
    return (
        _scatter(_scores_of_sorted(values), order, x.shape),
        _scatter(folded, order[merge], x.shape),
    )


def _scatter(sorted_scores: np.ndarray, order: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    scores = np.empty_like(sorted_scores)
    scores[order] = sorted_scores
    return scores.reshape(shape)


def quantiles(x: np.ndarray, probabilities: Sequence[float]) -> np.ndarray:
    """Quantiles of all values of x, linear between order statistics (R's type 7)."""
    flat = x.ravel()
    positions = np.asarray(probabilities) * (flat.size - 1)
    low = np.floor(positions).astype(int)
    high = np.minimum(low + 1, flat.size - 1)
    flat = np.partition(flat, np.unique([low, high]))
    with np.errstate(invalid="ignore"):
        return flat[low] + (positions - low) * (flat[high] - flat[low])
