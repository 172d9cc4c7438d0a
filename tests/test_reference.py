"""The density that a population starts from: moments of a region, or the density it has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import vhmc_jax as vj
from vhmc_jax.search.reference import reference_of

KEY = jax.random.key(0)
COVARIANCE = np.array([[4.0, 1.8], [1.8, 1.0]])
FACTOR = np.linalg.cholesky(COVARIANCE)
MEAN = np.array([3.0, -1.0])


def sampler(rng_key):
    return jnp.asarray(MEAN) + jnp.asarray(FACTOR) @ jax.random.normal(rng_key, (2,))


def log_probs(reference, points):
    return np.asarray(jax.vmap(reference.log_prob)(jnp.asarray(points)))


def moments_of(reference):
    """Mean and covariance of its density, read from the log density: it is a Gaussian's."""
    precision = -np.asarray(jax.hessian(reference.log_prob)(jnp.zeros(2)))
    covariance = np.linalg.inv(precision)
    return covariance @ np.asarray(jax.grad(reference.log_prob)(jnp.zeros(2))), covariance


def test_a_box_has_the_moments_of_the_uniform_density():
    reference = reference_of(KEY, vj.box(jnp.array([-1.0, 2.0]), jnp.array([5.0, 3.0])))
    mean, covariance = moments_of(reference)
    np.testing.assert_allclose(mean, [2.0, 2.5], rtol=1e-6)
    np.testing.assert_allclose(covariance, np.diag([3.0, 1 / 12]), rtol=1e-6, atol=1e-9)


def test_an_array_has_its_own_moments():
    rows = MEAN + np.random.default_rng(0).normal(size=(500, 2)) @ FACTOR.T
    mean, covariance = moments_of(reference_of(KEY, rows))
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(np.diagonal(covariance), rows.var(axis=0), rtol=1e-6)
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert correlation == pytest.approx(0.95 * np.corrcoef(rows.T)[0, 1], rel=1e-6)


def test_few_rows_have_no_correlations_and_rows_that_are_alike_a_width():
    few = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    _, covariance = moments_of(reference_of(KEY, few))
    np.testing.assert_allclose(covariance, np.diag(few.var(axis=0)), rtol=1e-6, atol=1e-9)
    _, alike = moments_of(reference_of(KEY, np.ones((3, 2))))
    np.testing.assert_allclose(alike, np.eye(2), rtol=1e-6, atol=1e-9)
    with_nan = np.concatenate([few, [[np.nan, 0.0]]])
    _, covariance = moments_of(reference_of(KEY, with_nan))
    np.testing.assert_allclose(covariance, np.diag(few.var(axis=0)), rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="region must hold finite starts"):
        reference_of(KEY, np.full((3, 2), np.nan))


@pytest.mark.statistical
def test_a_sampler_has_the_moments_of_its_draws():
    mean, covariance = moments_of(reference_of(KEY, sampler))
    error = np.sqrt(np.diagonal(COVARIANCE) / 1024)
    assert np.all(np.abs(mean - MEAN) < 4 * error)
    np.testing.assert_allclose(np.diagonal(covariance), np.diagonal(COVARIANCE), rtol=4 * np.sqrt(2 / 1024))
    assert covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]) == pytest.approx(0.95 * 0.9, abs=0.03)


class Laplacian:
    """Draws of a double exponential, with its density where it is told."""

    def __call__(self, rng_key):
        return jax.random.laplace(rng_key, (1,))

    def log_prob(self, x):
        return -jnp.abs(x[0]) - jnp.log(2.0)


def test_a_density_of_its_own_is_used():
    reference = reference_of(KEY, Laplacian())
    points = np.linspace(-5.0, 5.0, 11)[:, None]
    np.testing.assert_allclose(log_probs(reference, points), -np.abs(points[:, 0]) - np.log(2.0), rtol=1e-12)
    without = reference_of(KEY, lambda rng_key: Laplacian()(rng_key))
    assert np.max(np.abs(log_probs(without, points) - log_probs(reference, points))) > 1.0
    assert np.mean(np.abs(reference.draws(4000)) > 3.0) == pytest.approx(np.exp(-3.0), abs=0.015)


REGIONS = {
    "box": vj.box(jnp.array([-1.0]), jnp.array([5.0])),
    "array": np.random.default_rng(1).gamma(2.0, size=(40, 1)),
    "sampler": lambda rng_key: 2.0 + jax.random.exponential(rng_key, (1,)),
    "density": Laplacian(),
}


@pytest.mark.parametrize("name", REGIONS)
def test_the_density_is_normalised_and_that_of_the_draws(name):
    reference = reference_of(KEY, REGIONS[name])
    grid = np.linspace(-40.0, 40.0, 40_001)
    density = np.exp(log_probs(reference, grid[:, None]))
    assert integrate.simpson(density, x=grid) == pytest.approx(1.0, abs=1e-5)
    draws = reference.draws(4000)
    assert draws.shape == (4000, 1)
    mean = integrate.simpson(grid * density, x=grid)
    variance = integrate.simpson((grid - mean) ** 2 * density, x=grid)
    assert np.mean(draws) == pytest.approx(mean, abs=5 * np.sqrt(variance / 4000))
    assert np.var(draws) == pytest.approx(variance, rel=0.2)


def test_pytrees_and_single_precision_are_kept():
    low, high = ({"a": jnp.full((), v, jnp.float32), "b": jnp.full(2, v, jnp.float32)} for v in (-1.0, 3.0))
    reference = reference_of(KEY, vj.box(low, high))
    draws = reference.draws(8)
    assert draws.shape == (8, 3)
    assert draws.dtype == np.float32
    assert reference.log_prob(draws[0]).dtype == jnp.float32
    assert jax.tree.structure(reference.template) == jax.tree.structure(low)
