"""The closed form against LHMC itself, and against what is known of leapfrog on a Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import vhmc_jax as vj
from vhmc_jax.pipeline import step_size

NUM_STEPS, FRICTION = (1, 3), 0.5
SCALES = np.geomspace(0.3, 3.0, 16)


def measured_acceptance(epsilon, scales, inverse_mass):
    """Of LHMC on a Gaussian with these standard deviations, from exact draws."""
    kernel = vj.lhmc(
        lambda x: -0.5 * jnp.sum((x / scales) ** 2),
        step_size=epsilon,
        num_integration_steps=NUM_STEPS,
        friction=FRICTION,
        inverse_mass_matrix=inverse_mass,
    )
    starts = scales * jax.random.normal(jax.random.key(0), (4096, len(scales)))
    return float(vj.run_chains(jax.random.key(1), kernel, starts, 4).info_means.acceptance_rate.mean())


def found(target, scales, inverse_mass, friction=FRICTION):
    return step_size.step_size_for(target, np.diag(scales**2)[None], np.ones(1), inverse_mass, NUM_STEPS, friction)


@pytest.mark.parametrize("target", [0.6, 0.8])
def test_acceptance_is_as_wanted_in_many_dimensions(target):
    inverse_mass = SCALES**2
    epsilon = found(target, SCALES, inverse_mass)
    assert abs(measured_acceptance(epsilon, SCALES, inverse_mass) - target) < 0.02
    assert abs(measured_acceptance(1.1 * epsilon, SCALES, inverse_mass) - target) > 0.02, "a step a tenth longer shows"


def test_acceptance_is_a_little_higher_in_one_dimension():
    epsilon = found(0.8, np.array([2.0]), np.array([[4.0]]))
    assert 0.8 < measured_acceptance(epsilon, np.array([2.0]), np.array([[4.0]])) < 0.86


def test_a_matched_mass_takes_the_scales_out():
    whitened = found(0.8, np.ones(16), np.eye(16))
    assert found(0.8, SCALES, np.diag(SCALES**2)) == pytest.approx(whitened)
    assert found(0.8, SCALES, SCALES**2) == pytest.approx(whitened), "as a diagonal"
    assert found(0.8, SCALES, np.ones(16)) < whitened


def test_without_friction_it_is_hmc_of_two_steps_more():
    """On a Gaussian the mean energy error of l leapfrog steps is known: ½ (χ − 1/χ)² sin² lθ."""
    h = np.array([0.1, 0.5, 1.2, 1.9])
    chi, theta = 1 / np.sqrt(1 - h**2 / 4), np.arccos(1 - h**2 / 2)
    mean_error = 0.5 * (chi - 1 / chi) ** 2 * np.sin(5 * theta) ** 2
    acceptance = step_size._acceptance(h[:, None, None], np.ones((1, 1)), (3, 3), 0.0)[:, 0]
    np.testing.assert_allclose(acceptance, scipy.special.erfc(np.sqrt(mean_error) / 2))


def test_the_mean_is_over_modes_and_an_unstable_mode_accepts_nothing():
    covariances, mass = np.array([[[1e-4]], [[1.0]]]), np.array([[1.0]])
    of_wide = step_size.step_size_for(0.8, covariances[1:], np.ones(1), mass, NUM_STEPS, FRICTION)
    mostly_wide = step_size.step_size_for(0.8, covariances, np.array([0.01, 0.99]), mass, NUM_STEPS, FRICTION)
    mostly_narrow = step_size.step_size_for(0.8, covariances, np.array([0.99, 0.01]), mass, NUM_STEPS, FRICTION)
    assert mostly_narrow < 0.02 < mostly_wide < of_wide


@pytest.mark.parametrize("target", [1e-6, 1.0])
def test_extreme_targets_have_a_step_size(target):
    assert 0 < found(target, np.ones(2), np.eye(2)) <= 2
