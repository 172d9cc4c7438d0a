"""All permutations, or all signs, of labels that axes of some leaves carry."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import describe
from vhmc_jax.base import Array, PRNGKey, PyTree
from vhmc_jax.moves.maps import Image


@jax.tree_util.register_static
@dataclass(frozen=True)
class Labels:
    """All permutations, or all signs, of the labels along axes of some leaves.

    Attributes
    ----------
    kind
        ``"permutations"`` or ``"signs"``.
    axes
        The axis of each leaf that carries the label, as the pair of leaves and structure.
    written
        Numbers of these leaves in the order in which the user wrote them: JAX sorts the names of a dict.
    """

    kind: str
    axes: tuple[Any, Any]
    written: tuple[int, ...]

    def draw(self, rng_key: PRNGKey, position: PyTree) -> Image:
        """One of them, each as likely as another."""
        key, num = random.as_jax_key(rng_key), self.num_labels(position)
        if self.kind == "permutations":
            return self.image(jax.random.permutation(key, num), position)
        return self.image(jax.random.bernoulli(key, 0.5, (num,)), position)

    def generators(self, position: PyTree) -> list[tuple[str, Callable]]:
        """Exchanges of neighbours, or a sign of each label: from them come all."""
        num = self.num_labels(position)
        if self.kind == "permutations":
            exchanges = [np.r_[:k, k + 1, k, k + 2 : num] for k in range(num - 1)]
            return [
                (f"the exchange of labels {k} and {k + 1}", functools.partial(self.image, each))
                for k, each in enumerate(exchanges)
            ]
        return [(f"the sign of label {k}", functools.partial(self.image, np.arange(num) == k)) for k in range(num)]

    def check(self, position: PyTree) -> None:
        """Raise unless the axes fit the position and carry the same number of labels."""
        self.num_labels(position)

    def image(self, choice: Any, position: PyTree) -> Image:
        """Labels in the order chosen, or changed signs where the choice holds."""

        def act(axes: Any, leaf: Array) -> Array:
            for axis in axes:
                if self.kind == "permutations":
                    leaf = jnp.take(leaf, choice, axis=axis)
                else:
                    shape = [-1 if i == axis % leaf.ndim else 1 for i in range(leaf.ndim)]
                    leaf = jnp.where(jnp.reshape(choice, shape), -leaf, leaf)
            return leaf

        leaves, tree = jax.tree.flatten(position)
        image = [act(axes, leaf) for axes, leaf in zip(self.axes_of_leaves(position), leaves, strict=True)]
        return Image(jax.tree.unflatten(tree, image), jnp.zeros((), jnp.result_type(leaves[0])))

    def axes_of_leaves(self, position: PyTree) -> list[tuple[int, ...]]:
        """The axes of each leaf of a position that carry the label."""
        found = [self.axes[0][number] for number in self._spread(position)]
        if names := [each for each in found if isinstance(each, str)]:
            raise ValueError(f"axes must be numbers but for a problem with named dimensions, got {names[0]!r}")
        return [() if each is None else (each,) if isinstance(each, int) else tuple(sorted(each)) for each in found]

    def leaves_as_written(self, position: PyTree) -> list[int]:
        """Numbers of the leaves of a position in the order in which the user wrote their axes."""
        spread = self._spread(position)
        return sorted(range(len(spread)), key=lambda leaf: (self.written.index(spread[leaf]), leaf))

    def _spread(self, position: PyTree) -> list[int]:
        """For each leaf of a position, which of the given axes is its own."""
        leaves, structure = self.axes
        try:
            return jax.tree.leaves(jax.tree.broadcast(jax.tree.unflatten(structure, range(len(leaves))), position))
        except ValueError as error:
            axes = jax.tree.unflatten(structure, leaves)
            raise ValueError(f"axes must be a prefix of the position {describe(position)}, got {axes}") from error

    def num_labels(self, position: PyTree) -> int:
        """The number of labels, or an error where leaves have different ones."""
        sizes = set()
        for axes, leaf in zip(self.axes_of_leaves(position), jax.tree.leaves(position), strict=True):
            for axis in axes:
                if not -leaf.ndim <= axis < leaf.ndim:
                    raise ValueError(f"axes must name axes of the leaves, got {axis} for a leaf of shape {leaf.shape}")
                sizes.add(leaf.shape[axis])
        if len(sizes) != 1:
            raise ValueError(f"axes must have the same number of labels in all leaves, got {sorted(sizes)}")
        return sizes.pop()


def labels_of(kind: str, axes: Any) -> Labels:
    """Check ``axes`` of ``permutations`` and ``signs``."""
    leaves, structure = jax.tree.flatten(axes, is_leaf=_is_none)
    for leaf in leaves:
        numbers = leaf if isinstance(leaf, set | frozenset) else set() if isinstance(leaf, str) else {leaf} - {None}
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
            raise TypeError(f"axes must be integers, sets of integers, names of dimensions or None, got {leaf!r}")
    if all(leaf is None for leaf in leaves):
        raise ValueError(f"axes must name an axis of at least one leaf, got {axes}")
    frozen = tuple(frozenset(leaf) if isinstance(leaf, set) else leaf for leaf in leaves)
    numbers = jax.tree.unflatten(structure, range(len(leaves)))
    return Labels(kind, (frozen, structure), tuple(_as_written(numbers, axes)))


def _as_written(numbers: Any, axes: Any) -> list[int]:
    """Numbers of leaves, those of dicts in the order of the user's."""
    if isinstance(axes, dict):
        return [number for name in axes for number in _as_written(numbers[name], axes[name])]
    return jax.tree.leaves(numbers)


def _is_none(value: Any) -> bool:
    return value is None
