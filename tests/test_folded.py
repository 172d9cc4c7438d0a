"""A density on a domain, and the whole of which it is part."""

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj
from vhmc_jax.density import FlatDensity
from vhmc_jax.moves.domain import domain_of
from vhmc_jax.moves.folded import FoldedDensity, into_domain, whole_of
from vhmc_jax.search import find_modes

X = jnp.array([2.0, -1.0])


def logdensity(x):
    """Two modes that are images of each other, and a ridge between them where the wall is."""
    one, other = jnp.array([-2.0, 3.0]), jnp.array([3.0, -2.0])
    return jnp.logaddexp(-0.5 * jnp.sum((x - one) ** 2), -0.5 * jnp.sum((x - other) ** 2))


FOLDED = FoldedDensity(jax.tree_util.Partial(logdensity), domain_of(vj.permutations(0), X))


def test_a_part_and_its_whole():
    density, plain = FlatDensity.at(FOLDED, X), FlatDensity.at(logdensity, X)
    assert density.value(X) == -jnp.inf
    assert density.value(X[::-1]) == logdensity(X)
    np.testing.assert_allclose(whole_of(density).value(X), logdensity(X))
    assert whole_of(plain) is plain
    image, value = into_domain(density, X, logdensity(X))
    np.testing.assert_array_equal(image, X[::-1])
    assert value == logdensity(X)
    assert into_domain(plain, X, 3.0) == (X, 3.0)


def test_climbs_do_not_stop_at_the_wall():
    modes = find_modes(jax.random.key(0), FOLDED, vj.box([-9.0, -9.0], [9.0, 9.0]), num_starts=256)
    np.testing.assert_allclose(modes.positions, [[-2.0, 3.0]], atol=1e-2)
    assert modes.failures.unconverged == 0
