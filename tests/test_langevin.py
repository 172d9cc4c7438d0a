"""The thermostat by its coefficients, and DLHMC against its letters taken one at a time."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import counted
from scipy import stats

from vhmc_jax import targets
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics.kinetic import gaussian_kinetic
from vhmc_jax.dynamics.langevin import dlhmc, stochastic_drift, thermostat
from vhmc_jax.dynamics.leapfrog import drift, kick, leapfrog

DENSITY = FlatDensity(targets.skewed().logdensity, lambda x: x)
INVERSE_MASSES = {
    "scalar": np.array(0.7),
    "vector": np.array([2.0, 0.5]),
    "matrix": np.array([[2.0, 0.5], [0.5, 1.0]]),
}
KINETIC = gaussian_kinetic(INVERSE_MASSES["matrix"])
X, P = jnp.array([0.3, -0.7]), jnp.array([-0.4, 1.1])
NOISES = jnp.array([[0.8, -1.3], [-0.2, 0.6]])
NOISE = NOISES[0]
FRICTION, STEP = jnp.asarray(0.8), jnp.asarray(0.3)
every_mass = pytest.mark.parametrize("inverse_mass", INVERSE_MASSES.values(), ids=INVERSE_MASSES.keys())


def as_matrix(value):
    return value if value.ndim == 2 else np.diag(np.broadcast_to(value, (2,)))


def coefficients(kinetic, step_size, refresh=thermostat):
    """A and B of the thermostat p' = A p + B z, read off column by column with unit noise."""

    def with_noise(p, noise):
        return refresh(kinetic.scale_noise(noise), p, kinetic, FRICTION, step_size)[0]

    zero, unit = jnp.zeros(2), jnp.eye(2)
    columns = [[with_noise(e, zero) for e in unit], [with_noise(zero, e) for e in unit]]
    return np.array(columns[0]).T, np.array(columns[1]).T


def wrong_thermostat(noise, momentum, kinetic, friction, step_size):
    """With a₂ = 1 − a₁."""
    a1 = jnp.exp(-friction * step_size)
    refreshed = a1 * momentum + (1 - a1) * noise
    return refreshed, kinetic.energy(refreshed) - kinetic.energy(momentum)


@every_mass
def test_thermostat_leaves_the_momentums_law(inverse_mass):
    """A M Aᵀ + B Bᵀ = M: N(0, M) goes to N(0, M)."""
    kinetic, mass = gaussian_kinetic(inverse_mass), np.linalg.inv(as_matrix(inverse_mass))
    a, b = coefficients(kinetic, STEP)
    np.testing.assert_allclose(a, np.exp(-0.8 * 0.3) * np.eye(2), rtol=1e-14)
    np.testing.assert_allclose(a @ mass @ a.T + b @ b.T, mass, atol=1e-14)
    a, b = coefficients(kinetic, STEP, wrong_thermostat)
    assert not np.allclose(a @ mass @ a.T + b @ b.T, mass, atol=1e-2)


@every_mass
def test_two_half_steps_equal_one_in_law(inverse_mass):
    kinetic = gaussian_kinetic(inverse_mass)

    def gaps(refresh):
        (a, b), (half_a, half_b) = (coefficients(kinetic, e * STEP, refresh) for e in (1.0, 0.5))
        twice = half_a @ half_b @ half_b.T @ half_a.T + half_b @ half_b.T
        return np.abs(half_a @ half_a - a).max(), np.abs(twice - b @ b.T).max()

    assert max(gaps(thermostat)) < 1e-15
    assert max(gaps(wrong_thermostat)) > 1e-2


@every_mass
def test_heat_is_the_gain_of_kinetic_energy_and_of_the_path(inverse_mass):
    """ΔE = K(p') − K(p), which detailed balance makes log k(p' → p) − log k(p → p')."""
    kinetic = gaussian_kinetic(inverse_mass)
    refreshed, heat = thermostat(NOISE, P, kinetic, FRICTION, STEP)
    np.testing.assert_allclose(heat, kinetic.energy(refreshed) - kinetic.energy(P), rtol=1e-14)
    assert abs(heat) > 1e-2
    a1 = np.exp(-0.8 * 0.3)
    covariance = (1 - a1**2) * np.linalg.inv(as_matrix(inverse_mass))
    forward, back = (
        stats.multivariate_normal(a1 * np.asarray(start), covariance).logpdf(end)
        for start, end in ((P, refreshed), (refreshed, P))
    )
    np.testing.assert_allclose(heat, back - forward, rtol=1e-11)


def test_no_friction_is_no_thermostat():
    refreshed, heat = thermostat(NOISE, P, KINETIC, jnp.asarray(0.0), STEP)
    np.testing.assert_array_equal(refreshed, P)
    assert heat == 0.0


def test_small_friction_is_not_lost_in_rounding():
    """a₂ = √(2γε) to leading order, where √(1 − a₁²) would have no digit left in single precision."""
    kinetic = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), KINETIC)
    noise = NOISE.astype(jnp.float32)
    refreshed, _ = thermostat(noise, jnp.zeros(2, jnp.float32), kinetic, jnp.float32(1e-9), jnp.float32(1.0))
    np.testing.assert_allclose(refreshed, float(np.sqrt(2e-9)) * noise, rtol=1e-6)


@pytest.mark.parametrize("num_steps", [1, 4])
def test_dlhmc_without_friction_is_leapfrog_of_two_more_steps(num_steps):
    start = DENSITY.state_at(X)
    end, p, heat = dlhmc(NOISES, DENSITY, KINETIC, STEP, num_steps, jnp.asarray(0.0), start, P)
    expected, expected_p = leapfrog(DENSITY, KINETIC, STEP, num_steps + 2, start, P)
    chex.assert_trees_all_close((end, p), (expected, expected_p), rtol=1e-13)
    assert heat == 0.0
    shorter, _ = leapfrog(DENSITY, KINETIC, STEP, num_steps + 1, start, P)
    assert not np.allclose(end.position, shorter.position)


def test_dlhmc_is_its_letters():
    """BAOAB, L leapfrog steps, BAOAB: each letter by itself, no kick merged with another."""

    def langevin(noise, x, p):
        p = kick(p, DENSITY.gradient(x), 0.5 * STEP)
        x = drift(x, p, KINETIC, 0.5 * STEP)
        p, heat = thermostat(noise, p, KINETIC, FRICTION, STEP)
        x = drift(x, p, KINETIC, 0.5 * STEP)
        return x, kick(p, DENSITY.gradient(x), 0.5 * STEP), heat

    x, p, first_heat = langevin(NOISES[0], X, P)
    middle, p = leapfrog(DENSITY, KINETIC, STEP, 3, DENSITY.state_at(x), p)
    x, p, last_heat = langevin(NOISES[1], middle.position, p)
    end, end_p, heat = dlhmc(NOISES, DENSITY, KINETIC, STEP, 3, FRICTION, DENSITY.state_at(X), P)
    np.testing.assert_allclose(end.position, x, rtol=1e-13)
    np.testing.assert_allclose(end_p, p, rtol=1e-13)
    np.testing.assert_allclose(heat, first_heat + last_heat, rtol=1e-13)
    np.testing.assert_allclose(end.logdensity, DENSITY.value(x), rtol=1e-13)
    np.testing.assert_allclose(end.logdensity_grad, DENSITY.gradient(x), rtol=1e-13)
    assert abs(first_heat) > 1e-3 < abs(last_heat)


def test_stochastic_drift_drifts_half_before_and_half_after():
    x, p, heat = stochastic_drift(NOISE, X, P, KINETIC, FRICTION, STEP)
    refreshed, expected_heat = thermostat(NOISE, P, KINETIC, FRICTION, STEP)
    np.testing.assert_allclose(x, X + 0.5 * STEP * KINETIC.velocity(P + refreshed), rtol=1e-14)
    np.testing.assert_array_equal(p, refreshed)
    assert heat == expected_heat


@pytest.mark.parametrize("num_steps", [1, 5, jnp.int32(5)], ids=["1", "5", "traced 5"])
def test_dlhmc_takes_two_gradients_more_than_steps(num_steps):
    calls, logdensity_fn = counted(DENSITY.logdensity_fn)
    start = DENSITY.state_at(X)
    density = FlatDensity(logdensity_fn, lambda x: x)
    jax.block_until_ready(dlhmc(NOISES, density, KINETIC, STEP, num_steps, FRICTION, start, P))
    assert calls() == int(num_steps) + 2


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_keeps_the_dtype(dtype):
    arguments = KINETIC, DENSITY.state_at(X), P, NOISES
    kinetic, start, p, noises = jax.tree.map(lambda leaf: leaf.astype(dtype), arguments)
    result = dlhmc(noises, DENSITY, kinetic, dtype(0.3), 2, dtype(0.8), start, p)
    assert {leaf.dtype for leaf in jax.tree.leaves(result)} == {jnp.dtype(dtype)}
