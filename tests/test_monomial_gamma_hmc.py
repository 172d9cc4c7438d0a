"""Monomial-Gamma HMC: its momenta, and invariance; with momenta from the law that is not smoothed it fails."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import KEY, TARGETS, assert_acceptance, every_dtype, every_target, retraced
from counting import counted
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing
from scipy import stats

from vhmc_jax.arguments import cast
from vhmc_jax.dynamics.kinetic import gaussian_kinetic
from vhmc_jax.dynamics.monomial import MonomialKinetic, monomial_kinetic
from vhmc_jax.kernels.monomial_gamma_hmc import monomial_gamma_hmc

EXPONENTS = [0.2, 0.5, 0.75, 1.0, 2.0, 5.0]
SETTINGS = {
    "gaussian": {"step_size": 0.2, "num_integration_steps": 5},
    "skewed": {"step_size": 1.6, "num_integration_steps": 3, "inverse_mass_matrix": np.array([1.3, 0.6])},
    "mixture": {"step_size": 1.2, "num_integration_steps": 3, "inverse_mass_matrix": np.array([1.3, 0.6])},
}
every_exponent = pytest.mark.parametrize("exponent", EXPONENTS)


def monomial(name, **settings):
    return monomial_gamma_hmc(TARGETS[name].logdensity, **SETTINGS[name] | settings)


def smallest_p_value(kinetic, momenta):
    """Kolmogorov and Smirnov's, of momenta in one dimension against exp(−K) by quadrature.

    Of all momenta, and of the sizes of small ones: the smoothing matters to these alone, few where the exponent is
    large.
    """
    momenta = np.asarray(momenta, np.float64)
    largest = (2 * (kinetic.exponent + 40)) ** kinetic.exponent / kinetic.inverse_mass_factor
    grid = np.linspace(-1, 1, 200_001)
    grid = np.sign(grid) * np.abs(grid) ** max(1, 2 * kinetic.exponent) * largest  # closer at 0
    density = np.exp(-jax.jit(jax.vmap(kinetic.energy))(grid))
    masses = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))])

    def p_value(momenta, low, high):
        below, start, end = (np.interp(p, grid, masses) for p in (momenta, low, high))
        return stats.kstest((below - start) / (end - start), "uniform").pvalue

    sizes, limit = np.abs(momenta), 1 / kinetic.inverse_mass_factor
    return min(p_value(momenta, -largest, largest), p_value(sizes[sizes < limit], 0.0, limit))


@pytest.mark.statistical
@every_exponent
@every_dtype
def test_momenta_have_the_density_of_the_energy(exponent, dtype):
    kinetic = monomial_kinetic(exponent, 0.25)
    (momenta,) = cast(kinetic, dtype).draw(KEY, jnp.zeros(200_000, dtype))
    assert momenta.dtype == dtype
    assert smallest_p_value(kinetic, momenta) > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("exponent", [0.75, 1.0, 2.0])
def test_momenta_of_the_law_that_is_not_smoothed_are_seen(exponent):
    kinetic = monomial_kinetic(exponent, 0.25)
    (momenta,) = dataclasses.replace(kinetic, smoothing=jnp.zeros(())).draw(KEY, jnp.zeros(200_000))
    assert smallest_p_value(kinetic, momenta) < 1e-6


@every_exponent
def test_velocity_is_the_gradient_of_the_energy(exponent):
    kinetic = monomial_kinetic(exponent, np.array([0.5, 1.0, 2.0, 1.0]))
    momentum = jnp.array([0.3, -1.2, 4.0, 1e-3])
    np.testing.assert_allclose(kinetic.velocity(momentum), jax.grad(kinetic.energy)(momentum), rtol=1e-10)
    np.testing.assert_array_equal(kinetic.velocity(jnp.zeros(4)), 0.0)
    assert kinetic.energy(jnp.zeros(4)) < 1e-300


@pytest.mark.parametrize("exponent", [0.5, 0.75, 1.0, 2.0, 5.0])
def test_energy_is_nowhere_more_curved_than_the_gaussian_one(exponent):
    kinetic = monomial_kinetic(exponent, 0.25)
    curvatures = jax.vmap(jax.grad(lambda p: kinetic.velocity(p[None])[0]))(jnp.linspace(1e-3, 20, 500))
    assert np.all(curvatures <= 0.25 * (1 + 1e-9))
    np.testing.assert_allclose(curvatures[0], 0.25, rtol=1e-3)


def test_tails_are_monomial():
    kinetic = monomial_kinetic(2.0, 1.0)
    np.testing.assert_allclose(kinetic.energy(jnp.array([1e6])), 0.5 * 1e3, rtol=1e-3)


@pytest.mark.statistical
def test_exponent_of_one_half_is_gaussian():
    mass = np.array([0.5, 2.0])
    kinetic, gaussian = monomial_kinetic(0.5, mass), gaussian_kinetic(mass)
    momenta = jax.random.normal(KEY, (20, 2))
    for name in ("velocity", "energy"):
        values, expected = (jax.vmap(getattr(k, name))(momenta) for k in (kinetic, gaussian))
        np.testing.assert_allclose(values, expected, rtol=1e-12)
    draws = kinetic.draw(KEY, jnp.zeros(2), num=50_000) * np.sqrt(mass)
    assert stats.kstest(np.asarray(draws).ravel(), "norm").pvalue > 1e-6


@pytest.mark.statistical
@every_target
@every_dtype
def test_invariant(name, dtype):
    report = check_invariance(monomial(name), TARGETS[name], KEY, dtype=dtype)
    assert_acceptance(report)
    assert_invariant(report)


@pytest.mark.statistical
@pytest.mark.parametrize(("exponent", "step_size"), [(0.3, 0.6), (0.75, 1.2), (2.0, 3.0)])
def test_invariant_with_other_exponents_and_random_length(exponent, step_size):
    kernel = monomial("skewed", exponent=exponent, step_size=step_size, num_integration_steps=(2, 4))
    report = check_invariance(kernel, TARGETS["skewed"], KEY)
    assert_acceptance(report)
    assert_invariant(report)


@pytest.mark.statistical
def test_mixes_from_a_bad_start():
    assert_invariant(check_mixing(monomial("skewed"), TARGETS["skewed"], [-6.0, 5.0], KEY, num_steps=60))


@pytest.mark.statistical
@every_target
def test_with_momenta_of_the_law_that_is_not_smoothed_it_is_not_invariant(monkeypatch, name):
    sound = MonomialKinetic.draw

    def unsmoothed(kinetic, *arguments, **settings):
        return sound(dataclasses.replace(kinetic, smoothing=0 * kinetic.smoothing), *arguments, **settings)

    monkeypatch.setattr(MonomialKinetic, "draw", unsmoothed)
    assert_not_invariant(check_invariance(retraced(monomial(name)), TARGETS[name], KEY))


def test_exponent_may_be_traced():
    """One program for several exponents, the default among them."""

    def rate(exponent):
        kernel = monomial("skewed", exponent=exponent, step_size=2.0)
        return kernel.step(KEY, kernel.init(jnp.array([0.3, -0.7])))[0].position

    exponents = [0.4, 1.0, 1.7]
    positions = jax.jit(jax.vmap(rate))(jnp.array(exponents))
    np.testing.assert_allclose(positions, [rate(exponent) for exponent in exponents], rtol=1e-9)


def test_gradients_of_a_step_are_counted():
    calls, logdensity_fn = counted(TARGETS["skewed"].logdensity)
    kernel = monomial_gamma_hmc(logdensity_fn, step_size=0.2, num_integration_steps=4)
    state = kernel.init(jnp.zeros(2))
    before = calls()
    _, info = kernel.step(KEY, state)
    assert calls() - before == info.num_gradients == 4


def test_a_number_that_is_none_does_not_hang():
    """Where a traced exponent is NaN no candidate is ever accepted; the step ends, and is rejected."""
    kernel = monomial("skewed")
    settings = kernel.step.propose.args[0]
    bad = settings._replace(kinetic=dataclasses.replace(settings.kinetic, exponent=jnp.asarray(jnp.nan)))
    proposal = kernel.step.propose.func(bad, KEY, kernel.init(jnp.zeros(2)))
    assert proposal.log_acceptance == -jnp.inf
    assert proposal.info.is_divergent


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"exponent": 0.0}, "exponent must be positive, got 0.0"),
        ({"exponent": -1.0}, "exponent must be positive, got -1.0"),
        ({"exponent": jnp.inf}, "exponent must be finite, got inf"),
        ({"inverse_mass_matrix": np.eye(2)}, r"a scalar or a vector: .* takes no dense mass, got shape \(2, 2\)"),
        ({"inverse_mass_matrix": [1.0, -1.0]}, "inverse_mass_matrix must be positive"),
        ({"step_size": -0.1}, "step_size must be positive, got -0.1"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises(ValueError, match=message):
        monomial("skewed", **settings)


def test_mass_of_another_dimension():
    kernel = monomial("skewed", inverse_mass_matrix=np.ones(3))
    with pytest.raises(ValueError, match="a scalar or a vector of length 2 for a position of 2 numbers"):
        kernel.init(jnp.zeros(2))
