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

from vhmc_jax.arguments import is_concrete
from vhmc_jax.base import Array

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
BLOCK_SIZE = 512
"""Hashes at once on a CPU where they are cut into blocks: beyond about 1,000 XLA hands them to other threads."""
FEW_HASHES = 64
"""Up to so many are flat and at once: should XLA repeat them in several places, that costs less than a loop. (Three
normal vectors for each of 32 chains, 96 hashes, took 9 µs flat, and those for 64 chains 5 µs in a loop.)"""
_HOST = np.ndarray | np.generic
"""Words that are at hand are NumPy's, and hashed there: a program for a few of them would take longer to compile."""
MIN_VECTOR = 16
"""With fewer hashes than this for each key XLA does not vectorise a batch of keys, unless it is flat."""


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
    if isinstance(number, int):
        number = np.uint32(number)  # raises where it does not fit
    counter = (np if is_concrete(number) else jnp).asarray(number).astype(np.uint32)
    return Key(*_threefry(key, counter))


def fold_in_each(rng_key: Any, numbers: np.ndarray) -> Any:
    """``fold_in`` with each of these integers: keys with a leading axis."""
    key = _as_words(rng_key)
    if not isinstance(key, Key):
        return jax.vmap(jax.random.fold_in, (None, 0))(rng_key, numbers)
    return Key(*_threefry(key, numbers.astype(np.uint32)))


def as_jax_key(rng_key: Any) -> Array:
    """The key as ``jax.random`` takes it, for functions that are not ours."""
    if isinstance(rng_key, Key):
        key = fold_in(rng_key, np.uint32(0)) if rng_key.path else rng_key
        key_data = (np if isinstance(key.high, _HOST) else jnp).stack([key.high, key.low], axis=-1)
        return jax.random.wrap_key_data(key_data, impl="threefry2x32")
    return rng_key


def generator(rng_key: Any) -> np.random.Generator:
    """NumPy's generator, seeded by a key: for draws that are made on the host."""
    return np.random.default_rng(np.asarray(jax.random.key_data(as_jax_key(rng_key))))


def takes_any_key(function: Callable) -> Callable:
    """Mark a function that takes keys of this module besides JAX's own, which would cost a hash."""
    function.takes_any_key = True  # type: ignore[attr-defined]
    return function


def uniform(rng_key: Any, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """Uniform numbers on [0, 1)."""
    return _draw(_uniforms, jax.random.uniform, rng_key, shape, dtype)


def uniform_of_each(keys: Key, count: int, dtype: Any) -> np.ndarray:
    """``uniform`` of keys (n,) that are at hand: the same numbers (n, count), in NumPy."""
    dtype = np.dtype(dtype)
    is_double = dtype == np.float64
    counters = np.arange(count if is_double else (count + 1) // 2, dtype=np.uint32)
    x0, x1 = _threefry(Key(keys.high[:, None], keys.low[:, None], keys.path), counters)
    if is_double:
        joined = (np.uint64(x0) << np.uint64(32)) | np.uint64(x1)
        return (joined >> np.uint64(12)).astype(dtype) * dtype.type(2.0**-52)
    both = np.concatenate([x0, x1], axis=1)[:, :count]
    return (both >> np.uint32(9)).astype(dtype) * dtype.type(2.0**-23)


def normal(rng_key: Any, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """Standard normal numbers."""
    return _draw(_normals, jax.random.normal, rng_key, shape, dtype)


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
    if impl != "threefry2x32":
        return rng_key
    if data.shape != (2,):
        raise ValueError(f"expected one key, got keys of shape {data.shape[:-1]}: use vmap")
    words: Any = np.asarray(data) if is_concrete(data) else data
    return Key(words[0], words[1])


def _threefry(key: Key, counter: Any) -> tuple[Array, Array]:
    """Threefry-2x32-20 of (path, counter): two random words for each counter."""
    path = np.uint32(key.path)
    if isinstance(key.high, _HOST) and isinstance(counter, _HOST):
        with np.errstate(over="ignore"):
            return _rounds(key.high, key.low, path, counter)
    return _hash(key.high, key.low, path, counter)


_NUMPY = (np.add, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)
_LAX = (jax.lax.add, jax.lax.bitwise_or, jax.lax.bitwise_xor, jax.lax.shift_left, jax.lax.shift_right_logical)
"""Operators would do for both, but take longer to trace."""


def _rounds(high: Any, low: Any, path: Any, counter: Any, operations: Any = _NUMPY) -> tuple[Any, Any]:
    add, either, xor, left, right = operations
    schedule = (high, low, xor(xor(high, low), PARITY))
    x0, x1 = add(path, schedule[0]), add(counter, schedule[1])
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = add(x0, x1)
            x1 = xor(either(left(x1, np.uint32(rotation)), right(x1, np.uint32(32 - rotation))), x0)
        x0 = add(x0, schedule[(group + 1) % 3])
        x1 = add(add(x1, schedule[(group + 2) % 3]), np.uint32(group + 1))
    return x0, x1


@jax.jit
def _hash(high: Array, low: Array, path: Array, counter: Array) -> tuple[Array, Array]:
    """Traced once for all the places that hash numbers of one shape, and one function until XLA sees it."""
    high, low, path, counter = jnp.broadcast_arrays(high, low, path, counter)
    return _rounds(high, low, path, counter, _LAX)


def _draw(transform: Callable, otherwise: Callable, rng_key: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    dtype = jnp.dtype(jnp.result_type(dtype))
    key = _as_words(rng_key)
    if not isinstance(key, Key) or dtype not in _FLOATS:
        return otherwise(as_jax_key(rng_key), shape, dtype)
    return _drawer(transform, math.prod(shape), dtype)(key.high, key.low, np.uint32(key.path)).reshape(shape)


@functools.cache
def _drawer(transform: Callable, count: int, dtype: Any) -> Callable:
    """A function from key words (...) and a path to ``count`` numbers each, (..., count); one call under ``vmap`` too.

    It can thus see the whole batch, and cut it into blocks of hashes.
    """
    num_hashes = count if dtype == jnp.float64 else (count + 1) // 2

    def numbers(high: Array, low: Array, path: Array, counters: Array) -> Array:
        hashed = transform(*_hash(high, low, path, counters), dtype)
        return hashed.real if count == 1 else hashed

    def in_order(hashed: Array) -> Array:
        parts = (hashed.real, hashed.imag) if jnp.iscomplexobj(hashed) else (hashed,)
        return jnp.concatenate(parts, axis=-1)[..., :count]

    def at_once(high: Array, low: Array, path: Array) -> Array:
        return in_order(numbers(high[..., None], low[..., None], path, jnp.arange(num_hashes, dtype=jnp.uint32)))

    def in_blocks(high: Array, low: Array, path: Array) -> Array:
        total = high.size * num_hashes
        if total < 2 * MIN_VECTOR:
            return at_once(high, low, path)
        if total <= FEW_HASHES:
            counters = jnp.arange(num_hashes, dtype=jnp.uint32)
            highs, lows, counters = (
                x.reshape(-1) for x in jnp.broadcast_arrays(high[..., None], low[..., None], counters)
            )
            return in_order(numbers(highs, lows, path, counters).reshape(*high.shape, num_hashes))
        # Rows that start at a counter each: those of one key, or single hashes where a key has few of them, or has all.
        row_size = num_hashes if num_hashes >= MIN_VECTOR and high.size > 1 else 1
        starts = jnp.arange(0, num_hashes, row_size, dtype=jnp.uint32)
        rows = [x.reshape(-1) for x in jnp.broadcast_arrays(high[..., None], low[..., None], starts)]
        num_rows = total // row_size
        num_blocks = min(num_rows, max(2, -(-total // BLOCK_SIZE)))
        rows_each = -(-num_rows // num_blocks)
        padding = num_blocks * rows_each - num_rows
        blocks = [jnp.pad(row, (0, padding)).reshape(num_blocks, rows_each, 1) for row in rows]

        def hash_block(block: list[Array]) -> Array:
            high, low, starts = block
            return numbers(high, low, path, starts + jnp.arange(row_size, dtype=jnp.uint32))

        hashed = jax.lax.map(hash_block, blocks).reshape(-1, row_size)[:num_rows]
        return in_order(hashed.reshape(*high.shape, num_hashes))

    @jax.custom_batching.custom_vmap
    @functools.partial(jax.jit, inline=True)  # traced once for all keys of one shape
    def draw(high: Array, low: Array, path: Array) -> Array:
        return (in_blocks if jax.default_backend() == "cpu" else at_once)(high, low, path)  # the same numbers

    @draw.def_vmap
    def _(axis_size: int, in_batched: Any, high: Array, low: Array, path: Array) -> tuple[Array, bool]:
        return draw(*jnp.broadcast_arrays(high, low), path), True

    return draw


# What one hash becomes: in float32 two numbers, as one complex number since XLA would else hash for each of them; in
# float64 one number of both words.

_FLOATS = (jnp.dtype("float32"), jnp.dtype("float64"))


def _uniforms(x0: Array, x1: Array, dtype: Any) -> Array:
    """[0, 1) with as many random bits as the mantissa has."""
    if dtype == jnp.float32:
        return jax.lax.complex(_from_bits(x0 >> np.uint32(9), dtype), _from_bits(x1 >> np.uint32(9), dtype))
    words = (x0.astype(jnp.uint64) << np.uint64(32)) | x1.astype(jnp.uint64)
    return _from_bits(words >> np.uint64(12), dtype)


def _from_bits(mantissa: Array, dtype: Any) -> Array:
    one = np.ones((), dtype)
    return jax.lax.bitcast_convert_type(mantissa | one.view(mantissa.dtype), dtype) - one


def _normals(x0: Array, x1: Array, dtype: Any) -> Array:
    """Box and Muller's pair √(−2 log u) (cos 2πt, sin 2πt) in float32, √2 erf⁻¹ in float64.

    The first, in operations that XLA vectorises, takes a third of the time of its erf⁻¹, and reaches 6.7 where 23 bits
    through erf⁻¹ end at 5.4.
    """
    if dtype == jnp.float64:
        smallest = np.nextafter(-1.0, 0.0)
        return np.sqrt(2) * jax.lax.erf_inv(jnp.maximum(2 * _uniforms(x0, x1, dtype) - 1, smallest))
    u = _signed(x0 >> np.uint32(1)) * np.float32(2**-31) + np.float32(2**-32)  # in (0, 1]
    t = _signed(x1) * np.float32(2**-32)  # in [−½, ½]
    radius, square = jnp.sqrt(-2 * jnp.log(u)), t * t
    sine, cosine = t * _polynomial(_SINE, square), _polynomial(_COSINE, square)  # of πt
    return jax.lax.complex(radius * (1 - 2 * sine * sine), radius * (2 * sine * cosine))


def _signed(word: Array) -> Array:
    return jax.lax.bitcast_convert_type(word, jnp.int32).astype(jnp.float32)


def _polynomial(coefficients: list[np.float32], x: Array) -> Array:
    """By Horner's rule; in scalars, since a custom batching rule may not close over arrays."""
    return functools.reduce(lambda value, coefficient: value * x + coefficient, coefficients)  # type: ignore[arg-type, return-value]


def _even_polynomial(function: Callable, degree: int) -> list[np.float32]:
    """Coefficients in t², highest power first, of Chebyshev's interpolant of an even function on [−½, ½]."""
    fitted = np.polynomial.Chebyshev.interpolate(lambda square: function(np.sqrt(square)), degree, domain=[0, 0.25])
    return list(fitted.convert(kind=np.polynomial.Polynomial).coef[::-1].astype(np.float32))


_SINE = _even_polynomial(lambda t: np.pi * np.sinc(t), 5)  # sin(πt)/t and cos(πt), both to 3e-10
_COSINE = _even_polynomial(lambda t: np.cos(np.pi * t), 5)
