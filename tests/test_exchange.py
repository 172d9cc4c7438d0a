"""Labels that may be exchanged are found in the density, and nothing else is taken for them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax.models.problem import as_problem
from vhmc_jax.pipeline.exchange import exchangeable_labels
from vhmc_jax.search import Modes
from vhmc_jax.search.records import Failures

KEY = jax.random.key(3)
CENTRES = jnp.array([-9.0, -5.0, -1.0, 2.0, 6.0, 10.0])


def logdensity(position, tilt=0.0):
    """Six labels, each near one of the centres, with sizes that go with them: about 720 modes of equal mass."""
    means, sizes = position["mean"], position["a size"]
    near = jax.nn.logsumexp(-0.5 * ((means[:, None] - CENTRES) / 0.3) ** 2, axis=0)
    return jnp.sum(near) - 0.5 * jnp.sum((sizes - 0.01 * means) ** 2) - 0.005 * jnp.sum(means**2) + tilt * means[0]


def modes_at(means, sizes):
    """Modes at these labels, each with the covariance of a well and of a size."""
    number = len(means)
    blank = dict.fromkeys(Modes._fields)
    blank |= {
        "positions": {"a size": jnp.asarray(sizes), "mean": jnp.asarray(means)},
        "logdensities": jnp.zeros(number),
        "covariances": jnp.tile(jnp.diag(jnp.r_[jnp.ones(6), jnp.full(6, 0.09)]), (number, 1, 1)),
        "failures": Failures(),
    }
    return Modes(**blank)


@pytest.fixture(scope="module")
def modes():
    means = np.stack([np.random.default_rng(seed).permutation(CENTRES) for seed in range(8)])
    return modes_at(means, 0.01 * means)


def test_the_leaf_in_which_labels_lie_apart_comes_first(modes):
    """By name the sizes come first, and they are nearly alike."""
    found = exchangeable_labels(as_problem(logdensity), modes)
    (labels,) = found.sets
    assert labels.kind == "permutations"
    template = jax.tree.map(lambda leaf: leaf[0], modes.positions)
    assert labels.leaves_as_written(template) == [1, 0]
    assert labels.num_labels(template) == 6


def test_labels_of_named_parameters(modes):
    """Each label has a unit of its own in the positions, so that an exchange of these is no symmetry."""
    units = jnp.arange(1.0, 7.0)

    def constrain(position):
        return {"a size": position["a size"] * units, "mean": position["mean"]}

    def unconstrain(values):
        return {"a size": values["a size"] / units, "mean": values["mean"]}

    density = Partial(lambda position: logdensity(constrain(position)))
    in_units = modes._replace(positions=jax.vmap(unconstrain)(modes.positions))
    assert exchangeable_labels(as_problem(density), in_units) is None
    problem = vj.Problem(logdensity_fn=density, constrain=constrain, unconstrain=unconstrain)
    (labels,) = exchangeable_labels(problem, in_units).sets
    assert labels.labels.leaves_as_written(modes.positions) == [1, 0]


def test_labels_that_the_density_tells_apart_are_none(modes):
    """The control: a small slope in one of them, which a claimed symmetry might have."""
    assert exchangeable_labels(as_problem(lambda position: logdensity(position, 1e-9)), modes) is None


def test_a_larger_set_of_labels_that_is_of_no_use_hides_no_smaller_one(modes):
    """Seven coordinates that are alike may be exchanged too, but no mode tells them apart."""

    def with_others(position):
        return logdensity(position) - 0.5 * jnp.sum(position["others"] ** 2)

    covariances = jax.vmap(lambda matrix: jax.scipy.linalg.block_diag(matrix, jnp.eye(7)))(modes.covariances)
    positions = modes.positions | {"others": jnp.zeros((len(modes.logdensities), 7))}
    (labels,) = exchangeable_labels(
        as_problem(with_others), modes._replace(positions=positions, covariances=covariances)
    ).sets
    assert labels.num_labels(jax.tree.map(lambda leaf: leaf[0], positions)) == 6


def test_of_draws_that_are_folded_the_same_leaf_comes_first(modes):
    """Sizes that lie apart in another order than the means do."""
    apart = modes._replace(positions=modes.positions | {"a size": -3.0 * modes.positions["mean"]})
    density = lambda position: logdensity(position | {"a size": -position["a size"] / 300})  # noqa: E731
    template = jax.tree.map(lambda leaf: leaf[0], modes.positions)
    for leaf, name in ((0, "a size"), (1, "mean")):
        order = jnp.argsort(apart.positions[name], axis=1)
        folded = jax.tree.map(lambda values: jnp.take_along_axis(values, order, axis=1), apart.positions)  # noqa: B023
        (labels,) = exchangeable_labels(as_problem(density), apart, folded=folded).sets
        assert labels.leaves_as_written(template)[0] == leaf


def test_labels_that_lie_together_are_left_alone():
    """An order of them would cut a mode in two."""
    means = np.tile(np.array([-5.0, -5.1, 2.0, 2.1, 6.0, 6.1]), (4, 1))
    assert exchangeable_labels(as_problem(logdensity), modes_at(means, 0.01 * means)) is None


def test_starts_are_asked_too(modes):
    def elsewhere(position):
        return logdensity(position) + jnp.where(position["mean"][0] > 20, 1.0, 0.0)

    far = {"a size": jnp.zeros((1, 6)), "mean": 30.0 + jnp.arange(6.0)[None]}
    far["mean"] = far["mean"].at[0, 0].set(0.0)
    assert exchangeable_labels(as_problem(elsewhere), modes) is not None
    assert exchangeable_labels(as_problem(elsewhere), modes, far) is None


@pytest.mark.slow
def test_sample_finds_labels_where_it_cannot_list_the_modes():
    """Six labels in one vector. With frozen it finds them again."""

    def of_vector(x):
        centres = CENTRES.astype(x.dtype)
        near = jax.nn.logsumexp(-0.5 * ((x[:, None] - centres) / 0.3) ** 2, axis=0)
        return jnp.sum(near) - 0.005 * jnp.sum(x**2)

    region = vj.box(jnp.full(6, -14.0, jnp.float32), jnp.full(6, 14.0, jnp.float32))
    settings = {"num_chains": 16, "num_samples": 200, "progress": False}
    result = vj.sample(KEY, of_vector, region, **settings)
    assert result.frozen.num_images == 720
    assert "discover one image" in [phase.name for phase in result.phases]
    order = np.argsort(np.asarray(result.draws).reshape(-1, 6), axis=1)
    assert len(np.unique(order, axis=0)) > 650  # of 720, and 3,200 draws
    means = np.asarray(result.draws).mean(axis=(0, 1))
    assert np.all(np.abs(means - float(CENTRES.mean())) < 4.5 * 7 / math.sqrt(2000))
    again = vj.sample(KEY, of_vector, frozen=result.frozen, **settings)
    assert again.frozen.num_images == 720
    with pytest.raises(ValueError, match="of 720 images, got 1"):
        vj.sample(KEY, of_vector, frozen=result.frozen, symmetries=False, **settings)
