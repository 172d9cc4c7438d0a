"""Fundamental domains: of all images of a point under symmetries one, its representative.

Labels are put in the order of their scores, or get the signs that make their scores positive. Under maps that the user
gives the image with the greatest score is taken. A score is a fixed linear function, with coefficients that no symmetry
is likely to have: two images have the same score only by chance.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.base import Array, PRNGKey, PyTree
from vhmc_jax.moves.labels import Labels
from vhmc_jax.moves.maps import Maps, flat_of, points_around
from vhmc_jax.moves.symmetries import MOST_IMAGES, Symmetries
from vhmc_jax.moves.values import ValueDomain, ValueLabels

MOST_ELEMENTS = 64
"""Elements that the user's maps may generate: each density value takes the images under all of them."""

NUM_POINTS = 64
"""Points at which several sets of symmetries are tried together."""


@jax.tree_util.register_static
@dataclass(frozen=True)
class LabelDomain:
    """Positions whose labels are in ascending order of their scores, or whose labels have positive scores.

    Attributes
    ----------
    labels
        The symmetries: all permutations, or all signs.
    leaf, axes
        The leaf that has the scores, and its axes that carry the label.
    num_labels
        Labels.
    """

    labels: Labels
    leaf: int
    axes: tuple[int, ...]
    num_labels: int

    @property
    def is_of_signs(self) -> bool:
        """Whether signs alone make images."""
        return self.labels.kind == "signs"

    @property
    def num_images(self) -> int:
        """Images of a position."""
        return math.factorial(self.num_labels) if self.labels.kind == "permutations" else 2**self.num_labels

    def scores(self, position: PyTree) -> Array:
        """One number for each label."""
        leaf = jax.tree.leaves(position)[self.leaf]
        rows = jnp.moveaxis(leaf, self.axes, range(len(self.axes)))
        # Along several axes the diagonal is what a permutation takes with the label.
        rows = rows[(np.arange(self.num_labels),) * len(self.axes)].reshape(self.num_labels, -1)
        return rows @ _coefficients(rows)

    def contains(self, position: PyTree) -> Array:
        """Whether a position is the representative of its images."""
        scores = self.scores(position)
        return jnp.all(scores[1:] >= scores[:-1] if self.labels.kind == "permutations" else scores >= 0)

    def representative(self, position: PyTree) -> PyTree:
        """The image in the domain."""
        scores = self.scores(position)
        choice = jnp.argsort(scores) if self.labels.kind == "permutations" else scores < 0
        return self.labels.image(choice, position).position

    def scatter(self, rng_key: PRNGKey, position: PyTree) -> PyTree:
        """One of all images, each as likely as another."""
        return self.labels.draw(rng_key, position).position


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MapDomain:
    """Positions whose score is the greatest among their images under a group of maps.

    Attributes
    ----------
    maps
        Maps from which all elements of the group come.
    steps
        How: the image under element i + 1 is that of element ``steps[i][0]`` under the map ``steps[i][1]``. Element 0
        is the identity.
    """

    maps: Maps
    steps: tuple[tuple[int, int], ...] = field(metadata={"static": True})
    is_of_signs = False

    @property
    def num_images(self) -> int:
        """Images of a position."""
        return 1 + len(self.steps)

    def images(self, position: PyTree) -> PyTree:
        """All images on a leading axis, the position first."""
        found = [position]
        for element, number in self.steps:
            found.append(self.maps.functions[number](found[element]))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)

    def contains(self, position: PyTree) -> Array:
        """Whether a position is the representative of its images."""
        return _best(self.images(position)) == 0

    def representative(self, position: PyTree) -> PyTree:
        """The image in the domain."""
        images = self.images(position)
        return jax.tree.map(lambda leaf: leaf[_best(images)], images)

    def scatter(self, rng_key: PRNGKey, position: PyTree) -> PyTree:
        """One of all images, each as likely as another."""
        element = jax.random.randint(random.as_jax_key(rng_key), (), 0, self.num_images)
        return jax.tree.map(lambda leaf: leaf[element], self.images(position))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Domain:
    """A fundamental domain of symmetries that act one after another.

    Attributes
    ----------
    parts
        Domain of each set of symmetries: :class:`LabelDomain`, :class:`MapDomain` or :class:`ValueDomain`.
    """

    parts: tuple[Any, ...]

    @property
    def num_images(self) -> int:
        """Images of a position."""
        return math.prod(part.num_images for part in self.parts)

    def contains(self, position: PyTree) -> Array:
        """Whether a position is the representative of its images."""
        return jnp.all(jnp.stack([part.contains(position) for part in self.parts]))

    def representative(self, position: PyTree) -> PyTree:
        """The image in the domain."""
        for part in self.parts:
            position = part.representative(position)
        return position

    def scatter(self, rng_key: PRNGKey, position: PyTree) -> PyTree:
        """One of all images, each as likely as another."""
        for part, key in zip(self.parts, random.split(rng_key, len(self.parts)), strict=True):
            position = part.scatter(random.as_jax_key(key), position)
        return position


def domain_of(symmetries: Symmetries, position: PyTree) -> Domain:
    """The domain of symmetries of positions like this one.

    Parameters
    ----------
    symmetries
        The symmetries. Several sets must make a group of as many elements as there are ways to take one of each.
    position
        A template: only its structure and shapes are read.

    Returns
    -------
    The domain; an error that says what does not fit where there is none.
    """
    position = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), jnp.result_type(leaf)), position)
    symmetries.check(position)
    parts: list[Any] = [_of_set(each, position) for each in symmetries.sets]
    # Signs come first: they are known from the scores whatever the order of the labels.
    parts.sort(key=lambda part: not part.is_of_signs)
    domain = Domain(tuple(parts))
    if len(parts) > 1:
        _require_product(domain, symmetries, position)
    return domain


def _of_set(each: Any, position: PyTree) -> Any:
    if isinstance(each, ValueLabels):
        return ValueDomain(_of_labels(each.labels, each.values.like(position)), each.values)
    return _of_labels(each, position) if isinstance(each, Labels) else _of_maps(each, position)


def _of_labels(labels: Labels, position: PyTree) -> LabelDomain:
    axes = labels.axes_of_leaves(position)
    most = 1 if labels.kind == "signs" else max(map(len, axes))
    for leaf in labels.leaves_as_written(position):
        if 1 <= len(axes[leaf]) <= most:
            ndim = jnp.ndim(jax.tree.leaves(position)[leaf])
            return LabelDomain(labels, leaf, tuple(axis % ndim for axis in axes[leaf]), labels.num_labels(position))
    raise ValueError(
        "signs must have a leaf that carries the label along one axis alone: along two, all signs together change "
        "nothing, and none of them can be told"
    )


def _of_maps(maps: Maps, position: PyTree) -> MapDomain:
    """All elements that the maps generate, told apart by the images of test points."""
    points = points_around(position)
    tolerance = 1e-3 if jnp.result_type(*jax.tree.leaves(position)) == jnp.float32 else 1e-8
    images, steps, element = [points], [], 0

    def rows(positions: PyTree) -> np.ndarray:
        return np.asarray(jax.vmap(flat_of)(positions))

    known = [rows(points)]
    while element < len(images):
        for number, function in enumerate(maps.functions):
            image = jax.vmap(function)(images[element])
            found = rows(image)
            if any(np.all(np.abs(found - each) <= tolerance * (1 + np.abs(each))) for each in known):
                continue
            images.append(image)
            known.append(found)
            steps.append((element, number))
            if len(images) > MOST_ELEMENTS:
                raise ValueError(
                    f"symmetries must generate at most {MOST_ELEMENTS} maps, got more: vj.permutations and vj.signs "
                    "have no such bound"
                )
        element += 1
    return MapDomain(maps, tuple(steps))


def _require_product(domain: Domain, symmetries: Symmetries, position: PyTree) -> None:
    """Raise unless several sets have one representative of each point, and as many images of it as all together."""
    points, total = points_around(position, NUM_POINTS), domain.num_images
    if total > MOST_IMAGES:
        raise ValueError(f"several sets of symmetries must have at most {MOST_IMAGES} images together, got {total}")
    message = (
        "symmetries must act on different labels, or be all permutations and all signs of the same ones; got sets that "
        "have no fundamental domain together. Name first a parameter on which one of them acts alone, or give their "
        "maps in one list"
    )
    try:
        num_images = len(jax.tree.leaves(symmetries.orbit(jax.tree.map(lambda leaf: leaf[0], points), total))[0])
    except ValueError as error:
        raise ValueError(message) from error
    representatives = jax.vmap(domain.representative)(points)
    images = [jax.vmap(lambda x, act=act: act(x).position)(points) for _, act in symmetries.generators(position)]
    others = [jax.vmap(domain.representative)(image) for image in images]
    rows = [np.asarray(jax.vmap(flat_of)(each)) for each in (representatives, *others)]
    is_inside = np.asarray(jax.vmap(domain.contains)(representatives)).all()
    if num_images != total or not is_inside or not all(np.allclose(rows[0], each, 1e-4, 1e-4) for each in rows[1:]):
        raise ValueError(message)


def _best(images: PyTree) -> Array:
    """Number of the image with the greatest score; of equal ones the first."""
    rows = jax.vmap(flat_of)(images)
    return jnp.argmax(rows @ _coefficients(rows))


def _coefficients(rows: Array) -> Array:
    """Coefficients of a score, from 1 to 2: one, then fractions of multiples of the golden ratio."""
    return jnp.asarray(1 + np.arange(rows.shape[1]) * (np.sqrt(5) - 1) / 2 % 1, rows.dtype)
