"""Named values as another way to see positions, and labels that are permuted there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax.moves.domain import domain_of
from vhmc_jax.moves.symmetries import Symmetries
from vhmc_jax.moves.values import ValueDomain, ValueLabels, Values

KEY = jax.random.key(3)


def constrain(position):
    """Three values of which the second is scaled, and one that is computed."""
    y = jnp.exp(position["x"]) * jnp.array([1.0, 2.0, 1.0], position["x"].dtype)
    return {"y": y, "sum": jnp.sum(y)}


def unconstrain(values):
    return {"x": jnp.log(values["y"] / jnp.array([1.0, 2.0, 1.0], values["y"].dtype))}


VALUES = Values(Partial(constrain), Partial(unconstrain), ("y",))
LABELS = vj.permutations({"y": 0}).sets[0]
POSITION = {"x": jnp.array([0.3, -1.0, 2.0])}


def test_there_and_back():
    assert set(VALUES.at(POSITION)) == {"y"}
    np.testing.assert_allclose(VALUES.position(VALUES.at(POSITION), POSITION)["x"], POSITION["x"])
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), POSITION)
    assert VALUES.moved(lambda values: values, single)["x"].dtype == jnp.float32


def test_the_density_is_the_same_only_with_the_jacobian():
    def values_of(position):
        x = position["x"]
        return {"y": jnp.stack([jnp.exp(x[0]), jnp.logaddexp(0.0, x[1]), jnp.exp(x[2])])}

    def position_of(values):
        y = values["y"]
        return {"x": jnp.stack([jnp.log(y[0]), jnp.log(jnp.expm1(y[1])), jnp.log(y[2])])}

    def logdensity(position):
        x = position["x"]
        return -jnp.sum(values_of(position)["y"] ** 2) + x[0] - jnp.logaddexp(0.0, -x[1]) + x[2]

    values = Values(Partial(values_of), Partial(position_of), ("y",))
    for _, exchange in ValueLabels(LABELS, values).generators(POSITION):
        image = exchange(POSITION)
        here, there = logdensity(POSITION), logdensity(image.position)
        np.testing.assert_allclose(there + image.log_det, here)
        assert abs(there - here) > 0.1


def test_labels_are_exchanged_among_the_values():
    labels = ValueLabels(LABELS, VALUES)
    labels.check(POSITION)
    (name, exchange), _ = labels.generators(POSITION)
    assert name == "the exchange of labels 0 and 1"
    image = exchange(POSITION)
    before, after = constrain(POSITION)["y"], constrain(image.position)["y"]
    np.testing.assert_allclose(after, before[jnp.array([1, 0, 2])])
    np.testing.assert_allclose(image.log_det, 0.0, atol=1e-12)
    with pytest.raises(ValueError, match="axes must name axes of the leaves, got 1"):
        ValueLabels(vj.permutations({"y": 1}).sets[0], VALUES).check(POSITION)


def test_the_domain_is_that_of_the_values():
    domain = domain_of(Symmetries((ValueLabels(LABELS, VALUES),)), POSITION)
    (part,) = domain.parts
    assert isinstance(part, ValueDomain)
    assert domain.num_images == 6
    assert not part.is_of_signs
    inside = domain.representative(POSITION)
    assert np.all(np.diff(constrain(inside)["y"]) > 0)
    assert domain.contains(inside)
    assert not domain.contains(POSITION)
    images = jax.vmap(lambda key: constrain(domain.scatter(key, POSITION))["y"])(jax.random.split(KEY, 100))
    assert len(np.unique(np.round(images, 6), axis=0)) == 6
    np.testing.assert_allclose(np.sort(images, axis=1), np.tile(constrain(inside)["y"], (100, 1)))
