"""Kinetic energy: the factor of the mass, velocity as the energy's gradient, and the checks of the mass."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax import random
from vhmc_jax.dynamics.kinetic import gaussian_kinetic

MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])
INVERSE_MASSES: dict[str, Any] = {"scalar": 0.4, "vector": np.array([0.5, 1.0, 3.0]), "matrix": MATRIX}
every_mass = pytest.mark.parametrize("name", INVERSE_MASSES)


def dense(name):
    """The inverse mass as a matrix, whatever its form."""
    value = INVERSE_MASSES[name]
    return value if np.ndim(value) == 2 else np.eye(3) * value


@every_mass
def test_momentum_has_the_covariance_of_the_mass(name):
    kinetic = gaussian_kinetic(INVERSE_MASSES[name])
    factor = jax.vmap(kinetic.scale_noise)(jnp.eye(3)).T  # its columns are the images of the unit vectors
    np.testing.assert_allclose(factor @ factor.T, np.linalg.inv(dense(name)), rtol=1e-12, atol=1e-12)


@every_mass
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_draw_is_scaled_noise_in_the_dtype_of_the_position(name, dtype):
    kinetic = jax.tree.map(lambda leaf: leaf.astype(dtype), gaussian_kinetic(INVERSE_MASSES[name]))
    key = jax.random.key(1)
    (momentum,) = kinetic.draw(key, like=jnp.zeros(3, dtype))
    assert momentum.dtype == dtype
    np.testing.assert_array_equal(momentum, kinetic.scale_noise(random.normal(key, (1, 3), dtype)[0]))


@every_mass
def test_energy_and_velocity(name):
    kinetic, momentum = gaussian_kinetic(INVERSE_MASSES[name]), jnp.array([0.3, -1.2, 2.0])
    np.testing.assert_allclose(kinetic.energy(momentum), 0.5 * momentum @ dense(name) @ momentum, rtol=1e-14)
    np.testing.assert_allclose(kinetic.velocity(momentum), jax.grad(kinetic.energy)(momentum), rtol=1e-14)


@every_mass
def test_mass_may_be_traced(name):
    """A mass that is an argument of a compiled program cannot be looked at, and need not be."""
    value, momentum = jnp.asarray(INVERSE_MASSES[name]), jnp.array([0.3, -1.2, 2.0])
    energy = jax.jit(lambda mass: gaussian_kinetic(mass).energy(momentum))(value)
    np.testing.assert_allclose(energy, gaussian_kinetic(value).energy(momentum), rtol=1e-14)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.0, r"inverse_mass_matrix must be positive, got 0\.0"),
        (-1.0, r"inverse_mass_matrix must be positive, got -1\.0"),
        (np.array([1.0, -2.0]), r"inverse_mass_matrix must be positive, got \[ 1\. -2\.\]"),
        (np.array([1.0, np.nan]), r"inverse_mass_matrix must be finite"),
        (np.inf, r"inverse_mass_matrix must be finite, got inf"),
        (np.ones((2, 3)), r"must be a scalar, a vector or a square matrix, got shape \(2, 3\)"),
        (np.ones((2, 2, 2)), r"must be a scalar, a vector or a square matrix, got shape \(2, 2, 2\)"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), r"inverse_mass_matrix must be symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), r"inverse_mass_matrix must be positive definite"),
    ],
)
def test_bad_mass(value, message):
    with pytest.raises(ValueError, match=message):
        gaussian_kinetic(value)


def test_mass_that_does_not_fit_the_position():
    gaussian_kinetic(2.0).check_dimension(5)
    gaussian_kinetic(np.ones(2)).check_dimension(2)
    with pytest.raises(ValueError, match=r"inverse_mass_matrix .* vector of length 2 .* got shape \(3,\)"):
        gaussian_kinetic(np.ones(3)).check_dimension(2)
    with pytest.raises(ValueError, match=r"inverse_mass_matrix .* 2 × 2 matrix .* got shape \(3, 3\)"):
        gaussian_kinetic(MATRIX).check_dimension(2)
