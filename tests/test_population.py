"""Tempering a population from a region to a target: evidence, weights, odd densities, and where it stops."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.search.population import EFFECTIVE_SHARE, _next_increase, _resample, _weights, population

KEY = jax.random.key(0)
PAIR = vj.targets.far_pair(0.7)
LOG_CONSTANT = 5.0
SEEDS = range(16)


def cube(dim, low, high, dtype=jnp.float64):
    return vj.box(jnp.full(dim, low, dtype), jnp.full(dim, high, dtype))


def gaussian(x):
    """A correlated Gaussian away from the origin, with a constant of its own."""
    white = jnp.stack([x[0] - 1.0, (x[1] + 2.0 - 0.8 * (x[0] - 1.0)) / 0.6])
    return LOG_CONSTANT - 0.5 * white @ white - jnp.log(2 * jnp.pi) - jnp.log(0.6)


@functools.cache
def populations(name):
    """One population for each seed: cached, since several tests look at them."""
    density, low, high = {"gaussian": (gaussian, -5.0, 5.0), "pair": (PAIR.logdensity, -10.0, 10.0)}[name]
    region = cube(2, low, high)
    return [population(jax.random.key(seed), density, region, num_particles=256) for seed in SEEDS]


def z_of(values, truth):
    """Deviation of the mean of independent values from a truth, in standard errors."""
    return (np.mean(values) - truth) / (np.std(values, ddof=1) / np.sqrt(len(values)))


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "log_constant"), [("gaussian", LOG_CONSTANT), ("pair", 0.0)])
def test_evidence_is_right_over_seeds(name, log_constant):
    found = populations(name)
    assert all(one.has_arrived for one in found)
    ratios = np.exp([one.log_evidence - log_constant for one in found])
    assert abs(z_of(ratios, 1.0)) < 4
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.15)
    # The error is a lower bound, of the right size.
    spread, claimed = np.std(np.log(ratios)), np.mean([one.log_evidence_error for one in found])
    assert 0.5 * claimed < spread < 4 * claimed
    # Power: the evidence of the first stage alone, or a constant forgotten, is far off.
    assert abs(z_of(ratios * np.exp(0.5), 1.0)) > 4


@pytest.mark.statistical
def test_evidence_needs_the_weights_of_every_stage(monkeypatch):
    # The package's attribute of that name is the function.
    module = importlib.import_module("vhmc_jax.search.population")

    def without_mean(log_weights):
        weights, _, share = _weights(log_weights)
        return weights, 0.0, share

    monkeypatch.setattr(module, "_weights", without_mean)
    found = population(KEY, gaussian, cube(2, -5.0, 5.0), num_particles=256)
    assert abs(found.log_evidence - LOG_CONSTANT) > 20 * found.log_evidence_error


@pytest.mark.statistical
def test_weights_of_two_modes_and_moments_are_right_over_seeds():
    shares = [np.mean(one.flat[:, 0] * PAIR.means[0, 0] > 0) for one in populations("pair")]
    assert abs(z_of(shares, 0.7)) < 4
    assert np.mean(shares) == pytest.approx(0.7, abs=0.1)
    found = populations("gaussian")
    means = np.array([one.flat.mean(axis=0) for one in found])
    assert np.all(np.abs(z_of(means[:, 0], 1.0)) < 4)
    assert np.all(np.abs(z_of(means[:, 1], -2.0)) < 4)
    covariance = np.mean([np.cov(one.flat.T) for one in found], axis=0)
    np.testing.assert_allclose(covariance, [[1.0, 0.8], [0.8, 1.0]], atol=0.1)


def test_log_densities_are_those_of_the_positions():
    for name, density in (("pair", PAIR.logdensity), ("gaussian", gaussian)):
        for one in populations(name)[:3]:
            np.testing.assert_allclose(one.logdensities, jax.vmap(density)(one.positions), rtol=1e-10, atol=1e-10)


def test_the_path_rises_to_the_target_and_counts_what_it_costs():
    for one in populations("pair"):
        path = one.path
        assert np.all(np.diff(path.temperatures, prepend=0.0) > 0)
        assert path.temperatures[-1] == 1.0
        assert np.all(path.effective_shares >= EFFECTIVE_SHARE - 1e-6)
        assert np.all((path.acceptance_rates > 0) & (path.acceptance_rates <= 1))
        assert path.acceptance_rates[-1] > 0.4
        stages = len(path.temperatures)
        assert one.num_gradients == 256 * (1 + (stages - 1) * (3 * 2 + 1) + (3 * 4 + 1))
        assert one.num_alive == one.num_drawn == 256


def narrow_sampler(rng_key):
    return jnp.array([1.0, -2.0]) + 2.0 * jax.random.normal(rng_key, (2,))


class Sampler:
    """A sampler with its density: a Gaussian of scale 3."""

    def __call__(self, rng_key):
        return 3.0 * jax.random.normal(rng_key, (2,))

    def log_prob(self, x):
        return -0.5 * x @ x / 9.0 - jnp.log(2 * jnp.pi * 9.0)


REGIONS = {
    "sampler": narrow_sampler,
    "sampler_with_density": Sampler(),
    "array": np.random.default_rng(0).normal(scale=3.0, size=(64, 2)),
    "two_starts": np.array([[-3.0, -3.0], [3.0, 3.0]]),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", REGIONS)
def test_every_kind_of_region_leads_to_the_target(name):
    found = population(KEY, gaussian, REGIONS[name], num_particles=512)
    assert found.has_arrived
    assert abs(found.log_evidence - LOG_CONSTANT) < 5 * found.log_evidence_error + 0.05
    np.testing.assert_allclose(found.flat.mean(axis=0), [1.0, -2.0], atol=0.25)


def test_a_wrong_density_of_the_region_shows_in_the_evidence():
    class Wrong(Sampler):
        def log_prob(self, x):
            return super().log_prob(x) - 2.0

    right = population(KEY, gaussian, REGIONS["sampler_with_density"], num_particles=512)
    wrong = population(KEY, gaussian, Wrong(), num_particles=512)
    assert wrong.log_evidence - right.log_evidence == pytest.approx(2.0, abs=0.3)


def test_positions_are_pytrees():
    def density(position):
        return -0.5 * jnp.sum((position["b"] - 2.0) ** 2) - 0.5 * (position["a"] + 3.0) ** 2 / 4.0

    region = vj.box({"a": jnp.array(-8.0), "b": jnp.full(2, -5.0)}, {"a": jnp.array(8.0), "b": jnp.full(2, 5.0)})
    found = population(KEY, density, region, num_particles=256)
    assert found.positions["a"].shape == (256,)
    assert found.positions["b"].shape == (256, 2)
    np.testing.assert_array_equal(found.flat[:, 0], found.positions["a"])
    np.testing.assert_array_equal(found.flat[:, 1:], found.positions["b"])
    assert np.mean(found.positions["a"]) == pytest.approx(-3.0, abs=0.6)
    np.testing.assert_allclose(np.mean(found.positions["b"], axis=0), 2.0, atol=0.3)
    np.testing.assert_allclose(found.logdensities, jax.vmap(density)(found.positions), rtol=1e-10)


@pytest.mark.statistical
@pytest.mark.parametrize("outside", [-jnp.inf, jnp.nan])
def test_a_density_that_is_zero_or_no_number_on_half_of_the_region(outside):
    def half(x):
        return jnp.where(x[0] > 0, -0.5 * x @ x - jnp.log(2 * jnp.pi), outside)

    found = population(KEY, half, cube(2, -4.0, 4.0), num_particles=1024)
    assert found.num_alive >= 512
    assert abs(found.num_alive / found.num_drawn - 0.5) < 4 * 0.5 / np.sqrt(found.num_drawn)
    assert np.all(found.flat[:, 0] > 0)
    assert np.all(np.isfinite(found.logdensities))
    assert found.log_evidence == pytest.approx(np.log(0.5), abs=5 * found.log_evidence_error + 0.05)
    assert np.mean(found.flat[:, 0]) == pytest.approx(np.sqrt(2 / np.pi), abs=0.12)


@pytest.mark.parametrize("value", [-jnp.inf, jnp.nan])
def test_a_density_that_is_zero_everywhere_is_an_error(value):
    with pytest.raises(
        ValueError, match=r"zero or not a number at 4,096 of 4,096 draws.*region that covers the density"
    ):
        population(KEY, lambda x: value * x[0] ** 2, cube(2, -1.0, 1.0), num_particles=64)


@pytest.mark.statistical
def test_more_is_drawn_where_the_density_is_zero_in_most_of_the_region():
    def corner(x):
        return jnp.where(jnp.all(x > 1.0), -jnp.sum(x - 1.0), -jnp.inf)

    found = population(KEY, corner, cube(2, -4.0, 4.0), num_particles=256)
    assert found.num_drawn > 256
    assert found.num_alive >= 128
    assert np.all(found.flat > 1.0)
    assert found.log_evidence == pytest.approx(0.0, abs=5 * found.log_evidence_error + 0.05)
    np.testing.assert_allclose(found.flat.mean(axis=0), 2.0, atol=0.35)


def test_it_may_not_take_a_single_step():
    found = population(KEY, PAIR.logdensity, cube(2, -10.0, 10.0), num_particles=256, max_gradients=256)
    assert not found.has_arrived
    assert found.path.temperatures.shape == (0,)
    assert found.num_gradients == 256


def test_it_stops_short_where_gradients_run_out():
    found = population(KEY, PAIR.logdensity, cube(2, -10.0, 10.0), num_particles=256, max_gradients=2000)
    assert not found.has_arrived
    assert found.path.temperatures[-1] < 1.0
    assert found.num_gradients < 2000 + 256 * 14
    assert populations("pair")[0].has_arrived
    np.testing.assert_allclose(found.logdensities, jax.vmap(PAIR.logdensity)(found.positions), rtol=1e-10)


def test_single_precision_is_kept():
    found = population(KEY, PAIR.logdensity, cube(2, -10.0, 10.0, jnp.float32), num_particles=256)
    assert found.positions.dtype == found.flat.dtype == np.float32
    assert found.has_arrived
    assert abs(found.log_evidence) < 5 * found.log_evidence_error


def test_a_broad_component_around_a_narrow_one_is_seen():
    """Half of the mass has no peak of its own: ½N(0, I) + ½N(0, 100 I) in eight dimensions.

    The narrow half is for climbing to find: its volume is 10⁸ times as small, and no particle may be there.
    """

    def density(x):
        return jnp.logaddexp(-0.5 * x @ x, -0.5 * x @ x / 100 - 8 * jnp.log(10.0))

    found = population(KEY, density, cube(8, -30.0, 30.0), num_particles=1024)
    broad = np.mean(np.linalg.norm(found.flat, axis=1) > 8.0)
    assert broad > 0.25
    assert np.mean(found.flat**2) == pytest.approx(100.0, rel=0.8)
    climbed = vj.find_modes(KEY, density, cube(8, -30.0, 30.0), num_starts=32)
    assert len(climbed.logdensities) == 1
    assert np.linalg.norm(climbed.positions) < 0.1, "climbing sees the narrow one alone"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_particles": 4}, "num_particles must be at least 16"),
        ({"num_moves": 0}, "num_moves must be at least 1"),
        ({"max_gradients": 0}, "max_gradients must be at least 1"),
        ({"logdensity_fn": lambda x: x}, "logdensity_fn must return one real number"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        population(**({"rng_key": KEY, "logdensity_fn": gaussian, "region": cube(2, -1.0, 1.0)} | options))


def test_resampling_is_unbiased_and_differs_by_less_than_one():
    weights = np.array([0.5, 0.0, 0.03, 0.17, 0.3])
    generator, counts = np.random.default_rng(1), []
    for _ in range(4000):
        numbers = _resample(generator, weights)
        assert len(numbers) == 5
        counts.append(np.bincount(numbers, minlength=5))
    counts = np.array(counts)
    assert np.all(np.abs(counts - 5 * weights) < 1)
    np.testing.assert_allclose(counts.mean(axis=0), 5 * weights, atol=5 * 0.5 / np.sqrt(4000))
    assert np.all(counts[:, 1] == 0)


def test_rounding_of_the_weights_names_no_particle_beyond_the_last():
    weights = np.full(7, 1 / 7) * (1 - 1e-9)
    for seed in range(50):
        assert _resample(np.random.default_rng(seed), weights).max() <= 6


def test_the_next_increase_has_the_wanted_effective_size():
    log_ratios = np.random.default_rng(2).normal(scale=20.0, size=1000)
    increase = _next_increase(log_ratios, 1.0)
    assert 0 < increase < 1
    assert _weights(increase * log_ratios)[2] == pytest.approx(EFFECTIVE_SHARE, abs=1e-3)
    assert _weights(2 * increase * log_ratios)[2] < 0.8 * EFFECTIVE_SHARE
    assert _next_increase(1e-3 * log_ratios, 0.25) == 0.25, "the rest, where the weights stay even"
    # Particles without density cannot count for the effective size, whatever the increase.
    dead = np.where(np.arange(1000) < 700, -np.inf, log_ratios)
    assert _weights(_next_increase(dead, 1.0) * dead)[2] == pytest.approx(0.3 * EFFECTIVE_SHARE, abs=1e-3)


def test_weights_without_a_number_count_as_zero():
    weights, log_mean, share = _weights(np.array([0.0, np.nan, -np.inf, 0.0]) + 700.0)
    np.testing.assert_allclose(weights, [0.5, 0.0, 0.0, 0.5])
    assert log_mean == pytest.approx(700.0 + np.log(0.5))
    assert share == pytest.approx(0.5)


def test_step_sizes_follow_a_valley_that_gets_thin():
    """Rosenbrock's: without moves particles would be copies, and too few of them at the ends."""

    def valley(x):
        return -(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2) / 20

    region = vj.box(jnp.array([-10.0, -10.0]), jnp.array([10.0, 60.0]))
    found = population(KEY, valley, region, num_particles=256)
    assert found.path.acceptance_rates.min() > 0.35
    assert len(np.unique(found.flat[:, 0])) > 250
    assert 0.6 < found.flat[:, 0].std() / np.sqrt(10) < 1.4
