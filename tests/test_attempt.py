"""One attempt at a guide and the next: refinement, what is kept of the ladders, and the least weight of a mode."""

import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.density import FlatDensity
from vhmc_jax.fit import attempt as module
from vhmc_jax.fit.attempt import Fitting
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.pool import FAR_SCALES, HALO_SCALE, NUM_FAR_DRAWS

MEANS = np.array([[4.0, -4.0], [-4.0, 4.0]])


def pair(x):
    """Weights 0.7 and 0.3, the second of half the scale; the constant is e²."""
    first = jnp.log(0.7) - 0.5 * jnp.sum((x - MEANS[0]) ** 2)
    second = jnp.log(0.3 / 0.25) - 0.5 * jnp.sum((x - MEANS[1]) ** 2) / 0.25
    return jnp.logaddexp(first, second) - jnp.log(2 * jnp.pi) + 2.0


def fitting_of(density, num_modes=2, dim=2, **options):
    flat = FlatDensity.at(density, np.zeros(dim))
    return Fitting(flat, vj.FitOptions(**options), np.random.default_rng(0), np.float64, num_modes, dim)


def components(means, scales):
    means = np.asarray(means, float)
    return Components(means, np.asarray(scales)[:, None, None] * np.eye(means.shape[1]), np.arange(len(means)))


RIGHT = components(MEANS, [1.0, 0.5])
OFF = components(MEANS + np.array([0.6, -0.6]), [1.8, 0.9])


def test_a_right_description_needs_no_refinement():
    fitting = fitting_of(pair)
    attempt = fitting.assess(fitting.draw(RIGHT))
    assert attempt.score > 0.97
    assert not len(attempt.poor_modes(0.9))
    assert fitting.refined(attempt, 0.9) is attempt
    np.testing.assert_allclose(attempt.mode_weights, [0.7, 0.3], atol=4 * attempt.mode_weight_errors.max())
    assert attempt.found.log_evidence == pytest.approx(2.0, abs=0.05)


def test_refinement_finds_mean_and_scale_of_components_that_are_off():
    fitting = fitting_of(pair)
    first = fitting.assess(fitting.draw(OFF))
    assert len(first.poor_modes(0.9)) == 2
    refined = fitting.refined(first, 0.9)
    assert refined.score > first.score + 0.15
    assert refined.score > 0.9
    for mode, scale in enumerate([1.0, 0.5]):
        own = np.flatnonzero(refined.kept.modes == mode)
        best = own[np.argmax(np.asarray(refined.guide.log_weights)[own])]
        np.testing.assert_allclose(refined.kept.means[best], MEANS[mode], atol=0.25 * scale)
        covariance = refined.kept.scale_trils[best] @ refined.kept.scale_trils[best].T
        np.testing.assert_allclose(covariance, scale**2 * np.eye(2), atol=0.35 * scale**2)
    np.testing.assert_allclose(refined.mode_weights, [0.7, 0.3], atol=0.03)
    assert refined.found.log_evidence == pytest.approx(2.0, abs=0.05)


def test_refinement_without_importance_weights_does_not_find_them(monkeypatch):
    """Power: EM on the draws as they are describes the pool, not the target."""
    fitting = fitting_of(pair)
    first = fitting.assess(fitting.draw(OFF))
    improve = module.improve

    def unweighted(parts, x, weights, num_iterations):
        return improve(parts, x, np.ones_like(weights), num_iterations)

    monkeypatch.setattr(module, "improve", unweighted)
    assert fitting.refined(first, 0.9).score < first.score + 0.1


@pytest.mark.parametrize("is_worse", [False, True])
def test_every_evaluation_is_counted_also_of_attempts_that_are_dropped(is_worse):
    class Counting(Fitting):
        def draw(self, components, has_ladders=True):
            pool = super().draw(components, has_ladders)
            drawn.append(len(pool.points))
            return pool

        def assess(self, pool):
            attempt = super().assess(pool)
            by_mode = attempt.judged.expected_acceptance_by_mode * (0.1 if is_worse else 1.0)
            return attempt._replace(judged=attempt.judged._replace(expected_acceptance_by_mode=by_mode))

    drawn = []
    fitting = fitting_of(pair)
    first = fitting.assess(fitting.draw(OFF))
    assert first.pool.num_densities == len(first.pool.points)
    refined = Counting(*fitting).refined(first, 1.0)
    assert (refined.guide is first.guide) == is_worse
    assert len(drawn) == 1 if is_worse else len(drawn) > 1
    assert refined.pool.num_densities == len(first.pool.points) + sum(drawn)


def test_draws_of_an_attempt_are_as_many_as_the_options_say():
    fitting = fitting_of(pair, num_weight_draws=200)
    pool = fitting.draw(RIGHT)
    assert len(pool.points) == 2 * 200 + 2 * len(FAR_SCALES) * NUM_FAR_DRAWS
    np.testing.assert_array_equal(pool.counts[:4], 100)


def broad(x):
    """½N(0, I) + ½N(0, 400 I) on the plane."""
    return jnp.logaddexp(-0.5 * x @ x, -0.5 * x @ x / 400 - 2 * jnp.log(20.0))


def test_a_rung_becomes_a_component_where_mass_is_broad():
    fitting = fitting_of(broad, num_modes=1)
    peak = components(np.zeros((1, 2)), [1.0])
    attempt = fitting.assess(fitting.draw(peak))
    scales = attempt.kept.scale_trils[:, 0, 0]
    assert np.any(scales > HALO_SCALE)
    weights = np.exp(np.asarray(attempt.guide.log_weights))[: len(scales)]
    assert weights[scales > 8.0].sum() == pytest.approx(0.5, abs=0.12)
    assert attempt.found.log_evidence == pytest.approx(np.log(4 * np.pi), abs=0.15)
    assert attempt.score > 0.5
    narrow = fitting_of(lambda x: -0.5 * x @ x, num_modes=1)
    alone = narrow.assess(narrow.draw(peak))
    assert len(alone.kept.modes) == 1, "where there is no such mass, no rung is kept"


def test_a_halo_is_kept_by_its_share():
    peak = components(np.zeros((1, 2)), [1.0])

    def halo(x, share):
        return jnp.logaddexp(-0.5 * x @ x + jnp.log1p(-share), -0.5 * x @ x / 4 + jnp.log(share / 4))

    kept = []
    for share in (0.001, 0.3):
        fitting = fitting_of(lambda x, share=share: halo(x, share), num_modes=1)
        attempt = fitting.assess(fitting.draw(peak))
        kept.append(np.any(attempt.kept.scale_trils[:, 0, 0] == HALO_SCALE))
    assert kept == [False, True]


def test_a_halo_is_kept_by_its_share_of_its_own_mode():
    """A mode of weight 0.01 with a halo of a third of that keeps it: what counts is the mode's own mass."""

    def density(x):
        light = x - MEANS[1]
        own = jnp.logaddexp(-0.5 * light @ light + jnp.log(2 / 3), -0.5 * light @ light / 4 + jnp.log(1 / 12))
        return jnp.logaddexp(-0.5 * jnp.sum((x - 5 * MEANS[0]) ** 2) + jnp.log(0.99), own + jnp.log(0.01))

    fitting = fitting_of(density)
    attempt = fitting.assess(fitting.draw(components([5 * MEANS[0], MEANS[1]], [1.0, 1.0])))
    halos = attempt.kept.scale_trils[:, 0, 0] == HALO_SCALE
    assert attempt.kept.modes[halos].tolist() == [1]


def test_a_mode_of_no_mass_keeps_the_floor():
    elsewhere = components([MEANS[0], MEANS[1], [30.0, 30.0]], [1.0, 0.5, 1.0])
    fitting = fitting_of(pair, num_modes=3, weight_floor=0.03, defensive_weight=0.0)
    attempt = fitting.assess(fitting.draw(elsewhere))
    assert attempt.mode_weights[2] < 1e-6
    own = attempt.component_modes == 2
    assert np.exp(np.asarray(attempt.guide.log_weights))[own].sum() == pytest.approx(0.01, rel=0.02)
    assert 2 not in attempt.poor_modes(1.0), "it does not decide whether the guide is good"
    without = fitting._replace(options=vj.FitOptions(weight_floor=0.0, defensive_weight=0.0))
    attempt = without.assess(without.draw(elsewhere))
    assert np.exp(np.asarray(attempt.guide.log_weights))[attempt.component_modes == 2].sum() < 1e-6


def test_the_defensive_component_is_last_and_belongs_to_no_mode():
    fitting = fitting_of(pair, defensive_weight=0.05)
    attempt = fitting.assess(fitting.draw(RIGHT))
    assert attempt.component_modes[-1] == -1
    assert np.exp(np.asarray(attempt.guide.log_weights))[-1] == pytest.approx(0.05)
    weights = np.exp(np.asarray(attempt.guide.log_weights))[:-1] / 0.95
    means, scales = np.asarray(attempt.guide.means)[:-1], np.asarray(attempt.guide.scale_trils)[:-1]
    offsets = means - weights @ means
    covariance = np.einsum("k,kij,klj->il", weights, scales, scales) + (weights[:, None] * offsets).T @ offsets
    wide = np.asarray(attempt.guide.scale_trils)[-1]
    np.testing.assert_allclose(wide @ wide.T, 2 * covariance, rtol=1e-6)


@pytest.mark.parametrize("df", [None, 5.0])
def test_components_of_students_have_the_covariances_of_the_gaussians(df):
    guide = fitting_of(pair, df=df).mixture_of(RIGHT, np.array([0.7, 0.3]))
    factor = 1.0 if df is None else df / (df - 2)
    scales = np.asarray(guide.scale_trils)
    np.testing.assert_allclose(factor * scales @ scales.mT, RIGHT.scale_trils @ RIGHT.scale_trils.mT, rtol=1e-12)
    assert isinstance(guide, vj.GaussianMixture if df is None else vj.StudentTMixture)
