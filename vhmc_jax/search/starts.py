"""Where the search for modes starts: given points, or a sampler that covers the region."""

import functools
from collections.abc import Callable, Iterator

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_position, describe, is_concrete
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.programs import SOON_COMPILED, program

BLOCK = 512
"""Starts that climb together in one compiled program."""

MAX_STARTS = 16_384
"""Most starts where their number is left open."""


def box(low: PyTree, high: PyTree) -> Callable:
    """A sampler of starting points, uniform between ``low`` and ``high``.

    Parameters
    ----------
    low, high
        Positions (pytrees of floating arrays, of one structure) with ``low < high`` in every coordinate.

    Returns
    -------
    A function rng_key → position.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> vj.box(jax.numpy.zeros(2), jax.numpy.ones(2))(jax.random.key(0)).shape
    (2,)
    """
    low, high = as_position(low, "low"), as_position(high, "high")
    if describe(low) != describe(high):
        raise ValueError(f"low and high must be alike, got {describe(low)} and {describe(high)}")
    if is_concrete(low, high):
        widths = [np.asarray(b) - np.asarray(a) for a, b in zip(*map(jax.tree.leaves, (low, high)), strict=True)]
        if not all(np.all((width > 0) & np.isfinite(width)) for width in widths):
            raise ValueError(f"low must be below high and both finite in every coordinate, got {low} and {high}")
    return Partial(_uniform, low, high)


def _uniform(low: PyTree, high: PyTree, rng_key: Array) -> PyTree:
    flat_low, unravel = ravel_pytree(low)
    width = ravel_pytree(high)[0] - flat_low
    return unravel(flat_low + width * random.uniform(rng_key, flat_low.shape, flat_low.dtype))


def _ends_of_box(sampler: Callable) -> tuple[PyTree, PyTree] | None:
    """``low`` and ``high`` of a :func:`box`; None of any other sampler."""
    return sampler.args if isinstance(sampler, Partial) and sampler.func is _uniform else None


class Starts:
    """The starting points as flat vectors, in blocks of one size.

    Parameters
    ----------
    rng_key
        Start i is drawn with the key ``fold_in(rng_key, i)``.
    initial_positions
        Positions with a leading axis, or a function rng_key → position.
    num_starts
        How many to draw; None leaves the number open. Not for given positions.
    """

    def __init__(self, rng_key: Array, initial_positions: PyTree | Callable, num_starts: int | None):
        self._rng_key = rng_key
        self._sampler = as_pytree_function(initial_positions) if callable(initial_positions) else None
        if self._sampler is not None:
            ends = _ends_of_box(self._sampler)
            shape = jax.eval_shape(self._sampler, rng_key) if ends is None else ends[0]  # a box needs no tracing
            self.template = as_position(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shape))
            self.total = None if num_starts is None else as_count("num_starts", num_starts, 1)
            return
        positions = as_position(initial_positions, "initial_positions")
        lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(positions)}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(
                "initial_positions must have the starts on a leading axis of one length, or be a function "
                f"rng_key -> position, got {describe(positions)}"
            )
        self.total = lengths.pop()
        if num_starts not in (None, self.total):
            raise ValueError(f"num_starts must be left out or {self.total} for given starts, got {num_starts}")
        self.template = jax.tree.map(lambda leaf: leaf[0], positions)
        self._given = jax.vmap(lambda position: ravel_pytree(position)[0])(positions)

    @property
    def is_open(self) -> bool:
        """Whether the caller decides how many are enough."""
        return self.total is None

    def blocks(self) -> Iterator[tuple[Array, int]]:
        """Blocks of shape (b, d), and how many of each count: the last may be filled up with repetitions."""
        total = MAX_STARTS if self.total is None else self.total
        size = -(-total // -(-total // BLOCK))
        for first in range(0, total, size):
            numbers = np.minimum(np.arange(first, first + size), total - 1).astype(np.int32)
            if self._sampler is None:
                yield self._given[numbers], min(size, total - first)
            else:
                yield draw(self._sampler, self._rng_key, numbers), min(size, total - first)


def draw(sampler: Callable, rng_key: Array, numbers: np.ndarray) -> Array:
    """Starts of these numbers, flat, shape (n, d). Those of a box need no program."""
    ends = _ends_of_box(sampler)
    if ends is not None and is_concrete(ends, rng_key):
        keys = random.fold_in_each(rng_key, numbers)
        low, high = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(end)]) for end in ends)
        if isinstance(keys, random.Key) and low.dtype in (np.float32, np.float64):
            return low + (high - low) * random.uniform_of_each(keys, len(low), low.dtype)
    return _draw(sampler, rng_key, numbers)


@functools.partial(program, options=SOON_COMPILED)
def _draw(sampler: Callable, rng_key: Array, numbers: Array) -> Array:
    def start(number: Array) -> Array:
        return ravel_pytree(sampler(random.as_jax_key(random.fold_in(rng_key, number))))[0]

    return jax.vmap(start)(numbers)
