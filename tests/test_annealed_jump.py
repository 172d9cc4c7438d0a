"""Annealed jumps: exact for any number of steps; without the path backwards, the heat or the work they are not."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import KEY, PAIR, TARGETS, guide_of_a_pair, retraced
from counting import counted
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing

import vhmc_jax as vj
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics import annealing as dynamics
from vhmc_jax.dynamics.kinetic import gaussian_kinetic

MODULE: Any = importlib.import_module("vhmc_jax.kernels.annealed_jump")
SKEWED = TARGETS["skewed"]


def one_gaussian(dtype=jnp.float32):
    """A guide that is off in its mean and its scales."""
    arrays = (np.zeros(1), np.array([[-0.2, 0.1]]), np.array([[[1.6, 0.0], [0.3, 1.5]]]))
    return vj.GaussianMixture(*(jnp.asarray(array, dtype) for array in arrays))


def kernel(num_steps=4, target=SKEWED, guide=None, logdensity_fn=None, **settings):
    guide = one_gaussian() if guide is None else guide
    settings = {"step_size": 0.7, "friction": 0.8, "log_envelope": 0.9, "num_tries": 2} | settings
    return vj.annealed_jump(logdensity_fn or target.logdensity, guide, num_steps=num_steps, **settings)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("num_steps", "dtype", "settings"),
    [
        (1, jnp.float32, {"log_envelope": -20.0, "num_tries": 1}),
        (4, jnp.float64, {"inverse_mass_matrix": np.array([[1.3, -0.4], [-0.4, 0.6]])}),
        (12, jnp.float32, {"schedule": np.linspace(0, 1, 13) ** 2}),
    ],
)
def test_invariant(num_steps, dtype, settings):
    report = check_invariance(kernel(num_steps, guide=one_gaussian(dtype), **settings), SKEWED, KEY, dtype=dtype)
    assert_invariant(report)
    assert 0.5 < report.info_means.acceptance_rate < 0.95, report


@pytest.mark.statistical
def test_mixes_from_one_of_two_modes():
    pair = kernel(2, PAIR, guide_of_a_pair(PAIR), log_envelope=0.0)
    assert_invariant(check_mixing(pair, PAIR, [2.5, -2.5], KEY, num_steps=20))


def test_no_steps_are_a_jump():
    guide = one_gaussian(float)
    annealed = kernel(0, guide=guide, num_tries=3)
    jump = vj.jump(SKEWED.logdensity, guide, log_envelope=0.9, num_tries=3)
    states = jax.vmap(jump.init)(SKEWED.sample(KEY, 4000))
    infos = [jax.jit(jax.vmap(each.step))(jax.random.split(KEY, 4000), states)[1] for each in (annealed, jump)]
    for name in ("acceptance_rate", "is_candidate_found", "num_gradients"):
        values = [np.asarray(getattr(info, name), float) for info in infos]
        error = np.sqrt(sum(value.var() / 4000 for value in values))
        assert abs(values[0].mean() - values[1].mean()) < 4.5 * error, name


# Broken copies.


@pytest.mark.statistical
def test_without_the_path_backwards_it_is_not_invariant(monkeypatch):
    """The weight of the current position as that of a direct jump."""

    def direct(settings, density, rng_key, start):
        return settings.jump.heights(start.logdensity, start.position), jnp.bool_(True)

    monkeypatch.setattr(MODULE, "backwards", direct)
    assert_not_invariant(check_invariance(retraced(kernel(log_envelope=-20.0)), SKEWED, KEY))


@pytest.mark.statistical
def test_without_the_heat_it_is_not_invariant(monkeypatch):
    def heatless(*arguments, stochastic_drift=dynamics.stochastic_drift):
        x, momentum, heat = stochastic_drift(*arguments)
        return x, momentum, 0 * heat

    monkeypatch.setattr(dynamics, "stochastic_drift", heatless)
    assert_not_invariant(check_invariance(retraced(kernel(log_envelope=-20.0)), SKEWED, KEY))


@pytest.mark.statistical
def test_without_the_changes_of_the_density_it_is_not_invariant(monkeypatch):
    """The work of the steps alone, without the half changes of the log density before and after each."""

    def steps_alone(annealing, density, log_prob, rng_key, start, *, backwards=False, sound=dynamics.run_path):
        path = sound(annealing, density, log_prob, rng_key, start, backwards=backwards)
        end = (path.state.logdensity - log_prob(path.state.position))[None]
        before = path.log_ratios
        after = jnp.concatenate([end, before[:-1]] if backwards else [before[1:], end])
        changes = jnp.sum(0.5 * jnp.diff(annealing.schedule).astype(before.dtype) * (before + after))
        return path._replace(excess=path.excess + (-changes if backwards else changes))

    monkeypatch.setattr(MODULE, "run_path", steps_alone)
    assert_not_invariant(check_invariance(retraced(kernel(log_envelope=-20.0)), SKEWED, KEY))


@pytest.mark.statistical
def test_with_the_steps_backwards_in_the_wrong_order_it_is_not_invariant(monkeypatch):
    def wrong_order(*arguments, backwards=False, sound=dynamics.run_path):
        return sound(*arguments)

    monkeypatch.setattr(MODULE, "run_path", wrong_order)
    assert_not_invariant(check_invariance(retraced(kernel(log_envelope=-20.0)), SKEWED, KEY))


# What a step reports, and what is refused.


def test_weights_average_to_the_normalising_constant():
    """E W = Z for paths of any length, and longer paths have weights that vary less."""
    guide, density = one_gaussian(float).prepared(), FlatDensity(SKEWED.logdensity, lambda x: x)
    spreads = []
    for num_steps in (1, 24):
        annealing = dynamics.Annealing(
            jnp.linspace(0, 1, num_steps + 1), jnp.float64(0.4), jnp.float64(1.0), gaussian_kinetic(1.0)
        )

        def log_weight(rng_key, annealing=annealing):
            key_start, key_path = jax.random.split(rng_key)
            x = guide.sample(key_start)
            path = dynamics.run_path(annealing, density, guide.log_prob, key_path, density.state_at(x))
            return path.state.logdensity - guide.log_prob(x) - path.excess

        weights = np.exp(jax.jit(jax.vmap(log_weight))(jax.random.split(KEY, 20_000)))
        error = weights.std() / np.sqrt(len(weights))
        assert abs(weights.mean() - np.exp(SKEWED.log_normalizer)) < 4.5 * error
        spreads.append(weights.std())
    assert spreads[1] < 0.8 * spreads[0]


def test_evaluations_are_counted():
    calls, logdensity_fn = counted(SKEWED.logdensity)
    annealed = kernel(3, guide=one_gaussian(float), logdensity_fn=logdensity_fn, log_envelope=1.5)
    state, step = annealed.init(jnp.zeros(2)), jax.jit(annealed.step)
    seen = set()
    for key in jax.random.split(KEY, 20):
        before = calls()
        state, info = step(key, state)
        assert calls() - before == info.num_gradients
        seen.add((bool(info.is_candidate_found), int(info.num_gradients)))
    assert seen == {(True, 7), (True, 11), (False, 8)}


def test_paths_that_are_not_finite_are_rejected_and_flagged():
    """NaN in the middle, between the guide and the target."""

    def torn(x):
        return jnp.where(jnp.abs(x[0] + 0.2) < 0.3, jnp.nan, SKEWED.logdensity(x))

    annealed = kernel(6, guide=one_gaussian(float), logdensity_fn=torn)
    draws = SKEWED.sample(KEY, 2000)
    draws = draws[np.abs(draws[:, 0] + 0.2) > 0.4]
    states = jax.vmap(annealed.init)(draws)
    moved, infos = jax.jit(jax.vmap(annealed.step))(jax.random.split(KEY, len(draws)), states)
    assert np.any(infos.is_divergent)
    assert np.any(infos.is_accepted)
    assert not np.any(infos.is_divergent & infos.is_accepted)
    assert np.all(np.isfinite(moved.position))
    assert np.all(np.isfinite(moved.logdensity))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"num_steps": -1}, ValueError, "num_steps must be at least 0, got -1"),
        ({"num_steps": 2.5}, TypeError, "num_steps must be an integer, got float"),
        ({"step_size": 0.0}, ValueError, "step_size must be positive, got 0.0"),
        ({"schedule": np.zeros(3)}, ValueError, r"schedule must have num_steps \+ 1 = 5 numbers, got shape \(3,\)"),
        ({"schedule": np.array([0, 0.5, 0.4, 0.9, 1])}, ValueError, "schedule must increase from 0 to 1, got"),
    ],
)
def test_bad_argument(settings, error, message):
    with pytest.raises(error, match=message):
        kernel(**settings)
