"""A product of mixtures as kernels evaluate it: one point at a time, by JAX, all blocks at once.

Blocks may differ in size and in number of components. Their arrays are filled up to the largest of each, so that one
operation serves all blocks, and so that programs are shared by all products of these shapes. What is filled up counts
nothing: a component has weight zero, and a coordinate has a whitening of zero.

Notation: b blocks of at most m coordinates, with at most k components each; otherwise as in ``prepared``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_array, is_concrete
from vhmc_jax.base import Array
from vhmc_jax.guide.prepared import PreparedMixture, radial_log_probs
from vhmc_jax.linalg import products

NEVER = 2.0
"""A cumulative weight that no uniform number reaches."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class PreparedProduct:
    """A guide with its derived arrays. To change a parameter, change the product and prepare it again.

    Attributes
    ----------
    coordinates
        Those of each block, filled up with d, shape (b, m).
    places
        Where each coordinate is among those b · m, shape (d,).
    sizes
        Number of coordinates of each block, as floating numbers, shape (b, 1).
    means, scale_trils
        Shapes (b, k, m) and (b, k, m, m).
    cumulative_weights
        Shape (b, k − 1).
    whitenings, log_norms
        Shapes (b, k, m, m) and (b, k).
    df
        Degrees of freedom of each component, infinite for Gaussian noise, shape (b, k); None where all noise is.
    """

    coordinates: Array
    places: Array
    sizes: Array
    means: Array
    scale_trils: Array
    cumulative_weights: Array
    whitenings: Array
    log_norms: Array
    df: Array | None

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return self.means.shape[0]

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.places.shape[0]

    @random.takes_any_key
    def sample(self, rng_key: Array) -> Array:
        """One draw, a vector of length d in the dtype of the means."""
        component_key, noise_key, gamma_key = random.split(rng_key, 3)
        uniforms = random.uniform(component_key, (self.num_blocks, 1), self.means.dtype)
        components = jnp.sum(uniforms >= self.cumulative_weights, axis=1, dtype=jnp.int32)
        is_chosen = jnp.arange(self.means.shape[1], dtype=jnp.int32) == components[:, None]
        noise = self._in_blocks(random.normal(noise_key, (self.dim,), self.means.dtype))
        if self.df is not None:
            noise = noise * _spreads(gamma_key, jnp.sum(jnp.where(is_chosen, self.df, 0.0), axis=1))[:, None]
        # Multiply by every L_i, then select: a gather of L_i would copy a matrix for each draw.
        values = self.means + products(self.scale_trils, noise[:, None])
        return jnp.sum(jnp.where(is_chosen[..., None], values, 0.0), axis=1).reshape(-1)[self.places]

    def _in_blocks(self, x: Array) -> Array:
        """The coordinates of each block, filled up with zeros, shape (b, m)."""
        return jnp.concatenate([x, jnp.zeros(1, x.dtype)])[self.coordinates]

    def block_log_probs(self, x: Array) -> Array:
        """Normalised log density of each block's coordinates of x; shape (b,)."""
        x = jnp.asarray(x, self.means.dtype)
        if x.shape != (self.dim,):
            raise ValueError(f"x must be a flat vector of length {self.dim}, got shape {x.shape}")
        white = products(self.whitenings, self._in_blocks(x)[:, None] - self.means)
        log_probs = self.log_norms + self._radial(jnp.sum(white**2, axis=2))
        # Components first: XLA does not vectorise a sum over a short last axis. It took up to twice as long.
        return jax.nn.logsumexp(log_probs.T, axis=0)

    def _radial(self, squared: Array) -> Array:
        """Log densities of the standard noise at squared distances (b, k)."""
        gaussian = radial_log_probs(squared, self.sizes, None)
        if self.df is None:
            return gaussian
        is_gaussian = jnp.isinf(self.df)
        return jnp.where(
            is_gaussian, gaussian, radial_log_probs(squared, self.sizes, jnp.where(is_gaussian, 1.0, self.df))
        )

    def log_prob(self, x: Array) -> Array:
        """Normalised log density at x, a scalar in the dtype of the means."""
        return jnp.sum(self.block_log_probs(x))


def prepare(blocks: Sequence[Sequence[int]], mixtures: Sequence[Any]) -> PreparedProduct:
    """The arrays of mixtures over blocks of coordinates, filled up and stacked.

    Parameters
    ----------
    blocks
        The coordinates of each block.
    mixtures
        The mixture of each block.

    Returns
    -------
    The prepared product.
    """
    parts: list[PreparedMixture] = [mixture.prepared() for mixture in mixtures]
    dtype = parts[0].means.dtype
    xp: Any = np if is_concrete(parts) else jnp
    most, size = max(part.means.shape[0] for part in parts), max(len(block) for block in blocks)
    has_df = any(part.df is not None for part in parts)

    def stacked(arrays: Sequence[Any], shape: tuple[int, ...], filling: float = 0.0) -> Array:
        filled = [
            xp.pad(
                xp.asarray(array),
                [(0, to - have) for have, to in zip(array.shape, shape, strict=True)],
                constant_values=filling,
            )
            for array in arrays
        ]
        return as_array(xp.stack(filled), dtype)

    dim = sum(len(block) for block in blocks)
    coordinates = np.full((len(blocks), size), dim, np.int32)
    places = np.empty(dim, np.int32)
    for number, block in enumerate(blocks):
        coordinates[number, : len(block)] = block
        places[list(block)] = number * size + np.arange(len(block))
    return PreparedProduct(
        coordinates=jnp.asarray(coordinates),
        places=jnp.asarray(places),
        sizes=as_array([[len(block)] for block in blocks], dtype),
        means=stacked([part.means for part in parts], (most, size)),
        scale_trils=stacked([part.scale_trils for part in parts], (most, size, size)),
        cumulative_weights=stacked([part.cumulative_weights for part in parts], (most - 1,), NEVER),
        whitenings=stacked([part.whitenings for part in parts], (most, size, size)),
        log_norms=stacked([part.log_norms for part in parts], (most,), -np.inf),
        df=stacked([_degrees_of_freedom(part) for part in parts], (most,), np.inf) if has_df else None,
    )


def _degrees_of_freedom(part: PreparedMixture) -> Any:
    """Of each component, infinite for Gaussian noise."""
    return np.full(part.means.shape[0], np.inf, part.means.dtype) if part.df is None else part.df


def _spreads(rng_key: Array, df: Array) -> Array:
    """√(ν / χ²_ν) for each of these degrees of freedom; one where they are infinite."""
    is_gaussian = jnp.isinf(df)
    half_df = jnp.where(is_gaussian, 1.0, 0.5 * df)
    gamma = jax.random.gamma(random.as_jax_key(rng_key), half_df, dtype=df.dtype)
    return jnp.where(is_gaussian, 1.0, jnp.sqrt(half_df / gamma))
