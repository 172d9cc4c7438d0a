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
