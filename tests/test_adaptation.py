"""Step sizes by dual averaging."""

import time

import jax
import jax.numpy as jnp
import pytest

import vhmc_jax as vj

TARGET = vj.targets.skewed()


def factory(step_size):
    return vj.lhmc(TARGET.logdensity, step_size=step_size, num_integration_steps=3)


@pytest.mark.parametrize("initial", [1e-3, 1.0, 50.0])
def test_the_target_is_reached_from_far_away(initial):
    adapted = vj.adapt_step_size(jax.random.key(0), factory, jnp.zeros(2), initial_step_size=initial, num_steps=300)
    chains = vj.run_chains(jax.random.key(1), factory(adapted.step_size), adapted.positions, 300)
    assert float(chains.info_means.acceptance_rate.mean()) == pytest.approx(0.8, abs=0.06)
    assert float(adapted.acceptance_rate) == pytest.approx(0.8, abs=0.06)
    assert int(adapted.num_gradients) == 300 * 8 * 5


@pytest.mark.parametrize(
    ("density", "least", "most"),
    [
        (lambda x: 0.0 * jnp.sum(x), 1e3, 1e12),
        (lambda x: -1e8 * jnp.sum(x != 0.0).astype(x.dtype), 1e-12, 1e-3),
    ],
    ids=["a plateau", "nothing is accepted"],
)
def test_where_there_is_no_step_size_it_is_bounded_and_said(density, least, most):
    def hmc(step_size):
        return vj.hmc(density, step_size=step_size, num_integration_steps=2)

    with pytest.warns(UserWarning, match="adapt_step_size found no step size: at .* the acceptance is"):
        adapted = vj.adapt_step_size(jax.random.key(0), hmc, jnp.zeros(2))
    assert least < float(adapted.step_size) < most


def test_few_chains_compile_fast():
    """XLA must not write out the hashes of a key once for each place that uses them: that took 40 seconds."""

    def hmc(step_size):
        return vj.hmc(lambda x: -0.5 * jnp.sum(x**2), step_size=step_size, num_integration_steps=5)

    started = time.process_time()
    with jax.enable_x64(False):
        vj.adapt_step_size(jax.random.key(0), hmc, jnp.zeros(10, jnp.float32))
    assert time.process_time() - started < 10.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_acceptance": 1.2}, "target_acceptance must be at most 1"),
        ({"initial_step_size": 0.0}, "initial_step_size must be positive"),
        ({"num_steps": 0}, "num_steps must be at least 1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        vj.adapt_step_size(jax.random.key(0), factory, jnp.zeros(2), **settings)
