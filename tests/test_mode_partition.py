"""Weights of overlapping modes: what is weighed depends on the guide, and the error says by how much."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax.diagnostics import log_evidence, mode_report
from vhmc_jax.diagnostics.modes.partition import partition_errors
from vhmc_jax.guide.mixture import GaussianMixture
from vhmc_jax.targets import GaussianMixtureTarget, far_pair

OVERLAPPING = GaussianMixtureTarget([0.6, 0.4], [[-1.3], [1.3]], [1.0, 1.0])
# The components that Laplace's approximation gives at the two peaks, which are drawn toward each other; a wide one.
GUIDE = GaussianMixture(
    np.log([0.54, 0.45, 0.01]), np.array([[-1.23], [1.09], [-0.17]]), np.array([1.1, 1.42, 2.4]).reshape(3, 1, 1)
)
MODE_OF = (0, 1, -1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_error_is_that_of_odds_which_are_off():
    """Odds off by δ everywhere, and a misfit of δ/2: the weights are off by the error, to first order."""
    rng = np.random.default_rng(0)
    logits, delta = 3 * rng.normal(size=(4, 2000)), 0.02
    shares = np.stack([sigmoid(logits), sigmoid(-logits)], axis=-1)
    misfit = delta / 2 * rng.choice([-1.0, 1.0], size=(4, 2000))
    moved = np.mean(sigmoid(logits + delta)) - np.mean(sigmoid(logits))
    np.testing.assert_allclose(partition_errors(shares, 5.0 + misfit), moved, rtol=0.02)


def test_misfit_counts_where_it_is_greater_in_the_overlap_or_elsewhere():
    shares = np.array([[1.0, 0.0]] * 90 + [[0.5, 0.5]] * 10)
    in_overlap = np.where(shares[:, 0] == 0.5, np.tile([0.1, -0.1], 50), 0.0)
    elsewhere = np.where(shares[:, 0] == 1.0, np.tile([0.1, -0.1], 50), 0.0)
    np.testing.assert_allclose(partition_errors(shares, in_overlap), 0.025 * 0.2)
    np.testing.assert_allclose(partition_errors(shares, elsewhere), 0.025 * 0.2 * np.sqrt(0.9))


def test_no_overlap_adds_nothing_and_an_infinite_misfit_no_more_than_the_overlap():
    shares = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    ratios = np.array([0.0, 0.1, -np.inf, 0.0])
    np.testing.assert_array_equal(partition_errors(shares, ratios), 0.25 / 4)
    np.testing.assert_array_equal(partition_errors(shares, 100 * np.arange(4.0)), 0.25 / 4)
    np.testing.assert_array_equal(partition_errors(shares[[0, 1]], ratios[:2]), 0.0)


def scores(num_runs=10):
    """Scores of the first weight by the bridge and by the share of the draws."""
    found = []
    for seed in range(num_runs):
        draws = OVERLAPPING.sample(jax.random.key(seed), 8000, jnp.float64).reshape(8, 1000, 1)
        values = np.asarray(jax.vmap(jax.vmap(OVERLAPPING.logdensity))(draws))
        settings = {"num_guide_draws": 2000, "mode_of": MODE_OF, "logdensities": values}
        evidence = log_evidence(jax.random.key(100 + seed), OVERLAPPING.logdensity, GUIDE, draws, **settings)
        report = mode_report(draws, GUIDE, mode_of=MODE_OF, logdensities=values)
        bridge = (evidence.mode_weights[0] - 0.6) / evidence.mode_weight_errors[0]
        found.append((bridge, (report.weights[0] - 0.6) / report.errors[0]))
    return np.abs(found)


@pytest.mark.statistical
def test_errors_cover_the_weights_of_the_components_that_overlap(monkeypatch):
    assert np.all(scores() < 2)
    # Power: without this part of the error every run is wrong by far.
    for name in ("bridge", "report"):
        module = importlib.import_module(f"vhmc_jax.diagnostics.modes.{name}")
        monkeypatch.setattr(module, "partition_errors", lambda shares, ratios: np.zeros(shares.shape[-1]))
    assert np.all(np.min(scores(), axis=0) > [10, 4])


def test_report_tells_what_it_weighs():
    draws = OVERLAPPING.sample(jax.random.key(0), 8000, jnp.float64).reshape(8, 1000, 1)
    values = jax.vmap(jax.vmap(OVERLAPPING.logdensity))(draws)
    known = mode_report(draws, GUIDE, mode_of=MODE_OF, logdensities=values)
    unknown = mode_report(draws, GUIDE, mode_of=MODE_OF)
    np.testing.assert_allclose(known.errors, np.hypot(unknown.errors, known.partition_errors))
    np.testing.assert_array_equal(unknown.partition_errors, 0.0)
    assert any("Modes 0, 1 overlap" in note for note in known.notes)
    assert not any("overlap" in note for note in unknown.notes)
    with pytest.raises(ValueError, match=r"logdensities must have shape \(8, 1000\), got \(1000, 8\)"):
        mode_report(draws, GUIDE, mode_of=MODE_OF, logdensities=values.T)


def test_distant_modes_have_no_such_error():
    target = far_pair(0.7)
    draws = target.sample(jax.random.key(0), 2000, jnp.float64).reshape(4, 500, 2)
    guide = GaussianMixture(np.log([0.5, 0.5]), target.means + 0.3, np.tile(1.2 * np.eye(2), (2, 1, 1)))
    values = jax.vmap(jax.vmap(target.logdensity))(draws)
    assert np.all(mode_report(draws, guide, logdensities=values).partition_errors < 1e-6)
