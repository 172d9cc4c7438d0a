"""Weights of modes by bridges within them: against the truth, against counting, and where there is little to go by."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax.diagnostics import log_evidence
from vhmc_jax.diagnostics.bridge import Bridge
from vhmc_jax.diagnostics.modes.bridge import ModeShares, bridge_modes
from vhmc_jax.diagnostics.strata import Strata
from vhmc_jax.guide.mixture import GaussianMixture

TRUTH = np.array([0.7, 0.3])


def guide(spread, defensive):
    """Two components that are off, with weights that are wrong, and a wide one that belongs to no mode."""
    log_weights = np.log([0.5 * (1 - defensive), 0.5 * (1 - defensive), defensive])
    means = np.array([[-4.0, 0.2 * (spread != 1)], [4.0, 0.0], [0.0, 0.0]])
    scales = np.stack([spread * np.eye(2), spread * np.eye(2), 6.0 * np.eye(2)])
    return GaussianMixture(log_weights, means, scales)


def logdensity(x):
    """A pair of Gaussians at (±4, 0) that weigh 0.7 and 0.3, and together e³."""
    logs = jnp.stack([-0.5 * jnp.sum((x - jnp.array([m, 0.0])) ** 2) for m in (-4.0, 4.0)])
    return 3.0 + jnp.logaddexp(*(logs + jnp.log(TRUTH))) - jnp.log(2 * jnp.pi)


def draws_of(rng, num_chains, num_draws, weights=TRUTH, memory=0.0):
    """Chains that choose their mode anew in every draw, and within it forget slowly."""
    label = rng.random((num_chains, num_draws)) < weights[1]
    noise = rng.normal(size=(num_chains, num_draws, 2))
    for t in range(1, num_draws):
        noise[:, t] = memory * noise[:, t - 1] + np.sqrt(1 - memory**2) * noise[:, t]
    return noise + np.stack([np.where(label, 4.0, -4.0), np.zeros_like(label, float)], -1)


def estimates(num_runs, num_chains=8, num_draws=250, spread=1.3, defensive=0.02, **options):
    found = []
    for seed in range(num_runs):
        draws = draws_of(np.random.default_rng(seed), num_chains, num_draws, **options)
        settings = {"num_guide_draws": 2000, "mode_of": (0, 1, -1)}
        evidence = log_evidence(jax.random.key(seed), logdensity, guide(spread, defensive), draws, **settings)
        found.append((evidence.mode_weights[0], evidence.mode_weight_errors[0]))
    return np.array(found).T


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"defensive": 0.1},
        {"spread": 1.0, "defensive": 0.1},
        {"num_chains": 2, "num_draws": 500, "memory": 0.9},
    ],
    ids=["guide off", "much in no mode", "guide right", "few slow chains"],
)
def test_weights_are_right_and_their_errors_too(settings):
    weights, errors = estimates(100, **settings)
    z = (weights - TRUTH[0]) / errors
    assert abs(np.mean(z)) < 4 * np.std(z) / np.sqrt(100)
    assert 0.75 < np.std(z) < 1.35
    num_draws = settings.get("num_chains", 8) * settings.get("num_draws", 250)
    assert np.std(weights) < 0.8 * np.sqrt(TRUTH[0] * TRUTH[1] / num_draws), "no better than counting"


def test_chains_that_are_in_the_wrong_proportion_do_not_matter():
    """Only how the density varies within a mode is used: what the starts left behind is not seen."""
    weights, errors = estimates(20, weights=np.array([0.5, 0.5]))
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
        ModeShares(ratios, shares), ModeShares(own_ratios, own), Strata.of_one(400), own, np.array([0.5, 0.5, 0.0]), 1.0
    )
    assert weights.sum() == pytest.approx(1)
    assert weights[2] == pytest.approx(5 / 2000)
    assert weights[0] / weights[1] == pytest.approx(np.e, rel=0.05)
    assert np.all((errors > 0) & (errors < 0.01))


def test_a_mode_where_the_density_is_zero_at_the_guide_is_counted():
    rng = np.random.default_rng(0)
    shares, own = np.eye(2)[rng.integers(0, 2, size=(4, 500))], np.eye(2)[rng.integers(0, 2, size=400)]
    at_guide = ModeShares(np.where(own[:, 1] > 0, -np.inf, 0.0), own)
    at_draws = ModeShares(np.zeros((4, 500)), shares)
    weights, errors = bridge_modes(at_draws, at_guide, Strata.of_one(len(own)), own, np.full(2, 0.5), 1.0)
    np.testing.assert_allclose(weights, shares.mean((0, 1)))
    np.testing.assert_allclose(errors, np.sqrt(0.25 / 2000), rtol=0.3)


def test_draws_of_the_guide_without_density_lower_the_estimate():
    """The bracket of the root: with a share f of the guide's weight where p > 0, c is log f below the ratio."""
    weights = np.array([0.9, 0.05, 0.05])
    bridge = Bridge(np.zeros(50), np.array([-np.inf, 0.0, 0.0]), np.full(50, 0.02), weights, 50.0, 30.0)
    assert bridge.solve(guess=0.0) == pytest.approx(np.log(0.1), abs=1e-9)


@pytest.mark.parametrize("mode_of", [(-1, -1, -1), (0, 1), (0.0, 1.0, -1.0)])
def test_bad_modes_are_refused(mode_of):
    draws = draws_of(np.random.default_rng(0), 2, 50)
    with pytest.raises(ValueError, match="mode_of must name a mode for each of 3 components"):
        log_evidence(jax.random.key(0), logdensity, guide(1.3, 0.02), draws, num_guide_draws=50, mode_of=mode_of)


def test_only_a_mixture_can_tell_the_modes():
    class Flow:
        def sample(self, rng_key):
            return jax.random.normal(rng_key, (2,))

        def log_prob(self, x):
            return -0.5 * x @ x - jnp.log(2 * jnp.pi)

    draws = draws_of(np.random.default_rng(0), 2, 50)
    with pytest.raises(TypeError, match="mode_of is for a mixture of this package, got a Flow"):
        log_evidence(jax.random.key(0), logdensity, Flow(), draws, num_guide_draws=50, mode_of=(0, 1))
