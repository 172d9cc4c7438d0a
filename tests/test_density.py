"""A log density on flat vectors, and the state at a position."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import Counter

from vhmc_jax.density import FlatDensity, flatten, init_state


@pytest.mark.parametrize(
    ("position", "error", "message"),
    [
        (jnp.arange(3), TypeError, "position must be of a floating dtype, got int"),
        ({"a": 1.0, "b": [True]}, TypeError, r"position\['b'\]\[0\] must be of a floating dtype, got bool"),
        (np.array([1], np.complex64), TypeError, "position must be of a floating dtype, got complex64"),
        ({}, ValueError, "position must hold at least one array"),
    ],
)
def test_bad_position(position, error, message):
    with pytest.raises(error, match=message):
        init_state(lambda x: jnp.zeros(()), position)


@pytest.mark.parametrize(
    ("logdensity_fn", "came"),
    [
        (lambda x: x, r"float64\[3\]"),
        (lambda x: jnp.sum(x) > 0, r"bool\[\]"),
        (lambda x: (jnp.sum(x), x), r"float64\[\].*float64\[3\]"),
        (lambda x: jnp.sum(x).astype(complex), r"complex128\[\]"),
    ],
)
def test_bad_logdensity(logdensity_fn, came):
    with pytest.raises(ValueError, match=r"logdensity_fn must return one real number \(a scalar\), got .*" + came):
        init_state(logdensity_fn, jnp.ones(3))


def test_flat_density_and_back():
    """Values and gradients on the flat vector are those of the pytree, in the order of ``ravel_pytree``."""

    def logdensity(position):
        return -jnp.sum(position["a"] ** 2) + 3.0 * position["b"]

    state = init_state(logdensity, {"a": jnp.array([1.0, 2.0]), "b": jnp.asarray(0.5)})
    np.testing.assert_allclose(state.logdensity, -3.5)
    np.testing.assert_allclose(state.logdensity_grad["a"], [-2.0, -4.0])
    density, flat = flatten(logdensity, state)
    np.testing.assert_allclose(flat.position, [1.0, 2.0, 0.5])
    np.testing.assert_allclose(flat.logdensity_grad, [-2.0, -4.0, 3.0])
    np.testing.assert_allclose(density.gradient(flat.position), flat.logdensity_grad)
    chex.assert_trees_all_equal(density.unflatten(density.state_at(flat.position)), state)


def test_a_flat_density_is_traced_once_for_all_its_uses():
    counter = Counter()

    @jax.jit
    def several(x):
        density = FlatDensity(counter, jax.flatten_util.ravel_pytree(x)[1])
        turned = jax.lax.fori_loop(0, 3, lambda _, y: y + 0.1 * density.gradient(y), x)
        return density.state_at(turned), jax.vmap(density.value)(jnp.stack([x, turned])), density.gradient(x)

    state, values, gradient = several(jnp.arange(3.0))
    assert counter.traces == 1
    np.testing.assert_allclose(gradient, -np.arange(3.0))
    np.testing.assert_allclose(state.logdensity, values[1])
    np.testing.assert_allclose(state.position, 0.9**3 * np.arange(3.0))


def test_a_flat_density_is_an_argument_of_programs():
    """Made anew of the same function it is the same program; another function or structure is another."""
    traces = []

    @jax.jit
    def value(density, x):
        traces.append(density)
        return density.value(x)

    def logdensity(position):
        return -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(position))

    template = {"a": jnp.ones(2), "b": jnp.ones(())}
    for position in (template, jax.tree.map(np.asarray, template)):
        assert value(FlatDensity.at(logdensity, position), jnp.arange(3.0)) == -5.0
    assert len(traces) == 1
    value(FlatDensity.at(logdensity, jnp.ones(3)), jnp.arange(3.0))
    value(FlatDensity.at(lambda x: -jnp.sum(x), jnp.ones(3)), jnp.arange(3.0))
    assert len(traces) == 3
