"""Hostile input below ``sample``: each is refused by a sentence that names the argument."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj

KEY = jax.random.key(0)
STARTS = jnp.zeros((3, 2))
REGION = vj.box(jnp.full(2, -5.0), jnp.full(2, 5.0))


def logdensity(x):
    return -0.5 * jnp.sum(x**2)


def kernel(density=logdensity):
    return vj.hmc(density, step_size=0.5, num_integration_steps=2)


STATE = kernel().init(jnp.zeros(2))
CALLS = {
    "run_chains": lambda key: vj.run_chains(key, kernel(), STARTS, 3),
    "find_modes": lambda key: vj.find_modes(key, logdensity, REGION, num_starts=8),
    "population": lambda key: vj.population(key, logdensity, REGION, num_particles=64),
    "adapt_step_size": lambda key: vj.adapt_step_size(
        key, lambda step_size: vj.hmc(logdensity, step_size=step_size, num_integration_steps=2), jnp.zeros(2)
    ),
    "step": lambda key: kernel().step(key, STATE),
}
WRONG_KEYS = {
    "int": 0,
    "None": None,
    "list": [0, 0],
    "string": "key",
    "Generator": np.random.default_rng(0),
    "int32 pair": np.zeros(2, np.int32),
    "float pair": np.zeros(2),
    "three words": np.zeros(3, np.uint32),
    "batch": jax.random.split(KEY, 4),
    "old batch": jax.random.split(jax.random.PRNGKey(0), 4),
}


@pytest.mark.parametrize("name", WRONG_KEYS)
@pytest.mark.parametrize("call", CALLS)
def test_wrong_keys_are_named(call, name):
    with pytest.raises((TypeError, ValueError), match="rng_key"):
        CALLS[call](WRONG_KEYS[name])


@pytest.mark.parametrize("starts", [jnp.zeros((3, 0)), {"a": jnp.zeros((3, 2)), "b": jnp.zeros((3, 0))}], ids=str)
def test_empty_leaves_are_named(starts):
    with pytest.raises(ValueError, match=r"initial_positions.* must not be empty, got shape \(3, 0\)"):
        vj.run_chains(KEY, kernel(lambda x: jnp.zeros(())), starts, 3)
    with pytest.raises(ValueError, match=r"region.* must not be empty, got shape \(3, 0\)"):
        vj.find_modes(KEY, lambda x: jnp.zeros(()), starts)
    with pytest.raises(ValueError, match="must not be empty"):
        vj.box(jnp.zeros(0), jnp.zeros(0))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_what_a_search_takes_is_said(dtype):
    box = vj.box(jnp.full(2, -5.0, dtype), jnp.full(2, 5.0, dtype))
    for region in (box, jnp.zeros((4, 2), dtype)):
        with pytest.raises(TypeError, match=r"region must be of float32 or float64 to be searched, got b?float16"):
            vj.find_modes(KEY, logdensity, region)
    with pytest.raises(TypeError, match="region must be of float32 or float64"):
        vj.population(KEY, logdensity, box)


def loops(x):
    return jax.lax.while_loop(lambda y: jnp.sum(y) > 1.0, lambda y: 0.5 * y, -0.5 * jnp.sum(x**2))


def calls_back(x):
    return jax.pure_callback(lambda x: -0.5 * np.sum(x**2), jax.ShapeDtypeStruct((), x.dtype), x)


@pytest.mark.parametrize("density", [loops, calls_back])
def test_densities_without_a_gradient_are_named(density):
    message = "logdensity_fn must have a gradient by jax.grad, got .*(while_loop|callback)"
    with pytest.raises(ValueError, match=message):
        vj.run_chains(KEY, kernel(density), STARTS, 3)
    with pytest.raises(ValueError, match=message):
        vj.find_modes(KEY, density, REGION, num_starts=8)
    with pytest.raises(ValueError, match=message):
        vj.population(KEY, density, REGION, num_particles=64)


def test_errors_of_the_density_itself_are_left_alone():
    def broken(x):
        raise ValueError("of my own")

    with pytest.raises(ValueError, match="of my own"):
        vj.run_chains(KEY, kernel(broken), STARTS, 3)


def test_a_store_within_a_compiled_program_is_refused(tmp_path):
    with pytest.raises(ValueError, match="store cannot be given within a compiled program"):
        jax.jit(lambda starts: vj.run_chains(KEY, kernel(), starts, 3, store=tmp_path).final_states)(STARTS)
