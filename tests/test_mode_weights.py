"""Intervals of mode weights cover the truth as often as they say, also after bad starts."""

import numpy as np
import pytest
from scipy import stats

from vhmc_jax.diagnostics import mode_report
from vhmc_jax.diagnostics.modes.weights import _stationary, _wilson

WEIGHTS = np.array([0.1, 0.6, 0.3])
CENTRES = np.array([[-10.0, 0.0], [0.0, 5.0], [10.0, 0.0]])
NUM_SEEDS, NUM_CHAINS, NUM_DRAWS = 200, 16, 400


def simulate(rng, switching, starts):
    """Labels (seed, chain, draw) of chains that draw a mode afresh from WEIGHTS with a probability."""
    shape = (NUM_SEEDS, NUM_CHAINS, NUM_DRAWS)
    fresh = rng.choice(3, shape, p=WEIGHTS)
    if starts is not None:
        fresh[:, :, 0] = starts
    switch = rng.random(shape) < switching
    switch[:, :, 0] = True
    last = np.maximum.accumulate(np.where(switch, np.arange(NUM_DRAWS), 0), axis=2)
    return np.take_along_axis(fresh, last, axis=2)


def coverage(rng, switching, starts=None):
    """Share of seeds whose interval holds the true weight, by mode; and as if draws were independent."""
    labels = simulate(rng, switching, starts)
    covered, naive = [], []
    for seed_labels in labels:
        draws = CENTRES[seed_labels] + rng.normal(size=(NUM_CHAINS, NUM_DRAWS, 2))
        report = mode_report(draws, centres=CENTRES, covariances=np.broadcast_to(np.eye(2), (3, 2, 2)))
        covered.append((report.lower <= WEIGHTS) & (report.upper >= WEIGHTS))
        error = np.sqrt(report.weights * (1 - report.weights) / seed_labels.size)
        naive.append(np.abs(report.weights - WEIGHTS) < 1.96 * error)
    return np.mean(covered, axis=0), np.mean(naive, axis=0)


@pytest.mark.statistical
@pytest.mark.parametrize(("switching", "starts"), [(0.05, None), (0.05, 0), (0.05, np.arange(16) % 3)])
def test_intervals_cover_the_true_weights(switching, starts):
    """Chains started at random, all in the rarest mode, and in equal numbers in each."""
    covered, naive = coverage(np.random.default_rng(0), switching, starts)
    assert ((covered >= 0.90) & (covered <= 0.99)).all(), covered
    assert (naive < 0.6).all(), naive


@pytest.mark.statistical
def test_memory_of_the_starts_is_what_makes_the_interval_cover():
    """Without the difference between shares of draws and transitions, the bias of the starts goes unseen."""
    labels = simulate(np.random.default_rng(1), 0.01, 0)
    with_memory, without = [], []
    for seed_labels in labels:
        report = mode_report(labels=seed_labels)
        variance = report.errors**2 - (report.weights - report.weights_by_transitions) ** 2
        with_memory.append(np.abs(report.weights - WEIGHTS) < 1.96 * report.errors)
        without.append(np.abs(report.weights - WEIGHTS) < 1.96 * np.sqrt(np.maximum(variance, 0)))
    assert (np.mean(with_memory, axis=0) > 0.9).all()
    assert np.mean(without, axis=0)[0] < 0.6


def test_stationary_distribution_of_known_transitions():
    matrix = 0.9 * np.eye(3) + 0.1 * WEIGHTS
    transitions = np.zeros((4, 4))
    transitions[np.ix_([0, 2, 3], [0, 2, 3])] = 1e9 * WEIGHTS[:, None] * matrix
    np.testing.assert_allclose(_stationary(transitions), [0.1, np.nan, 0.6, 0.3], atol=1e-6)
    assert np.isnan(_stationary(np.diag([5, 0]))).all()


def test_ends_of_the_interval_solve_the_equation_of_wilson():
    """Ends p with (p − w)² = q² p (1 − p) / n, n = w (1 − w) / se², and q of Student's t."""
    weights, errors = np.array([0.5, 0.1, 0.02, 0.9]), np.array([0.1, 0.03, 0.02, 0.2])
    sizes = np.array([3, 11, 1e9, 1])
    quantiles = stats.t.ppf(0.975, [2.0, 10.0, 1e9, 1.0])  # one degree of freedom at least
    for ends in _wilson(weights, errors, sizes):
        assert np.all((ends >= 0) & (ends <= 1))
        expected = quantiles**2 * ends * (1 - ends) * errors**2 / (weights * (1 - weights))
        np.testing.assert_allclose((ends - weights) ** 2, expected, rtol=1e-6)
    assert np.isnan(_wilson(weights, np.full(4, np.nan), sizes)).all()
