"""Gaussian kinetic energy.

Notation: M the mass matrix, W = M⁻¹ its inverse as the user gives it, K(p) = ½ pᵀ W p, and F any factor with
F Fᵀ = M, so that F z is a draw from N(0, M) for z ~ N(0, I).
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_array, is_concrete
from vhmc_jax.base import Array, PRNGKey
from vhmc_jax.linalg import inverse_factors, products


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianKinetic:
    """Kinetic energy K(p) = ½ pᵀ M⁻¹ p of a scalar, diagonal or dense mass.

    Attributes
    ----------
    inverse_mass
        M⁻¹: a scalar, a vector (its diagonal) or a matrix.
    momentum_factor
        F with F Fᵀ = M, of the same shape.
    """

    inverse_mass: Array
    momentum_factor: Array

    def draw(self, rng_key: PRNGKey, like: Array, num: int = 1) -> Array:
        """``num`` momenta p ~ N(0, M) with the shape and dtype of ``like``, one to a row."""
        return jax.vmap(self.scale_noise)(random.normal(rng_key, (num, *like.shape), like.dtype))

    def scale_noise(self, noise: Array) -> Array:
        """M^{1/2} z."""
        return multiply(self.momentum_factor, noise)

    def velocity(self, momentum: Array) -> Array:
        """∇K(p) = M⁻¹ p."""
        return multiply(self.inverse_mass, momentum)

    def energy(self, momentum: Array) -> Array:
        """K(p)."""
        return 0.5 * inner(momentum, self.velocity(momentum))

    def check_dimension(self, dimension: int) -> None:
        """Raise unless the mass fits positions of this many numbers."""
        shape = self.inverse_mass.shape
        if shape not in ((), (dimension,), (dimension, dimension)):
            raise ValueError(
                f"inverse_mass_matrix must be a scalar, a vector of length {dimension} or a "
                f"{dimension} × {dimension} matrix for a position of {dimension} numbers, got shape {shape}"
            )


def multiply(factor: Array, vector: Array) -> Array:
    """Product of a scalar, a diagonal or a matrix with a vector, in full precision on accelerators too."""
    return products(factor, vector) if factor.ndim == 2 else factor * vector


def inner(a: Array, b: Array) -> Array:
    """The product aᵀb, in full precision.

    It is a product with a vector of ones. XLA would fuse a plain sum with the operations that compute a and b, and on a
    CPU that takes ten times as long.
    """
    if a.size < 16:
        return jnp.dot(a, b, precision="highest")
    return jnp.matmul(a * b, jnp.ones_like(a), precision="highest")


def covariance_factor(name: str, covariance: Any) -> Array:
    """C with C Cᵀ equal to the covariance, checked where its values can be seen.

    Parameters
    ----------
    name
        The argument's name, for error messages.
    covariance
        A positive scalar, a vector of positive numbers (a diagonal) or a symmetric positive definite matrix.

    Returns
    -------
    A scalar, a vector or a lower triangular matrix of the default float type.
    """
    covariance = as_array(covariance, jnp.result_type(float), name)
    shape = covariance.shape
    if len(shape) > 2 or (len(shape) == 2 and shape[0] != shape[1]):
        raise ValueError(f"{name} must be a scalar, a vector or a square matrix, got shape {shape}")
    if not is_concrete(covariance):
        return jnp.sqrt(covariance) if len(shape) < 2 else jnp.linalg.cholesky(covariance)
    values = np.asarray(covariance, np.float64)  # in NumPy: JAX would compile a program for each of these checks
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be finite, got {covariance}")
    if len(shape) < 2:
        if not np.all(values > 0):
            raise ValueError(f"{name} must be positive, got {covariance}")
        return as_array(np.sqrt(values), covariance.dtype)
    if not np.allclose(values, values.T, rtol=1e-4):
        raise ValueError(f"{name} must be symmetric, got {covariance}")
    try:
        return as_array(np.linalg.cholesky(values), covariance.dtype)
    except np.linalg.LinAlgError:
        raise ValueError(f"{name} must be positive definite, got {covariance}") from None


def gaussian_kinetic(inverse_mass_matrix: Any) -> GaussianKinetic:
    """Build the kinetic energy and check the mass where its values can be seen.

    Parameters
    ----------
    inverse_mass_matrix
        M⁻¹: a positive scalar, a vector of positive numbers or a symmetric positive definite matrix.

    Returns
    -------
    The kinetic energy.
    """
    factor = covariance_factor("inverse_mass_matrix", inverse_mass_matrix)
    inverse_mass = as_array(inverse_mass_matrix, jnp.result_type(float))
    if factor.ndim < 2:
        return GaussianKinetic(inverse_mass, 1 / factor)
    # W = C Cᵀ, hence M = C⁻ᵀ C⁻¹ and F = C⁻ᵀ: M itself is never formed.
    inverse = inverse_factors(factor)
    return GaussianKinetic(
        inverse_mass, as_array(np.asarray(inverse).T, inverse.dtype) if is_concrete(inverse) else inverse.T
    )
