"""Hostile input: refused by a sentence that names the argument, or answered with finite numbers, and in bounded time.

The sweep at the end has some hundred densities, settings and calls. One case in so many runs by default, and all with
``pytest tests/test_hostile.py --all-hostile``.
"""

import itertools
import warnings
import zlib

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


def parts_of(value):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(value)]


def box(dtype, dim):
    return vj.box(jnp.full(dim, -5.0, dtype), jnp.full(dim, 5.0, dtype))


DENSITIES = {
    "flat": lambda x: 0.0 * jnp.sum(x),
    "plateau": lambda x: jnp.where(jnp.all(jnp.abs(x) < 3.0), 0.0 * jnp.sum(x), -jnp.inf),
    "stairs": lambda x: -jnp.sum(jnp.floor(jnp.abs(x))),
    "Cauchy": lambda x: -jnp.sum(jnp.log1p(x**2)),
    "Cauchy, improper": lambda x: -0.4 * jnp.log1p(jnp.sum(x**2)),
    "exponential, improper": lambda x: jnp.sum(x),
    "scale 1e20": lambda x: -0.5 * jnp.sum((x / 1e20) ** 2),
    "scale 1e-20": lambda x: -0.5 * jnp.sum((x * 1e20) ** 2),
    "height 1e30": lambda x: 1e30 - 0.5 * jnp.sum(x**2),
    "steep": lambda x: -1e25 * jnp.sum(x**2),
    "rank one": lambda x: -0.5 * jnp.sum(x) ** 2,
    "saddle": lambda x: -0.5 * jnp.sum(x) ** 2 + 0.5 * x[0] ** 2,
    "pole": lambda x: -0.9 * jnp.sum(jnp.log(jnp.abs(x))),
    "spike": lambda x: jnp.where(jnp.sum(x**2) < 1e-12, 1e6, 0.0) - 0.5 * jnp.sum(x**2),
    "NaN": lambda x: jnp.nan * jnp.sum(x),
    "NaN in half": lambda x: jnp.where(x[0] > 0, jnp.nan, -0.5 * jnp.sum(x**2)),
    "NaN in gradients": lambda x: -0.5 * jnp.sum(jnp.sqrt(x**2 - 1e-30 * (x == 0)) ** 2),
    "minus infinity": lambda x: -jnp.inf + 0.0 * jnp.sum(x),
    "plus infinity": lambda x: jnp.where(x[0] > 1, jnp.inf, -0.5 * jnp.sum(x**2)),
    "half": lambda x: jnp.where(x[0] > 0, -jnp.inf, -0.5 * jnp.sum(x**2)),
    "integers": lambda x: jnp.round(x[0]).astype(jnp.int32),
    "complex": lambda x: jnp.sum(x) * 1j,
    "vector": lambda x: -0.5 * x**2,
    "a pair": lambda x: (jnp.sum(x), 0.0),
    "a number": lambda x: 1.0,
    "nothing": lambda x: None,
}


def step_size_of(density, dtype, dim):
    def factory(step_size):
        return vj.hmc(density, step_size=step_size, num_integration_steps=3)

    return vj.adapt_step_size(KEY, factory, jnp.full(dim, -0.5, dtype), num_steps=50)


def tuned(density, dtype, dim):
    def factory(*numbers):
        names = ("step_size", "num_integration_steps", "inverse_mass_matrix")
        return vj.hmc(density, **dict(zip(names, numbers, strict=True)))

    starts = -jax.random.uniform(KEY, (16, dim), dtype)
    return vj.tune(KEY, factory, starts, lengths=(2, 4), num_iterations=8)


def chains_of(factory):
    def run(density, dtype, dim):
        starts = jnp.full((4, dim), -0.5, dtype)
        chains = vj.run_chains(KEY, factory(density, dtype, dim), starts, 20)
        return chains.draws, chains.final_states.logdensity

    return run


def guide_for(dtype, dim):
    return vj.GaussianMixture(jnp.zeros(1, dtype), jnp.full((1, dim), -0.5, dtype), jnp.eye(dim, dtype=dtype)[None])


def vhmc_of(density, dtype, dim):
    guide = guide_for(dtype, dim)
    return vj.vhmc(density, guide, step_size=0.5, num_integration_steps=3, log_envelope=0.0)


def modes_of(density, dtype, dim):
    modes = vj.find_modes(KEY, density, box(dtype, dim), num_starts=16)
    return modes.positions, modes.logdensities


def particles_of(density, dtype, dim):
    found = vj.population(KEY, density, box(dtype, dim), num_particles=32, max_gradients=20_000)
    return found.positions, found.log_evidence


def sampled(density, dtype, dim):
    settings = {"num_chains": 8, "num_samples": 50, "num_starts": 16, "max_evaluations": 50_000, "num_pilot": 0}
    result = vj.sample(KEY, density, box(dtype, dim), progress=False, **settings)
    return result.draws, result.logdensities


ANSWERS = {
    "adapt_step_size": lambda *case: step_size_of(*case)[:3],
    "tune": lambda *case: [np.asarray(tuned(*case).step_size), tuned(*case).positions],
    "find_modes": modes_of,
    "population": particles_of,
    "hmc": chains_of(lambda f, *_: vj.hmc(f, step_size=0.5, num_integration_steps=3)),
    "lhmc_et": chains_of(lambda f, *_: vj.lhmc_et(f, step_size=0.5, num_integration_steps=3)),
    "equipotential": chains_of(lambda f, *_: vj.equipotential(f)),
    "vhmc": chains_of(vhmc_of),
    "sample": sampled,
}
SETTINGS = {
    name: lambda value, factory=factory, name=name: factory(value)
    for name, factory in {
        "step_size": lambda value: vj.hmc(logdensity, step_size=value, num_integration_steps=2),
        "num_integration_steps": lambda value: vj.hmc(logdensity, step_size=0.5, num_integration_steps=value),
        "inverse_mass_matrix": lambda value: vj.run_chains(
            KEY, vj.hmc(logdensity, step_size=0.5, num_integration_steps=2, inverse_mass_matrix=value), STARTS, 1
        ),
        "friction": lambda value: vj.lhmc(logdensity, step_size=0.5, num_integration_steps=2, friction=value),
        "tolerance": lambda value: vj.equipotential(logdensity, tolerance=value),
        "max_iterations": lambda value: vj.equipotential(logdensity, max_iterations=value),
        "num_samples": lambda value: vj.run_chains(KEY, kernel(), STARTS, value),
        "num_burnin": lambda value: vj.run_chains(KEY, kernel(), STARTS, 1, num_burnin=value),
        "thinning": lambda value: vj.run_chains(KEY, kernel(), STARTS, 1, thinning=value),
        "first_iteration": lambda value: vj.run_chains(KEY, kernel(), STARTS, 1, first_iteration=value),
        "initial_positions": lambda value: vj.run_chains(KEY, kernel(), value, 1),
        "devices": lambda value: vj.run_chains(KEY, kernel(), STARTS, 1, devices=value),
        "store": lambda value: vj.run_chains(KEY, kernel(), STARTS, 1, store=value),
        "num_particles": lambda value: vj.population(KEY, logdensity, REGION, num_particles=value),
        "num_starts": lambda value: vj.find_modes(KEY, logdensity, REGION, num_starts=value),
        "region": lambda value: vj.find_modes(KEY, logdensity, value, num_starts=8),
        "low": lambda value: vj.box(value, jnp.ones(2)),
        "num_chains": lambda value: vj.sample(KEY, logdensity, REGION, num_chains=value),
        "jump_probability": lambda value: vj.sample(KEY, logdensity, REGION, jump_probability=value),
        "target_acceptance": lambda value: vj.sample(KEY, logdensity, REGION, target_acceptance=value),
        "max_evaluations": lambda value: vj.sample(KEY, logdensity, REGION, max_evaluations=value),
        "frozen": lambda value: vj.sample(KEY, logdensity, frozen=value),
    }.items()
}
VALUES = {
    "NaN": np.nan,
    "infinity": np.inf,
    "minus one": -1,
    "minus half": -0.5,
    "text": "a\0b",
    "a set": {1},
    "complex": 1j,
    "dict": {},
    "a function of nothing": lambda: 1.0,
    "NaN in an array": np.array([np.nan, 1.0]),
    "empty": np.zeros(0),
    "objects": np.array([None, 1], object),
    "dates": np.array(["2020-01-01"], "M8[D]"),
}
ONE_IN = 41
"""One case in so many runs by default. Cases of ``sample`` compile for long, and run on demand alone."""


def swept(names, always_leave_out=()):
    """Cases as parameters: all of them are there, and most are skipped unless they are asked for."""
    cases = []
    for case in names:
        is_chosen = zlib.crc32("/".join(case).encode()) % ONE_IN == 0 and not set(case) & set(always_leave_out)
        cases.append(pytest.param(*case, marks=() if is_chosen else pytest.mark.hostile))
    return cases


@pytest.mark.parametrize(("value", "setting"), swept(itertools.product(VALUES, SETTINGS)))
def test_settings_are_refused_by_name(value, setting):
    # What the user's own function raises is left alone.
    with pytest.raises((TypeError, ValueError), match=rf"{setting}|positional argument"):
        SETTINGS[setting](VALUES[value])


@pytest.mark.parametrize(
    ("name", "call", "dtype", "dim"),
    swept(itertools.product(DENSITIES, ANSWERS, ("float32", "float64"), ("1", "3")), ("sample", "tune")),
)
def test_densities_are_answered_with_finite_numbers_or_refused(name, call, dtype, dim):
    """Warnings are fine: they are how a doubtful answer is told from a sound one."""
    refusal, found = None, ()
    with warnings.catch_warnings(), jax.numpy_dtype_promotion("standard"):
        warnings.simplefilter("ignore")
        try:
            found = ANSWERS[call](DENSITIES[name], jnp.dtype(dtype), int(dim))
        except (TypeError, ValueError) as error:
            refusal = str(error)
    assert refusal is None or any(word in refusal for word in NAMED), refusal
    for part in parts_of(found):
        assert np.isfinite(part).all(), part


NAMED = ("logdensity_fn", "log density", "density", "region", "initial_positions", "mode")
"""What a sentence about a density is about."""
