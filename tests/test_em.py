"""Several Gaussians for one mode: as many as held-out draws support, and never anything singular."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vhmc_jax.fit.em import Parts, fit_mixture, improve
from vhmc_jax.fit.shrinkage import fit_gaussian

pytestmark = pytest.mark.slow


def gaussian_draws(key, dtype=jnp.float64):
    return jax.random.normal(key, (1000, 2), dtype) @ jnp.array([[2.0, 0.0], [1.0, 0.5]], dtype).T


def banana_draws(key, dtype=jnp.float64):
    z = jax.random.normal(key, (1000, 2), dtype)
    return z.at[:, 1].set(0.3 * z[:, 1] + z[:, 0] ** 2)


def fits(draws, seed=0, **options):
    dim, dtype = draws.shape[1], draws.dtype
    one = fit_gaussian(draws, jnp.zeros(dim, dtype), jnp.eye(dim, dtype=dtype), weights=options.get("weights"))
    return one, fit_mixture(jax.random.key(seed), draws, one, **options)


def mean_log_prob(mixture, draws):
    return float(jnp.mean(jax.jit(jax.vmap(mixture.log_prob))(draws)))


@pytest.mark.statistical
def test_number_of_components_is_what_the_draws_support():
    one, straight = fits(gaussian_draws(jax.random.key(1)))
    assert straight.num_components == 1
    np.testing.assert_array_equal(straight.mixture.means[0], one.mean)
    np.testing.assert_array_equal(straight.mixture.scale_trils[0], one.scale_tril)

    one, bent = fits(banana_draws(jax.random.key(2)))
    assert bent.num_components > 2
    fresh = banana_draws(jax.random.key(3))
    law = stats.multivariate_normal(np.asarray(one.mean), np.asarray(one.scale_tril @ one.scale_tril.T))
    gain = mean_log_prob(bent.mixture, fresh) - np.mean(law.logpdf(np.asarray(fresh)))
    assert gain > 1.0
    assert bent.held_out[bent.num_components] - bent.held_out[1] == pytest.approx(gain, abs=0.25)


@pytest.mark.statistical
def test_two_separate_components_are_recovered():
    key = jax.random.key(4)
    is_first = jax.random.bernoulli(key, 0.3, (1000, 1))
    draws = jax.random.normal(key, (1000, 2)) * jnp.where(is_first, 0.5, 1.0) + jnp.where(is_first, -4.0, 4.0)
    _, found = fits(draws, max_components=2)
    order = np.argsort(found.mixture.means[:, 0])
    np.testing.assert_allclose(jax.nn.softmax(found.mixture.log_weights)[order], [0.3, 0.7], atol=0.05)
    np.testing.assert_allclose(found.mixture.means[order], [[-4.0, -4.0], [4.0, 4.0]], atol=0.15)
    widths = jnp.sqrt(jnp.diagonal(found.mixture.scale_trils @ found.mixture.scale_trils.mT, axis1=1, axis2=2))
    np.testing.assert_allclose(widths[order], [[0.5, 0.5], [1.0, 1.0]], rtol=0.12)


@pytest.mark.statistical
def test_correlated_draws_support_fewer_components():
    # Fifty draws, each repeated twenty times, look like a thousand unless one says what they are worth.
    few = jnp.repeat(jax.random.normal(jax.random.key(5), (50, 2)), 20, axis=0)
    _, honest = fits(few, effective_size=50.0)
    assert honest.num_components == 1


def test_weightless_draws_do_not_count():
    draws = banana_draws(jax.random.key(6))
    is_kept = np.arange(1000) % 5 > 0
    spoilt = jnp.where(is_kept[:, None], draws, jnp.nan)
    harmless = jnp.where(is_kept[:, None], draws, 7.0)
    weights = jnp.asarray(is_kept, float)
    _, found = fits(spoilt, weights=weights)
    _, expected = fits(harmless, weights=weights)
    assert found.num_components == expected.num_components
    np.testing.assert_allclose(found.mixture.means, expected.mixture.means)


HOPELESS = {
    "all_alike": np.full((1000, 2), 3.0),
    "on_a_line": np.linspace(-1.0, 1.0, 1000)[:, None] * np.ones(2),
    "two_points": np.where(np.arange(1000)[:, None] % 2, 1.0, -1.0) * np.ones(2),
    "one_far_away": np.concatenate([np.random.default_rng(7).normal(size=(999, 2)), [[1e6, 1e6]]]),
}


@pytest.mark.parametrize("name", HOPELESS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_nothing_becomes_singular(name, dtype):
    _, found = fits(jnp.asarray(HOPELESS[name], dtype))
    for leaf in jax.tree.leaves(found.mixture):
        assert leaf.dtype == dtype
        assert jnp.all(jnp.isfinite(leaf))
    assert jnp.all(jnp.diagonal(found.mixture.scale_trils, axis1=1, axis2=2) > 0)


def test_no_weight_at_all_and_hardly_any_draws():
    draws = gaussian_draws(jax.random.key(8))
    _, found = fits(draws, weights=jnp.zeros(1000))
    assert found.num_components == 1
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(found.mixture))
    _, found = fits(draws[:3])
    assert found.num_components == 1


def test_bad_number_of_components_is_refused():
    with pytest.raises(ValueError, match="max_components must be at least 1"):
        fits(jnp.zeros((10, 2)), max_components=0)


MEAN, FACTOR = np.array([1.0, -2.0]), np.array([[2.0, 0.0], [1.0, 0.5]])


def weighted_draws(seed):
    """Draws of a wide Gaussian with weights that make them those of N(MEAN, FACTOR FACTOR')."""
    x = 4.0 * np.random.default_rng(seed).normal(size=(4000, 2))
    log_weights = stats.multivariate_normal(MEAN, FACTOR @ FACTOR.T).logpdf(x) + 0.5 * np.sum(x**2, axis=1) / 16
    return x, np.exp(log_weights - log_weights.max())


@pytest.mark.statistical
def test_improvement_on_weighted_draws_recovers_a_gaussian():
    x, weights = weighted_draws(9)
    start = Parts(np.ones(1), np.zeros((1, 2)), 3.0 * np.eye(2)[None])
    found = improve(start, x, weights, 3)
    size = weights.sum() ** 2 / np.sum(weights**2)
    covariance = FACTOR @ FACTOR.T
    assert np.all(np.abs(found.means[0] - MEAN) < 5 * np.sqrt(np.diagonal(covariance) / size))
    np.testing.assert_allclose(found.scale_trils[0] @ found.scale_trils[0].T, covariance, rtol=0.25, atol=0.05)
    # Power: without the weights it is the wide Gaussian that is recovered.
    plain = improve(start, x, np.ones(len(x)), 3)
    np.testing.assert_allclose(plain.scale_trils[0] @ plain.scale_trils[0].T, 16 * np.eye(2), atol=1.5)


@pytest.mark.statistical
def test_improvement_keeps_the_order_and_finds_the_shares():
    generator = np.random.default_rng(10)
    is_first = generator.uniform(size=(2000, 1)) < 0.3
    x = np.where(is_first, -4.0, 4.0) + np.where(is_first, 0.5, 1.0) * generator.normal(size=(2000, 2))
    start = Parts(np.array([0.5, 0.5]), np.array([[3.0, 5.0], [-5.0, -3.0]]), np.broadcast_to(np.eye(2), (2, 2, 2)))
    found = improve(start, x, np.ones(2000), 5)
    np.testing.assert_allclose(found.weights, [0.7, 0.3], atol=0.05)
    np.testing.assert_allclose(found.means, [[4.0, 4.0], [-4.0, -4.0]], atol=0.15)
    widths = np.sqrt(np.diagonal(found.scale_trils @ found.scale_trils.mT, axis1=1, axis2=2))
    np.testing.assert_allclose(widths, [[1.0, 1.0], [0.5, 0.5]], rtol=0.1)


def test_a_component_without_draws_keeps_its_shape():
    x = np.random.default_rng(11).normal(size=(500, 2))
    start = Parts(np.array([0.5, 0.5]), np.array([[0.0, 0.0], [1e3, 0.0]]), np.stack([2 * np.eye(2), FACTOR]))
    found = improve(start, x, np.ones(500), 3)
    np.testing.assert_allclose(found.means[1], [1e3, 0.0])
    np.testing.assert_allclose(found.scale_trils[1], FACTOR, rtol=1e-3)
    assert found.weights[1] == 0.0
    assert found.scale_trils[0, 0, 0] == pytest.approx(1.0, rel=0.15), "the other one is fitted"


def test_a_component_of_one_heavy_draw_does_not_collapse():
    x = np.concatenate([np.random.default_rng(12).normal(size=(500, 2)), [[50.0, 50.0]]])
    start = Parts(np.array([0.5, 0.5]), np.array([[0.0, 0.0], [50.0, 50.0]]), np.broadcast_to(np.eye(2), (2, 2, 2)))
    found = improve(start, x, np.append(np.ones(500), 1e3), 1)
    widths = np.linalg.svd(found.scale_trils[1], compute_uv=False)
    assert widths.min() > 0.8
