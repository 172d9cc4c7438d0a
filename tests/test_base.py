"""Base types: functions as arguments of compiled programs, the checks of settings and positions, flat densities."""

import functools
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax import base, targets


class Counter:
    """A log density that counts how often it is traced."""

    def __init__(self):
        self.traces = 0

    def __call__(self, x):
        """A standard Gaussian."""
        self.traces += 1
        return -0.5 * jnp.sum(x**2)

    def method(self, x):
        """The same, bound to an object that is no pytree."""
        return self(x)


@jax.jit
def call(function, x):
    return function(x)


@pytest.mark.parametrize(
    "variant",
    {
        "object": lambda counter: counter,
        "lambda": lambda counter: lambda x: counter(x),
        "method": lambda counter: counter.method,
        "functools.partial": lambda counter: functools.partial(counter),
        "jitted": lambda counter: jax.jit(lambda x: counter(x)),
        "Partial": lambda counter: jax.tree_util.Partial(counter),
    }.items(),
    ids=lambda item: item[0],
)
def test_the_same_function_is_the_same_program(variant):
    counter = Counter()
    function = variant[1](counter)
    values = [call(base.as_pytree_function(function), jnp.arange(3.0)) for _ in range(3)]
    np.testing.assert_allclose(values, -2.5)
    assert counter.traces == 1
    call(base.as_pytree_function(lambda x: counter(x)), jnp.arange(3.0))
    assert counter.traces == 2, "another function is another program"


def test_arrays_of_a_bound_method_are_arguments():
    """The bound method of a pytree: other numbers of the same shape are the same program."""
    num_traces = 0

    @jax.jit
    def counted(function, x):
        nonlocal num_traces
        num_traces += 1
        return function(x)

    x = jnp.array([0.3, -0.2])
    for weight in (0.7, 0.4):
        target = targets.near_pair(weight)
        value = counted(base.as_pytree_function(target.logdensity), x)
        np.testing.assert_allclose(value, target.logdensity(x), rtol=1e-14)
    assert num_traces == 1
    counted(base.as_pytree_function(targets.three_modes().logdensity), x[:1])
    assert num_traces == 2


def test_a_pytree_stays_as_it_is():
    function = jax.tree_util.Partial(jnp.dot, jnp.ones(2))
    assert base.as_pytree_function(function) is function


def test_not_a_function():
    with pytest.raises(TypeError, match=r"expected a function, got float: 1\.0"):
        base.as_pytree_function(cast(Any, 1.0))


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), jnp.float32(2)])
def test_parameters_have_one_type_whatever_was_written(value):
    array = base.as_parameter("step_size", value, positive=True)
    assert array.dtype == jnp.float64
    assert array.shape == ()
    assert not array.weak_type


@pytest.mark.parametrize(
    ("value", "signs", "message"),
    [
        (0.0, {"positive": True}, r"step_size must be positive, got 0\.0"),
        (-0.1, {"positive": True}, r"step_size must be positive, got -0\.1"),
        (-0.1, {"nonnegative": True}, r"step_size must not be negative, got -0\.1"),
        (np.nan, {}, "step_size must be finite, got nan"),
        (np.inf, {"positive": True}, "step_size must be finite, got inf"),
        ([0.1, 0.2], {}, r"step_size must be a scalar, got shape \(2,\)"),
    ],
)
def test_bad_parameter(value, signs, message):
    with pytest.raises(ValueError, match=message):
        base.as_parameter("step_size", value, **signs)


def test_traced_parameter_is_not_looked_at():
    assert jax.jit(lambda value: base.as_parameter("step_size", value, positive=True))(-1.0) == -1.0


def test_counts():
    assert base.as_count("n", np.int32(3), 1) == 3
    with pytest.raises(TypeError, match=r"n must be an integer, got float: 3\.0"):
        base.as_count("n", 3.0, 1)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        base.as_count("n", 0, 1)


def test_position_keeps_definite_dtypes():
    position = base.as_position({"a": np.array([1, 2], np.float32), "b": 1.5})
    assert position["a"].dtype == jnp.float32
    assert position["b"].dtype == jnp.float64
    assert not position["b"].weak_type


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
        base.init_state(lambda x: jnp.zeros(()), position)


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
        base.init_state(logdensity_fn, jnp.ones(3))


def test_flat_density_and_back():
    """Values and gradients on the flat vector are those of the pytree, in the order of ``ravel_pytree``."""

    def logdensity(position):
        return -jnp.sum(position["a"] ** 2) + 3.0 * position["b"]

    state = base.init_state(logdensity, {"a": jnp.array([1.0, 2.0]), "b": jnp.asarray(0.5)})
    np.testing.assert_allclose(state.logdensity, -3.5)
    np.testing.assert_allclose(state.logdensity_grad["a"], [-2.0, -4.0])
    density, flat = base.flatten(logdensity, state)
    np.testing.assert_allclose(flat.position, [1.0, 2.0, 0.5])
    np.testing.assert_allclose(flat.logdensity_grad, [-2.0, -4.0, 3.0])
    np.testing.assert_allclose(density.gradient(flat.position), flat.logdensity_grad)
    jax.tree.map(np.testing.assert_array_equal, density.unflatten(density.state_at(flat.position)), state)


@pytest.mark.parametrize("shapes", [((2, 2), (2,)), ((3, 2, 2), (2,)), ((3, 2, 2), (3, 2)), ((3, 4, 4), (3, 4))])
def test_products_with_few_and_with_many_numbers(shapes):
    generator = np.random.default_rng(0)
    matrices, vectors = (jnp.asarray(generator.standard_normal(shape)) for shape in shapes)
    expected = (np.asarray(matrices) @ np.asarray(vectors)[..., None])[..., 0]
    np.testing.assert_allclose(base.products(matrices, vectors), expected, rtol=1e-12)
    batch = jnp.stack([vectors, 2 * vectors])
    np.testing.assert_allclose(jax.vmap(base.products, (None, 0))(matrices, batch)[1], 2 * expected, rtol=1e-12)


def test_a_flat_density_is_traced_once_for_all_its_uses():
    counter = Counter()

    @jax.jit
    def several(x):
        density = base.FlatDensity(counter, jax.flatten_util.ravel_pytree(x)[1])
        turned = jax.lax.fori_loop(0, 3, lambda _, y: y + 0.1 * density.gradient(y), x)
        return density.state_at(turned), jax.vmap(density.value)(jnp.stack([x, turned])), density.gradient(x)

    state, values, gradient = several(jnp.arange(3.0))
    assert counter.traces == 1
    np.testing.assert_allclose(gradient, -np.arange(3.0))
    np.testing.assert_allclose(state.logdensity, values[1])
    np.testing.assert_allclose(state.position, 0.9**3 * np.arange(3.0))
