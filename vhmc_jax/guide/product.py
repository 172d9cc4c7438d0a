"""A product of small mixtures, each over a block of coordinates of its own.

Where ambiguities are nearly independent of each other (wells, signs, phases), a mixture over all coordinates needs a
component for each of their combinations: 2¹⁶ for sixteen signs. A product needs the sum, two for each sign.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import is_concrete
from vhmc_jax.base import Array
from vhmc_jax.guide.host import HostMixture
from vhmc_jax.guide.mixture import Mixture
from vhmc_jax.guide.prepared_product import PreparedProduct, prepare


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class ProductMixture:
    r"""A guide that is a product over disjoint blocks of coordinates, each block a mixture.

    .. math:: q(x) = \prod_B q_B(x_B)

    It has no components that could be listed, so it does not tell modes apart: the infos of whole jumps say −1, and a
    mode report needs labels or centres.

    Parameters
    ----------
    blocks
        The coordinates of each block, integers. Each coordinate of the flat vector is in one of them.
    mixtures
        A ``GaussianMixture`` or a ``StudentTMixture`` for each block, over as many coordinates as the block has, in
        the block's order. All have the same dtype. They may differ in their numbers of components.

    Examples
    --------
    Two signs that are independent, in four modes:

    >>> import jax.numpy as jnp
    >>> import vhmc_jax as vj
    >>> sign = vj.GaussianMixture(jnp.zeros(2), jnp.array([[-3.0], [3.0]]), jnp.ones((2, 1, 1)))
    >>> guide = vj.ProductMixture([[0], [1]], [sign, sign])
    >>> guide.num_blocks, guide.dim
    (2, 2)
    """

    blocks: Any
    mixtures: Any

    def __post_init__(self) -> None:
        self._set(blocks=_as_partition(self.blocks), mixtures=tuple(self.mixtures))
        _require_mixtures(self.blocks, self.mixtures)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The parameters of the mixtures are the leaves; the blocks are part of the structure."""
        return self.mixtures, self.blocks

    @classmethod
    def tree_unflatten(cls, blocks: Any, mixtures: Any) -> Self:
        """Rebuild without validation: the leaves may be anything that a transformation puts there."""
        product = object.__new__(cls)
        product._set(blocks=blocks, mixtures=tuple(mixtures))
        return product

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @property
    def dim(self) -> int:
        """Dimension d."""
        return sum(len(block) for block in self.blocks)

    @property
    def block_of(self) -> np.ndarray:
        """Number of the block of each coordinate, shape (d,)."""
        numbers = np.empty(self.dim, np.int32)
        for number, block in enumerate(self.blocks):
            numbers[list(block)] = number
        return numbers

    def prepared(self) -> PreparedProduct:
        """The product with what does not depend on x computed ahead, for programs that evaluate it many times."""
        if not is_concrete(self):
            return prepare(self.blocks, self.mixtures)
        if "_known" not in self.__dict__:
            self._set(_known=prepare(self.blocks, self.mixtures))
        return self.__dict__["_known"]

    def on_host(self) -> "HostProduct":
        """The same in NumPy, for many points at once; not for traced arrays."""
        return HostProduct(self.blocks, [mixture.on_host() for mixture in self.mixtures])

    @random.takes_any_key
    def sample(self, rng_key: Array) -> Array:
        """One draw, a vector of length d in the dtype of the means."""
        return self.prepared().sample(rng_key)

    def block_log_probs(self, x: Array) -> Array:
        """Normalised log density of each block's coordinates of x; shape (num_blocks,)."""
        return self.prepared().block_log_probs(x)

    def log_prob(self, x: Array) -> Array:
        """Normalised log density at x, a scalar in the dtype of the means."""
        return self.prepared().log_prob(x)


class ProductValues(NamedTuple):
    """A product of mixtures at n points.

    Attributes
    ----------
    log_prob
        Log density, shape (n,).
    block_log_probs
        Log density of each block's coordinates, shape (n, num_blocks).
    """

    log_prob: np.ndarray
    block_log_probs: np.ndarray


class HostProduct:
    """Draws and densities of a product of mixtures.

    Parameters
    ----------
    blocks
        The coordinates of each block.
    mixtures
        The mixture of each block.
    """

    def __init__(self, blocks: Sequence[Sequence[int]], mixtures: Sequence[HostMixture]):
        self._parts = [(list(block), mixture) for block, mixture in zip(blocks, mixtures, strict=True)]

    def sample(self, generator: np.random.Generator, num_draws: int) -> np.ndarray:
        """Draws, shape (n, d)."""
        draws = np.empty((num_draws, sum(len(block) for block, _ in self._parts)))
        for block, mixture in self._parts:
            draws[:, block] = mixture.sample(generator, num_draws)
        return draws

    def at(self, x: np.ndarray) -> ProductValues:
        """Log densities at points (n, d)."""
        values = np.stack([mixture.at(x[:, block]).log_prob for block, mixture in self._parts], axis=1)
        return ProductValues(values.sum(axis=1), values)


def _as_partition(blocks: Any) -> tuple[tuple[int, ...], ...]:
    """Blocks as tuples of integers that hold each of the coordinates 0, …, d − 1 once."""
    arrays = [np.asarray(block) for block in blocks]
    if not arrays:
        raise ValueError("blocks must be at least one list of coordinates, got none")
    for number, block in enumerate(arrays):
        if block.ndim != 1 or block.size == 0 or block.dtype.kind not in "iu":
            raise ValueError(f"blocks[{number}] must be a list of coordinates, integers, got {blocks[number]!r}")
    values, counts = np.unique(np.concatenate(arrays), return_counts=True)
    if values[0] < 0:
        raise ValueError(f"blocks must hold coordinates from 0 on, got {values[0]}")
    if np.any(counts > 1):
        raise ValueError(f"blocks must be disjoint, got coordinate {values[counts > 1][0]} more than once")
    left_out = np.setdiff1d(np.arange(values[-1]), values)
    if left_out.size:
        raise ValueError(
            f"blocks must leave no coordinate out, got coordinates up to {values[-1]} without {left_out[0]}"
        )
    return tuple(tuple(block.tolist()) for block in arrays)


def _require_mixtures(blocks: tuple[tuple[int, ...], ...], mixtures: tuple[Any, ...]) -> None:
    """Raise unless there is a mixture for each block, and all have one dtype."""
    if len(mixtures) != len(blocks):
        raise ValueError(f"mixtures must be one for each of the {len(blocks)} blocks, got {len(mixtures)}")
    for number, (block, mixture) in enumerate(zip(blocks, mixtures, strict=True)):
        if not isinstance(mixture, Mixture):
            raise TypeError(
                f"mixtures[{number}] must be a GaussianMixture or a StudentTMixture, got {type(mixture).__name__}"
            )
        if mixture.dim != len(block):
            raise ValueError(
                f"mixtures[{number}] must have dimension {len(block)}, as blocks[{number}] has, got {mixture.dim}"
            )
    if len(dtypes := {mixture.means.dtype.name for mixture in mixtures}) > 1:
        raise ValueError(f"mixtures must have one dtype, got {', '.join(sorted(dtypes))}")
