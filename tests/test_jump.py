"""The variational jump: exact for any guide and any envelope; the paper's form without the correction is not."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import (
    FAR_ENVELOPE,
    KEY,
    PAIR,
    every_dtype,
    every_large,
    guide_of_a_large,
    guide_of_a_pair,
    log_weight_difference,
    retraced,
)
from counting import counted
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing

import vhmc_jax as vj
from vhmc_jax import random
from vhmc_jax.density import FlatDensity
from vhmc_jax.moves.candidate import Heights, Jump, jump_from_guide

LOG_ENVELOPES = {"too small by 2": -2.0, "right": 0.0, "too large by 3": 3.0}
every_envelope = pytest.mark.parametrize("log_envelope", LOG_ENVELOPES.values(), ids=LOG_ENVELOPES.keys())


def jump(log_envelope=0.0, dtype=jnp.float32, guide=None, **settings):
    guide = guide_of_a_pair(PAIR, dtype) if guide is None else guide
    return vj.jump(PAIR.logdensity, guide, log_envelope=log_envelope, **settings)


@pytest.mark.statistical
@every_envelope
@every_dtype
def test_invariant_with_a_guide_that_is_off(log_envelope, dtype):
    report = check_invariance(jump(log_envelope, dtype), PAIR, KEY, dtype=dtype)
    assert_invariant(report)


@pytest.mark.statistical
@pytest.mark.parametrize("log_envelope", [-2.0, 0.0])
def test_without_the_correction_it_is_not_invariant(log_envelope):
    report = check_invariance(jump(log_envelope, form="paper"), PAIR, KEY)
    assert_not_invariant(report)


@pytest.mark.statistical
def test_the_paper_form_is_exact_under_a_true_envelope():
    """With a guide that covers the target and a large enough c there is nothing to correct."""
    wide = vj.GaussianMixture(jnp.log(jnp.array([0.5, 0.5])), PAIR.means, np.tile(1.3 * np.eye(2), (2, 1, 1)))
    guide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), wide)
    report = check_invariance(jump(np.log(2 * 1.3**2), guide=guide, form="paper"), PAIR, KEY)
    assert_invariant(report)


@pytest.mark.statistical
def test_mixes_from_a_bad_start():
    """All chains in one mode, where neither guide nor target has much mass."""
    report = check_mixing(jump(0.0), PAIR, [2.5, -2.5], KEY, num_steps=60)
    assert_invariant(report)


# Log densities that single precision rounds.


def large_jump(target, log_envelope):
    return vj.jump(target.logdensity, guide_of_a_large(target), log_envelope=log_envelope)


@pytest.mark.statistical
@every_large
def test_invariant_with_a_large_log_density(target):
    """With the envelope that is chosen, and with one so far away that it must cancel before anything is rounded."""
    chosen = vj.estimate_log_envelope(KEY, target.logdensity, guide_of_a_large(target), 4)
    assert abs(chosen - target.log_normalizer) < 10
    for log_envelope in (chosen, FAR_ENVELOPE):
        report = check_invariance(large_jump(target, log_envelope), target, KEY)
        assert report.info_means.acceptance_rate > 0.3
        assert_invariant(report)


@pytest.mark.statistical
@every_large
def test_with_weights_rounded_one_by_one_it_is_not_invariant(target, monkeypatch):
    monkeypatch.setattr(Jump, "log_weight_ratio", log_weight_difference)
    report = check_invariance(retraced(large_jump(target, FAR_ENVELOPE)), target, KEY)
    assert_not_invariant(report)


@pytest.mark.parametrize("offset", [1e5, -1e5, 1e6])
def test_the_offset_cancels_before_anything_is_rounded(offset):
    """Compiled, whether c is an argument or a constant of the program, and with the same rounded c everywhere."""
    settings = jump_from_guide(guide_of_a_pair(PAIR), offset + 1.7, 1, "exact")

    def heights(x):
        return settings.heights(-0.5 * jnp.sum(x**2) + jnp.float32(offset), x)

    def figures(settings, x, y):
        there, here = heights(x), heights(y)
        return there, here, settings.log_ratio(there), settings.log_weight_ratio(there, here)

    x, y = jax.random.normal(KEY, (2, 500, 2), jnp.float32)
    as_argument = jax.jit(jax.vmap(figures, (None, 0, 0)))(settings, x, y)
    as_constant = jax.jit(jax.vmap(functools.partial(figures, settings)))(x, y)
    c = np.float32(offset + 1.7)
    for found in (as_argument, as_constant):
        there, here, log_ratio, log_weight_ratio = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)
        above = [at.logdensity - float(c) - at.log_prob for at in (there, here)]
        np.testing.assert_allclose(log_ratio, above[0], atol=1e-5)
        np.testing.assert_allclose(log_weight_ratio, np.maximum(above[0], 0) - np.maximum(above[1], 0), atol=1e-5)
        # Power: with c and q summed first, a part of q is rounded away.
        summed_first = np.float32(there.logdensity) - (c + np.float32(there.log_prob))
        assert np.max(np.abs(summed_first - above[0])) > 1e-3


@pytest.mark.parametrize("form", ["exact", "paper"])
def test_weights_where_a_point_has_no_density(form):
    """The weight w is 1 where π = 0 and infinite where q is zero or not a number; the paper's w is always 1."""
    settings = jump_from_guide(guide_of_a_pair(PAIR), 0.0, 1, form)

    def ratio(there, here):
        there, here = (Heights(*(jnp.float64(value) for value in at)) for at in (there, here))
        return float(settings.log_weight_ratio(there, here))

    expected = {
        ((3.0, 1.0), (5.0, 1.5)): 2.0 - 3.5,
        ((3.0, 1.0), (-np.inf, 1.0)): 2.0,
        ((-1.0, 1.0), (5.0, 1.5)): -3.5,
        ((-1.0, 1.0), (-2.0, 1.0)): 0.0,
        ((3.0, 1.0), (5.0, np.nan)): -np.inf,
        ((3.0, 1.0), (5.0, -np.inf)): -np.inf,
    }
    for points, value in expected.items():
        assert ratio(*points) == (value if form == "exact" else 0.0)


class Patchy:
    """A guide whose log density is not a number on one side of a line through the first mode."""

    def __init__(self, guide):
        self.guide = guide
        self.sample = guide.sample

    def log_prob(self, x):
        return jnp.where(x[0] > 2.5, jnp.nan, self.guide.log_prob(x))


@pytest.mark.statistical
def test_invariant_where_the_guide_is_not_a_number():
    """No jump leads there, so that none may lead away."""
    kernel = vj.jump(PAIR.logdensity, Patchy(guide_of_a_pair(PAIR)), log_envelope=0.0)
    report = check_invariance(kernel, PAIR, KEY)
    assert_invariant(report)
    assert 0.1 < report.info_means.acceptance_rate < 0.7


def far_guide(distance):
    """All of its mass in the wrong place."""
    return vj.GaussianMixture(jnp.zeros(1), jnp.full((1, 2), distance), jnp.eye(2)[None])


@pytest.mark.slow
def test_first_try_that_passes_is_taken():
    """Neither the best nor the last, and none where none passes: the tries one by one, by the definition."""
    log_envelope, num_tries = 0.7, 3
    guide, density = guide_of_a_pair(PAIR, jnp.float64), FlatDensity(PAIR.logdensity, lambda x: x)
    settings = jump_from_guide(guide, log_envelope, num_tries, "exact")

    @functools.partial(jax.jit, static_argnums=1)
    @functools.partial(jax.vmap, in_axes=(0, None))
    def one_try(rng_key, number):
        key_first, key_later = random.split(rng_key)
        key_sample, key_uniform = random.split(random.fold_in(key_later, number) if number else key_first)
        x = guide.sample(key_sample)
        log_ratio = PAIR.logdensity(x) - log_envelope - guide.log_prob(x)
        return x, log_ratio, random.uniform(key_uniform) < jnp.exp(log_ratio)

    num = 300
    keys = jax.random.split(KEY, num)
    found = jax.jit(jax.vmap(lambda key: settings.draw_candidate(key, density.state_at)))(keys)
    tries = [one_try(keys, number) for number in range(num_tries)]
    xs, log_ratios, passes = (np.stack(values, axis=1) for values in zip(*tries, strict=True))
    first = np.argmax(passes, axis=1)
    is_found = passes.any(axis=1)
    np.testing.assert_array_equal(found.is_found, is_found)
    np.testing.assert_allclose(found.state.position[is_found], xs[np.arange(num), first][is_found], rtol=1e-12)
    found_ratios = jax.vmap(settings.log_ratio)(found.heights)
    np.testing.assert_allclose(found_ratios[is_found], log_ratios[np.arange(num), first][is_found], atol=1e-12)
    labels = np.where(is_found, jax.vmap(settings.label)(found.state.position), -1)
    np.testing.assert_array_equal(found.jump_to, labels)
    np.testing.assert_array_equal(found.num_gradients, np.where(passes[:, 0], 1, num_tries))
    gradients = jax.vmap(jax.grad(PAIR.logdensity))(found.state.position)
    np.testing.assert_allclose(found.state.logdensity_grad, gradients, rtol=1e-10)
    best = np.argmax(np.where(passes, log_ratios, -np.inf), axis=1)
    assert 0.2 < is_found.mean() < 1.0
    assert np.any(first[is_found] != best[is_found]), "the first was always the best: the test shows nothing"


@pytest.mark.slow
def test_acceptance_is_the_ratio_of_weights():
    kernel, guide = jump(-0.5, jnp.float64), guide_of_a_pair(PAIR, jnp.float64)
    states = jax.vmap(kernel.init)(PAIR.sample(KEY, 50))
    new_states, infos = jax.jit(jax.vmap(kernel.step))(jax.random.split(KEY, 50), states)
    assert np.any(infos.is_accepted)
    assert not np.all(infos.is_accepted)
    log_ratios = [
        jax.vmap(lambda x: PAIR.logdensity(x) + 0.5 - guide.log_prob(x))(state.position)
        for state in (states, new_states)
    ]
    here, there = (np.maximum(np.asarray(ratios), 0.0) for ratios in log_ratios)
    moved = np.asarray(infos.is_accepted)
    assert np.sum(here > 0) > 5
    assert np.sum(there > 0) > 5
    np.testing.assert_allclose(infos.acceptance_rate[moved], np.minimum(1, np.exp(there - here))[moved], rtol=1e-10)
    assert np.any(infos.acceptance_rate[moved] < 1), "no ratio was below one"
    labels = [np.argmax(jax.vmap(guide.component_log_probs)(state.position), axis=1) for state in (states, new_states)]
    np.testing.assert_array_equal(infos.jump_from, labels[0])
    accepted = np.asarray(infos.is_accepted)
    np.testing.assert_array_equal(infos.jump_to[accepted], labels[1][accepted])
    assert np.any(labels[0] != labels[1]), "no chain changed its mode"


def test_evaluations_are_counted():
    calls, logdensity_fn = counted(PAIR.logdensity)
    kernel = vj.jump(logdensity_fn, guide_of_a_pair(PAIR, jnp.float64), log_envelope=0.0, num_tries=5)
    state = kernel.init(jnp.array([2.0, -2.0]))
    before = calls()
    step, seen = jax.jit(kernel.step), set()
    for key in jax.random.split(KEY, 12):
        _, info = step(key, state)
        seen.add((int(info.num_gradients), int(info.num_densities), calls() - before))
        before = calls()
    assert seen == {(1, 0, 1), (5, 0, 5)}, "one try where the first passes, else all five"


def test_without_a_candidate_the_chain_stays():
    kernel = jump(guide=far_guide(1e3))
    states = jax.vmap(kernel.init)(PAIR.sample(KEY, 50))
    new_states, infos = jax.jit(jax.vmap(kernel.step))(jax.random.split(KEY, 50), states)
    chex.assert_trees_all_equal(new_states, states)
    assert not np.any(infos.is_candidate_found)
    assert not np.any(infos.jump_accepted)
    np.testing.assert_array_equal(infos.acceptance_rate, 0.0)
    np.testing.assert_array_equal(infos.jump_to, -1)
    np.testing.assert_array_equal(infos.jump_from, 0)


class Foreign:
    """A guide with the two methods and nothing else."""

    def __init__(self, shape=(2,), dtype=jnp.float64, log_prob=lambda x: -0.5 * jnp.sum(x**2)):
        self.shape, self.dtype, self.log_prob = shape, dtype, log_prob

    def sample(self, rng_key):
        return jax.random.normal(rng_key, self.shape, self.dtype)


class Overridden(vj.GaussianMixture):
    """A mixture of ours whose draws are another's: they are drawn with JAX's own keys."""

    def sample(self, rng_key):
        return jax.random.normal(rng_key, self.means.shape[1:], self.means.dtype)


jax.tree_util.register_pytree_node_class(Overridden)


def test_guides_of_others_draw_with_keys_of_jax():
    guide = Overridden(jnp.zeros(1), jnp.zeros((1, 2)), jnp.eye(2)[None])
    kernel = jump(guide=guide)
    state, _ = kernel.step(KEY, kernel.init(jnp.array([2.5, -2.5])))
    assert np.all(np.isfinite(state.position))


def test_guide_without_components_has_no_labels():
    kernel = jump(guide=Foreign())
    _, info = kernel.step(KEY, kernel.init(jnp.array([2.5, -2.5])))
    assert info.jump_from == info.jump_to == -1


BAD_GUIDES = {
    "dimension": (Foreign(shape=(3,)), r"guide.sample must return .* float64\[2\], got float64\[3\]"),
    "shape": (Foreign(shape=(1, 2)), r"guide.sample must return .* float64\[2\], got float64\[1, 2\]"),
    "dtype": (Foreign(dtype=jnp.float32), r"guide.sample must return .* float64\[2\], got float32\[2\]"),
    "log_prob of a vector": (Foreign(log_prob=lambda x: x), r"guide.log_prob must return a scalar, got shape \(2,\)"),
    "log_prob of NaN": (Foreign(log_prob=lambda x: jnp.nan * x[0]), "guide.log_prob must be a number .* got NaN"),
}


def factories(guide, **settings):
    """The two kernels that jump."""
    settings = {"log_envelope": 0.0} | settings
    yield lambda: vj.vhmc(PAIR.logdensity, guide, step_size=1.0, num_integration_steps=2, **settings)
    settings.pop("jump_probability", None)
    yield lambda: vj.jump(PAIR.logdensity, guide, **settings)


@pytest.mark.parametrize(("guide", "message"), BAD_GUIDES.values(), ids=BAD_GUIDES.keys())
def test_bad_guide(guide, message):
    for factory in factories(guide):
        with pytest.raises(ValueError, match=message):
            factory().init(jnp.zeros(2))


@pytest.mark.parametrize(
    ("guide", "settings", "error", "message"),
    [
        (Foreign(), {"num_tries": 0}, ValueError, "num_tries must be at least 1, got 0"),
        (Foreign(), {"num_tries": 1.5}, TypeError, "num_tries must be an integer, got float"),
        (Foreign(), {"log_envelope": np.nan}, ValueError, "log_envelope must be finite, got nan"),
        (Foreign(), {"log_envelope": np.zeros(2)}, ValueError, r"log_envelope must be a scalar, got shape \(2,\)"),
        (Foreign(), {"form": "literal"}, ValueError, r"form must be one of \('exact', 'paper'\), got 'literal'"),
        (PAIR, {}, TypeError, r"guide must have the methods sample\(rng_key\) and log_prob\(x\), got GaussianMixt"),
        (None, {}, TypeError, r"guide must have the methods .* got NoneType"),
    ],
)
def test_bad_argument(guide, settings, error, message):
    for factory in factories(guide, **settings):
        with pytest.raises(error, match=message):
            factory()
