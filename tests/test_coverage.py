"""Whether a guide covers a population: what it lacks, and how sure that is."""

import jax
import numpy as np
import pytest
from scipy import stats

import vhmc_jax as vj
from vhmc_jax.fit.coverage import (
    LEAST_EFFICIENCY,
    UNCOVERED_RATIO,
    Coverage,
    coverage_of,
    log_ratios_of,
    worst,
)
from vhmc_jax.search.population import Population

TARGET = vj.targets.far_pair(0.7)
NUM = 1000
UNIT = np.broadcast_to(np.eye(2), (2, 2, 2))


@pytest.fixture(scope="module")
def particles():
    """Exact draws of the target, as a population; nothing else of it is looked at."""
    x = np.asarray(TARGET.sample(jax.random.key(0), NUM))
    rest = dict.fromkeys(Population._fields)
    return Population(**rest | {"positions": x, "logdensities": np.asarray(jax.vmap(TARGET.logdensity)(x))})


def guide_with(weights):
    return vj.GaussianMixture(np.log(np.asarray(weights)), np.asarray(TARGET.means), np.array(UNIT))


def upper_bound(number, total):
    return stats.beta.ppf(0.95, number + 1, total - number)


def test_a_right_guide_leaves_nothing_uncovered(particles):
    right = guide_with([0.7, 0.3])
    np.testing.assert_allclose(log_ratios_of(particles, right, 0.0), 0.0, atol=1e-10)
    coverage = coverage_of(particles, right, 0.0)
    assert coverage.share == 0.0
    assert coverage.upper == pytest.approx(upper_bound(0, NUM))
    assert coverage.upper == pytest.approx(3.0 / NUM, rel=0.01), "the rule of three"


def test_a_guide_that_lacks_a_mode_leaves_its_share_uncovered(particles):
    lacking = vj.GaussianMixture(np.zeros(1), np.asarray(TARGET.means)[:1], np.array(UNIT[:1]))
    is_second = np.asarray(jax.vmap(TARGET.mode_responsibilities)(particles.positions))[:, 1] > 0.5
    coverage = coverage_of(particles, lacking, np.log(0.7))
    assert coverage.share == np.mean(is_second)
    assert coverage.upper == pytest.approx(upper_bound(is_second.sum(), NUM))
    assert coverage.upper > coverage.share


def test_a_guide_that_covers_nothing_is_certain_to(particles):
    elsewhere = vj.GaussianMixture(np.zeros(1), np.full((1, 2), 100.0), np.array(UNIT[:1]))
    assert coverage_of(particles, elsewhere, 0.0) == (1.0, 1.0)


def test_the_bound_holds_nineteen_times_in_twenty():
    share, generator = 0.02, np.random.default_rng(3)
    bounds = upper_bound(generator.binomial(NUM, share, size=4000), NUM)
    assert np.mean(bounds >= share) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 4000)
    assert np.mean(bounds * 0.8 >= share) < 0.9, "a smaller bound would not"


@pytest.mark.parametrize("efficiency", [1.0, 0.5, 0.01])
def test_an_inefficient_guide_is_allowed_a_greater_ratio(particles, efficiency):
    limit = UNCOVERED_RATIO / max(efficiency, LEAST_EFFICIENCY)
    right = guide_with([0.7, 0.3])
    # As if the evidence were so much smaller, π / (Z q) is the same everywhere.
    assert coverage_of(particles, right, -np.log(0.99 * limit), efficiency).share == 0.0
    assert coverage_of(particles, right, -np.log(1.01 * limit), efficiency).share == 1.0


def test_a_mode_of_too_little_weight_in_the_guide_is_uncovered(particles):
    is_second = np.asarray(jax.vmap(TARGET.mode_responsibilities)(particles.positions))[:, 1] > 0.5
    assert coverage_of(particles, guide_with([0.95, 0.05]), 0.0).share == np.mean(is_second)
    assert coverage_of(particles, guide_with([0.93, 0.07]), 0.0).share == 0.0


def test_the_worst_of_some():
    small, great = Coverage(0.1, 0.2), Coverage(0.3, 0.31)
    assert worst(small, None, great) is great
    assert worst(None) is None
