"""From ends to modes: ridges, edges, many modes, too many, and those that do not matter."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.search import merge
from vhmc_jax.search.modes import search_modes

pytestmark = pytest.mark.slow
KEY = jax.random.key(0)


def cube(dim, low, high):
    return vj.box(jnp.full(dim, low), jnp.full(dim, high))


def log_mixture(*parts):
    """Log density of Gaussians of unit scale, each (log height, mean)."""
    heights, means = (jnp.asarray(part, float) for part in zip(*parts, strict=True))

    def logdensity(x):
        return jax.nn.logsumexp(heights - 0.5 * jnp.sum((x - means) ** 2, axis=1))

    return logdensity


def ring(x):
    return -0.5 * ((jnp.linalg.norm(x) - 10.0) / 0.5) ** 2


@functools.cache
def modes_of_ring():
    return search_modes(KEY, ring, cube(2, -15.0, 15.0))


def test_a_ring_is_one_mode_with_the_covariance_of_the_whole():
    found = modes_of_ring()
    assert len(found.logdensities) == 1
    assert np.linalg.norm(found.positions[0]) == pytest.approx(10.0, abs=0.01)
    assert found.basin_counts.sum() + found.num_failed == found.num_starts
    assert int(found.basin_counts[0]) > 0.9 * found.num_starts
    variances = np.linalg.eigvalsh(found.covariances[0])
    assert np.all((variances > 10.0) & (variances < 200.0)), "of a ring of radius ten, 50 each way"
    assert found.notes


def test_evaluations_on_a_ring_are_bounded():
    found = modes_of_ring()
    assert found.num_starts <= 1024
    assert found.num_gradients < 60 * found.num_starts
    assert found.num_densities < 400 * found.num_starts


def test_without_merging_a_ring_is_many_modes(monkeypatch):
    monkeypatch.setattr(merge, "FEW_FLAT", 10**6)
    assert len(search_modes(KEY, ring, cube(2, -15.0, 15.0)).logdensities) > 3


def test_a_ring_beside_a_peak_leaves_the_peak_alone():
    def density(x):
        return jnp.logaddexp(ring(x), 3.0 - 0.5 * jnp.sum((x - 20.0) ** 2))

    found = search_modes(KEY, density, cube(2, -15.0, 25.0))
    assert len(found.logdensities) == 2
    np.testing.assert_allclose(found.positions[0], [20.0, 20.0], atol=1e-3)
    np.testing.assert_allclose(found.covariances[0], np.eye(2), atol=1e-3)


def exponential_and_gaussian(x):
    """½Exp(1) for positive x, and ½N(40, 1)."""
    exponential = jnp.where(x[0] > 0, -x[0], -jnp.inf)
    return jnp.logaddexp(exponential, -0.5 * (x[0] - 40.0) ** 2 - 0.5 * jnp.log(2 * jnp.pi)) + jnp.log(0.5)


def test_an_edge_of_the_support_is_a_mode():
    found = search_modes(KEY, exponential_and_gaussian, cube(1, -5.0, 60.0))
    places = np.sort(np.asarray(found.positions)[:, 0])
    np.testing.assert_allclose(places, [0.0, 40.0], atol=0.1)


def many_wells(x):
    """Four double wells and four Gaussians: sixteen modes in eight dimensions."""
    return -2.0 * jnp.sum((x[:4] ** 2 - 4.0) ** 2) / 4.0 - 0.5 * jnp.sum(x[4:] ** 2)


def test_every_well_is_found():
    found = search_modes(KEY, many_wells, cube(8, -4.0, 4.0))
    signs = {tuple(row) for row in np.sign(np.asarray(found.positions)[:, :4]).astype(int)}
    assert len(found.logdensities) == len(signs) == 16
    np.testing.assert_allclose(np.abs(found.positions[:, :4]), 2.0, atol=1e-2)
    assert found.undiscovered_mass == 0.0
    few = search_modes(KEY, many_wells, cube(8, -4.0, 4.0), num_starts=12)
    assert len(few.logdensities) < 16
    assert few.undiscovered_mass > 0.1, "twelve starts know that they have not seen all"


def test_more_modes_than_are_told_apart_are_counted_and_no_more(monkeypatch):
    monkeypatch.setattr(merge, "MOST_MODES", 4)
    found = search_modes(KEY, many_wells, cube(8, -4.0, 4.0), num_starts=256)
    assert len(found.logdensities) == 4
    assert found.failures.uncounted > 100
    assert found.basin_counts.sum() + found.num_failed == found.num_starts == 256
    assert found.num_gradients < 60 * 256
    unbounded = search_modes(KEY, many_wells, cube(8, -4.0, 4.0))
    assert unbounded.num_starts == 512, "the first block is the last"


def test_fewer_modes_are_told_apart_in_high_dimension():
    most = [merge.FoundModes(None, np.ones(dim), 1e-3).most_modes for dim in (2, 62, 100, 200, 1000)]
    assert most == [512, 512, 200, 50, 16]


def test_modes_of_no_mass_are_dropped():
    found = search_modes(KEY, log_mixture((0.0, (5.0, 5.0)), (-30.0, (-5.0, -5.0))), cube(2, -8.0, 8.0))
    assert len(found.logdensities) == 1
    np.testing.assert_allclose(found.positions, [[5.0, 5.0]], atol=1e-3)
    assert found.num_dropped == 1
    kept = search_modes(KEY, log_mixture((0.0, (5.0, 5.0)), (-10.0, (-5.0, -5.0))), cube(2, -8.0, 8.0))
    assert len(kept.logdensities) == 2
    assert kept.num_dropped == 0


def test_a_low_mode_of_great_volume_is_not_dropped():
    """Mass decides and not height: exp(-20) times as high and of 10⁸ times the volume."""

    def density(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x - 8.0) ** 2) / 1e-4, -20.0 - 0.5 * jnp.sum((x + 4.0) ** 2))

    starts = jnp.concatenate([jnp.full((8, 4), 8.0), jnp.full((8, 4), -4.0)]) + 0.01 * jax.random.normal(KEY, (16, 4))
    found = search_modes(KEY, density, starts, learning_rate=1e-3)
    assert len(found.logdensities) == 2
    np.testing.assert_allclose(found.logdensities, [0.0, -20.0], atol=1e-6)


@pytest.mark.parametrize("num_starts", [16, 512])
def test_the_smallest_basin_is_reached_nineteen_times_in_twenty(num_starts):
    found = modes_of_ring()._replace(num_starts=num_starts)
    assert (1 - found.smallest_basin) ** num_starts == pytest.approx(0.05)
    half = found._replace(failures=found.failures._replace(unconverged=num_starts // 2))
    assert (1 - half.smallest_basin) ** (num_starts // 2) == pytest.approx(0.05, rel=0.02)
    reached = np.random.default_rng(0).binomial(num_starts, found.smallest_basin, size=20_000) > 0
    assert np.mean(reached) == pytest.approx(0.95, abs=0.01)


def beyond_an_oblique_wall(x):
    """The tail of a Gaussian in a half-plane: the mode is at the edge, and the density rises along the edge to it."""
    return jnp.where(x[0] + x[1] < 0, -0.5 * jnp.sum((x - 2.0) ** 2), -jnp.inf)


def modes_beyond_an_oblique_wall():
    single = (jnp.full(2, value, jnp.float32) for value in (-6.0, 6.0))  # whose rounding reaches beyond the edge
    return search_modes(KEY, beyond_an_oblique_wall, vj.box(*single))


def test_climbs_that_end_along_an_oblique_edge_are_one_mode():
    found = modes_beyond_an_oblique_wall()
    assert len(found.logdensities) == 1
    np.testing.assert_allclose(found.positions[0], [0.0, 0.0], atol=0.1)
    assert found.num_starts == 512


def test_without_the_push_inwards_an_edge_is_many_modes(monkeypatch):
    lowest = merge.FoundModes._lowest
    without = lambda self, mode, *others: lowest(self, dataclasses.replace(mode, push=0 * mode.push), *others)  # noqa: E731
    monkeypatch.setattr(merge.FoundModes, "_lowest", without)
    assert len(modes_beyond_an_oblique_wall().logdensities) > 4
