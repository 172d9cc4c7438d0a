"""The runner: cuts change nothing, thinned draws are the right ones, nothing is compiled twice, bad input is named."""

import blackjax
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.util import run_inference_algorithm
from counting import compiled_during

import vhmc_jax as vj
from vhmc_jax.runner import chunks

KEY = jax.random.key(5)
STARTS = jnp.array([[0.0, 0.0], [1.0, -1.0], [2.0, 0.5]])
NUM_SAMPLES = 40


def logdensity(x):
    """A skewed log density of any number of coordinates."""
    return x[0] - jnp.exp(x[0]) - 0.5 * jnp.sum((x[1:] - 0.5 * x[0]) ** 2)


def kernel(step_size=0.6, inverse_mass_matrix=1.0):
    return vj.hmc(logdensity, step_size=step_size, num_integration_steps=3, inverse_mass_matrix=inverse_mass_matrix)


def run(num_samples=NUM_SAMPLES, **options):
    return vj.run_chains(KEY, kernel(), STARTS, num_samples, **options)


@pytest.fixture(scope="module")
def whole():
    """The run that all others are compared with."""
    return run()


def test_shapes_and_types(whole):
    assert whole.draws.shape == (3, NUM_SAMPLES, 2)
    assert isinstance(whole.infos, vj.Info)
    assert whole.infos.is_accepted.shape == (3, NUM_SAMPLES)
    assert whole.kept is None
    assert whole.next_iteration == NUM_SAMPLES
    chex.assert_trees_all_equal(whole.draws[:, -1], whole.final_states.position)
    assert 0.3 < np.mean(whole.infos.is_accepted) < 1.0


def test_equals_a_plain_loop(whole):
    """Chain c takes iteration t with the key fold_in(fold_in(rng_key, c), t)."""
    step = jax.jit(kernel().step)
    for c, start in enumerate(STARTS):
        state, chain_key = kernel().init(start), jax.random.fold_in(KEY, c)
        for t in range(5):
            state, info = step(jax.random.fold_in(chain_key, t), state)
            np.testing.assert_allclose(whole.draws[c, t], state.position, rtol=1e-12)
            assert whole.infos.is_accepted[c, t] == info.is_accepted


def test_two_halves_equal_the_whole(whole):
    first = run(15)
    second = vj.run_chains(
        KEY, kernel(), num_samples=25, initial_states=first.final_states, first_iteration=first.next_iteration
    )
    chex.assert_trees_all_equal(jnp.concatenate([first.draws, second.draws], axis=1), whole.draws)
    chex.assert_trees_all_equal(second.final_states, whole.final_states)
    assert second.next_iteration == whole.next_iteration
    again = vj.run_chains(KEY, kernel(), num_samples=25, initial_states=first.final_states)
    assert not np.allclose(again.draws, second.draws), "without first_iteration the keys would be used again"


def test_a_longer_run_begins_like_a_shorter_one(whole, capsys):
    """Bit for bit, whatever the length and whether a bar is shown."""
    for longer in (run(3 * NUM_SAMPLES), run(3 * NUM_SAMPLES, progress=True)):
        chex.assert_trees_all_equal(longer.draws[:, :NUM_SAMPLES], whole.draws)
        chex.assert_trees_all_equal(jax.tree.map(lambda leaf: leaf[:, :NUM_SAMPLES], longer.infos), whole.infos)
    capsys.readouterr()


def test_chains_do_not_depend_on_their_neighbours(whole):
    alone = vj.run_chains(KEY, kernel(), STARTS[:1], NUM_SAMPLES)
    np.testing.assert_allclose(alone.draws[0], whole.draws[0], rtol=1e-10)


@pytest.mark.parametrize(("num_burnin", "thinning"), [(0, 4), (7, 1), (4, 6), (3, 5)])
def test_burnin_and_thinning(whole, num_burnin, thinning):
    num_samples = (NUM_SAMPLES - num_burnin) // thinning
    thinned = run(num_samples, num_burnin=num_burnin, thinning=thinning)
    stored = num_burnin + thinning * np.arange(1, num_samples + 1) - 1
    chex.assert_trees_all_equal(thinned.draws, whole.draws[:, stored])
    chex.assert_trees_all_equal(thinned.infos, jax.tree.map(lambda leaf: leaf[:, stored], whole.infos))
    assert thinned.next_iteration == num_burnin + thinning * num_samples


def test_info_means_are_over_every_iteration(whole):
    thinned = run(num_samples=8, thinning=5)
    expected = jax.tree.map(lambda leaf: np.asarray(leaf).mean(axis=1), whole.infos)
    chex.assert_trees_all_close(thinned.info_means, expected, rtol=1e-10)


def test_keep(whole):
    kept = run(keep=lambda state, info: {"first": state.position[0], "accepted": info.is_accepted})
    assert kept.draws is None
    assert kept.infos is None
    chex.assert_trees_all_equal(kept.kept["first"], whole.draws[..., 0])
    chex.assert_trees_all_equal(kept.kept["accepted"], whole.infos.is_accepted)


def test_progress_changes_nothing(whole, capsys, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0.0)  # chunks stay as short as they can be
    shown = run(progress=True)
    chex.assert_trees_all_equal(shown, whole)
    text = capsys.readouterr().err
    assert f"{NUM_SAMPLES}/{NUM_SAMPLES}" in text
    assert "3 chains" in text
    assert f"acceptance={np.mean(whole.info_means.acceptance_rate):.3f}" in text


def test_progress_with_thinning_and_burnin(whole, capsys, monkeypatch):
    """Chunks that end within a slot of the store leave the right draw there."""
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0.0)
    shown = run(6, num_burnin=4, thinning=6, progress=True)
    chex.assert_trees_all_equal(shown, run(6, num_burnin=4, thinning=6))
    capsys.readouterr()


def test_second_call_compiles_nothing(whole):
    for options in ({"num_burnin": 3}, {"thinning": 2}, {"first_iteration": 9}):
        run(**options)  # numbers of iterations are arguments too
    key, starts = jax.random.key(8), STARTS + 0.1
    assert compiled_during(run)[1] == 0
    for step_size, mass in ((0.3, 1.0), (0.4, 2.5), (1, 1)):
        assert compiled_during(vj.run_chains, key, kernel(step_size, mass), starts, NUM_SAMPLES)[1] == 0
    _, num_compiled = compiled_during(vj.run_chains, KEY, kernel(0.6, np.ones(2)), STARTS, NUM_SAMPLES)
    assert num_compiled > 0, "a mass of another shape is another program"


def test_number_of_traces():
    """One to see that the density is a scalar; and one for init, for the step's shapes and for the program itself."""
    traced_twice = chex.assert_max_traces(logdensity, n=2)
    vj.run_chains(KEY, vj.hmc(traced_twice, step_size=0.5, num_integration_steps=3), STARTS, 10)
    with pytest.raises(AssertionError, match="traced > 2 times"):
        vj.run_chains(KEY, vj.hmc(traced_twice, step_size=0.5, num_integration_steps=3), STARTS[:, :1], 10)


def test_pytree_positions_and_float32():
    def pytree_logdensity(position):
        return -0.5 * (jnp.sum(position["a"] ** 2) + position["b"] ** 2)

    starts = {"a": jnp.zeros((4, 2), jnp.float32), "b": jnp.ones(4, jnp.float32)}
    chains = vj.run_chains(KEY, vj.hmc(pytree_logdensity, step_size=0.5, num_integration_steps=3), starts, 10)
    assert {name: leaf.shape for name, leaf in chains.draws.items()} == {"a": (4, 10, 2), "b": (4, 10)}
    assert {leaf.dtype for leaf in jax.tree.leaves((chains.draws, chains.final_states))} == {jnp.dtype("float32")}


def test_runs_inside_a_compiled_program():
    """Starts that are traced cannot be looked at; they are taken as they are."""
    means = jax.jit(lambda starts: vj.run_chains(KEY, kernel(), starts, 10).draws.mean())(STARTS)
    np.testing.assert_allclose(means, vj.run_chains(KEY, kernel(), STARTS, 10).draws.mean(), rtol=1e-10)


@pytest.mark.parametrize("key", [jax.random.PRNGKey(5), jax.random.key(5, impl="rbg")], ids=["old style", "rbg"])
def test_other_keys(whole, key):
    draws = vj.run_chains(key, kernel(), STARTS, NUM_SAMPLES).draws
    assert np.all(np.isfinite(draws))
    assert bool(jnp.all(draws == whole.draws)) == (key.dtype == jnp.uint32), "an old key is the same key"


def test_blackjax_kernel_runs_in_our_runner():
    foreign = blackjax.hmc(logdensity, step_size=0.5, num_integration_steps=3, inverse_mass_matrix=jnp.ones(2))
    chains = vj.run_chains(KEY, foreign, STARTS, 20)
    assert chains.draws.shape == (3, 20, 2)
    assert chains.infos._fields == ("acceptance_rate", "is_accepted", "is_divergent")
    state, chain_key = foreign.init(STARTS[1]), jax.random.fold_in(KEY, 1)
    for t in range(3):
        state, _ = jax.jit(foreign.step)(jax.random.fold_in(chain_key, t), state)
        np.testing.assert_allclose(chains.draws[1, t], state.position, rtol=1e-10)
    assert 0.3 < np.mean(chains.info_means.acceptance_rate) <= 1.0


def test_our_kernel_runs_in_blackjax():
    final, (states, infos) = run_inference_algorithm(KEY, kernel(), 20, initial_position=STARTS[1])
    assert states.position.shape == (20, 2)
    chex.assert_trees_all_equal(states.position[-1], final.position)
    assert np.any(infos.is_accepted)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_samples": 0}, ValueError, "num_samples must be at least 1, got 0"),
        ({"num_samples": 2.0}, TypeError, "num_samples must be an integer, got float"),
        ({"thinning": -2}, ValueError, "thinning must be at least 1, got -2"),
        ({"thinning": 0}, ValueError, "thinning must be at least 1, got 0"),
        ({"num_burnin": -1}, ValueError, "num_burnin must be at least 0, got -1"),
        ({"first_iteration": -1}, ValueError, "first_iteration must be at least 0, got -1"),
        ({"num_samples": 2**20, "thinning": 2**12}, ValueError, r"must stay below 2\*\*31 iterations"),
        ({"resume": "bogus"}, ValueError, r"resume must be one of .* got 'bogus'"),
        ({"keep": 3}, TypeError, "keep must be a function, got int: 3"),
        ({"initial_positions": None}, ValueError, "either initial_positions or initial_states, got neither"),
        ({"initial_states": STARTS}, ValueError, "either initial_positions or initial_states, got both"),
        (
            {"initial_positions": jnp.zeros((0, 2))},
            ValueError,
            r"initial_positions must not be empty, got shape \(0, 2\)",
        ),
        ({"initial_positions": jnp.asarray(1.0)}, ValueError, "initial_positions .* leading axis"),
        ({"initial_positions": {}}, ValueError, "initial_positions must hold at least one array"),
        (
            {"initial_positions": {"a": jnp.zeros((2, 2)), "b": jnp.zeros(3)}},
            ValueError,
            r"initial_positions .* that all leaves share, got .*\[2, 2\].*\[3\]",
        ),
        ({"initial_positions": jnp.zeros((3, 2), int)}, TypeError, "initial_positions must be of a floating dtype"),
    ],
)
def test_bad_input(options, error, message):
    arguments = {"initial_positions": STARTS, "num_samples": 10} | options
    with pytest.raises(error, match=message):
        vj.run_chains(KEY, kernel(), **arguments)


@pytest.mark.parametrize("value", [jnp.nan, -jnp.inf, jnp.inf])
def test_start_without_density_is_named(value):
    def walled(x):
        return jnp.where(x[0] > 1.5, value, -0.5 * jnp.sum(x**2))

    walled_kernel = vj.hmc(walled, step_size=0.5, num_integration_steps=3)
    message = (
        rf"initial_positions: .* finite at every start, got {value} for chain 2 at \[2\. +0\.5\] \(1 of 3 chains\)"
    )
    with pytest.raises(ValueError, match=message):
        vj.run_chains(KEY, walled_kernel, STARTS, 10)


def test_mass_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"inverse_mass_matrix .* got shape \(3,\)"):
        vj.run_chains(KEY, kernel(inverse_mass_matrix=np.ones(3)), STARTS, 10)


def test_vector_log_density_is_named():
    with pytest.raises(ValueError, match="logdensity_fn must return one real number"):
        vj.run_chains(KEY, vj.hmc(lambda x: -(x**2), step_size=0.5, num_integration_steps=3), STARTS, 10)
