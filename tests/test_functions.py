"""Functions as pytrees: the same one is the same structure, and what is gone leaves no program behind."""

import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import compiled_during

import vhmc_jax as vj
from vhmc_jax.base import as_pytree_function
from vhmc_jax.functions import Function, token_of, tokens_in
from vhmc_jax.programs import program


class Model:
    """An object that is no pytree."""

    def __init__(self, scale):
        self.scale = scale

    def logdensity(self, x):
        return -self.scale * jnp.sum(x**2)


def square(x):
    return x**2


def test_the_same_function_is_the_same_structure():
    first, second = jax.tree.structure(Function(square)), jax.tree.structure(Function(square))
    assert first == second
    assert hash(first) == hash(second)
    assert first != jax.tree.structure(Function(lambda x: x**2))
    again = jax.tree.unflatten(first, [])
    assert again.function is square
    assert float(again(3.0)) == 9.0


def test_methods_are_compared_by_their_object():
    model, other = Model(1.0), Model(1.0)
    assert token_of(model.logdensity) is token_of(model.logdensity)
    assert token_of(model.logdensity) is not token_of(other.logdensity)
    assert float(as_pytree_function(model.logdensity)(jnp.ones(2))) == -2.0


def test_what_has_no_weak_references_is_a_pytree_all_the_same():
    assert as_pytree_function(functools.partial(square))(2.0) == 4.0

    class Slotted:
        __slots__ = ()

        def __call__(self, x):
            return 2 * x

    function = as_pytree_function(Slotted())
    assert not isinstance(function, Function)
    assert float(jax.jit(lambda f, x: f(x))(function, 3.0)) == 6.0


def test_tokens_are_found_in_any_pytree():
    tokens = tokens_in(({"a": Function(square)}, jax.tree_util.Partial(square, Function(token_of)), 3.0))
    assert tokens == {token_of(square), token_of(token_of)}
    assert tokens_in((1.0, None)) == frozenset()


def test_a_function_that_is_gone_is_named():
    structure = jax.tree.structure(Function(lambda x: x))
    gc.collect()
    with pytest.raises(ReferenceError, match="keep a reference"):
        jax.tree.unflatten(structure, [])


@program
def applied(function, x):
    """A program of a function."""
    return function(x)


def test_programs_go_with_their_function():
    x, big = jnp.ones(2), np.ones(1000)

    def make():
        def function(x):
            return x + jnp.sum(jnp.asarray(big))

        return function, weakref.ref(function)

    function, reference = make()
    count = len(applied._compiled)
    applied(Function(function), x)
    assert compiled_during(applied, Function(function), x)[1] == 0
    assert len(applied._compiled) == count + 1
    del function
    gc.collect()
    assert reference() is None
    assert len(applied._compiled) == count


def use_a_density(use):
    scale, region = np.array(0.5), vj.box(jnp.full(2, -5.0), jnp.full(2, 5.0))

    def logdensity(x):
        return -jnp.asarray(scale) * jnp.sum(x**2)

    def kernel(step_size):
        return vj.hmc(logdensity, step_size=step_size, num_integration_steps=2)

    key = jax.random.key(0)
    if use == "run_chains":
        vj.run_chains(key, kernel(0.5), jnp.zeros((2, 2)), 3)
    elif use == "adapt_step_size":
        vj.adapt_step_size(key, kernel, jnp.zeros(2), num_chains=2, num_steps=3)
    elif use == "find_modes":
        vj.find_modes(key, logdensity, region, num_starts=8)
    else:
        vj.population(key, logdensity, region, num_particles=64)
    return weakref.ref(logdensity)


@pytest.mark.parametrize("use", ["run_chains", "adapt_step_size", "find_modes", "population"])
def test_nothing_keeps_a_log_density_alive(use):
    reference = use_a_density(use)
    gc.collect()
    assert reference() is None
