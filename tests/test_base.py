"""Functions as arguments of compiled programs."""

import functools
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import Counter

from vhmc_jax import base, targets


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

    @jax.jit
    @chex.assert_max_traces(n=1)
    def call_once(function, x):
        return function(x)

    x = jnp.array([0.3, -0.2])
    for weight in (0.7, 0.4):
        target = targets.near_pair(weight)
        value = call_once(base.as_pytree_function(target.logdensity), x)
        np.testing.assert_allclose(value, target.logdensity(x), rtol=1e-14)
    with pytest.raises(AssertionError, match="'call_once' is traced > 1 times"):
        call_once(base.as_pytree_function(targets.three_modes().logdensity), x[:1])


def test_a_pytree_stays_as_it_is():
    function = jax.tree_util.Partial(jnp.dot, jnp.ones(2))
    assert base.as_pytree_function(function) is function


def test_not_a_function():
    with pytest.raises(TypeError, match=r"the argument must be a function, got float: 1\.0"):
        base.as_pytree_function(cast(Any, 1.0))
