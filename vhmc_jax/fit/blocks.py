"""Blocks of coordinates that are nearly independent of each other, and a product of mixtures over them.

Pairs of coordinates are tested for dependence of any smooth kind. Dependent ones belong to one block, and so do those
that are linked by others. Everything runs in NumPy: JAX would compile for longer.

Notation: n draws, u the ranks of a coordinate scaled to (0, 1), φ_a the orthonormal Legendre polynomials there. Under
independence n Σ_ab (mean φ_a(u_i) φ_b(u_j))² over p polynomials each has the χ² law with p² degrees of freedom. With
p = 1 it is Spearman's test. A banana, whose coordinates are not correlated, shows in φ_2(u_i) φ_1(u_j).

References
----------
.. [1] W. C. M. Kallenberg and T. Ledwina, Data-driven rank tests for independence, Journal of the American Statistical
   Association 94, 1999.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from vhmc_jax import random
from vhmc_jax.arguments import as_count
from vhmc_jax.base import Array
from vhmc_jax.fit.em import fit_mixture, is_held_out
from vhmc_jax.fit.shrinkage import GaussianFit
from vhmc_jax.guide import GaussianMixture, ProductMixture

DEGREES = (1, 4)
"""Numbers of polynomials: the first sees weak dependence that is monotone, the second dependence of other kinds."""
LEVEL = 0.01
"""Probability that any two coordinates of independent ones are linked."""
LEAST_INFORMATION = 0.01
"""Mutual information, in nats, of a pair that is linked. It is that of two Gaussians with a correlation of 0.14. From
about 1,000 independent draws on it is this that decides, and not the level of the test."""
DRAWS_PER_DIMENSION = 3
"""Draws that a component needs for each of its dimensions."""


class Blocks(NamedTuple):
    """A partition of the coordinates.

    Attributes
    ----------
    blocks
        The coordinates of each block, in increasing order; the blocks in the order of their first coordinates.
    is_separated
        Whether no link leads from one block to another. Where it is false, a block would have become too large.
    """

    blocks: tuple[tuple[int, ...], ...]
    is_separated: bool


def find_blocks(draws: Any, *, weights: Any = None, effective_size: float | None = None, max_size: int = 16) -> Blocks:
    """Groups of coordinates that depend on each other, as far as the draws tell.

    Parameters
    ----------
    draws
        Shape (n, d).
    weights
        Shape (n,), not negative. By default all are alike.
    effective_size
        Number of independent draws that these are worth; by default their number, or Kish's for weighted ones.
    max_size
        Most coordinates of a block. The strongest links are made first. Those that would make a block larger are not.

    Returns
    -------
    The blocks.
    """
    draws, weights, size = _checked(draws, weights, effective_size)
    max_size = as_count("max_size", max_size, 1)
    dim = draws.shape[1]
    information = _information(draws, weights, size)
    first, second = np.triu_indices(dim, 1)
    strength = information[first, second]
    order = np.argsort(-strength, kind="stable")[: np.count_nonzero(strength > 0)]
    block_of, is_separated = np.arange(dim), True
    for i, j in zip(first[order], second[order], strict=True):
        joined = np.isin(block_of, (block_of[i], block_of[j]))
        if np.count_nonzero(joined) <= max_size:
            block_of[joined] = block_of[i]
        elif block_of[i] != block_of[j]:
            is_separated = False
    _, numbers = np.unique(block_of, return_index=True)
    blocks = (np.flatnonzero(block_of == block_of[number]) for number in numbers)
    return Blocks(tuple(sorted(tuple(block.tolist()) for block in blocks)), is_separated)


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


def _information(draws: np.ndarray, weights: np.ndarray, size: float) -> np.ndarray:
    """Mutual information of pairs of coordinates that are linked, in nats for weak links; else zero. Shape (d, d)."""
    dim = draws.shape[1]
    ranks = _ranks(draws, weights)
    polynomials = np.stack([_legendre(degree, ranks) for degree in range(1, max(DEGREES) + 1)])  # (p, n, d)
    means = np.einsum("ani,bnj->abij", weights[:, None] * polynomials, polynomials, optimize=True)
    level = LEVEL / (len(DEGREES) * max(1, dim * (dim - 1) // 2))
    information = np.zeros((dim, dim))
    for degree in DEGREES:
        statistics = size * np.sum(means[:degree, :degree] ** 2, axis=(0, 1))
        # A mean of squares is too large by its degrees of freedom.
        estimates = (statistics - degree**2) / (2 * size)
        is_linked = (statistics > chi2.isf(level, degree**2)) & (estimates > LEAST_INFORMATION)
        information = np.maximum(information, np.where(is_linked, estimates, 0.0))
    return information


def _ranks(draws: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weight of the draws below each draw, and half of its own, in every coordinate; weights that sum to one."""
    order = np.argsort(draws, axis=0, kind="stable")
    sorted_weights = weights[order]
    ranks = np.empty_like(draws)
    np.put_along_axis(ranks, order, np.cumsum(sorted_weights, axis=0) - 0.5 * sorted_weights, axis=0)
    return ranks


def _legendre(degree: int, u: np.ndarray) -> np.ndarray:
    """Orthonormal Legendre polynomial on (0, 1)."""
    return np.sqrt(2 * degree + 1) * np.polynomial.legendre.legval(2 * u - 1, np.eye(degree + 1)[degree])


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
