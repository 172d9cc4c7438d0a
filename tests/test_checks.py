"""What callers of ``sample`` get wrong is said in one sentence, before the search starts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.base import as_pytree_function

REGION = vj.box([-8.0, -8.0], [8.0, 8.0])
KEY = jax.random.key(0)


def logdensity(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize("key", [0, None, np.random.RandomState(0), jax.random.split(KEY, 2), jnp.zeros(2), "seed"])
def test_what_is_no_key_is_named(key):
    with pytest.raises(TypeError, match=r"rng_key must be one key of JAX, such as jax.random.key\(0\), got"):
        vj.sample(key, logdensity, REGION)


def test_a_misspelt_option_is_named_with_the_nearest():
    with pytest.raises(TypeError, match=r"sample has no option 'num_chain': did you mean num_chains\?"):
        vj.sample(KEY, logdensity, REGION, num_chain=4)
    with pytest.raises(TypeError, match=r"sample has no option 'target_accept': did you mean target_acceptance\?"):
        vj.sample(KEY, logdensity, REGION, target_accept=0.9)
    with pytest.raises(TypeError, match=r"sample has no option 'zzz': there are defensive_weight, .*num_pilot"):
        vj.sample(KEY, logdensity, REGION, zzz=0.9)


def test_jit_and_vmap_of_sample_are_refused():
    def run(key):
        return vj.sample(key, logdensity, REGION).draws

    def run_at(scale):
        return vj.sample(KEY, jax.tree_util.Partial(lambda s, x: -jnp.sum(x**2) / s, scale), REGION).draws

    for call in (
        lambda: jax.jit(run)(KEY),
        lambda: jax.vmap(run)(jax.random.split(KEY, 3)),
        lambda: jax.jit(run_at)(2.0),
    ):
        with pytest.raises(TypeError, match="sample cannot be compiled or mapped by jit, vmap or grad"):
            call()


def test_a_box_of_lists_is_a_box_of_arrays():
    assert REGION.low.shape == (2,)
    nested = vj.box({"a": [0, 1], "b": jnp.array(1.0)}, {"a": [2, 3], "b": jnp.array(2.0)})
    assert nested.low["a"].shape == (2,)
    assert nested.low["a"].dtype == jnp.result_type(float)
    pair = vj.box([jnp.zeros(2), jnp.zeros(3)], [jnp.ones(2), jnp.ones(3)])
    assert [leaf.shape for leaf in pair.low] == [(2,), (3,)], "a list of arrays is a pytree"


def test_a_partial_of_arrays_is_one_program_for_all_data():
    def density(data, x, scale):
        return -jnp.sum((x - data) ** 2) / scale

    value = jax.jit(lambda function, x: function(x))
    for shift in (0.0, 1.0):
        function = as_pytree_function(functools.partial(density, jnp.full(2, shift), scale=jnp.array(2.0)))
        np.testing.assert_allclose(value(function, jnp.zeros(2)), -(shift**2))
    assert value._cache_size() == 1
    fixed = functools.partial(density, scale=2)
    assert not jax.tree.leaves(as_pytree_function(fixed)), "what is no array may be needed in Python"
