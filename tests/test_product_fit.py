"""Products fitted block by block: a block's density, what is found for bends and signs, and where nothing is."""

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj
from vhmc_jax.density import FlatDensity
from vhmc_jax.fit import product_fit
from vhmc_jax.fit.attempt import Fitting
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.product_fit import BlockDensity, fit_blocks
from vhmc_jax.search.population import Population

KEY = jax.random.key(0)
NUM = 1000


def bent_and_two_signs(x):
    """A banana in x₀ and x₁, and two signs with weights 0.7 and 0.3; the constant is that of the Gaussians."""
    bent = -0.5 * x[0] ** 2 - 0.5 * ((x[1] - x[0] ** 2) / 0.5) ** 2
    signs = jnp.logaddexp(jnp.log(0.7) - 0.5 * (x[2:] + 4) ** 2, jnp.log(0.3) - 0.5 * (x[2:] - 4) ** 2)
    return bent + jnp.sum(signs)


LOG_Z = np.log(2 * np.pi * 0.5) + np.log(2 * np.pi)


def exact(seed, num=NUM):
    rng = np.random.default_rng(seed)
    x0 = rng.normal(size=num)
    signs = rng.normal(size=(num, 2)) + np.where(rng.random((num, 2)) < 0.7, -4.0, 4.0)
    return np.column_stack([x0, x0**2 + 0.5 * rng.normal(size=num), signs])


def population_of(x, logdensity):
    values = np.asarray(jax.vmap(logdensity)(x))
    return Population(**dict.fromkeys(Population._fields) | {"positions": x, "logdensities": values})


def fitted(x, logdensity):
    density = FlatDensity.at(logdensity, x[0])
    options = vj.FitOptions(num_tries=None)
    modes = np.zeros((1, x.shape[1]))
    return fit_blocks(KEY, density, population_of(x, logdensity), modes, options, np.random.default_rng(0))


def test_a_block_has_the_density_with_the_others_held():
    density = FlatDensity.at(bent_and_two_signs, np.zeros(4))
    base = jnp.array([0.3, -0.2, 4.0, -4.0])
    block = BlockDensity(density, base, jnp.array([1, 3]))
    assert block(jnp.array([0.7, 3.0])) == bent_and_two_signs(jnp.array([0.3, 0.7, 4.0, 3.0]))


def test_blocks_of_bends_and_signs():
    attempt = fitted(exact(0), bent_and_two_signs)
    assert attempt.guide.blocks == ((0, 1), (2,), (3,))
    assert attempt.score > 0.8
    assert abs(attempt.log_evidence - LOG_Z) < 0.05
    fresh = exact(1, 4000)
    ratios = np.asarray(jax.vmap(bent_and_two_signs)(fresh)) - attempt.guide.on_host().at(fresh).log_prob - LOG_Z
    assert np.mean(ratios > np.log(5)) < 0.002, "ends of the banana that few particles saw are covered too"
    assert attempt.num_densities > len(attempt.points) == 4096


def test_there_may_be_many_blocks():
    """More than a key is split into at once."""
    attempt = fitted(np.random.default_rng(0).normal(size=(64, 20)), lambda x: -0.5 * x @ x)
    assert len(attempt.guide.blocks) == 20
    assert attempt.score > 0.8


def test_starts_have_the_weights_of_the_target():
    attempt = fitted(exact(0), bent_and_two_signs)
    starts = attempt.starts(np.random.default_rng(0), 1000)
    assert abs(np.mean(starts[:, 2] < 0) - 0.7) < 0.08
    assert len(np.unique(starts, axis=0)) == len(starts)


def test_coordinates_that_all_depend_on_each_other_are_no_product():
    rng = np.random.default_rng(0)
    factor = np.linalg.cholesky(0.4 * np.eye(3) + 0.6)
    x = rng.normal(size=(NUM, 3)) @ factor.T
    assert fitted(x, lambda x: -0.5 * x @ jnp.linalg.inv(0.4 * jnp.eye(3) + 0.6) @ x) is None


def slab_and_spike(x):
    """Half of the mass within a radius of 3, half in a Gaussian ten times as wide."""
    spike, slab = -0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x / 10) ** 2) - 4 * jnp.log(10.0)
    return jnp.logaddexp(spike, slab)


def test_a_product_of_the_slab_alone_is_not_seen_where_a_mode_is_in_the_spike():
    slab = 10 * np.random.default_rng(0).normal(size=(NUM, 4))
    assert fitted(slab, slab_and_spike) is None


def test_a_product_that_loses_what_was_found_is_not_better():
    """The particles saw the slab alone, and so did the product. Draws around the mode know the spike."""
    slab = 10 * np.random.default_rng(0).normal(size=(NUM, 4))
    product = fitted(slab, lambda x: -0.5 * jnp.sum((x / 10) ** 2) - 4 * jnp.log(10.0))
    fitting = Fitting(
        FlatDensity.at(slab_and_spike, slab[0]), vj.FitOptions(), np.random.default_rng(1), np.float64, 1, 4
    )
    spike = Components(np.zeros((1, 4)), np.eye(4)[None], np.zeros(1, int))
    attempt = fitting.assess(fitting.draw(spike))
    assert product.score > 0.8
    assert not product.is_better(attempt, uncovered=1.0)


def valley_and_noise(x):
    """Rosenbrock's function, a ~ N(1, 10) and b | a ~ N(a², 0.1), and a standard normal variable."""
    a, b, noise = x
    return -(100 * (b - a**2) ** 2 + (1 - a) ** 2) / 20 - 0.5 * noise**2


def test_a_poor_block_gets_a_population_of_its_own(monkeypatch):
    """64 draws do not show a valley whose width is a hundredth of its length."""
    rng = np.random.default_rng(0)
    a = 1 + np.sqrt(10) * rng.normal(size=64)
    few = np.column_stack([a, a**2 + np.sqrt(0.1) * rng.normal(size=64), rng.normal(size=64)])
    attempt = fitted(few, valley_and_noise)
    assert attempt.guide.blocks == ((0, 1), (2,))
    assert attempt.num_gradients > 0
    monkeypatch.setattr(product_fit, "POOR_BLOCK", 0.0)
    without = fitted(few, valley_and_noise)
    assert without.num_gradients == 0
    assert attempt.score > 2 * without.score
    assert abs(attempt.log_evidence - 1.5 * np.log(2 * np.pi)) < 0.1
