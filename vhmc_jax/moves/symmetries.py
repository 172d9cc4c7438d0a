"""Symmetries of a density: sets of maps on the user's pytree, each set closed under inversion.

A set is a list of the user's maps, all permutations of labels, or all signs of labels. A draw takes one map of each
set. Where there are several sets their order is drawn too, since the inverse of g h is h⁻¹ g⁻¹.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.arguments import as_position
from vhmc_jax.base import Array, PRNGKey, PyTree, as_pytree_function
from vhmc_jax.moves.labels import labels_of
from vhmc_jax.moves.maps import Image, Maps, flat_of, is_signed_permutation

MOST_IMAGES = 5040
"""Images that an orbit may have by default: those of 7 labels."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Symmetries:
    """Sets of maps, from each of which a draw takes one.

    Attributes
    ----------
    sets
        Each closed under inversion: :class:`Maps` or :class:`Labels`; in ``sample`` of a problem :class:`ValueLabels`.
    """

    sets: tuple[Any, ...]

    def check(self, position: PyTree) -> None:
        """Raise where a map is no involution and has no inverse, changes the structure, or axes do not fit."""
        for each in self.sets:
            each.check(position)

    def draw(self, rng_key: PRNGKey, position: PyTree) -> Image:
        """The image of a position under a map drawn at random, with log |det|. The inverse map is as likely."""
        *keys, key_order = random.split(rng_key, len(self.sets) + 1)
        steps = list(zip(self.sets, keys, strict=True))
        if len(steps) == 1:
            return self._apply(steps, position)
        is_in_order = jnp.log(random.uniform(key_order)) < math.log(0.5)
        orders = self._apply(steps, position), self._apply(steps[::-1], position)
        return jax.tree.map(lambda a, b: jnp.where(is_in_order, a, b), *orders)

    def _apply(self, steps: Any, position: PyTree) -> Image:
        log_det: Any = 0.0
        for each, rng_key in steps:
            image = each.draw(rng_key, position)
            position, log_det = image.position, image.log_det + log_det
        return Image(position, log_det)

    def generators(self, position: PyTree) -> list[tuple[str, Callable]]:
        """Maps from which all others come, each with its name."""
        return list(itertools.chain.from_iterable(each.generators(position) for each in self.sets))

    def orbit(self, position: PyTree, most: int = MOST_IMAGES) -> PyTree:
        """All different images of one position under any number of maps, on a leading axis; the position is the first.

        Parameters
        ----------
        position
            Where to start; a value, not traced.
        most
            Images at most. With more it raises.

        Returns
        -------
        The images.
        """
        position = as_position(position)
        flat, unravel = ravel_pytree(position)
        step = jax.jit(jax.vmap(lambda x: [flat_of(act(unravel(x)).position) for _, act in self.generators(position)]))
        found = {_rounded(np.asarray(flat)): np.asarray(flat)}
        latest = [np.asarray(flat)]
        while latest:
            images = np.concatenate(step(np.stack(latest)))
            latest = []
            for image in images:
                if (name := _rounded(image)) not in found:
                    found[name] = image
                    latest.append(image)
            if len(found) > most:
                raise ValueError(f"the orbit must have at most {most} images, got more: give a larger most")
        return jax.vmap(unravel)(jnp.stack(list(found.values())))

    def elements(self, position: PyTree, most: int = MOST_IMAGES) -> tuple[np.ndarray, np.ndarray]:
        """All elements of a group of signed permutations, the identity first.

        Parameters
        ----------
        position
            A template: only its structure and shapes are read.
        most
            Elements at most.

        Returns
        -------
        Indices and signs, shapes (n, d): element i maps a flat x to ``signs[i] * x[indices[i]]``.
        """
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), float), position))
        for name, act in self.generators(position):
            if not is_signed_permutation(lambda position, act=act: act(position).position, flat, unravel):
                raise ValueError(f"symmetries must be signed permutations of the coordinates, which {name} is not")
        # The image of (1, 2, ..., d) tells the map. No two elements have the same.
        images = self.orbit(unravel(jnp.arange(1.0, flat.size + 1)), most)
        rows = np.asarray(jax.vmap(flat_of)(images))
        return np.abs(rows).astype(int) - 1, np.sign(rows)

    def check_density(self, logdensity_fn: Callable, positions: PyTree, least: float = 0.9) -> tuple[str, ...]:
        """A sentence for each map that does not leave the density as it is; none where all do.

        Parameters
        ----------
        logdensity_fn
            Log density of a position.
        positions
            Test points on a leading axis, where the density has its mass: draws, or modes.
        least
            Mean of the acceptance probability min(1, π(gx) |det| / π(x)) below which it is said.

        Returns
        -------
        The sentences.
        """
        template = jax.tree.map(lambda leaf: leaf[0], positions)
        names, maps = zip(*self.generators(template), strict=True)

        def log_ratios(position: PyTree) -> Array:
            here, images = logdensity_fn(position), [act(position) for act in maps]
            return jnp.stack([logdensity_fn(image.position) - here + image.log_det for image in images])

        ratios = np.asarray(jax.jit(jax.vmap(log_ratios))(positions))
        means = np.exp(np.minimum(np.nan_to_num(ratios, nan=-np.inf), 0.0)).mean(axis=0)
        return tuple(
            f"{name} is no symmetry of the density: its image is accepted with probability {mean:.2g} on average "
            f"over {len(ratios)} points, where a symmetry has 1."
            for name, mean in zip(names, means, strict=True)
            if not mean >= least
        )


def permutations(axes: Any = 0) -> Symmetries:
    """All permutations of labels, those of a mixture's components for instance.

    Parameters
    ----------
    axes
        The axis that carries the label: a number, or for each leaf of the position a number, None where it carries
        none, or a set of numbers (a transition matrix has two: ``{0, 1}``). A prefix of the position's structure
        serves, as for ``in_axes`` of ``jax.vmap``. For ``sample`` of a problem with named parameters these are the
        leaves, and those without labels may be left out; or the name of the labels' dimension serves alone.

    Returns
    -------
    The symmetries, for ``sample`` and ``symmetry``.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> labels = vj.permutations({"means": 0, "log_weights": 0, "log_noise": None})
    >>> zeros = jax.numpy.zeros
    >>> mixture = {"means": jax.numpy.arange(6.0).reshape(3, 2), "log_weights": zeros(3), "log_noise": zeros(())}
    >>> labels.orbit(mixture)["means"].shape
    (6, 3, 2)
    """
    return Symmetries((labels_of("permutations", axes),))


def signs(axes: Any = 0) -> Symmetries:
    """All signs of labels, those of a model's factors for instance.

    Parameters
    ----------
    axes
        The axis that carries the label, as for ``permutations``. A sign multiplies all numbers of its label, in every
        leaf; along both axes of a leaf with two.

    Returns
    -------
    The symmetries, for ``sample`` and ``symmetry``. For one sign of everything the map ``lambda x: -x`` serves.

    Examples
    --------
    >>> import jax.numpy as jnp, vhmc_jax as vj
    >>> factors = vj.signs({"loadings": 1, "scores": 0})  # columns of one are rows of the other
    >>> model = {"loadings": jnp.ones((4, 2)), "scores": jnp.ones((2, 5))}
    >>> factors.orbit(model)["loadings"].shape  # four combinations of two signs
    (4, 4, 2)
    """
    return Symmetries((labels_of("signs", axes),))


def as_symmetries(maps: Any) -> Symmetries:
    """Check ``maps``: symmetries, a map, or a sequence of symmetries, maps and pairs of a map and its log |det|."""
    if isinstance(maps, Symmetries):
        return maps
    entries = maps if isinstance(maps, list | tuple) else [maps]
    if not entries:
        raise ValueError("maps must hold at least one map, got none")
    pairs: list[Any] = []
    sets: list[Any] = []
    for number, entry in enumerate(entries):
        if isinstance(entry, Symmetries):
            sets.extend(entry.sets)
            continue
        function, log_det = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
        if not callable(function):
            raise TypeError(f"maps[{number}] must be a function of the position, got {type(function).__name__}")
        log_det = as_pytree_function(log_det) if callable(log_det) else log_det
        pairs.append((as_pytree_function(function), log_det))
    if pairs:
        sets.append(Maps(*(tuple(column) for column in zip(*pairs, strict=True))))
    return Symmetries(tuple(sets))


def _rounded(flat: np.ndarray) -> bytes:
    """A name for a point that does not depend on its last digits, nor on the sign of zero."""
    digits = 5 if flat.dtype == np.float32 else 9
    return (np.round(flat.astype(np.float64), digits) + 0.0).tobytes()
