"""Symmetries of named values, as maps of the unconstrained positions that the values come from.

Notation: T the map from positions to values, g a symmetry of the values. x ↦ T⁻¹(g(T(x))) is one of the positions. Its
Jacobian counts. A permutation of weights is none of their stick-breaking coordinates.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from vhmc_jax.base import Array, PRNGKey, PyTree
from vhmc_jax.moves.labels import Labels
from vhmc_jax.moves.maps import Image, flat_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Values:
    """The way from positions to named values, and back.

    Attributes
    ----------
    constrain
        From a position to a dict of values.
    unconstrain
        From a dict of the parameters among them to the position.
    parameters
        Their names.
    """

    constrain: Callable
    unconstrain: Callable
    parameters: tuple[str, ...] = field(metadata={"static": True})

    def at(self, position: PyTree) -> dict[str, Array]:
        """The parameters at a position."""
        values = self.constrain(position)
        return {name: values[name] for name in self.parameters}

    def like(self, position: PyTree) -> dict[str, Any]:
        """Shapes and dtypes of the parameters."""
        return jax.eval_shape(self.at, position)

    def position(self, values: dict[str, Array], like: PyTree) -> PyTree:
        """The position of given parameters, in the dtypes of another position."""
        return jax.tree.map(lambda leaf, old: leaf.astype(old.dtype), self.unconstrain(values), like)

    def moved(self, function: Callable, position: PyTree) -> PyTree:
        """The position whose values are the image under a function."""
        return self.position(function(self.at(position)), position)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ValueLabels:
    """All permutations, or all signs, of labels of named values.

    Attributes
    ----------
    labels
        The symmetries of the values.
    values
        The way to them.
    """

    labels: Labels
    values: Values

    def generators(self, position: PyTree) -> list[tuple[str, Callable]]:
        """Maps of positions from which all others come, each with its name."""
        acts = self.labels.generators(self.values.like(position))
        return [(name, functools.partial(self._image, act)) for name, act in acts]

    def check(self, position: PyTree) -> None:
        """Raise unless the axes fit the values and carry the same number of labels."""
        self.labels.check(self.values.like(position))

    def _image(self, act: Callable, position: PyTree) -> Image:
        def moved(position: PyTree) -> PyTree:
            return self.values.moved(lambda values: act(values).position, position)

        flat, unravel = ravel_pytree(position)
        jacobian = jax.jacfwd(lambda x: flat_of(moved(unravel(x))))(flat)
        return Image(moved(position), jnp.linalg.slogdet(jacobian)[1])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ValueDomain:
    """Positions whose values are in a fundamental domain of the values.

    Attributes
    ----------
    domain
        The domain of the values.
    values
        The way to them.
    """

    domain: Any
    values: Values

    @property
    def is_of_signs(self) -> bool:
        """Whether signs alone make images."""
        return self.domain.is_of_signs

    @property
    def num_images(self) -> int:
        """Images of a position."""
        return self.domain.num_images

    def scores(self, position: PyTree) -> Array:
        """One number for each label."""
        return self.domain.scores(self.values.at(position))

    def contains(self, position: PyTree) -> Array:
        """Whether a position is the representative of its images."""
        return self.domain.contains(self.values.at(position))

    def representative(self, position: PyTree) -> PyTree:
        """The image in the domain."""
        return self.values.moved(self.domain.representative, position)

    def scatter(self, rng_key: PRNGKey, position: PyTree) -> PyTree:
        """One of all images, each as likely as another."""
        return self.values.moved(functools.partial(self.domain.scatter, rng_key), position)
