"""Symmetries as a record: draws, orbits, elements, checks, and guides that have them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import vhmc_jax as vj
from vhmc_jax.guide import symmetrised
from vhmc_jax.moves.maps import is_signed_permutation
from vhmc_jax.moves.symmetries import as_symmetries

KEY = jax.random.key(5)
MIXTURE = {
    "chain": jnp.arange(9.0).reshape(3, 3),
    "means": jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "noise": jnp.array(7.0),
    "weights": jnp.array([0.1, 0.2, 0.3]),
}
LABELS = vj.permutations({"chain": {0, 1}, "means": 0, "noise": None, "weights": -1})


def mixture_logdensity(position):
    """Of data at 0.5 and 2.5: the same for all orders of the labels."""
    scores = -0.5 * (position["means"][:, 0, None] - jnp.array([0.5, 2.5])) ** 2 + position["weights"][:, None]
    sticking = jnp.sum(jnp.diagonal(position["chain"]) * position["weights"])
    return jnp.sum(jax.nn.logsumexp(scores, axis=0)) + sticking - position["noise"] ** 2


def test_draws_permute_all_that_carries_the_label():
    images, log_dets = jax.jit(jax.vmap(LABELS.draw, (0, None)))(jax.random.split(KEY, 600), MIXTURE)
    np.testing.assert_array_equal(log_dets, 0.0)
    orders = np.argsort(np.argsort(images["weights"], axis=1), axis=1)
    for name, axis in (("means", 0), ("weights", 0)):
        expected = np.stack([np.take(np.asarray(MIXTURE[name]), order, axis=axis) for order in orders])
        np.testing.assert_array_equal(images[name], expected)
    expected = np.stack([np.asarray(MIXTURE["chain"])[np.ix_(order, order)] for order in orders])
    np.testing.assert_array_equal(images["chain"], expected)
    np.testing.assert_array_equal(images["noise"], 7.0)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.all(np.abs(counts - 100) < 5 * np.sqrt(100))


def test_orbit_of_labels():
    images = LABELS.orbit(MIXTURE)
    assert images["means"].shape == (6, 3, 2)
    jax.tree.map(lambda image, leaf: np.testing.assert_array_equal(image[0], leaf), images, MIXTURE)
    assert len(np.unique(np.asarray(images["weights"]), axis=0)) == 6
    values = jax.vmap(mixture_logdensity)(images)
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    # A point that a map leaves where it is has fewer images.
    assert len(vj.permutations().orbit(jnp.array([1.0, 1.0, 2.0]))) == 3
    assert len(as_symmetries(lambda x: -x).orbit(jnp.zeros(2))) == 1


def test_sets_together_make_the_whole_group():
    both = as_symmetries([vj.permutations(), vj.signs()])
    images = both.orbit(jnp.array([1.0, 2.0, 3.0]))
    assert len(images) == 48
    drawn, _ = jax.vmap(both.draw, (0, None))(jax.random.split(KEY, 2000), jnp.array([1.0, 2.0, 3.0]))
    assert len(np.unique(np.asarray(drawn), axis=0)) == 48
    with pytest.raises(ValueError, match="the orbit must have at most 40 images"):
        both.orbit(jnp.array([1.0, 2.0, 3.0]), most=40)


def test_elements_are_signed_permutations():
    position = {"a": jnp.array([1.5, -2.5]), "b": jnp.array([[0.5, 3.0, 1.0], [2.0, 4.0, 6.0]])}
    group = as_symmetries([vj.permutations(0), vj.signs({"a": None, "b": 0}), lambda p: {"a": p["a"], "b": -p["b"]}])
    indices, signs = group.elements(position)
    assert len(indices) == 8
    np.testing.assert_array_equal(indices[0], np.arange(8))
    np.testing.assert_array_equal(signs[0], 1.0)
    flat = np.asarray(ravel_pytree(position)[0])
    orbit = np.asarray(jax.vmap(lambda image: ravel_pytree(image)[0])(group.orbit(position)))
    assert {tuple(image) for image in signs * flat[indices]} == {tuple(image) for image in orbit}
    with pytest.raises(ValueError, match=r"must be signed permutations of the coordinates, which maps\[0\] is not"):
        as_symmetries(lambda x: 1.0 - x).elements(jnp.zeros(2))


@pytest.mark.parametrize("df", [None, 3.0])
def test_symmetrised_guide_has_the_symmetries(df):
    factors = np.tril(np.random.default_rng(1).normal(size=(2, 3, 3)), -1) + np.eye(3) * [0.5, 1.0, 2.0]
    means = np.array([[1.0, 2.0, 3.0], [0.5, 0.5, -1.0]])
    factors[1] = np.diag([1.0, 1.0, 0.3])  # exchanging the first two labels leaves this component as it is
    parameters = (np.log([0.3, 0.7]), means, factors)
    guide = vj.GaussianMixture(*parameters) if df is None else vj.StudentTMixture(*parameters, df)
    whole = symmetrised(guide, *vj.permutations().elements(jnp.zeros(3)))
    assert type(whole) is type(guide)
    assert whole.num_components == 6 + 3
    weights = np.exp(np.asarray(whole.log_weights))
    np.testing.assert_allclose([weights[:6].sum(), weights[6:].sum()], [0.3, 0.7], rtol=1e-12)
    x = np.array([0.7, -0.4, 1.1])
    values = [float(whole.log_prob(x[list(order)])) for order in ((0, 1, 2), (1, 2, 0), (2, 1, 0))]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    # The density is the mean of the guide's over all images.
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    mean = np.mean([np.exp(float(guide.log_prob(x[list(order)]))) for order in orders])
    np.testing.assert_allclose(np.exp(values[0]), mean, rtol=1e-10)
    with pytest.raises(ValueError, match=r"indices and signs must have shape \(n, 3\)"):
        symmetrised(guide, np.zeros((2, 2), int), np.ones((2, 2)))


def test_a_claimed_symmetry_that_is_none_is_named():
    points = jax.vmap(lambda key: jax.tree.map(lambda leaf: leaf + jax.random.normal(key, leaf.shape), MIXTURE))(
        jax.random.split(KEY, 50)
    )
    assert LABELS.check_density(mixture_logdensity, points) == ()
    forgotten = vj.permutations({"chain": None, "means": 0, "noise": None, "weights": 0})
    sentences = forgotten.check_density(mixture_logdensity, points)
    assert len(sentences) == 2
    assert sentences[0].startswith(
        "the exchange of labels 0 and 1 is no symmetry of the density: its image is accepted"
    )
    # With its Jacobian an involution that stretches is judged as it is accepted.
    stretch = as_symmetries([lambda x: jnp.sinh(1.0 - jnp.arcsinh(x))])
    gaussian = jax.random.normal(KEY, (200, 1))
    assert "maps[0] is no symmetry" in stretch.check_density(lambda x: -0.5 * jnp.sum(x**2), gaussian)[0]
    assert (
        stretch.check_density(lambda x: -0.5 * jnp.sum((jnp.arcsinh(x) - 0.5) ** 2 + jnp.log1p(x**2)), gaussian) == ()
    )


def test_signed_permutations_are_seen():
    like, unravel = jnp.zeros(4), lambda x: x
    for function in (lambda x: -x[::-1], lambda x: x.at[1].multiply(-1.0)):
        assert is_signed_permutation(function, like, unravel)
    for function in (lambda x: 1.0 - x, lambda x: x.at[0].add(x[1]), jnp.sort, lambda x: 2 * x):
        assert not is_signed_permutation(function, like, unravel)


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        (0.5, TypeError, "axes must be integers, sets of integers, names of dimensions or None, got 0.5"),
        (True, TypeError, "axes must be integers, sets of integers, names of dimensions or None, got True"),
        (None, ValueError, "axes must name an axis of at least one leaf, got None"),
    ],
)
def test_bad_axes(axes, error, message):
    for factory in (vj.permutations, vj.signs):
        with pytest.raises(error, match=message):
            factory(axes)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (0, r"axes must name axes of the leaves, got 0 for a leaf of shape \(\)"),
        (
            {"means": 1, "weights": 0, "noise": None, "chain": None},
            r"the same number of labels in all leaves, got \[2, 3\]",
        ),
        ({"means": 0}, "axes must be a prefix of the position"),
    ],
)
def test_axes_that_do_not_fit(axes, message):
    with pytest.raises(ValueError, match=message):
        vj.permutations(axes).check(MIXTURE)
