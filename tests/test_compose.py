"""Kernels made of kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import KEY, PAIR, guide_of_a_pair
from invariance import assert_invariant, check_invariance

import vhmc_jax as vj

LOCAL = vj.lhmc(PAIR.logdensity, step_size=1.2, num_integration_steps=3)
JUMP = vj.jump(PAIR.logdensity, guide_of_a_pair(PAIR), log_envelope=-1.0)
COMPOSED = {"cycle": vj.cycle(LOCAL, JUMP), "mixture": vj.mixture([LOCAL, JUMP], [3.0, 1.0])}


@pytest.mark.statistical
@pytest.mark.parametrize("name", COMPOSED)
def test_invariant(name):
    """The jump's weight belongs to the position: a stale one would show."""
    assert_invariant(check_invariance(COMPOSED[name], PAIR, KEY))


@pytest.mark.slow
def test_one_chain_equals_its_lane():
    kernel = COMPOSED["mixture"]
    keys = jax.random.split(KEY, 8)
    states = jax.vmap(kernel.init)(PAIR.sample(jax.random.key(0), 8).astype(jnp.float32))
    moved, infos = jax.jit(jax.vmap(kernel.step))(keys, states)
    runs = np.stack([np.asarray(part.num_gradients) > 0 for part in infos.parts])
    np.testing.assert_array_equal(runs.sum(axis=0), 1)
    assert runs.any(axis=1).all()
    for lane in range(8):
        alone, _ = jax.jit(kernel.step)(keys[lane], jax.tree.map(lambda leaf: leaf[lane], states))  # noqa: B023
        np.testing.assert_allclose(moved.position[lane], alone.position, rtol=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match="at least one kernel"):
        vj.cycle()
    with pytest.raises(ValueError, match="one for each of the 2 kernels"):
        vj.mixture([LOCAL, JUMP], [1.0])
    with pytest.raises(ValueError, match="must be positive"):
        vj.mixture([LOCAL, JUMP], [1.0, 0.0])
