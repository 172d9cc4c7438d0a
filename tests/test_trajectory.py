"""What the kernels with trajectories share: checked settings, and the state that they start from."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

from vhmc_jax.density import init_state
from vhmc_jax.dynamics.leapfrog import StepCount
from vhmc_jax.moves.trajectory import init, trajectory

POSITION = {"a": jnp.array([0.3, -1.0]), "b": jnp.asarray(2.0)}


def logdensity(position):
    return -0.5 * (jnp.sum(position["a"] ** 2) + position["b"] ** 2)


def test_settings_are_checked_and_of_definite_types():
    settings = trajectory(logdensity, 1, (2, 5), [1.0, 2.0, 4.0])
    assert settings.step_count == StepCount(2, 5)
    assert settings.step_size.dtype == jnp.result_type(float), "an integer must not mean another program"
    np.testing.assert_allclose(settings.kinetic.momentum_factor, [1.0, np.sqrt(0.5), 0.5])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3.0, 0.1, 5, 1.0), TypeError, "logdensity_fn must be a function, got float"),
        ((logdensity, 0.0, 5, 1.0), ValueError, "step_size must be positive, got 0.0"),
        ((logdensity, (0.2, 0.1), 5, 1.0), ValueError, r"step_size must be \(low, high\) with low <= high"),
        ((logdensity, (0.0, 0.1), 5, 1.0), ValueError, r"step_size\[0\] must be positive, got 0.0"),
        ((logdensity, (0.1, 0.2, 0.3), 5, 1.0), ValueError, r"step_size must be a number or \(low, high\)"),
        ((logdensity, 0.1, (5, 2), 1.0), ValueError, "num_integration_steps must be .* low <= high"),
        ((logdensity, 0.1, 5, -1.0), ValueError, "inverse_mass_matrix must be positive"),
    ],
)
def test_bad_settings_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        trajectory(*arguments)


def test_step_sizes_are_uniform_in_their_logarithm():
    settings = trajectory(logdensity, (0.01, 1.0), 5, 1.0)
    sizes, counts = jax.vmap(settings.draw)(jax.random.split(jax.random.key(0), 4000))
    shares = np.log10(np.asarray(sizes)) / 2 + 1
    assert kstest(shares, "uniform").pvalue > 1e-3
    assert np.all(np.asarray(counts) == 5)


def test_state_at_the_start():
    settings = trajectory(logdensity, 0.1, 5, np.eye(3))
    chex.assert_trees_all_equal(init(settings, POSITION), init_state(logdensity, POSITION))


def test_a_mass_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"inverse_mass_matrix .* position of 3 numbers, got shape \(2,\)"):
        init(trajectory(logdensity, 0.1, 5, np.ones(2)), POSITION)
