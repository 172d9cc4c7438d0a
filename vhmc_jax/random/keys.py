"""Keys that remember their splits.

``jax.random.split`` hashes for each new key. Here a split only writes down which of the new keys was taken, as one more
digit of a number in base 16, the path. The second key of a split has the path 2, and the first key of a split of that
one has the path 2 · 16 + 1 = 33. The path is the first word of every counter that is hashed, so that keys of different
paths have different streams. The path is a Python integer, and a constant in the compiled program.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.arguments import is_concrete
from vhmc_jax.base import Array, PRNGKey
from vhmc_jax.random.threefry import is_on_host, threefry

MOST_KEYS = 15
"""Keys of one split. Digit 0 is left out: with it, a split of a new key, whose path is 0, would give that key again."""
FULL_PATH = 16**7
"""A path from here on has eight digits, which fill a word of 32 bits."""


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


def split(rng_key: PRNGKey, num: int = 2) -> tuple[Any, ...]:
    """``num`` new keys, at most 15."""
    if not 1 <= num <= MOST_KEYS:
        raise ValueError(f"num must be from 1 to {MOST_KEYS}, got {num}")
    key = with_words(rng_key)
    if not isinstance(key, Key):
        return tuple(jax.random.split(rng_key, num))
    if key.path >= FULL_PATH:
        key = fold_in(key, 0)
    return tuple(Key(key.high, key.low, 16 * key.path + digit) for digit in range(1, num + 1))


def fold_in(rng_key: PRNGKey, number: Any) -> Any:
    """A new key from a key and an integer; for a JAX key the same as ``jax.random.fold_in``."""
    key = with_words(rng_key)
    if not isinstance(key, Key):
        return jax.random.fold_in(rng_key, number)
    if isinstance(number, int):
        number = np.uint32(number)  # raises where it does not fit
    counter = (np if is_concrete(number) else jnp).asarray(number).astype(np.uint32)
    return Key(*threefry(key.high, key.low, key.path, counter))


def fold_in_each(rng_key: PRNGKey, numbers: np.ndarray) -> Any:
    """``fold_in`` with each of these integers: keys with a leading axis."""
    key = with_words(rng_key)
    if not isinstance(key, Key):
        return jax.vmap(jax.random.fold_in, (None, 0))(rng_key, numbers)
    return Key(*threefry(key.high, key.low, key.path, numbers.astype(np.uint32)))


def as_jax_key(rng_key: PRNGKey) -> PRNGKey:
    """The key as ``jax.random`` takes it, for functions that are not ours."""
    if not isinstance(rng_key, Key):
        return rng_key
    key = fold_in(rng_key, np.uint32(0)) if rng_key.path else rng_key
    key_data = (np if is_on_host(key.high) else jnp).stack([key.high, key.low], axis=-1)
    return jax.random.wrap_key_data(key_data, impl="threefry2x32")


def generator(rng_key: PRNGKey) -> np.random.Generator:
    """NumPy's generator, seeded by a key: for draws that are made on the host."""
    return np.random.default_rng(np.asarray(jax.random.key_data(as_jax_key(rng_key))))


def takes_any_key(function: Callable) -> Callable:
    """Mark a function that takes a :class:`Key` too. It is then spared the hash of :func:`as_jax_key`."""
    function.takes_any_key = True  # type: ignore[attr-defined]
    return function


def with_words(rng_key: PRNGKey) -> Any:
    """A Threefry key as a :class:`Key`; a key of another implementation as it is."""
    if isinstance(rng_key, Key):
        return rng_key
    dtype = getattr(rng_key, "dtype", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
        impl, data = jax.random.key_impl(rng_key), jax.random.key_data(rng_key)
    elif dtype == np.uint32:
        impl, data = jax.config.jax_default_prng_impl, rng_key  # type: ignore[attr-defined]
    else:
        what = (
            f"{type(rng_key).__name__}: {rng_key!r}" if dtype is None else f"an array of {dtype}{list(rng_key.shape)}"
        )
        raise TypeError(f"rng_key must be a key, as jax.random.key(0) makes one, got {what}")
    if impl != "threefry2x32":
        return rng_key
    if data.shape != (2,):
        what = f"keys of shape {data.shape[:-1]}" if data.shape[-1:] == (2,) else f"numbers of shape {data.shape}"
        raise ValueError(f"rng_key: expected one key, got {what}: use vmap")
    words: Any = np.asarray(data) if is_concrete(data) else data
    return Key(words[0], words[1])
