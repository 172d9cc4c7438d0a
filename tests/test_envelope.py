"""The envelope that makes the most jumps succeed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.guide.envelope import best_envelope, jump_acceptance

TARGET = vj.targets.near_pair(0.7)
GUIDE = vj.GaussianMixture(
    jnp.log(jnp.array([0.6, 0.4])),
    jnp.asarray(TARGET.means, jnp.float64) + 0.3,
    1.2 * jnp.broadcast_to(jnp.eye(2), (2, 2, 2)),
)


def log_ratios(num_draws):
    x = jax.vmap(GUIDE.sample)(jax.random.split(jax.random.key(0), num_draws))
    return np.asarray(jax.vmap(TARGET.logdensity)(x) - jax.vmap(GUIDE.log_prob)(x))


@pytest.mark.statistical
@pytest.mark.parametrize("log_envelope", [-1.0, 0.5])
def test_expected_acceptance_is_what_jumps_have(log_envelope):
    num_chains = 40_000
    expected = jump_acceptance(log_ratios(num_chains), log_envelope, 2)
    kernel = vj.jump(TARGET.logdensity, GUIDE, log_envelope=log_envelope, num_tries=2)
    states = jax.vmap(kernel.init)(TARGET.sample(jax.random.key(1), num_chains).astype(jnp.float64))
    _, info = jax.jit(jax.vmap(kernel.step))(jax.random.split(jax.random.key(2), num_chains), states)
    assert float(info.is_accepted.mean()) == pytest.approx(expected, abs=0.015)


@pytest.mark.slow
def test_the_best_is_better_than_its_neighbours():
    ratios = log_ratios(4000)
    best, acceptance = best_envelope(ratios, 4)
    assert acceptance >= max(jump_acceptance(ratios, best + shift, 4) for shift in (-1.5, -0.5, 0.5, 1.5))


def test_a_perfect_guide_accepts_everything():
    _, acceptance = best_envelope(np.full(100, 3.0), 1)
    assert acceptance == pytest.approx(1.0, abs=1e-6)


def test_any_object_with_two_methods_serves():
    class Guide:
        def sample(self, rng_key):
            return jax.random.normal(rng_key, (2,), jnp.float64)

        def log_prob(self, x):
            return -0.5 * jnp.sum(x**2) - jnp.log(2 * jnp.pi)

    value = vj.estimate_log_envelope(jax.random.key(0), lambda x: -0.5 * jnp.sum(x**2), Guide(), 4)
    assert value == pytest.approx(np.log(2 * np.pi), abs=0.05)


def test_a_guide_where_the_target_has_no_mass_is_named():
    with pytest.raises(ValueError, match="density is zero at every draw of the guide"):
        vj.estimate_log_envelope(jax.random.key(0), lambda x: -jnp.inf * jnp.sum(x**2), GUIDE, 4)
