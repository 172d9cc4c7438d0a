"""Blocks of coordinates that are independent of each other, and a product of mixtures over them.

Whether coordinates i and j belong together is asked of the density itself. Where they are independent given the others,
log π is a sum of a function without i and one without j, so that its mixed difference vanishes:

    Δ_ij = log π(x with i and j of y) − log π(x with i of y) − log π(x with j of y) + log π(x) = 0,

wherever x and y are. Draws would tell less: particles that share ancestors are alike in all coordinates. Coordinates
that are linked by others are in one block.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_count
from vhmc_jax.base import Array
from vhmc_jax.fit.em import fit_mixture, is_held_out
from vhmc_jax.fit.pool import values_of
from vhmc_jax.fit.shrinkage import GaussianFit
from vhmc_jax.guide import GaussianMixture, ProductMixture

WEAK = 0.1
"""Mixed difference, in nats, of a pair that counts as independent. A jump then loses a tenth of its acceptance."""
ROUNDING = 8.0
"""The same in units of the rounding of the log densities that it is made of."""
MANY_VALUES, LEAST_PLACES, MOST_PLACES = 20_000, 2, 8
"""Density values spent, and pairs of draws at which the differences are taken: as many as that allows."""
MOST_DIMENSIONS = 256
"""With more there are too many pairs."""
DRAWS_PER_DIMENSION = 3
"""Draws that a component needs for each of its dimensions."""


class Blocks(NamedTuple):
    """A partition of the coordinates.

    Attributes
    ----------
    blocks
        The coordinates of each block, in increasing order; the blocks in the order of their first coordinates.
    is_small
        Whether none of them has more coordinates than was allowed.
    """

    blocks: tuple[tuple[int, ...], ...]
    is_small: bool


def find_blocks(
    density: Callable,
    draws: np.ndarray,
    generator: np.random.Generator,
    *,
    centres: np.ndarray | None = None,
    max_size: int = 16,
) -> tuple[Blocks, int]:
    """Groups of coordinates that depend on each other.

    Parameters
    ----------
    density
        Log density of a flat vector, a pytree.
    draws
        Places where it matters, shape (n, d).
    generator
        NumPy's, chooses among them.
    centres
        Further places, shape (m, d), at which every second difference is taken: modes, for instance. Far away from a
        narrow mode nothing tells of it.
    max_size
        Most coordinates of a block.

    Returns
    -------
    The blocks, and the density values that it took to find them.
    """
    max_size, dim = as_count("max_size", max_size, 1), draws.shape[1]
    if len(draws) < 2 or dim < 2 or dim > MOST_DIMENSIONS:
        return Blocks((tuple(range(dim)),), dim <= max_size), 0
    first, second = np.triu_indices(dim, 1)
    number = int(np.clip(MANY_VALUES // len(first), LEAST_PLACES, MOST_PLACES))
    is_linked, num_values = np.zeros(len(first), bool), 0
    for place in range(number):
        x, y = draws[generator.choice(len(draws), 2, replace=False)]
        if centres is not None and place % 2:
            x = centres[generator.choice(len(centres))]
        ones = np.where(np.eye(dim, dtype=bool), y, x)
        pairs = ones[first]
        pairs[np.arange(len(first)), second] = y[second]
        points = np.concatenate([x[None], ones, pairs])
        values = values_of(density, points)
        here, one, both = values[0], values[1 : dim + 1], values[dim + 1 :]
        with np.errstate(invalid="ignore"):
            differences = np.abs((both - one[first]) - (one[second] - here))
            size = np.max(np.abs([both, one[first], one[second], np.full(len(first), here)]), axis=0)
            is_linked |= ~(differences < WEAK + ROUNDING * np.finfo(draws.dtype).eps * size)
        num_values += len(points)
    block_of = np.arange(dim)
    for i, j in zip(first[is_linked], second[is_linked], strict=True):
        block_of[block_of == block_of[j]] = block_of[i]
    blocks = sorted(tuple(np.flatnonzero(block_of == number).tolist()) for number in np.unique(block_of))
    return Blocks(tuple(blocks), max(map(len, blocks)) <= max_size), num_values


class ProductFit(NamedTuple):
    """A product of mixtures for some draws.

    Attributes
    ----------
    guide
        The product.
    held_out
        Mean log density of a held-out draw. With all coordinates in one block it is that of one mixture, for
        comparison.
    num_components
        Of each block.
    """

    guide: ProductMixture
    held_out: float
    num_components: tuple[int, ...]


def fit_product(
    rng_key: Array,
    draws: Any,
    blocks: Sequence[Sequence[int]],
    *,
    weights: Any = None,
    effective_size: float | None = None,
    max_components: int = 8,
) -> ProductFit:
    """A mixture of as many Gaussians as the draws support for each block.

    Parameters
    ----------
    rng_key
        Draws the first means.
    draws
        Shape (n, d), in the dtype that the guide is to have. Chain by chain in the order in which they were drawn:
        blocks of neighbours are held out.
    blocks
        The coordinates of each block, from ``find_blocks``, or all of them in one.
    weights
        Shape (n,), not negative. By default all are alike.
    effective_size
        Number of independent draws that these are worth; by default their number, or Kish's for weighted ones.
    max_components
        Most components of a block.

    Returns
    -------
    The guide, with its held-out likelihood.
    """
    max_components, dtype = as_count("max_components", max_components, 1), np.asarray(draws).dtype
    draws, weights, size = _checked(draws, weights, effective_size)
    if (num_coordinates := sum(len(block) for block in blocks)) != draws.shape[1]:
        raise ValueError(f"blocks must hold each of the {draws.shape[1]} coordinates of draws, got {num_coordinates}")
    # The frame of a fit must not have seen what is held out: in many dimensions that alone would seem to be a gain.
    training = np.where(is_held_out(len(draws)), 0.0, weights)
    mixtures, held_out = [], 0.0
    for number, block in enumerate(blocks):
        x = draws[:, list(block)]
        frame = moments_of(x, training)
        most = int(min(max_components, max(1, size // (DRAWS_PER_DIMENSION * len(block)))))
        key = random.as_jax_key(random.fold_in(rng_key, number))
        found = fit_mixture(key, x, frame, effective_size=size, weights=len(x) * weights, max_components=most)
        held_out += found.held_out[found.num_components] - float(np.log(np.diagonal(frame.scale_tril)).sum())
        parts = found.mixture.log_weights, found.mixture.means, found.mixture.scale_trils
        if found.num_components == 1:
            one = moments_of(x, weights)
            parts = np.zeros(1), one.mean[None], one.scale_tril[None]
        mixtures.append(GaussianMixture(*(np.asarray(part, dtype) for part in parts)))
    return ProductFit(ProductMixture(blocks, mixtures), held_out, tuple(mixture.num_components for mixture in mixtures))


def moments_of(x: np.ndarray, weights: np.ndarray) -> GaussianFit:
    """The Gaussian with the mean and the covariance of weighted draws, correlations shrunk by d draws without any."""
    dim, weights = x.shape[1], weights / weights.sum()
    num = 1 / np.sum(weights**2)
    mean = weights @ x
    variances = np.maximum(weights @ (x - mean) ** 2, 1e-12 * np.maximum(weights @ x**2, 1e-30))
    scales = np.sqrt(variances)
    white = (x - mean) / scales
    correlations = (num * (weights * white.T) @ white + dim * np.eye(dim)) / (num + dim)
    return GaussianFit(mean, scales[:, None] * np.linalg.cholesky(correlations), np.ones(()), np.zeros(()))


def _checked(draws: Any, weights: Any, effective_size: float | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Draws in double precision, weights that sum to one, and the number of independent draws."""
    draws = np.asarray(draws, np.float64)
    if draws.ndim != 2 or 0 in draws.shape:
        raise ValueError(f"draws must have shape (n, d), got {draws.shape}")
    if not np.all(np.isfinite(draws)):
        raise ValueError("draws must be finite, got some that are not")
    weights = np.ones(len(draws)) if weights is None else np.asarray(weights, np.float64)
    if (
        weights.shape != (len(draws),)
        or not np.all(weights >= 0)
        or not np.isfinite(weights.sum())
        or not weights.any()
    ):
        raise ValueError(f"weights must be {len(draws)} numbers that are not negative, one for each draw")
    weights = weights / weights.sum()
    size = 1 / np.sum(weights**2)
    return draws, weights, float(size if effective_size is None else min(effective_size, size))
