"""The region that is searched for modes: a box, another sampler of starts, or the starts themselves."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_position, describe, is_concrete
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.programs import SOON_COMPILED, program

BLOCK = 512
"""Starts that climb together in one compiled program."""

MAX_STARTS = 16_384
"""Most starts that are drawn where their number is left open."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Box:
    """A box of positions. Called with a key, it draws one position uniformly.

    Attributes
    ----------
    low, high
        Its corners: positions of one structure, with ``low < high`` in every coordinate.
    """

    low: PyTree
    high: PyTree

    def __call__(self, rng_key: Array) -> PyTree:
        """Draw one position."""
        low, unravel = ravel_pytree(self.low)
        width = ravel_pytree(self.high)[0] - low
        return unravel(low + width * random.uniform(rng_key, low.shape, low.dtype))

    def log_prob(self, position: PyTree) -> Array:
        """Log density of the uniform distribution on the box: −∞ outside, and for NaN."""
        low, high, x = (ravel_pytree(tree)[0] for tree in (self.low, self.high, position))
        is_inside = jnp.all((x >= low) & (x <= high))
        return jnp.where(is_inside, -jnp.sum(jnp.log(high - low)), -jnp.inf)


def box(low: PyTree, high: PyTree) -> Box:
    """A box between two corners, checked.

    Parameters
    ----------
    low, high
        Positions (pytrees of floating arrays, of one structure) with ``low < high`` in every coordinate. A list of
        numbers is one array.

    Returns
    -------
    A function rng_key → position that draws uniformly; its ``log_prob`` is the density.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> region = vj.box(jax.numpy.zeros(2), jax.numpy.full(2, 2.0))
    >>> region(jax.random.key(0)).shape
    (2,)
    >>> f"{region.log_prob(jax.numpy.ones(2)):.3f}"
    '-1.386'
    """
    low, high = as_position(_lists_as_arrays(low), "low"), as_position(_lists_as_arrays(high), "high")
    if describe(low) != describe(high):
        raise ValueError(f"low and high must be alike, got {describe(low)} and {describe(high)}")
    if is_concrete(low, high):
        widths = [np.asarray(b) - np.asarray(a) for a, b in zip(*map(jax.tree.leaves, (low, high)), strict=True)]
        if not all(np.all((width > 0) & np.isfinite(width)) for width in widths):
            raise ValueError(f"low must be below high and both finite in every coordinate, got {low} and {high}")
    return Box(low, high)


def _lists_as_arrays(corner: PyTree) -> PyTree:
    """A corner with lists of numbers as arrays: JAX would take each number for an array of its own."""

    def is_list(node: Any) -> bool:
        return isinstance(node, list) and all(isinstance(entry, int | float) or is_list(entry) for entry in node)

    return jax.tree.map(lambda node: np.asarray(node, float) if is_list(node) else node, corner, is_leaf=is_list)


class Starts:
    """The starting points as flat vectors, in blocks of one size.

    Parameters
    ----------
    rng_key
        Start i is drawn with the key ``fold_in(rng_key, i)``.
    region
        Positions with a leading axis, or a function rng_key → position.
    num_starts
        How many starts to draw. None leaves the number open. Must be left out where positions are given.
    """

    def __init__(self, rng_key: Array, region: PyTree | Callable, num_starts: int | None):
        self._rng_key = rng_key
        self._sampler = as_pytree_function(region) if callable(region) else None
        if self._sampler is not None:
            # A corner of a box has the shapes; any other sampler is traced for them.
            like = region.low if isinstance(region, Box) else _shapes_of(self._sampler, rng_key)
            self.template = as_position(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like))
            self.total = None if num_starts is None else as_count("num_starts", num_starts, 1)
            require_precision(self.template)
            return
        expected = "region must be vj.box(low, high), a function rng_key -> position, or starts on a leading axis"
        if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(region)):
            raise ValueError(f"{expected}, got {region!r}")
        positions = as_position(region, "region")
        lengths = {leaf.shape[0] for leaf in jax.tree.leaves(positions)}
        if len(lengths) != 1:
            raise ValueError(f"{expected} of one length, got {describe(positions)}")
        self.total = lengths.pop()
        if num_starts not in (None, self.total):
            raise ValueError(f"num_starts must be left out or {self.total} for given starts, got {num_starts}")
        self.template = jax.tree.map(lambda leaf: leaf[0], positions)
        require_precision(self.template)
        self._given = jax.vmap(lambda position: ravel_pytree(position)[0])(positions)

    @property
    def dtype(self) -> Any:
        """Dtype of the flat starts."""
        return jnp.result_type(*jax.tree.leaves(self.template))

    @property
    def is_open(self) -> bool:
        """Whether the caller decides how many are enough."""
        return self.total is None

    def blocks(self) -> Iterator[tuple[Array, int]]:
        """Blocks of shape (b, d), each with the number of rows that count. The rest repeats the last start."""
        total = MAX_STARTS if self.total is None else self.total
        size = -(-total // -(-total // BLOCK))
        for first in range(0, total, size):
            numbers = np.minimum(np.arange(first, first + size), total - 1).astype(np.int32)
            if self._sampler is None:
                yield self._given[numbers], min(size, total - first)
            else:
                yield draw(self._sampler, self._rng_key, numbers), min(size, total - first)


def _shapes_of(sampler: Callable, rng_key: Array) -> PyTree:
    """Shapes and dtypes of the positions that it draws."""
    try:
        return jax.eval_shape(sampler, rng_key)
    except Exception as error:
        error.add_note("region is called with one key, and returns a position. The log density goes before it.")
        raise


def require_precision(template: PyTree) -> None:
    """Raise where positions are of less than single precision: a search could not tell a peak from rounding."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(template):
        if leaf.dtype not in (np.float32, np.float64):
            where = f"region{jax.tree_util.keystr(path)}"
            raise TypeError(f"{where} must be of float32 or float64 to be searched, got {leaf.dtype}")


def padded_blocks(rows: np.ndarray, size: int) -> Iterator[tuple[Any, int]]:
    """Blocks of so many rows, each with the number of rows that count. The rest repeats the last one."""
    for first in range(0, len(rows), size):
        count = min(size, len(rows) - first)
        yield rows[np.minimum(np.arange(first, first + size), len(rows) - 1)], count


def dimension_of(region: PyTree | Callable) -> int:
    """Length of a flat position of a region."""
    template = Starts(jax.random.key(0), region, None).template
    return sum(np.size(leaf) for leaf in jax.tree.leaves(template))


def draw(sampler: Callable, rng_key: Array, numbers: np.ndarray) -> Array:
    """Starts of these numbers, flat, shape (n, d). The draws of a box are made with NumPy: nothing is compiled."""
    if isinstance(sampler, Box) and is_concrete(sampler, rng_key):
        keys = random.fold_in_each(rng_key, numbers)
        corners = sampler.low, sampler.high
        low, high = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(corner)]) for corner in corners)
        if isinstance(keys, random.Key) and low.dtype in (np.float32, np.float64):
            return low + (high - low) * random.uniform_of_each(keys, len(low), low.dtype)
    return _draw(sampler, rng_key, numbers)


@functools.partial(program, options=SOON_COMPILED)
def _draw(sampler: Callable, rng_key: Array, numbers: Array) -> Array:
    def start(number: Array) -> Array:
        return ravel_pytree(sampler(random.as_jax_key(random.fold_in(rng_key, number))))[0]

    return jax.vmap(start)(numbers)
