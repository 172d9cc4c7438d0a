"""Products and inverses of the small matrices that kernels and guides use."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from vhmc_jax.arguments import as_array, is_concrete
from vhmc_jax.base import Array

FEW_NUMBERS = 12
"""Matrices of at most so many numbers are multiplied by sums, which XLA fuses with the operations around them. For
larger ones it calls a library. In a step of some ten microseconds those calls took a quarter of the time."""


def products(matrices: Array, vectors: Array) -> Array:
    """Products of matrices (..., d, d) with vectors (..., d), in full precision on accelerators too."""
    if matrices.size <= FEW_NUMBERS:
        return jnp.sum(matrices * vectors[..., None, :], axis=-1)
    return jnp.einsum("...ij,...j->...i", matrices, vectors, precision="highest")


def inverse_factors(factors: Array) -> Array:
    """Inverses of lower triangular matrices (..., d, d). Concrete ones are inverted in NumPy, in double precision."""
    if is_concrete(factors):
        return as_array(np.tril(np.linalg.inv(np.asarray(factors, np.float64))), factors.dtype)
    identities = jnp.broadcast_to(jnp.eye(factors.shape[-1], dtype=factors.dtype), factors.shape)
    return solve_triangular(factors, identities, lower=True)
