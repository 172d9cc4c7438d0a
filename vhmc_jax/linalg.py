"""Products and inverses of the small matrices that kernels and guides use, and covariances from few draws.

References
----------
.. [1] Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, Shrinkage algorithms for MMSE covariance estimation,
   IEEE Transactions on Signal Processing 58, 2010, eq. 23.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from vhmc_jax.arguments import as_array, is_concrete
from vhmc_jax.base import Array

FEW_NUMBERS = 12
"""Matrices of at most so many numbers are multiplied by sums, which XLA fuses with the operations around them. For
larger ones it calls a library. In a step of some ten microseconds those calls took a quarter of the time."""

LEAST_VARIANCE = 1e-6
"""Least variance in any direction of a shrunk covariance, as a share of the mean variance."""


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


def shrink(covariance: Any, effective_size: Any) -> tuple[Any, Any]:
    r"""Shrink a sample covariance toward a multiple of the identity, oracle-approximating [1]_.

    .. math:: \rho = \min\left(1, \frac{(1 - 2/d)\,\mathrm{tr} S^2 + \mathrm{tr}^2 S}
       {(n + 1 - 2/d)\,(\mathrm{tr} S^2 - \mathrm{tr}^2 S / d)}\right)

    Parameters
    ----------
    covariance
        S, shape (d, d), an array of NumPy's or JAX's.
    effective_size
        n, the number of independent draws that it is worth.

    Returns
    -------
    The shrunk covariance, positive definite, and ρ. Where S is zero, the identity.
    """
    xp: Any = np if isinstance(covariance, np.ndarray) else jnp
    dim = covariance.shape[0]
    variance = xp.trace(covariance) / dim
    is_spread = xp.isfinite(variance) & (variance > 0)
    unit = xp.eye(dim, dtype=covariance.dtype)
    relative = xp.where(is_spread, covariance / xp.where(is_spread, variance, 1.0), unit)
    square = xp.sum(relative**2)
    excess = (effective_size + 1 - 2 / dim) * (square - dim)
    intensity = ((1 - 2 / dim) * square + dim**2) / xp.where(excess > 0, excess, 1.0)
    intensity = xp.where(excess > 0, xp.clip(intensity, 0.0, 1.0), 1.0)
    shrunk = (1 - intensity) * relative + (intensity + LEAST_VARIANCE) * unit
    return xp.where(is_spread, variance, 1.0) * shrunk, intensity
