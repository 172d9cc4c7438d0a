"""Fundamental domains: one of all images of a point lies in the domain, and all of them are drawn equally often."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import vhmc_jax as vj
from vhmc_jax.moves.domain import Domain, domain_of
from vhmc_jax.moves.symmetries import as_symmetries

KEY = jax.random.key(8)
GENERATOR = np.random.default_rng(3)
MIXTURE = {
    "chain": jnp.asarray(GENERATOR.normal(size=(3, 3))),
    "means": jnp.asarray(GENERATOR.normal(size=(3, 2))),
    "noise": jnp.asarray(0.4),
}
FACTORS = {"loadings": jnp.asarray(GENERATOR.normal(size=(4, 2))), "scores": jnp.asarray(GENERATOR.normal(size=(2, 3)))}
X = jnp.array([0.3, -1.2, 2.1])
COLUMNS = {"loadings": 1, "scores": 0}


def turn(x):
    """A quarter turn of two coordinates: four of them are none."""
    return jnp.stack([-x[1], x[0], x[2]])


def turn_back(x):
    return jnp.stack([x[1], -x[0], x[2]])


CASES = {
    "labels": (vj.permutations({"means": 0, "chain": {0, 1}, "noise": None}), MIXTURE, 6),
    "labels by a matrix": (vj.permutations({"chain": {0, 1}, "means": 0, "noise": None}), MIXTURE, 6),
    "signs": (vj.signs(COLUMNS), FACTORS, 4),
    "signs and labels": ([vj.permutations(COLUMNS), vj.signs(COLUMNS)], FACTORS, 8),
    "labels of two kinds": (
        [vj.permutations({"loadings": 0, "scores": None}), vj.permutations({"loadings": None, "scores": 1})],
        FACTORS,
        144,
    ),
    "a reflection": (lambda x: 1.0 - x, X, 2),
    "a bent reflection": (lambda x: jnp.sinh(1.0 - jnp.arcsinh(x)), X, 2),
    "turns": ([turn, turn_back], X, 4),
    "two reflections": ([lambda x: x.at[0].multiply(-1.0), lambda x: x.at[1].multiply(-1.0)], X, 4),
}


def rows_of(positions):
    return np.asarray(jax.vmap(lambda position: ravel_pytree(position)[0])(positions))


@pytest.mark.parametrize("case", CASES)
def test_one_of_all_images_is_in_the_domain(case):
    maps, position, number = CASES[case]
    symmetries = as_symmetries(maps)
    domain = domain_of(symmetries, position)
    images = symmetries.orbit(position)
    assert domain.num_images == number == len(rows_of(images))
    is_inside, representatives = jax.jit(jax.vmap(lambda x: (domain.contains(x), domain.representative(x))))(images)
    assert np.sum(is_inside) == 1
    inside = rows_of(images)[np.argmax(is_inside)]
    np.testing.assert_allclose(rows_of(representatives), np.tile(inside, (number, 1)), atol=1e-12)


@pytest.mark.parametrize("case", ["labels", "signs and labels", "turns", "two reflections"])
def test_all_images_are_drawn_equally_often(case):
    maps, position, number = CASES[case]
    domain = domain_of(as_symmetries(maps), position)
    drawn = jax.jit(jax.vmap(domain.scatter, (0, None)))(jax.random.split(KEY, 200 * number), position)
    _, counts = np.unique(np.round(rows_of(drawn), 9), axis=0, return_counts=True)
    assert len(counts) == number
    assert np.all(np.abs(counts - 200) < 5 * np.sqrt(200))


def test_one_of_the_maps_is_not_one_of_all_images():
    """The control: what the kernel draws never is the position itself."""
    drawn, _ = jax.vmap(as_symmetries([turn, turn_back]).draw, (0, None))(jax.random.split(KEY, 400), X)
    assert len(np.unique(np.round(rows_of(drawn), 9), axis=0)) == 2


def test_the_first_parameter_named_gives_the_order():
    for axes in ({"b": 0, "a": 0}, {"a": 0, "b": 0}):
        position = {"a": jnp.array([3.0, 1.0, 2.0]), "b": jnp.array([20.0, 30.0, 10.0])}
        found = domain_of(vj.permutations(axes), position).representative(position)
        first = next(iter(axes))
        np.testing.assert_array_equal(found[first], np.sort(position[first]))


def test_single_precision_stays():
    x = jnp.array([1.0, -2.0], jnp.float32)
    for maps in (vj.permutations(), vj.signs(), lambda x: -x):
        domain = domain_of(as_symmetries(maps), x)
        assert domain.representative(x).dtype == domain.scatter(KEY, x).dtype == jnp.float32
        assert bool(domain.contains(domain.representative(x)))


@pytest.mark.parametrize(
    ("maps", "position", "message"),
    [
        (
            [vj.permutations({"loadings": 0, "scores": None}), vj.signs(COLUMNS)],
            FACTORS,
            "symmetries must act on different labels",
        ),
        ([vj.permutations(), vj.permutations()], X, "symmetries must act on different labels"),
        ([vj.signs(), lambda x: -x], X, "symmetries must act on different labels"),
        ([vj.permutations(), vj.signs()], jnp.zeros(6), "must have at most 5040 images together, got 46080"),
        (vj.signs({0, 1}), jnp.zeros((2, 2)), "signs must have a leaf that carries the label along one axis alone"),
        ([lambda x: -x, lambda x: 1 - x], X, "must generate at most 64 maps, got more"),
        (lambda x: jnp.roll(x, 1), X, r"maps\[0\] must be an involution"),
        (lambda x: x[:2], X, r"maps\[0\] must keep structure"),
    ],
)
def test_symmetries_without_a_domain(maps, position, message):
    with pytest.raises(ValueError, match=message):
        domain_of(as_symmetries(maps), position)


def test_a_domain_without_its_second_part_holds_more_images():
    maps, position, _ = CASES["signs and labels"]
    whole = domain_of(as_symmetries(maps), position)
    for part in whole.parts:
        is_inside = jax.vmap(Domain((part,)).contains)(as_symmetries(maps).orbit(position))
        assert np.sum(is_inside) > 1
