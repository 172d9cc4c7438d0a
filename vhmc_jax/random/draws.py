"""The functions to call: uniform and normal numbers, and integers, from any key."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array, PRNGKey
from vhmc_jax.random import batches, numbers
from vhmc_jax.random.keys import Key, as_jax_key, with_words
from vhmc_jax.random.threefry import threefry


def uniform(rng_key: PRNGKey, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """Uniform numbers on [0, 1)."""
    return _draw(numbers.uniforms, jax.random.uniform, rng_key, shape, dtype)


def normal(rng_key: PRNGKey, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """Standard normal numbers."""
    return _draw(numbers.normals, jax.random.normal, rng_key, shape, dtype)


def integer(rng_key: PRNGKey, low: int | Array, high: int | Array) -> Array:
    """An integer from ``low`` to ``high``, both included; uniform up to one part in 2³² / (high − low + 1)."""
    key = with_words(rng_key)
    if not isinstance(key, Key):
        return jax.random.randint(rng_key, (), low, high + 1)
    word, _ = threefry(key.high, key.low, key.path, jnp.uint32(0))
    return low + (word % jnp.uint32(high - low + 1)).astype(jnp.int32)


def uniform_of_each(keys: Key, count: int, dtype: Any) -> np.ndarray:
    """``uniform`` of keys (n,) whose words are NumPy's: the same numbers (n, count), without JAX."""
    dtype = np.dtype(dtype)
    counters = np.arange(numbers.num_hashes(count, dtype), dtype=np.uint32)
    words = threefry(keys.high[:, None], keys.low[:, None], keys.path, counters)
    return numbers.uniforms_on_host(*words, count, dtype)


def _draw(transform: Callable, otherwise: Callable, rng_key: PRNGKey, shape: tuple[int, ...], dtype: Any) -> Array:
    """Numbers from hashes; those of ``otherwise``, a function of ``jax.random``, for other keys and dtypes."""
    dtype = jnp.dtype(jnp.result_type(dtype))
    key = with_words(rng_key)
    if not isinstance(key, Key) or dtype not in numbers.DTYPES:
        return otherwise(as_jax_key(rng_key), shape, dtype)
    draw = batches.drawer(transform, math.prod(shape), dtype)
    return draw(key.high, key.low, np.uint32(key.path)).reshape(shape)
