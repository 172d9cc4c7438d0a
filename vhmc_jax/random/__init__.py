"""Random numbers for one step of a chain, from any JAX key.

A step of a chain lasts some microseconds. With ``jax.random`` its random numbers would cost more than its gradients,
and the steps of ``benchmarks/tricks.py`` would take three to twelve times as long.

Threefry is a hash function. It maps a key (two words of 32 bits) and a counter (two more words) to two words that look
random. Hashing the counters 0, 1, 2, … gives a stream of random numbers for each key. ``jax.random`` does the same,
with the same hash. This package uses the hash in its own way, one idea a file:

=============  =========================================================================================================
``threefry``   The rounds of the hash are written out one after another. ``jax.random`` loops over them.
``keys``       Splitting a key costs no hash. A key remembers the splits that led to it as a number, its path, and the
               path is the first word of every counter.
``numbers``    Both words of a hash become numbers, uniform or normal. ``jax.random`` makes one word of them.
``batches``    The hashes of many chains are put in an order that XLA vectorises and keeps on one thread.
``draws``      ``uniform``, ``normal`` and ``integer``: the functions to call.
=============  =========================================================================================================

A number depends on its key, on how many are drawn from that key, and on its place among them. It does not depend, up to
rounding, on the other keys of a batch. Keys of another implementation than Threefry are handed to ``jax.random``.

References
----------
Salmon, Moraes, Dror & Shaw (2011), Parallel random numbers: as easy as 1, 2, 3 (Threefry-2x32, 20 rounds).
"""

from vhmc_jax.random.draws import integer, normal, uniform, uniform_of_each
from vhmc_jax.random.keys import Key, as_jax_key, fold_in, fold_in_each, generator, split, takes_any_key

__all__ = [
    "Key",
    "as_jax_key",
    "fold_in",
    "fold_in_each",
    "generator",
    "integer",
    "normal",
    "split",
    "takes_any_key",
    "uniform",
    "uniform_of_each",
]
