"""Gaussian kinetic energy.

Notation: M the mass matrix, W = M⁻¹ its inverse as the user gives it, K(p) = ½ pᵀ W p, and F any factor with
F Fᵀ = M, so that F z is a draw from N(0, M) for z ~ N(0, I).
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vhmc_jax import random
from vhmc_jax.base import Array, is_concrete


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

    def draw(self, rng_key: Array, like: Array) -> Array:
        """A momentum p ~ N(0, M) with the shape and dtype of ``like``."""
        return self.scale_noise(random.normal(rng_key, like.shape, like.dtype))

    def scale_noise(self, noise: Array) -> Array:
        """M^{1/2} z."""
        return _multiply(self.momentum_factor, noise)

    def velocity(self, momentum: Array) -> Array:
        """∇K(p) = M⁻¹ p."""
        return _multiply(self.inverse_mass, momentum)

    def energy(self, momentum: Array) -> Array:
        """K(p)."""
        return 0.5 * jnp.dot(momentum, self.velocity(momentum))

    def check_dimension(self, dimension: int) -> None:
        """Raise unless the mass fits positions of this many numbers."""
        shape = self.inverse_mass.shape
        if shape not in ((), (dimension,), (dimension, dimension)):
            raise ValueError(
                f"inverse_mass_matrix must be a scalar, a vector of length {dimension} or a "
                f"{dimension} × {dimension} matrix for a position of {dimension} numbers, got shape {shape}"
            )


def _multiply(factor: Array, vector: Array) -> Array:
    return factor @ vector if factor.ndim == 2 else factor * vector


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
    name = "inverse_mass_matrix"
    inverse_mass = jnp.asarray(inverse_mass_matrix, dtype=float)
    if inverse_mass.ndim > 2 or (inverse_mass.ndim == 2 and inverse_mass.shape[0] != inverse_mass.shape[1]):
        raise ValueError(f"{name} must be a scalar, a vector or a square matrix, got shape {inverse_mass.shape}")
    if is_concrete(inverse_mass) and not jnp.all(jnp.isfinite(inverse_mass)):
        raise ValueError(f"{name} must be finite, got {inverse_mass_matrix}")
    if inverse_mass.ndim < 2:
        if is_concrete(inverse_mass) and not jnp.all(inverse_mass > 0):
            raise ValueError(f"{name} must be positive, got {inverse_mass_matrix}")
        return GaussianKinetic(inverse_mass, jax.lax.rsqrt(inverse_mass))
    if is_concrete(inverse_mass) and not jnp.allclose(inverse_mass, inverse_mass.T, rtol=1e-4):
        raise ValueError(f"{name} must be symmetric, got {inverse_mass_matrix}")
    # W = C Cᵀ, hence M = C⁻ᵀ C⁻¹ and F = C⁻ᵀ: the inverse of M itself is never formed.
    cholesky = jnp.linalg.cholesky(inverse_mass)
    if is_concrete(cholesky) and not jnp.all(jnp.isfinite(cholesky)):
        raise ValueError(f"{name} must be positive definite, got {inverse_mass_matrix}")
    identity = jnp.eye(len(inverse_mass), dtype=inverse_mass.dtype)
    factor = jax.scipy.linalg.solve_triangular(cholesky, identity, lower=True).T
    return GaussianKinetic(inverse_mass, factor)
