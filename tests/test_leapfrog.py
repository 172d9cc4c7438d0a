"""Leapfrog: reversible, volume-preserving, of order 2, and the loop of merged kicks against plain single steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax import targets
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics.kinetic import gaussian_kinetic
from vhmc_jax.dynamics.leapfrog import drift, kick, leapfrog, longest_lane, step_count

# Skewed, so that a mistake of direction cannot hide behind a symmetry.
DENSITY = FlatDensity(targets.skewed().logdensity, lambda x: x)
KINETIC = gaussian_kinetic(np.array([[2.0, 0.5], [0.5, 1.0]]))
X, P = jnp.array([0.3, -0.7]), jnp.array([-0.4, 1.1])


def run(x, p, step_size=0.2, num_steps=7):
    """(position, momentum) after a trajectory."""
    end, momentum = leapfrog(DENSITY, KINETIC, jnp.asarray(step_size), num_steps, DENSITY.state_at(x), p)
    return end.position, momentum


def plain(x, p, step_size, num_steps, last_kick=0.5):
    """The textbook: half kick, drift, half kick, one step at a time."""
    for _ in range(num_steps):
        p = kick(p, DENSITY.gradient(x), 0.5 * step_size)
        x = drift(x, p, KINETIC, step_size)
        p = kick(p, DENSITY.gradient(x), last_kick * step_size)
    return x, p


def energy(x, p):
    return KINETIC.energy(p) - DENSITY.value(x)


@pytest.mark.parametrize("num_steps", [1, 2, 7])
def test_merged_kicks_equal_single_steps(num_steps):
    merged = run(X, P, 0.2, num_steps)
    np.testing.assert_allclose(merged, plain(X, P, 0.2, num_steps), rtol=1e-13)
    assert not np.allclose(merged, plain(X, P, 0.2, num_steps, last_kick=1.0))


def test_end_state_is_evaluated_at_the_end():
    end, _ = leapfrog(DENSITY, KINETIC, jnp.asarray(0.2), 7, DENSITY.state_at(X), P)
    np.testing.assert_allclose(end.logdensity, DENSITY.value(end.position), rtol=1e-14)
    np.testing.assert_allclose(end.logdensity_grad, DENSITY.gradient(end.position), rtol=1e-14)


def test_reversible():
    x, p = run(X, P)
    back_x, back_p = run(x, -p)
    np.testing.assert_allclose(back_x, X, atol=1e-13)
    np.testing.assert_allclose(-back_p, P, atol=1e-13)
    x, p = plain(X, P, 0.2, 7, last_kick=1.0)
    assert not np.allclose(plain(x, -p, 0.2, 7, last_kick=1.0)[0], X, atol=1e-3), "a full last kick is not"


def volume(step):
    """|det| of the Jacobian of a map of (position, momentum)."""
    jacobian = jax.jacfwd(lambda z: jnp.concatenate(step(z[:2], z[2:])))(jnp.concatenate([X, P]))
    return abs(np.linalg.det(jacobian))


def test_preserves_volume():
    np.testing.assert_allclose(volume(run), 1.0, rtol=1e-12)

    step_size = jnp.asarray(0.2)

    def euler(x, p):
        return drift(x, p, KINETIC, step_size), kick(p, DENSITY.gradient(x), step_size)

    assert abs(volume(euler) - 1.0) > 1e-3


def test_error_is_of_order_two():
    """At a fixed time, half the step size means a quarter of the error, in energy and in position."""
    exact, _ = run(X, P, 1.6 / 2048, 2048)
    ends = [run(X, P, 1.6 / n, n) for n in (16, 32, 64)]
    energies = [abs(energy(*end) - energy(X, P)) for end in ends]
    positions = [np.linalg.norm(x - exact) for x, _ in ends]
    for errors in (energies, positions):
        ratios = np.array(errors[:-1]) / np.array(errors[1:])
        np.testing.assert_allclose(ratios, 4.0, rtol=0.1)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_keeps_the_dtype(dtype):
    kinetic = jax.tree.map(lambda leaf: leaf.astype(dtype), KINETIC)
    start = DENSITY.state_at(X.astype(dtype))
    for num_steps in (3, jnp.int32(3)):
        end, p = leapfrog(DENSITY, kinetic, dtype(0.2), num_steps, start, P.astype(dtype))
        assert {leaf.dtype for leaf in jax.tree.leaves((end, p))} == {jnp.dtype(dtype)}


def test_traced_number_of_steps_equals_a_fixed_one():
    traced = jax.jit(lambda num_steps: run(X, P, 0.2, num_steps))
    for num_steps in (1, 4):
        np.testing.assert_allclose(traced(jnp.int32(num_steps)), run(X, P, 0.2, num_steps), rtol=1e-14)


def test_lanes_of_different_length_under_nested_vmap_equal_a_loop():
    """Lanes that are done wait for the longest one of both axes, and stay where they are."""
    counts = jnp.array([[1, 5, 2], [7, 3, 4]], dtype=jnp.int32)
    positions = X + 0.1 * jnp.arange(6.0).reshape(2, 3, 1)
    lane = functools.partial(run, p=P, step_size=0.2)
    batched = jax.jit(jax.vmap(jax.vmap(lambda x, n: lane(x, num_steps=n))))(positions, counts)
    for index in np.ndindex(2, 3):
        alone = run(positions[index], P, 0.2, int(counts[index]))
        np.testing.assert_allclose([part[index] for part in batched], alone, rtol=1e-13)


def test_longest_lane():
    counts = jnp.array([[1, 5, 2], [7, 3, 4]], dtype=jnp.int32)
    assert longest_lane(counts[0, 1]) == 5
    np.testing.assert_array_equal(jax.vmap(longest_lane)(counts[0]), [5, 5, 5])
    np.testing.assert_array_equal(jax.vmap(jax.vmap(longest_lane))(counts), np.full((2, 3), 7))
    # Where only the inner axis differs, the outer one must not matter.
    inner = jax.vmap(lambda scale: jax.vmap(longest_lane)(counts[0]) * scale)(jnp.array([1, 2], dtype=jnp.int32))
    np.testing.assert_array_equal(inner, [[5, 5, 5], [10, 10, 10]])


def test_step_count():
    key = jax.random.key(0)
    assert step_count(5).draw(key) == 5
    assert isinstance(step_count(5).draw(key), int), "a fixed number is static: no lane is masked"
    assert isinstance(step_count((4, 4)).draw(key), int)
    draws = jax.vmap(step_count((3, 6)).draw)(jax.random.split(key, 4000))
    values, counts = np.unique(draws, return_counts=True)
    np.testing.assert_array_equal(values, [3, 4, 5, 6])
    assert np.all(np.abs(counts - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ValueError, "num_integration_steps must be at least 1, got 0"),
        (-3, ValueError, "num_integration_steps must be at least 1, got -3"),
        (2.5, TypeError, "num_integration_steps must be an integer, got float: 2.5"),
        (True, TypeError, "num_integration_steps must be an integer, got bool"),
        ((5, 2), ValueError, r"\(low, high\) with low <= high, got \(5, 2\)"),
        ((0, 2), ValueError, r"num_integration_steps\[0\] must be at least 1, got 0"),
        ((1, 2.5), TypeError, r"num_integration_steps\[1\] must be an integer, got float"),
        ((1, 2, 3), ValueError, r"must be an integer or \(low, high\), got \(1, 2, 3\)"),
    ],
)
def test_bad_step_count(value, error, message):
    with pytest.raises(error, match=message):
        step_count(value)
