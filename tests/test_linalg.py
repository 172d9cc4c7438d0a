"""Products of small matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax import linalg


@pytest.mark.parametrize("shapes", [((2, 2), (2,)), ((3, 2, 2), (2,)), ((3, 2, 2), (3, 2)), ((3, 4, 4), (3, 4))])
def test_products_with_few_and_with_many_numbers(shapes):
    generator = np.random.default_rng(0)
    matrices, vectors = (jnp.asarray(generator.standard_normal(shape)) for shape in shapes)
    expected = (np.asarray(matrices) @ np.asarray(vectors)[..., None])[..., 0]
    np.testing.assert_allclose(linalg.products(matrices, vectors), expected, rtol=1e-12)
    batch = jnp.stack([vectors, 2 * vectors])
    np.testing.assert_allclose(jax.vmap(linalg.products, (None, 0))(matrices, batch)[1], 2 * expected, rtol=1e-12)


def sample_covariance(num_draws, dim, seed=0):
    draws = np.random.default_rng(seed).normal(size=(num_draws, dim)) * np.arange(1.0, dim + 1)
    return draws.T @ draws / num_draws


@pytest.mark.parametrize(("num_draws", "dim"), [(50, 3), (20, 5), (10, 12)])
def test_intensity_is_the_published_formula(num_draws, dim):
    s, n, p = sample_covariance(num_draws, dim), num_draws, dim
    trace, trace_of_square = np.trace(s), np.trace(s @ s)
    rho = min(
        1.0,
        ((1 - 2 / p) * trace_of_square + trace**2)
        / ((n + 1 - 2 / p) * (trace_of_square - trace**2 / p)),
    )  # fmt: skip
    shrunk, intensity = linalg.shrink(jnp.asarray(s), jnp.asarray(float(n)))
    assert intensity == pytest.approx(rho, rel=1e-12)
    np.testing.assert_allclose(shrunk, (1 - rho) * s + rho * trace / p * np.eye(p), rtol=1e-5, atol=1e-5)


def test_fewer_effective_draws_shrink_more():
    s = jnp.asarray(sample_covariance(200, 4))
    intensities = [float(linalg.shrink(s, jnp.asarray(n))[1]) for n in (200.0, 50.0, 10.0)]
    assert 0 < intensities[0] < intensities[1] < intensities[2] <= 1
