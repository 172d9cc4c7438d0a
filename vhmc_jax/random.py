"""Random numbers for one step of a chain, from any JAX key.

``jax.random`` hashes a whole Threefry block for each 32-bit word and for each new key, in a loop over rounds, and
spreads large batches over threads: in a step of some hundred microseconds that costs as much as the gradients.
Here the same hash is unrolled and both words of a block are used; splitting costs nothing, since a key remembers
the path of splits that led to it and the path is half of the hash's counter; and on a CPU a large batch is hashed in
blocks small enough to stay on the thread that runs the chains. Keys of another
implementation than Threefry are left to ``jax.random``.

References
----------
Salmon, Moraes, Dror & Shaw (2011), Parallel random numbers: as easy as 1, 2, 3 (Threefry-2x32, 20 rounds).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
BLOCK_SIZE = 512
"""Hashes at once on a CPU: beyond about 1,000 XLA hands the work to other threads, and waits for them."""


@functools.partial(jax.tree_util.register_dataclass, data_fields=["high", "low"], meta_fields=["path"])
@dataclass(frozen=True)
class Key:
    """A Threefry key as two words, and the path of splits since.

    Attributes
    ----------
    high, low
        The words of a JAX key.
    path
        The splits taken since, each a digit from 1 to 15 of a number in base 16; 0 for none.
    """

    high: Array
    low: Array
    path: int = 0


def split(rng_key: Any, num: int = 2) -> tuple[Any, ...]:
    """``num`` new keys, at most 15."""
    if not 1 <= num <= 15:  # one digit each
        raise ValueError(f"num must be from 1 to 15, got {num}")
    key = _as_words(rng_key)
    if not isinstance(key, Key):
        return tuple(jax.random.split(rng_key, num))
    if key.path >= 16**7:  # no digit is left
        key = fold_in(key, 0)
    return tuple(Key(key.high, key.low, 16 * key.path + digit) for digit in range(1, num + 1))


def fold_in(rng_key: Any, number: Any) -> Any:
    """A new key from a key and an integer; of a JAX key, that of ``jax.random.fold_in``."""
    key = _as_words(rng_key)
    if not isinstance(key, Key):
        return jax.random.fold_in(rng_key, number)
    return Key(*_threefry(key, jnp.asarray(number).astype(jnp.uint32)))


def as_jax_key(rng_key: Any) -> Array:
    """The key as ``jax.random`` takes it, for functions that are not ours."""
    if isinstance(rng_key, Key):
        key = fold_in(rng_key, 0) if rng_key.path else rng_key
        return jax.random.wrap_key_data(jnp.stack([key.high, key.low]), impl="threefry2x32")
    return rng_key


def uniform(rng_key: Any, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """Uniform numbers on [0, 1)."""
    return _draw(_to_uniform, jax.random.uniform, rng_key, shape, dtype)


def normal(rng_key: Any, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """Standard normal numbers: √2 erf⁻¹ of a uniform number on (−1, 1)."""
    return _draw(_to_normal, jax.random.normal, rng_key, shape, dtype)


def integer(rng_key: Any, low: int, high: int) -> Array:
    """An integer from ``low`` to ``high``, both included; uniform up to one part in 2³² / (high − low + 1)."""
    key = _as_words(rng_key)
    if not isinstance(key, Key):
        return jax.random.randint(rng_key, (), low, high + 1)
    word, _ = _threefry(key, jnp.uint32(0))
    return low + (word % np.uint32(high - low + 1)).astype(jnp.int32)


def _as_words(rng_key: Any) -> Any:
    """Threefry keys as two words; any other key as it is."""
    if isinstance(rng_key, Key):
        return rng_key
    if jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key):
        impl, data = jax.random.key_impl(rng_key), jax.random.key_data(rng_key)
    else:
        impl, data = jax.config.jax_default_prng_impl, rng_key  # type: ignore[attr-defined]
    return Key(data[0], data[1]) if impl == "threefry2x32" else rng_key


def _threefry(key: Key, counter: Array) -> tuple[Array, Array]:
    """Threefry-2x32-20 of (path, counter): two random words for each counter."""
    schedule = (key.high, key.low, key.high ^ key.low ^ PARITY)
    x0, x1 = np.uint32(key.path) + schedule[0], counter + schedule[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))) ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def _draw(transform: Callable, otherwise: Callable, rng_key: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    dtype = jnp.dtype(jnp.result_type(dtype))
    key = _as_words(rng_key)
    if not isinstance(key, Key) or dtype not in _FLOATS:
        return otherwise(as_jax_key(rng_key), shape, dtype)
    return _drawer(transform, math.prod(shape), dtype, key.path)(key.high, key.low).reshape(shape)


@functools.cache
def _drawer(transform: Callable, count: int, dtype: Any, path: int) -> Callable:
    """A function from key words (...) to ``count`` numbers each, (..., count); under ``vmap`` still one call.

    It can thus see the whole batch, and cut it into blocks of hashes.
    """
    is_double = dtype == jnp.float64
    num_hashes = count if is_double else (count + 1) // 2

    def words(high: Array, low: Array, counters: Array) -> tuple[Array, ...]:
        x0, x1 = _threefry(Key(high, low, path), counters)
        return ((x0.astype(jnp.uint64) << np.uint64(32)) | x1.astype(jnp.uint64),) if is_double else (x0, x1)

    def at_once(high: Array, low: Array) -> Array:
        parts = words(high[..., None], low[..., None], jnp.arange(num_hashes, dtype=jnp.uint32))
        return transform(parts[0] if count == 1 else jnp.concatenate(parts, axis=-1)[..., :count], dtype)

    def in_blocks(high: Array, low: Array) -> Array:
        total = high.size * num_hashes
        if total <= BLOCK_SIZE:
            return at_once(high, low)
        num_blocks = -(-total // BLOCK_SIZE)

        def blocks(values: Array) -> Array:
            flat = jnp.broadcast_to(values, (*high.shape, num_hashes)).reshape(total)
            return jnp.pad(flat, (0, num_blocks * BLOCK_SIZE - total)).reshape(num_blocks, BLOCK_SIZE)

        counters = jnp.arange(num_hashes, dtype=jnp.uint32)
        xs = (blocks(high[..., None]), blocks(low[..., None]), blocks(counters))
        parts = jax.lax.map(lambda block: [transform(part, dtype) for part in words(*block)], xs)
        parts = [part.reshape(-1)[:total].reshape(*high.shape, num_hashes) for part in parts]
        return jnp.concatenate(parts, axis=-1)[..., :count]

    @jax.custom_batching.custom_vmap
    def draw(high: Array, low: Array) -> Array:
        return jax.lax.platform_dependent(high, low, cpu=in_blocks, default=at_once)

    @draw.def_vmap
    def _(axis_size: int, in_batched: Any, high: Array, low: Array) -> tuple[Array, bool]:
        return draw(*jnp.broadcast_arrays(high, low)), True

    return draw


# For each dtype: its unsigned integer, the bits that are not mantissa, and the bit pattern of 1.
_FLOATS = {
    jnp.dtype("float32"): (jnp.uint32, 9, np.uint32(0x3F800000)),
    jnp.dtype("float64"): (jnp.uint64, 12, np.uint64(0x3FF0000000000000)),
}


def _to_uniform(words: Array, dtype: Any) -> Array:
    """[0, 1) with as many random bits as the mantissa has."""
    unsigned, shift, one = _FLOATS[dtype]
    return jax.lax.bitcast_convert_type((words >> unsigned(shift)) | one, dtype) - dtype.type(1)


def _to_normal(words: Array, dtype: Any) -> Array:
    smallest = np.nextafter(dtype.type(-1), dtype.type(0))
    symmetric = jnp.maximum(dtype.type(2) * _to_uniform(words, dtype) - dtype.type(1), smallest)
    return dtype.type(np.sqrt(2)) * jax.lax.erf_inv(symmetric)
