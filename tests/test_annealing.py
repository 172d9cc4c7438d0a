"""The fit of annealed jumps: what it predicts is what comes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.fit.annealing import _spaced

KEY = jax.random.key(3)
DIM = 6


def bananas(x):
    pairs = x.reshape(-1, 2)
    return jnp.sum(-0.5 * pairs[:, 0] ** 2 - 0.5 * (pairs[:, 1] - 0.8 * (pairs[:, 0] ** 2 - 1)) ** 2)


def draw(rng_key):
    first, second = jax.random.normal(rng_key, (2, DIM // 2))
    return jnp.stack([first, second + 0.8 * (first**2 - 1)], axis=1).ravel()


def test_fitted_settings_accept_as_predicted_and_more_than_a_jump():
    draws = jax.vmap(draw)(jax.random.split(KEY, 4000))
    covariance = np.cov(np.asarray(draws), rowvar=False)
    guide = vj.GaussianMixture(jnp.zeros(1), jnp.zeros((1, DIM)), np.linalg.cholesky(covariance)[None])
    fit = vj.fit_annealing(KEY, bananas, guide, num_steps=8, inverse_mass_matrix=covariance)
    assert fit.num_gradients == 12 * 500 * 9
    assert 0.05 < fit.step_size < 1.0
    rates = []
    for num_steps in (8, 0):
        kernel = vj.annealed_jump(
            bananas, guide, num_steps=num_steps, step_size=fit.step_size, schedule=fit.schedule,
            log_envelope=fit.log_envelope, inverse_mass_matrix=covariance,
        )  # fmt: skip
        states = jax.vmap(kernel.init)(draws[:2000])
        _, infos = jax.jit(jax.vmap(kernel.step))(jax.random.split(KEY, 2000), states)
        rates.append(float(np.mean(infos.acceptance_rate)))
    assert abs(rates[0] - fit.acceptance_rate) < 0.08
    assert rates[0] > rates[1] + 0.1


def test_steps_are_small_where_the_spread_is_large():
    ratios = np.random.default_rng(0).normal(size=(1000, 4)) * [8.0, 4.0, 2.0, 1.0]
    spaced = _spaced(np.linspace(0, 1, 5), ratios)
    assert spaced[0] == 0
    assert spaced[-1] == 1
    assert spaced[1] < 0.15
    assert np.all(np.diff(np.diff(spaced)) > -1e-9)
    np.testing.assert_allclose(np.diff(_spaced(np.linspace(0, 1, 5), ratios[:, :1].repeat(4, axis=1))), 0.25)


def test_bad_input():
    guide = vj.GaussianMixture(jnp.zeros(1), jnp.zeros((1, 2)), jnp.eye(2)[None])
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        vj.fit_annealing(KEY, bananas, guide, num_steps=0)
    with pytest.raises(ValueError, match=r"guide.sample must return a flat vector like the template's"):
        vj.fit_annealing(KEY, bananas, guide, num_steps=2, template=jnp.zeros(4))
