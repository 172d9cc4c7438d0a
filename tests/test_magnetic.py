"""The magnetic leapfrog: its drift against a matrix exponential, reversible with the field, of order 2."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from vhmc_jax import targets
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics.kinetic import covariance_factor, gaussian_kinetic
from vhmc_jax.dynamics.leapfrog import leapfrog
from vhmc_jax.dynamics.magnetic import as_field, magnetic_drift, magnetic_flow, magnetic_leapfrog

RNG = np.random.default_rng(2017)
NOISE = RNG.normal(size=(4, 4))
FIELD = NOISE - NOISE.T
SINGULAR = np.pad(FIELD[:3, :3], (0, 1))  # of three coordinates an antisymmetric matrix is singular anyway
MASSES = {
    "scalar": 1.7,
    "vector": np.array([0.5, 1.0, 2.0, 1.3]),
    "matrix": np.eye(4) + 0.3 * NOISE @ NOISE.T,
}
FIELDS = {"regular": FIELD, "singular": SINGULAR, "zero": np.zeros((4, 4)), "plane": 1.6, "strong": 40 * FIELD}
EPS = 0.37
P = jnp.asarray(RNG.normal(size=4))

SKEWED = FlatDensity(targets.skewed().logdensity, lambda x: x)
DENSE = np.array([[2.0, 0.5], [0.5, 1.0]])


def as_matrix(value):
    """A mass as a matrix."""
    return value * np.eye(4) if np.ndim(value) < 2 else value


def plane(strength, dim=4):
    field = np.zeros((dim, dim))
    field[0, 1], field[1, 0] = strength, -strength
    return field


def flow_of(field, inverse_mass, step_size):
    factor = covariance_factor("inverse_mass_matrix", inverse_mass)
    return magnetic_flow(as_field(field), factor, jnp.asarray(step_size))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("mass", MASSES)
@pytest.mark.parametrize("field", FIELDS)
def test_drift_is_the_exact_flow(field, mass, sign):
    """Against expm(ε [[0, W], [0, σGW]]), whatever the field's rank."""
    inverse_mass, matrix = MASSES[mass], as_matrix(MASSES[mass])
    generator = np.zeros((8, 8))
    generator[:4, 4:] = matrix
    generator[4:, 4:] = sign * (plane(FIELDS[field]) if field == "plane" else FIELDS[field]) @ matrix
    exact = expm(EPS * generator) @ np.concatenate([np.zeros(4), P])
    flow = flow_of(FIELDS[field], inverse_mass, EPS)
    move, turn = magnetic_drift(P, gaussian_kinetic(inverse_mass), flow, jnp.asarray(EPS), jnp.asarray(sign))
    np.testing.assert_allclose(move, exact[:4], atol=1e-12)
    np.testing.assert_allclose(P + turn, exact[4:], atol=1e-12)


def test_field_of_two_coordinates_equals_the_plane():
    kinetic = gaussian_kinetic(1.3)
    arguments = (P[:2], kinetic), (jnp.asarray(EPS), jnp.asarray(1.0))
    moves = [
        magnetic_drift(*arguments[0], flow_of(field, 1.3, EPS), *arguments[1]) for field in (1.6, plane(1.6, dim=2))
    ]
    np.testing.assert_array_equal(*moves)


def run(x, p, sign, step_size=0.2, num_steps=7, field=1.5, inverse_mass=DENSE, density=SKEWED):
    """(position, momentum) after a trajectory."""
    kinetic, flow = gaussian_kinetic(inverse_mass), flow_of(field, inverse_mass, step_size)
    start = density.state_at(x)
    end, momentum = magnetic_leapfrog(
        density, kinetic, flow, jnp.asarray(step_size), num_steps, start, p, jnp.asarray(sign)
    )
    return end.position, momentum


X2, P2 = jnp.array([0.3, -0.7]), jnp.array([-0.4, 1.1])


def energy(x, p):
    return gaussian_kinetic(DENSE).energy(p) - SKEWED.value(x)


@pytest.mark.parametrize("mass", MASSES)
@pytest.mark.parametrize("field", ["regular", "singular", "plane"])
def test_trajectory_in_a_quadratic_potential(field, mass):
    """Converges to the matrix exponential of the whole linear system, with an error of order 2."""
    curvature = np.diag([1.0, 2.0, 0.5, 1.5]) + 0.2
    density = FlatDensity(lambda x: -0.5 * x @ jnp.asarray(curvature) @ x, lambda x: x)
    matrix = as_matrix(MASSES[mass])
    turning = (plane(FIELDS[field]) if field == "plane" else FIELDS[field]) @ matrix
    start = jnp.array([0.5, -1.0, 0.3, 0.8])
    exact = expm(np.block([[np.zeros((4, 4)), matrix], [-curvature, turning]])) @ np.concatenate([start, P])
    errors = []
    for n in (32, 64, 128):
        end = run(start, P, 1.0, 1 / n, n, FIELDS[field], MASSES[mass], density)
        errors.append(np.linalg.norm(np.concatenate(end) - exact))
    assert errors[-1] < 0.01
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 4.0, rtol=0.1)


def test_energy_error_is_of_order_two():
    ends = [run(X2, P2, 1.0, 1.6 / n, n) for n in (32, 64, 128)]
    errors = np.array([abs(energy(*end) - energy(X2, P2)) for end in ends])
    np.testing.assert_allclose(errors[:-1] / errors[1:], 4.0, rtol=0.1)


def test_reversible_once_the_field_has_changed_sign_too():
    x, p = run(X2, P2, 1.0)
    back_x, back_p = run(x, -p, -1.0)
    np.testing.assert_allclose(back_x, X2, atol=1e-13)
    np.testing.assert_allclose(-back_p, P2, atol=1e-13)
    assert not np.allclose(run(x, -p, 1.0)[0], X2, atol=0.1), "with the same sign it is not"


def test_preserves_volume():
    jacobian = jax.jacfwd(lambda z: jnp.concatenate(run(z[:2], z[2:], 1.0)))(jnp.concatenate([X2, P2]))
    np.testing.assert_allclose(abs(np.linalg.det(jacobian)), 1.0, rtol=1e-12)


def test_without_a_field_it_is_the_leapfrog():
    end, momentum = leapfrog(SKEWED, gaussian_kinetic(DENSE), jnp.asarray(0.2), 7, SKEWED.state_at(X2), P2)
    np.testing.assert_allclose(run(X2, P2, 1.0, field=0.0), (end.position, momentum), rtol=1e-13)


def test_lanes_of_different_length_equal_a_loop():
    counts = jnp.array([1, 5, 2], dtype=jnp.int32)
    signs = jnp.array([1.0, -1.0, 1.0])
    lane = functools.partial(run, X2, P2, step_size=0.2)
    batched = jax.jit(jax.vmap(lambda n, sign: lane(num_steps=n, sign=sign)))(counts, signs)
    for i in range(3):
        alone = run(X2, P2, signs[i], 0.2, int(counts[i]))
        np.testing.assert_allclose([part[i] for part in batched], alone, rtol=1e-12)


def test_single_precision():
    """The matrices alone, computed in single precision: most users have no other."""
    exact = flow_of(FIELD, MASSES["matrix"], EPS)
    with jax.enable_x64(False):
        flow = flow_of(FIELD, MASSES["matrix"], EPS)
        assert {leaf.dtype for leaf in jax.tree.leaves(flow)} == {jnp.dtype("float32")}
    chex.assert_trees_all_close(flow, exact, rtol=1e-7, atol=3e-6)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (np.ones((2, 2)), r"field must be antisymmetric, that is, field.T == -field, got \[\[1. 1.\]"),
        (np.array([[0.1, 1.0], [-1.0, 0.1]]), "field must be antisymmetric"),
        (np.zeros(3), r"field must be a scalar or a square matrix, got shape \(3,\)"),
        (np.zeros((2, 3)), r"field must be a scalar or a square matrix, got shape \(2, 3\)"),
        (np.nan, "field must be finite, got nan"),
    ],
)
def test_bad_field(field, message):
    with pytest.raises(ValueError, match=message):
        as_field(field)


def test_field_and_mass_of_different_dimension():
    with pytest.raises(ValueError, match=r"must be of one dimension, got shapes \(4, 4\) and \(3,\)"):
        flow_of(FIELD, np.ones(3), EPS)
    with pytest.raises(ValueError, match=r"plane of the first two coordinates, got an inverse_mass_matrix of one"):
        flow_of(1.0, np.ones(1), EPS)
