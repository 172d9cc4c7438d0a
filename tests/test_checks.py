"""What callers of ``sample`` get wrong is said in one sentence, before the search starts."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.base import as_pytree_function
from vhmc_jax.pipeline.checks import ELSEWHERE

REGION = vj.box([-8.0, -8.0], [8.0, 8.0])
KEY = jax.random.key(0)


def logdensity(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize("key", [0, None, np.random.RandomState(0), jax.random.split(KEY, 2), jnp.zeros(2), "seed"])
def test_what_is_no_key_is_named(key):
    with pytest.raises(TypeError, match=r"rng_key must be one key of JAX, such as jax.random.key\(0\), got"):
        vj.sample(key, logdensity, REGION)


def test_a_way_to_resume_that_is_none_is_told_without_a_store_too():
    with pytest.raises(ValueError, match=r"resume must be one of .* got 'bogus'"):
        vj.sample(KEY, logdensity, REGION, resume="bogus")


def test_a_misspelt_option_is_named_with_the_nearest():
    with pytest.raises(TypeError, match=r"sample has no option 'num_chain': did you mean num_chains\?"):
        vj.sample(KEY, logdensity, REGION, num_chain=4)
    with pytest.raises(TypeError, match=r"sample has no option 'jump_prob': did you mean jump_probability\?"):
        vj.sample(KEY, logdensity, REGION, jump_prob=0.1)
    with pytest.raises(TypeError, match=r"sample has no option 'zzz': there are defensive_weight, .*num_pilot"):
        vj.sample(KEY, logdensity, REGION, zzz=0.9)


NAMES = {
    "num_burnin": ("num_warmup", "warmup", "tune", "burn_in"),
    "num_samples": ("num_results", "draws"),
    "num_chains": ("chains",),
    "target_acceptance": ("target_accept", "target_accept_prob"),
    "the key is the first argument": ("seed", "random_seed"),
    "chains start from the fit": ("initial_positions", "init_params"),
    "sample chooses it": ("step_size", "inverse_mass_matrix"),
}


@pytest.mark.parametrize(("name", "said"), [(name, said) for said, names in NAMES.items() for name in names])
def test_what_other_libraries_call_an_option_is_understood(name, said):
    with pytest.raises(TypeError, match=rf"sample has no option '{name}': .*{said}"):
        vj.sample(KEY, logdensity, REGION, **{name: 1})


def test_every_name_of_another_library_is_none_of_our_own_and_said_once():
    own = {field.name for field in dataclasses.fields(vj.FitOptions)} | set(vj.sample.__kwdefaults__)
    others = [name for names in ELSEWHERE.values() for name in names.split()]
    assert len(others) == len(set(others))
    assert own & set(others) == {"num_warmup"}
    options = [said.split()[3] for said in ELSEWHERE if said.startswith("it is called")]
    assert set(options) <= {f"{name}{comma}" for name in own for comma in ("", ",")}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((logdensity, KEY, REGION), "rng_key must be one key .* got function"),
        ((REGION, logdensity, KEY), "rng_key must be one key .* got Box"),
        ((KEY, REGION, logdensity), "logdensity_fn must be a function of a position or a vj.Problem, got Box"),
        ((KEY, REGION), "logdensity_fn must be a function of a position or a vj.Problem, got Box"),
        ((KEY, KEY, REGION), "logdensity_fn must be .* got a key"),
        ((KEY, jnp.zeros(3), REGION), "logdensity_fn must be .* got Array"),
    ],
)
def test_arguments_in_another_order_are_named(arguments, named):
    with pytest.raises(TypeError, match=rf"(?s){named}.*the order is sample\(rng_key, logdensity_fn, region\)"):
        vj.sample(*arguments)


def test_a_log_density_in_the_place_of_a_sampler_is_noted():
    with pytest.raises(TypeError) as caught:
        vj.sample(KEY, lambda key: jax.random.normal(key, (2,)), logdensity)
    assert "region is called with one key" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("region", [(-8.0, 8.0), (-8, 8), [[-8.0, -8.0], [8.0, 8.0]], {"x": (-8.0, 8.0)}, "box"])
def test_corners_that_are_no_box_are_named(region):
    with pytest.raises(ValueError, match=r"region must be vj.box\(low, high\), .* starts on a leading axis, got"):
        vj.sample(KEY, logdensity, region)


def test_a_position_that_does_not_fit_the_density_is_noted():
    """A pair of arrays is read as starts of positions that are pairs."""
    with pytest.raises(TypeError) as caught:
        vj.sample(KEY, logdensity, (jnp.full(2, -8.0), jnp.full(2, 8.0)), progress=False)
    notes = "".join(caught.value.__notes__)
    assert "a position like ('float64[]', 'float64[]')." in notes
    assert "write vj.box(low, high)" in notes


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
    assert vj.box({"a": 0}, {"a": 8}).high["a"].dtype == jnp.result_type(float), "nobody means integers"
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
