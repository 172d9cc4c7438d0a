"""In which order the hashes of a batch are computed.

A program draws a few numbers for each of many chains. On a CPU three things decide how long that takes:

- XLA vectorises a loop over hashes only where the loop is long enough.
- XLA splits a large array of hashes between threads. Waking the threads takes longer than the hashes.
- XLA may compute a short array of hashes again in every place that uses it.

So the hashes of all chains are laid out together, and cut into blocks that one thread computes one after another. The
order changes no number. Other devices compute all hashes at once.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vhmc_jax.base import Array
from vhmc_jax.random import numbers, threefry

BLOCK_SIZE = 512
"""Hashes of one block. XLA splits longer arrays between threads, from about 1,000 hashes on. Doubled or halved, steps
of ``lhmc`` in ``benchmarks/tricks.py`` take the same time within 6 %."""
FEW_HASHES = 64
"""Up to so many hashes are computed without blocks. Should XLA compute them again in several places, that costs less
than a loop over blocks. Three normal vectors for each of 32 chains, 96 hashes, took 9 µs without blocks; those for 64
chains took 5 µs with blocks. Doubled, a step of ``vhmc`` takes up to 1.3 times as long, halved, up to 1.7 times."""
MIN_VECTOR = 16
"""With fewer hashes than this for each key, XLA does not vectorise an array of (keys, hashes). It vectorises the same
hashes in one long row. Doubled or halved, steps of ``lhmc`` take the same time within 2 %."""


@functools.cache
def drawer(transform: Callable, count: int, dtype: Any) -> Callable:
    """A function from the words of keys (...) and a path to ``count`` numbers for each key, (..., count).

    Under ``vmap`` it is still called once, with the keys of all lanes, so that it sees the whole batch.

    Parameters
    ----------
    transform
        What the words of a hash become, a function of ``numbers``.
    count
        Numbers for each key.
    dtype
        float32 or float64.
    """
    stream = Stream(transform, count, dtype)

    @jax.custom_batching.custom_vmap
    @functools.partial(jax.jit, inline=True)  # traced once for all keys of one shape
    def draw(high: Array, low: Array, path: Array) -> Array:
        return (stream.on_cpu if jax.default_backend() == "cpu" else stream.at_once)(high, low, path)

    @draw.def_vmap
    def _(axis_size: int, in_batched: Any, high: Array, low: Array, path: Array) -> tuple[Array, bool]:
        return draw(*jnp.broadcast_arrays(high, low), path), True

    return draw


@dataclass(frozen=True)
class Stream:
    """The first numbers of the stream of each key; every method gives the same ones.

    Attributes
    ----------
    transform
        What the words of a hash become.
    count
        Numbers for each key.
    dtype
        float32 or float64.
    """

    transform: Callable
    count: int
    dtype: Any

    @property
    def num_hashes(self) -> int:
        """Hashes for each key."""
        return numbers.num_hashes(self.count, self.dtype)

    def on_cpu(self, high: Array, low: Array, path: Array) -> Array:
        """In the order that is fastest on a CPU."""
        total = high.size * self.num_hashes
        if total < 2 * MIN_VECTOR:
            return self.at_once(high, low, path)
        if total <= FEW_HASHES:
            return self.in_one_row(high, low, path)
        return self.in_blocks(high, low, path)

    def at_once(self, high: Array, low: Array, path: Array) -> Array:
        """As an array of (keys, hashes)."""
        return self._in_order(self._hashed(high[..., None], low[..., None], path, self._counters()))

    def in_one_row(self, high: Array, low: Array, path: Array) -> Array:
        """As one long row, the hashes of one key after those of another."""
        highs, lows, counters = _rows(high, low, self._counters())
        return self._in_order(self._hashed(highs, lows, path, counters).reshape(*high.shape, self.num_hashes))

    def in_blocks(self, high: Array, low: Array, path: Array) -> Array:
        """In blocks of about ``BLOCK_SIZE`` hashes, one after another.

        A block consists of rows. A row has all hashes of one key, where there are many keys with many hashes each;
        otherwise it has one hash.
        """
        total = high.size * self.num_hashes
        row_size = self.num_hashes if self.num_hashes >= MIN_VECTOR and high.size > 1 else 1
        rows = _rows(high, low, self._counters(row_size))  # key and first counter of each row
        num_rows = total // row_size
        num_blocks = min(num_rows, max(2, -(-total // BLOCK_SIZE)))
        rows_each = -(-num_rows // num_blocks)
        padding = num_blocks * rows_each - num_rows
        blocks = [jnp.pad(row, (0, padding)).reshape(num_blocks, rows_each, 1) for row in rows]

        def hash_block(block: list[Array]) -> Array:
            high, low, starts = block
            return self._hashed(high, low, path, starts + jnp.arange(row_size, dtype=jnp.uint32))

        hashed = jax.lax.map(hash_block, blocks).reshape(-1, row_size)[:num_rows]
        return self._in_order(hashed.reshape(*high.shape, self.num_hashes))

    def _counters(self, step: int = 1) -> Array:
        return jnp.arange(0, self.num_hashes, step, dtype=jnp.uint32)

    def _hashed(self, high: Array, low: Array, path: Array, counters: Array) -> Array:
        """The numbers of each hash: one, or two as a complex number."""
        hashed = self.transform(*threefry.hash_traced(high, low, path, counters), self.dtype)
        return hashed.real if self.count == 1 else hashed

    def _in_order(self, hashed: Array) -> Array:
        """Those of the first words, then those of the second words."""
        parts = (hashed.real, hashed.imag) if jnp.iscomplexobj(hashed) else (hashed,)
        return jnp.concatenate(parts, axis=-1)[..., : self.count]


def _rows(high: Array, low: Array, counters: Array) -> list[Array]:
    """Each counter with each key, as flat arrays."""
    return [x.reshape(-1) for x in jnp.broadcast_arrays(high[..., None], low[..., None], counters)]
