"""Weights of components by importance sampling and maximum likelihood."""

import numpy as np
import pytest
from scipy.stats import norm

from vhmc_jax.fit.weights import weigh_components, weight_errors

MEANS, SCALES, WEIGHTS = np.array([-2.0, 1.0]), np.array([1.0, 0.7]), np.array([0.7, 0.3])


def draws_and_densities(rng, num_draws, shift):
    """Draws of components that are off by ``shift``, with the target's density up to a constant."""
    means, scales = MEANS + shift, 1.2 * SCALES
    x = np.concatenate([rng.normal(m, s, num_draws) for m, s in zip(means, scales, strict=True)])
    target = np.log(norm.pdf(x[:, None], MEANS, SCALES) @ WEIGHTS) + 5.0
    return target, norm.logpdf(x[:, None], means, scales)


def test_weights_of_an_overlapping_pair_are_the_likelihoods_own():
    target, log_probs = draws_and_densities(np.random.default_rng(0), 20_000, shift=0.0)
    found = weigh_components(target, log_probs)
    # The components are 1.2 times too wide: the weights of the greatest likelihood, by direct maximisation.
    x = np.linspace(-9, 7, 4001)
    density = norm.pdf(x[:, None], MEANS, SCALES) @ WEIGHTS
    components = norm.pdf(x[:, None], MEANS, 1.2 * SCALES)
    grid = np.linspace(0.5, 0.9, 2001)
    likelihoods = [density @ np.log(components @ [w, 1 - w]) for w in grid]
    assert found.weights[0] == pytest.approx(grid[np.argmax(likelihoods)], abs=0.005)
    assert found.weights.sum() == pytest.approx(1.0)


def test_errors_are_the_spread_over_seeds():
    estimates, errors = [], []
    for seed in range(200):
        target, log_probs = draws_and_densities(np.random.default_rng(seed), 300, shift=0.2)
        found = weigh_components(target, log_probs)
        estimates.append(found.weights[0])
        errors.append(weight_errors(found, np.eye(2))[0])
    assert np.std(estimates) / np.mean(errors) == pytest.approx(1.0, abs=0.15)


def test_a_density_of_zero_everywhere_is_named():
    with pytest.raises(ValueError, match="density is zero at every draw"):
        weigh_components(np.full(4, -np.inf), np.zeros((4, 2)))


def test_components_that_overlap_reach_the_greatest_likelihood():
    # At the maximum Σ W qᵢ / q = 1 for every component with a weight, and at most 1 for the others.
    rng = np.random.default_rng(1)
    means, scales = np.array([0.0, 0.0, 0.3, 4.0]), np.array([1.0, 2.0, 1.1, 1.0])
    x = np.concatenate([rng.normal(m, s, 2000) for m, s in zip(means, scales, strict=True)])
    log_probs = norm.logpdf(x[:, None], means, scales)
    found = weigh_components(np.log(0.8 * norm.pdf(x) + 0.2 * norm.pdf(x, 4.0, 1.3)), log_probs)
    importance = np.exp(found.log_importance) / np.exp(found.log_importance).sum()
    slopes = np.exp(log_probs).T @ (importance / (np.exp(log_probs) @ found.weights))
    assert np.all(slopes < 1 + 1e-4)
    np.testing.assert_allclose(slopes[found.weights > 1e-3], 1.0, atol=1e-4)
