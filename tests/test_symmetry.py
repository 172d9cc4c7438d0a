"""The symmetry kernel is exact for any map; without the Jacobian, or the inverse of a map, it is not."""

import jax
import jax.numpy as jnp
import pytest
from cases import KEY, TARGETS, retraced
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing

import vhmc_jax as vj
from vhmc_jax import targets
from vhmc_jax.moves import maps as maps_module

# Modes that a permutation, or a sign, nearly exchanges; in three dimensions there are cycles that are no involutions.
NEARLY = targets.GaussianMixtureTarget(
    [0.4, 0.35, 0.25], [[2.0, 0.3, -0.2], [0.1, 1.8, 0.2], [0.2, -0.1, 2.1]], [0.8, 0.9, 0.8]
)


def bend(x):
    """An involution of the first coordinate that stretches: u ↦ c − u for u = arsinh x."""
    c = jnp.asarray(-0.9, x.dtype)
    return x.at[0].set(jnp.sinh(c - jnp.arcsinh(x[0])))


def log_det_of_bend(x):
    c = jnp.asarray(-0.9, x.dtype)
    return jnp.log(jnp.cosh(c - jnp.arcsinh(x[0]))) - 0.5 * jnp.log1p(x[0] ** 2)


def cycle(x):
    return jnp.roll(x, 1)


def cycle_back(x):
    return jnp.roll(x, -1)


def swap(x):
    return x[::-1]


CASES = {
    "Jacobian by differentiation": ("skewed", bend, jnp.float32),
    "Jacobian given": ("skewed", [(bend, log_det_of_bend)], jnp.float64),
    "reflection of a Gaussian": ("gaussian", [(lambda x: jnp.asarray([6.0, 6.0], x.dtype) - x, 0.0)], jnp.float32),
    "permutations and signs": ("mixture", [vj.permutations(), vj.signs()], jnp.float32),
}


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES)
def test_invariant(case):
    name, maps, dtype = CASES[case]
    report = check_invariance(vj.symmetry(TARGETS[name].logdensity, maps), TARGETS[name], KEY, 1, dtype)
    assert_invariant(report)
    assert 0.2 < report.info_means.acceptance_rate < 0.95, report


@pytest.mark.statistical
@pytest.mark.parametrize("maps", [vj.permutations(), [cycle, cycle_back]], ids=["all", "a cycle and its inverse"])
def test_invariant_with_maps_that_are_no_involutions(maps):
    report = check_invariance(vj.symmetry(NEARLY.logdensity, maps), NEARLY, KEY, 2)
    assert_invariant(report)
    assert 0.6 < report.info_means.acceptance_rate < 0.95, report


@pytest.mark.statistical
def test_one_mode_is_enough():
    """Chains that all start in one of two distant modes, which the symmetry exchanges."""
    target = targets.GaussianMixtureTarget([0.5, 0.5], [[6.0, -5.0], [-5.0, 6.0]], [1.0, 1.0])
    local = vj.hmc(target.logdensity, step_size=0.8, num_integration_steps=3)
    assert_not_invariant(check_mixing(local, target, [6.0, -5.0], KEY, 15))
    report = check_mixing(vj.cycle(local, vj.symmetry(target.logdensity, vj.permutations())), target, [6, -5], KEY, 15)
    assert_invariant(report)
    assert report.info_means.parts[1].acceptance_rate > 0.9999


# Broken copies.


@pytest.mark.statistical
def test_without_the_jacobian_it_is_not_invariant(monkeypatch):
    """Declared to preserve volume, which it does not."""
    monkeypatch.setattr(maps_module, "_is_inverse", lambda *_: True)
    kernel = vj.symmetry(TARGETS["skewed"].logdensity, [(bend, 0.0)])
    assert_not_invariant(check_invariance(kernel, TARGETS["skewed"], KEY, 1))


@pytest.mark.statistical
def test_without_the_inverse_it_is_not_invariant(monkeypatch):
    monkeypatch.setattr(maps_module, "_is_inverse", lambda *_: True)
    kernel = retraced(vj.symmetry(NEARLY.logdensity, cycle))
    assert_not_invariant(check_invariance(kernel, NEARLY, KEY, 2))


# What is refused.


@pytest.mark.parametrize(
    ("maps", "error", "message"),
    [
        ([], ValueError, "maps must hold at least one map, got none"),
        (3.0, TypeError, r"maps\[0\] must be a function of the position, got float"),
        ([swap, "x"], TypeError, r"maps\[1\] must be a function of the position, got str"),
    ],
)
def test_bad_maps(maps, error, message):
    with pytest.raises(error, match=message):
        vj.symmetry(NEARLY.logdensity, maps)


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (cycle, r"maps\[0\] must be an involution, or its inverse must be among the maps"),
        ([swap, lambda x: x + 1], r"maps\[1\] must be an involution"),
        ([(bend, 0.3)], r"maps\[0\] must be an involution"),
        (lambda x: x[:2], r"maps\[0\] must keep structure, shapes and dtypes of the position, float64\[3\], got"),
        (lambda x: {"x": x}, r"maps\[0\] must keep structure"),
        (lambda x: x.astype(jnp.float32), r"maps\[0\] must keep structure"),
    ],
)
@pytest.mark.parametrize("is_traced", [False, True])
def test_map_that_does_not_fit(maps, message, is_traced):
    """Also where the position is traced, as in a run."""
    init = vj.symmetry(NEARLY.logdensity, maps).init
    with pytest.raises(ValueError, match=message):
        (jax.jit(init) if is_traced else init)(jnp.zeros(3))
