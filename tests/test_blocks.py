"""Blocks of coordinates found from the density, and products of mixtures fitted to draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax.density import FlatDensity
from vhmc_jax.fit.blocks import MOST_PLACES, find_blocks, fit_product, moments_of

KEY = jax.random.key(5)


def noise(num, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((num, dim))


def signs(num, dim, seed=0):
    generator = np.random.default_rng(seed)
    return np.where(generator.random((num, dim)) < 0.7, -3.0, 3.0) + 0.6 * generator.standard_normal((num, dim))


def chained(x):
    """Coordinates 0 and 1 bend together, 2 is alone, 3, 4 and 5 are a chain, and 6 is the scale of 7."""
    bent = -0.5 * x[0] ** 2 - 0.5 * (x[1] - x[0] ** 2) ** 2
    chain = -0.5 * x[3] ** 2 - 0.5 * (x[4] - 2 * x[3]) ** 2 - 0.5 * (x[5] - 2 * x[4]) ** 2
    funnel = -0.5 * x[6] ** 2 - 0.5 * x[7] ** 2 * jnp.exp(-x[6]) - 0.5 * x[6]
    return bent - jnp.abs(x[2]) + chain + funnel


def blocks_of(logdensity, draws, **settings):
    density = FlatDensity.at(logdensity, draws[0])
    return find_blocks(density, draws, np.random.default_rng(0), **settings)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dependence_of_many_kinds_is_seen(dtype):
    found, num_values = blocks_of(chained, noise(100, 8).astype(dtype))
    assert found == (((0, 1), (2,), (3, 4, 5), (6, 7)), True)
    assert num_values == MOST_PLACES * (1 + 8 + 28)


def test_an_offset_is_no_dependence_in_single_precision():
    """Differences of a log density of 10⁵ are rounded to a hundredth."""
    found, _ = blocks_of(lambda x: -0.5 * jnp.sum(x**2) + 1e5, noise(100, 20).astype(np.float32))
    assert len(found.blocks) == 20


def test_a_block_that_is_too_large_is_said():
    draws = noise(100, 8)
    assert blocks_of(chained, draws, max_size=3)[0].is_small
    assert not blocks_of(chained, draws, max_size=2)[0].is_small


def test_walls_link_and_few_draws_tell_nothing():
    def triangle(x):
        return jnp.where(jnp.sum(x) < 1, 0.0, -jnp.inf)

    draws = np.random.default_rng(0).dirichlet(np.ones(3), size=100)[:, :2]
    assert len(blocks_of(triangle, draws)[0].blocks) == 1
    assert len(blocks_of(chained, noise(1, 8))[0].blocks) == 1


def acceptance(guide, log_density, draws):
    """Of whole jumps between exact draws and those of the guide."""
    host = guide.on_host()
    own = host.sample(np.random.default_rng(3), len(draws))
    here, there = (log_density(x) - host.at(x).log_prob for x in (draws, own))
    return np.mean(np.exp(np.minimum(there - here, 0.0)))


def signs_log_density(x):
    parts = [np.log(w) - 0.5 * ((x - c) / 0.6) ** 2 for w, c in ((0.7, -3.0), (0.3, 3.0))]
    return np.logaddexp(*parts).sum(axis=1) - x.shape[1] * np.log(0.6 * np.sqrt(2 * np.pi))


def test_a_product_fits_what_a_mixture_cannot():
    """A thousand modes."""
    draws, others = signs(1000, 10).astype(np.float32), signs(4000, 10, seed=1)
    fit = fit_product(KEY, draws, np.arange(10)[:, None])
    assert fit.num_components == (2,) * 10
    assert fit.guide.sample(KEY).dtype == np.float32
    assert acceptance(fit.guide, signs_log_density, others) > 0.7
    # What is said of held-out draws is true of others.
    assert abs(fit.held_out - fit.guide.on_host().at(others).log_prob.mean()) < 0.5
    assert fit.held_out < signs_log_density(draws).mean() + 0.5
    whole = fit_product(KEY, draws, [range(10)])
    assert whole.held_out < fit.held_out - 3
    assert acceptance(whole.guide, signs_log_density, others) < 0.1


def test_held_out_likelihood_is_honest_in_many_dimensions():
    """A frame that had seen the held-out draws would seem better than the truth, and one block better than many."""
    draws, entropy = noise(400, 40), 20 * (1 + np.log(2 * np.pi))
    whole, product = (
        fit_product(KEY, draws, blocks, max_components=1) for blocks in ([range(40)], np.arange(40)[:, None])
    )
    assert whole.held_out < product.held_out
    for fit in (whole, product):
        truth = fit.guide.on_host().at(noise(4000, 40, 1)).log_prob.mean()
        assert truth < -entropy
        assert fit.held_out < truth + 1.0


def test_weighted_draws_are_fitted():
    draws = np.concatenate([noise(1000, 2), 50 + noise(1000, 2, 1)])
    fit = fit_product(KEY, draws, [[0], [1]], weights=np.repeat([1.0, 0.0], 1000))
    assert fit.num_components == (1, 1)
    one = moments_of(draws, np.repeat([2.0, 0.0], 1000))
    np.testing.assert_allclose(one.mean, draws[:1000].mean(axis=0))
    np.testing.assert_allclose([float(part.means[0, 0]) for part in fit.guide.mixtures], one.mean)
    np.testing.assert_allclose(one.scale_tril @ one.scale_tril.T, np.cov(draws[:1000].T, bias=True), atol=0.01)


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (
            fit_product,
            {"rng_key": KEY, "draws": np.zeros(3), "blocks": [[0]]},
            ValueError,
            r"draws must have shape \(n, d\), got \(3,\)",
        ),
        (
            fit_product,
            {"rng_key": KEY, "draws": np.full((3, 2), np.nan), "blocks": [[0]]},
            ValueError,
            "draws must be finite",
        ),
        (
            fit_product,
            {"rng_key": KEY, "draws": noise(9, 2), "blocks": [[0], [1]], "max_components": 0},
            ValueError,
            "max_components must be at least 1, got 0",
        ),
        (
            fit_product,
            {"rng_key": KEY, "draws": noise(99, 2), "blocks": [[0], [0]]},
            ValueError,
            "blocks must be disjoint, got coordinate 0 more than once",
        ),
        (
            fit_product,
            {"rng_key": KEY, "draws": noise(99, 3), "blocks": [[0], [1]]},
            ValueError,
            "blocks must hold each of the 3 coordinates of draws, got 2",
        ),
    ],
)
def test_bad_argument(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(**arguments)
