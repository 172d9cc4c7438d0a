"""The pool of draws that weighs the components of a guide and judges it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax.diagnostics.modes.labels import shares_of_modes
from vhmc_jax.fit.assess import judge
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.pool import FAR_SCALES, NUM_FAR_DRAWS, Pool

TARGET = vj.targets.near_pair(0.7)
DENSITY = Partial(TARGET.logdensity)


def mixture_of(components, weights):
    return vj.GaussianMixture(np.log(weights), components.means, components.scale_trils)


def components_off_by(shift):
    scales = 1.1 * np.broadcast_to(np.eye(2), (2, 2, 2))
    return Components(np.asarray(TARGET.means, np.float64) + shift, scales, np.arange(2))


@pytest.fixture(scope="module")
def pool():
    return Pool.of(np.random.default_rng(0), DENSITY, components_off_by(0.2), mixture_of, 4000)


def judged_by(pool, guide, num_tries):
    log_pool = pool.mixture.on_host().at(pool.points).log_prob
    _, log_prob, shares = guide.on_host().at(pool.points)
    shares, _ = shares_of_modes(shares, np.arange(2))
    return judge(pool.logdensities, log_pool, log_prob, shares, num_tries, np.random.default_rng(0))


@pytest.mark.parametrize("num_tries", [1, 4])
def test_what_it_promises_is_what_jumps_do(pool, num_tries):
    guide = mixture_of(components_off_by(0.2), [0.6, 0.4])
    judged = judged_by(pool, guide, num_tries)
    kernel = vj.jump(TARGET.logdensity, guide, log_envelope=judged.log_envelope, num_tries=num_tries)
    states = jax.vmap(kernel.init)(TARGET.sample(jax.random.key(1), 20_000).astype(jnp.float64))
    _, infos = jax.jit(jax.vmap(kernel.step))(jax.random.split(jax.random.key(2), 20_000), states)
    accepted, mode = np.asarray(infos.is_accepted), np.asarray(infos.jump_from)
    assert accepted.mean() == pytest.approx(judged.expected_acceptance, abs=0.015)
    by_mode = [accepted[mode == number].mean() for number in range(2)]
    np.testing.assert_array_less(judged.expected_acceptance_by_mode, np.asarray(by_mode) + 0.02)
    assert np.all(judged.pareto_k < 0.7)


def test_one_candidate_is_enough_where_the_guide_is_good(pool):
    right = mixture_of(components_off_by(0.0)._replace(scale_trils=np.broadcast_to(np.eye(2), (2, 2, 2))), [0.7, 0.3])
    assert judged_by(pool, right, None).num_tries == 1
    off = mixture_of(components_off_by(0.5), [0.5, 0.5])
    several = judged_by(pool, off, None)
    assert several.num_tries == 4
    assert several.log_envelope == judged_by(pool, off, 4).log_envelope


def test_draws_stay_with_their_components_when_some_are_replaced(pool):
    two = Components(np.array([[0.0, 1.0], [1.0, 0.0]]), np.broadcast_to(0.5 * np.eye(2), (2, 2, 2)), np.array([0, 0]))
    new = Pool.of(np.random.default_rng(3), DENSITY, two, mixture_of, 4000)
    joined = pool.replaced(new, mixture_of)
    assert np.sum(joined.components.modes[joined.scales == 1.0] == 0) == 2
    assert np.sum(joined.components.modes[joined.scales == 1.0] == 1) == 1
    np.testing.assert_allclose(joined.logdensities, jax.vmap(DENSITY)(joined.points), rtol=1e-6)
    firsts = np.concatenate([[0], np.cumsum(joined.counts)])
    for number in np.flatnonzero(joined.counts == 4000):
        x = joined.points[firsts[number] : firsts[number + 1]]
        scale = joined.components.scale_trils[number, 0, 0]
        np.testing.assert_allclose(x.std(axis=0) / scale, 1.0, atol=0.05)
        np.testing.assert_allclose(x.mean(axis=0), joined.components.means[number], atol=0.08 * max(1, scale))
    far = 2 * len(FAR_SCALES) * NUM_FAR_DRAWS
    assert joined.num_densities == 2 * (4 * 4000 + far)


def test_further_components_leave_the_others_their_draws(pool):
    new = Pool.of(np.random.default_rng(4), DENSITY, components_off_by(1.0), mixture_of, 500, has_ladders=False)
    joined = pool.extended(new, mixture_of)
    np.testing.assert_array_equal(joined.points, np.concatenate([pool.points, new.points]))
    np.testing.assert_array_equal(joined.counts, np.concatenate([pool.counts, new.counts]))
    np.testing.assert_allclose(joined.mixture.on_host().weights, joined.counts / joined.counts.sum())
    assert joined.num_densities == pool.num_densities + new.num_densities


def test_a_ladder_finds_broad_mass_around_a_narrow_peak():
    def spiked(x):
        return jnp.logaddexp(-0.5 * x @ x, -0.5 * x @ x / 400 - 2 * jnp.log(20.0))

    peak = Components(np.zeros((1, 2)), np.eye(2)[None], np.zeros(1, int))
    pool = Pool.of(np.random.default_rng(0), Partial(spiked), peak, mixture_of, 512)
    log_mean = np.logaddexp.reduce(pool.logdensities - pool.mixture.on_host().at(pool.points).log_prob)
    assert log_mean - np.log(len(pool.points)) == pytest.approx(np.log(4 * np.pi), abs=0.15)
    alone = pool.logdensities[:512] - np.asarray(jax.vmap(mixture_of(peak, [1.0]).log_prob)(pool.points[:512]))
    assert np.log(np.mean(np.exp(alone))) < np.log(2.2 * np.pi), "without the ladder half of the mass is missing"


def test_many_components_share_one_ladder():
    means = np.random.default_rng(0).normal(scale=20, size=(40, 2))
    many = Components(means, np.broadcast_to(np.eye(2), (40, 2, 2)), np.arange(40))
    pool = Pool.of(np.random.default_rng(1), DENSITY, many, mixture_of, 16)
    assert np.sum(pool.components.modes == -1) == len(FAR_SCALES)
    assert len(pool.points) == 80 * 16 + len(FAR_SCALES) * NUM_FAR_DRAWS


def test_no_chain_starts_where_the_density_is_zero():
    pool = Pool(None, None, None, np.arange(8.0)[:, None], None, None, 8)
    log_importance = np.where(np.arange(8) < 3, 0.0, -np.inf)
    starts = pool.starts(np.random.default_rng(0), log_importance, 6)
    np.testing.assert_array_equal(np.sort(starts[:, 0]), [0.0, 1.0, 2.0])
