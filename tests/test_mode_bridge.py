"""Weights of modes by bridges within them: against the truth, against counting, and where there is little to go by."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax.diagnostics import log_evidence
from vhmc_jax.diagnostics.mode_bridge import ModeShares, bridge_modes
from vhmc_jax.guide.mixture import GaussianMixture

TRUTH = np.array([0.7, 0.3])
SPREAD = 1.3


def guide(defensive=0.02):
    """Two components that are too wide and off, with weights that are wrong, and a wide one that belongs to no mode."""
    log_weights = np.log([0.5 * (1 - defensive), 0.5 * (1 - defensive), defensive])
    means = np.array([[-4.0, 0.2], [4.2, 0.0], [0.0, 0.0]])
    scales = np.stack([SPREAD * np.eye(2), SPREAD * np.eye(2), 6.0 * np.eye(2)])
    return GaussianMixture(log_weights, means, scales)


def logdensity(x):
    """A pair of Gaussians at (±4, 0) that weigh 0.7 and 0.3, and together e³."""
    logs = jnp.stack([-0.5 * jnp.sum((x - jnp.array([m, 0.0])) ** 2) for m in (-4.0, 4.0)])
    return 3.0 + jnp.logaddexp(*(logs + jnp.log(TRUTH))) - jnp.log(2 * jnp.pi)


def draws_of(rng, num_chains, num_draws, weights=TRUTH):
    label = rng.random((num_chains, num_draws)) < weights[1]
    noise = rng.normal(size=(num_chains, num_draws, 2))
    return noise + np.stack([np.where(label, 4.0, -4.0), np.zeros_like(label, float)], -1)


def estimates(num_runs, num_chains, num_draws, **options):
    found = []
    for seed in range(num_runs):
        draws = draws_of(np.random.default_rng(seed), num_chains, num_draws, **options)
        evidence = log_evidence(
            jax.random.key(seed), logdensity, guide(), draws, num_guide_draws=2000, mode_of=(0, 1, -1)
        )
        found.append((evidence.mode_weights[0], evidence.mode_weight_errors[0]))
    return np.array(found).T


def test_weights_are_right_and_their_errors_too():
    weights, errors = estimates(60, num_chains=8, num_draws=250)
    z = (weights - TRUTH[0]) / errors
    assert abs(np.mean(z)) < 4 / np.sqrt(60)
    assert 0.7 < np.std(z) < 1.4
    counting = np.sqrt(TRUTH[0] * TRUTH[1] / 2000)
    assert np.std(weights) < 0.6 * counting, "no better than counting, though the guide has nearly the right shape"


def test_chains_that_are_in_the_wrong_proportion_do_not_matter():
    """Only how the density varies within a mode is used: what the starts left behind is not seen."""
    weights, errors = estimates(20, num_chains=8, num_draws=250, weights=np.array([0.5, 0.5]))
    assert np.max(np.abs(weights - TRUTH[0]) / errors) < 4
    assert abs(0.5 - TRUTH[0]) > 20 * np.mean(errors), "power: by counting the weight would be 0.5"


def test_a_mode_with_hardly_any_draws_keeps_its_share():
    rng = np.random.default_rng(0)
    shares = np.zeros((4, 500, 3))
    label = rng.integers(0, 2, size=(4, 500))
    label[0, :5] = 2
    np.put_along_axis(shares, label[..., None], 1.0, axis=-1)
    own = np.eye(3)[rng.integers(0, 2, size=400)]
    noise, own_noise = 0.1 * rng.normal(size=(4, 500)), 0.1 * rng.normal(size=400)
    # Z / Q is e for the first mode and 1 for the second: with equal masses the weights are as e to 1.
    ratios, own_ratios = noise + (label == 0), own_noise + own[:, 0]
    weights, errors = bridge_modes(
        ModeShares(ratios, shares), ModeShares(own_ratios, own), np.array([0.5, 0.5, 0.0]), 1.0
    )
    assert weights.sum() == pytest.approx(1)
    assert weights[2] == pytest.approx(5 / 2000)
    assert weights[0] / weights[1] == pytest.approx(np.e, rel=0.05)
    assert np.all((errors > 0) & (errors < 0.01))


def test_only_a_mixture_can_tell_the_modes():
    class Flow:
        def sample(self, rng_key):
            return jax.random.normal(rng_key, (2,))

        def log_prob(self, x):
            return -0.5 * x @ x - jnp.log(2 * jnp.pi)

    draws = draws_of(np.random.default_rng(0), 2, 50)
    with pytest.raises(TypeError, match="mode_of is for a mixture of this package, got a Flow"):
        log_evidence(jax.random.key(0), logdensity, Flow(), draws, num_guide_draws=50, mode_of=(0, 1))
