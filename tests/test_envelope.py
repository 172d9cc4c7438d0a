"""The envelope that makes the most jumps succeed."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.fit import envelope
from vhmc_jax.fit.envelope import best_envelope, jump_acceptance

TARGET = vj.targets.near_pair(0.7)
GUIDE = vj.GaussianMixture(
    jnp.log(jnp.array([0.6, 0.4])),
    jnp.asarray(TARGET.means, jnp.float64) + 0.3,
    1.2 * jnp.broadcast_to(jnp.eye(2), (2, 2, 2)),
)


def log_ratios(num_draws):
    x = jax.vmap(GUIDE.sample)(jax.random.split(jax.random.key(0), num_draws))
    return np.asarray(jax.vmap(TARGET.logdensity)(x) - jax.vmap(GUIDE.log_prob)(x))


@pytest.mark.statistical
@pytest.mark.parametrize("log_envelope", [-1.0, 0.5])
def test_expected_acceptance_is_what_jumps_have(log_envelope):
    num_chains = 40_000
    expected = jump_acceptance(log_ratios(num_chains), log_envelope, 2)
    kernel = vj.jump(TARGET.logdensity, GUIDE, log_envelope=log_envelope, num_tries=2)
    states = jax.vmap(kernel.init)(TARGET.sample(jax.random.key(1), num_chains).astype(jnp.float64))
    _, info = jax.jit(jax.vmap(kernel.step))(jax.random.split(jax.random.key(2), num_chains), states)
    assert float(info.is_accepted.mean()) == pytest.approx(expected, abs=0.015)


@pytest.mark.slow
def test_the_best_is_better_than_its_neighbours():
    ratios = log_ratios(4000)
    best, acceptance = best_envelope(ratios, 4)
    assert acceptance >= max(jump_acceptance(ratios, best + shift, 4) for shift in (-1.5, -0.5, 0.5, 1.5))


@pytest.mark.parametrize("num_tries", [1, 4])
@pytest.mark.parametrize("offset", [0.0, 1e5, -1e5])
def test_a_penalty_does_not_drag_the_envelope_down(num_tries, offset):
    """Points where the target has no mass, however low, leave it near the upper end of log π − log q."""
    ratios = log_ratios(4000) + offset
    spoiled = np.where(np.arange(4000) % 20 == 0, -1e10, ratios)
    log_normalizer = np.log(np.mean(np.exp(spoiled - offset))) + offset
    found, acceptance = best_envelope(spoiled, num_tries)
    assert log_normalizer + np.log(envelope.LEAST_MASS) < found < spoiled.max()
    # Nothing is lost by looking no further down: by the bound, and by trying.
    further_down = max(jump_acceptance(spoiled, found - shift, num_tries) for shift in (1, 10, 100, 1e3, 1e6))
    assert acceptance > further_down - envelope.LEAST_MASS


def test_no_envelope_below_the_least_accepts_more():
    """The bound behind the range: a share ε of the target below log c costs ε at most."""
    rng = np.random.default_rng(4)
    for spread in (0.3, 2.0, 8.0):
        ratios = spread * rng.standard_t(3, size=1000)
        order = np.sort(ratios)
        below = np.cumsum(np.exp(order - order[-1])) / np.sum(np.exp(order - order[-1]))
        for share in (1e-4, 1e-2, 0.3):
            least = order[np.searchsorted(below, share)]
            for num_tries in (1, 3, 16):
                at_least = jump_acceptance(ratios, least, num_tries)
                lower = [jump_acceptance(ratios, least - shift, num_tries) for shift in np.geomspace(0.01, 1e3, 30)]
                assert at_least > max(lower) - share


def test_a_perfect_guide_accepts_everything():
    _, acceptance = best_envelope(np.full(100, 3.0), 1)
    assert acceptance == pytest.approx(1.0, abs=1e-6)


def test_any_object_with_two_methods_serves():
    class Guide:
        def sample(self, rng_key):
            return jax.random.normal(rng_key, (2,), jnp.float64)

        def log_prob(self, x):
            return -0.5 * jnp.sum(x**2) - jnp.log(2 * jnp.pi)

    value = vj.estimate_log_envelope(jax.random.key(0), lambda x: -0.5 * jnp.sum(x**2), Guide(), 4)
    assert value == pytest.approx(np.log(2 * np.pi), abs=0.05)


def test_positions_are_pytrees():
    """The same draws, so the same envelope; a flat template is the default."""
    flat = vj.estimate_log_envelope(jax.random.key(0), TARGET.logdensity, GUIDE, 4, num_draws=200)
    template = {"a": np.zeros(()), "b": np.zeros(1)}

    def logdensity(position):
        return TARGET.logdensity(jnp.stack([position["a"], position["b"][0]]))

    tree = vj.estimate_log_envelope(jax.random.key(0), logdensity, GUIDE, 4, num_draws=200, template=template)
    assert tree == pytest.approx(flat, abs=1e-9)


def test_a_large_offset_moves_the_envelope_by_as_much():
    guide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), GUIDE)
    low, high = (replace(TARGET, log_normalizer=offset) for offset in (0.0, 1e5))
    found = [vj.estimate_log_envelope(jax.random.key(0), target.logdensity, guide, 4) for target in (low, high)]
    assert found[1] - found[0] == pytest.approx(1e5, abs=0.1)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"a": np.zeros(3)}, r"like the template's, float64\[3\], got float64\[2\]"),
        ({"a": np.zeros(2, np.float32)}, r"like the template's, float32\[2\], got float64\[2\]"),
    ],
)
def test_a_template_that_does_not_fit_the_guide_is_named(template, message):
    with pytest.raises(ValueError, match=message):
        vj.estimate_log_envelope(jax.random.key(0), lambda x: jnp.sum(x["a"]), GUIDE, 4, template=template)
    with pytest.raises(TypeError, match="guide must have the methods"):
        vj.estimate_log_envelope(jax.random.key(0), jnp.sum, object(), 4)


def test_a_guide_where_the_target_has_no_mass_is_named():
    with pytest.raises(ValueError, match="density is zero at every draw of the guide"):
        vj.estimate_log_envelope(jax.random.key(0), lambda x: -jnp.inf * jnp.sum(x**2), GUIDE, 4)


@pytest.mark.parametrize("num_tries", [1, 4])
@pytest.mark.parametrize("spread", [0.1, 3.0, 300.0])
def test_expected_acceptance_is_the_sum_over_pairs(num_tries, spread):
    rng = np.random.default_rng(3)
    log_ratios = np.round(spread * rng.normal(size=400), 1)  # some of them tie
    log_ratios[:20] = -np.inf
    weights, shares = rng.dirichlet(np.ones(400)), rng.dirichlet(np.ones(2), size=400)
    grid = np.concatenate([np.linspace(-3 * spread, 3 * spread, 25), log_ratios[20:30]])

    def by_pairs(log_envelope, shares):
        relative = log_ratios - log_envelope
        passed, log_w = weights * np.exp(np.minimum(relative, 0.0)), np.maximum(relative, 0.0)
        alpha = np.exp(np.minimum(log_w[None, :] - log_w[:, None], 0.0)) @ passed / passed.sum()
        target = weights * np.exp(log_ratios - log_ratios.max()) * shares
        return (1 - (1 - min(passed.sum(), 1.0)) ** num_tries) * (target @ alpha) / target.sum()

    draws = envelope._sorted(log_ratios, weights)
    expected = [by_pairs(log_envelope, np.ones(400)) for log_envelope in grid]
    np.testing.assert_allclose(draws.acceptances(grid, num_tries), expected, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose([draws.acceptance(c, num_tries) for c in grid], expected, rtol=1e-6, atol=1e-10)
    for log_envelope in grid[::5]:
        by_mode = [by_pairs(log_envelope, shares[:, mode]) for mode in range(2)]
        found = jump_acceptance(log_ratios, log_envelope, num_tries, weights, shares)
        np.testing.assert_allclose(found, by_mode, rtol=1e-6, atol=1e-10)
