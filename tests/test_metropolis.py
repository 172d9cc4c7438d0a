"""The accept step: whatever is not a number is density zero, divergence is one-sided, α of 0 and 1 are certain."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax import random
from vhmc_jax.base import State
from vhmc_jax.metropolis import (
    DIVERGENCE_THRESHOLD,
    MetropolisStep,
    Proposal,
    accept,
    log_acceptance,
    metropolis_info,
)

OLD, NEW = (State(jnp.full(2, x), jnp.asarray(x), jnp.full(2, -x)) for x in (1.0, 2.0))
KEYS = jax.random.split(jax.random.key(3), 2000)


@pytest.mark.parametrize(
    ("proposed", "log_jacobian", "expected", "is_divergent"),
    [
        (2.0, 0.0, -1.0, False),
        (0.0, 0.0, 0.0, False),
        (2.0, 0.25, -0.75, False),
        (2.0, 3.0, 0.0, False),
        (1.0 + DIVERGENCE_THRESHOLD, 0.0, -DIVERGENCE_THRESHOLD, False),
        (1.5 + DIVERGENCE_THRESHOLD, 0.0, -0.5 - DIVERGENCE_THRESHOLD, True),
        (-1e6, 0.0, 0.0, False),  # a decrease is never a divergence
        (np.nan, 0.0, -np.inf, True),
        (np.inf, 0.0, -np.inf, True),
        (-np.inf, 0.0, -np.inf, True),  # a log density of +inf is no density
        (2.0, np.nan, -np.inf, True),
        (2.0, -np.inf, -np.inf, False),  # a map that collapses volume: rejected, but no divergence
    ],
)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_log_acceptance(proposed, log_jacobian, expected, is_divergent, dtype):
    log_alpha, flag = log_acceptance(dtype(1.0), dtype(proposed), dtype(log_jacobian))
    assert log_alpha.dtype == dtype
    np.testing.assert_allclose(log_alpha, expected, rtol=1e-6)
    assert bool(flag) == is_divergent


def throw(rng_key, log_alpha):
    info = metropolis_info(log_alpha, jnp.asarray(False), 7, 2)
    return accept(rng_key, OLD, Proposal(NEW, log_alpha, info))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_frequency_is_alpha(alpha):
    states, infos = jax.jit(jax.vmap(throw, (0, None)))(KEYS, jnp.log(jnp.asarray(alpha)))
    error = 5.0 * np.sqrt(alpha * (1 - alpha) / len(KEYS))  # none at all at 0 and 1
    assert abs(np.asarray(infos.is_accepted).mean() - alpha) <= error
    np.testing.assert_allclose(infos.acceptance_rate, alpha)
    np.testing.assert_array_equal(states.position[:, 0], np.where(infos.is_accepted, 2.0, 1.0))
    np.testing.assert_array_equal(states.logdensity_grad, -states.position)


@pytest.mark.parametrize("coin", [0.0, 1.0 - 2.0**-24])
def test_certain_at_both_ends_of_the_coin(monkeypatch, coin):
    """α = 1 is accepted and α = 0 rejected for every number that the coin can show."""
    monkeypatch.setattr(random, "uniform", lambda rng_key, shape=(), dtype=float: jnp.asarray(coin, dtype))
    assert throw(KEYS[0], jnp.asarray(0.0))[1].is_accepted
    assert not throw(KEYS[0], jnp.asarray(-jnp.inf))[1].is_accepted


def test_info_fields():
    _, info = throw(KEYS[0], jnp.asarray(-0.5, jnp.float32))
    assert (int(info.num_gradients), int(info.num_densities)) == (7, 2)
    assert info.num_gradients.dtype == info.num_densities.dtype == jnp.int32
    assert info.acceptance_rate.dtype == jnp.float32
    assert info.is_accepted.dtype == info.is_divergent.dtype == bool


def test_a_rejected_nan_leaves_no_trace():
    log_alpha, is_divergent = log_acceptance(jnp.asarray(1.0), jnp.asarray(jnp.nan))
    broken = State(jnp.full(2, jnp.nan), jnp.asarray(jnp.nan), jnp.full(2, jnp.nan))
    proposal = Proposal(broken, log_alpha, metropolis_info(log_alpha, is_divergent, 1))
    state, info = accept(KEYS[0], OLD, proposal)
    chex.assert_trees_all_equal(state, OLD)
    assert info.acceptance_rate == 0.0
    assert info.is_divergent


def test_proposal_and_coin_have_different_keys():
    """The coin of a step is independent of what its proposal draws with its key."""

    def propose(rng_key, state):
        drawn = random.uniform(rng_key)
        log_alpha = jnp.log(jnp.asarray(0.5))
        new = state._replace(logdensity=drawn)
        return Proposal(new, log_alpha, metropolis_info(log_alpha, jnp.asarray(False), drawn * 1000))

    _, infos = jax.jit(jax.vmap(MetropolisStep(propose), (0, None)))(KEYS, OLD)
    correlation = np.corrcoef(infos.num_gradients, infos.is_accepted)[0, 1]
    assert abs(correlation) * np.sqrt(len(KEYS)) < 5.0
