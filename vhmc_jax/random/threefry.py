"""The hash Threefry-2x32 with 20 rounds: a key and a counter, two words each, become two random words.

A round adds one word to the other, rotates that one, and mixes them by an exclusive or. After every four rounds the
key is added again.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""By how many bits each round rotates: the first four, the next four, and these in turn."""
PARITY = np.uint32(0x1BD11BDA)
"""A constant of Threefry, which makes a third word of the key's two."""

NUMPY = (np.add, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)
LAX = (jax.lax.add, jax.lax.bitwise_or, jax.lax.bitwise_xor, jax.lax.shift_left, jax.lax.shift_right_logical)
"""The same operations for traced words. Python's operators would serve for both, but take longer to trace."""


def is_on_host(word: Any) -> bool:
    """Whether a word is NumPy's. Such words are hashed in NumPy: for a few of them JAX would compile a program."""
    return isinstance(word, np.ndarray | np.generic)


def threefry(high: Any, low: Any, path: int, counter: Any) -> tuple[Any, Any]:
    """Two random words for each counter.

    Parameters
    ----------
    high, low
        The words of the key.
    path
        The first word of the counter: the same for all numbers of a stream.
    counter
        The second word: which number of the stream.

    Returns
    -------
    Two words, of the shape that key and counter broadcast to.
    """
    if is_on_host(high) and is_on_host(counter):
        with np.errstate(over="ignore"):
            return rounds(high, low, np.uint32(path), counter, NUMPY)
    return hash_traced(high, low, np.uint32(path), counter)


@jax.jit
def hash_traced(high: Array, low: Array, path: Array, counter: Array) -> tuple[Array, Array]:
    """The hash of traced words: one function, traced once for all the places that hash words of one shape."""
    high, low, path, counter = jnp.broadcast_arrays(high, low, path, counter)
    return rounds(high, low, path, counter, LAX)


def rounds(high: Any, low: Any, path: Any, counter: Any, operations: Any) -> tuple[Any, Any]:
    """All 20 rounds, in five groups of four, with the operations of NumPy or of LAX."""
    add, either, xor, left, right = operations
    schedule = (high, low, xor(xor(high, low), PARITY))
    x0, x1 = add(path, schedule[0]), add(counter, schedule[1])
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = add(x0, x1)
            rotated = either(left(x1, np.uint32(rotation)), right(x1, np.uint32(32 - rotation)))
            x1 = xor(rotated, x0)
        x0 = add(x0, schedule[(group + 1) % 3])
        x1 = add(add(x1, schedule[(group + 2) % 3]), np.uint32(group + 1))
    return x0, x1
