"""Draws in fixed numbers of each component: how many, and means over them with honest variances."""

import numpy as np
import pytest

from vhmc_jax.diagnostics.strata import LEAST_DRAWS, Strata


@pytest.mark.parametrize("num_draws", [16, 50, 1000, 8192])
@pytest.mark.parametrize("weights", [[1.0], [0.69, 0.3, 0.01], [0.25, 0.25, 0.5 - 1e-9, 1e-9]])
def test_every_component_has_draws_and_the_rest_are_in_proportion(weights, num_draws):
    weights = np.array(weights)
    strata = Strata.of(weights, num_draws)
    least = min(LEAST_DRAWS, num_draws // (2 * len(weights)))
    assert strata.counts.sum() == len(strata.labels) == num_draws
    assert np.all(strata.counts >= least)
    np.testing.assert_allclose(strata.counts - least, weights * (num_draws - least * len(weights)), atol=1)
    np.testing.assert_allclose(np.bincount(strata.labels, strata.draw_weights), weights)


def test_too_few_draws_are_not_divided():
    assert Strata.of(np.full(10, 0.1), 39) is None
    assert np.all(Strata.of(np.full(10, 0.1), 40).counts == 4)


def test_plain_draws_are_in_proportion_to_the_weights():
    strata = Strata.of(np.array([0.7, 0.29, 0.01]), 4000)
    plain = np.bincount(strata.labels[strata.is_plain], minlength=3)
    np.testing.assert_allclose(plain / plain.sum(), strata.weights, atol=1e-3)
    assert plain[0] == strata.counts[0], "no more than needed is left out"
    assert Strata.of_one(7).is_plain.all()


def test_the_variance_of_a_mean_is_that_over_many_runs():
    """Components that differ in mean and in variance; what differs between them does not make the mean uncertain."""
    rng = np.random.default_rng(0)
    strata = Strata.of(np.array([0.7, 0.25, 0.05]), 60)
    values = np.array([0.0, 5.0, 100.0])[strata.labels] + np.array([1.0, 3.0, 10.0])[strata.labels] * rng.normal(
        size=(4000, 60)
    )
    means = values @ strata.draw_weights
    assert abs(means.mean() - strata.weights @ [0.0, 5.0, 100.0]) < 4 * means.std() / np.sqrt(4000)
    variances = strata.variance_of_mean(values.T)
    np.testing.assert_allclose(variances.mean(), means.var(), rtol=0.1)
    assert strata.variance_of_mean(values[0]) == pytest.approx(variances[0])
    # Power: as if the draws had come from the mixture as a whole.
    assert Strata.of_one(60).variance_of_mean(values.T).mean() > 10 * means.var()
