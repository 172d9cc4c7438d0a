"""Maps of positions that the user gives, with their Jacobians, and what can be seen of a map at test points."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.arguments import describe, is_concrete
from vhmc_jax.base import Array, PRNGKey, PyTree


class Image(NamedTuple):
    """Where a map leads, and the logarithm of its |det| there."""

    position: PyTree
    log_det: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Maps:
    """The user's maps, closed under inversion.

    Attributes
    ----------
    functions
        From a position to a position.
    log_dets
        log |det| of each: a function of the position, a number, or None for that of the Jacobian by differentiation.
    """

    functions: tuple[Callable, ...]
    log_dets: tuple[Any, ...]

    def draw(self, rng_key: PRNGKey, position: PyTree) -> Image:
        """One of the maps, each as likely as another."""
        chosen, *others = [self.image(number, position) for number in range(len(self.functions))]
        # In logarithms: XLA would hash again in every place that reads the coin, and its compiler would take gigabytes.
        coin = jnp.log(random.uniform(rng_key, dtype=chosen.log_det.dtype))
        for number, image in enumerate(others, start=1):
            is_chosen = coin >= math.log(number / len(self.functions))
            chosen = jax.tree.map(lambda new, old, is_chosen=is_chosen: jnp.where(is_chosen, new, old), image, chosen)
        return chosen

    def generators(self, position: PyTree) -> list[tuple[str, Callable]]:
        """The maps, each with its name."""
        return [(f"maps[{i}]", functools.partial(self.image, i)) for i in range(len(self.functions))]

    def check(self, position: PyTree) -> None:
        """Raise unless each map keeps the structure and has its inverse among the maps, seen at test points."""
        points = points_around(position)
        for number, function in enumerate(self.functions):
            value = jax.eval_shape(function, position)
            if _shapes(value) != _shapes(position):
                raise ValueError(
                    f"maps[{number}] must keep structure, shapes and dtypes of the position, {describe(position)}, "
                    f"got {describe(value)}"
                )
            itself_first = (number, *range(len(self.functions)))
            if not any(_is_inverse(self, number, other, points) for other in itself_first):
                raise ValueError(
                    f"maps[{number}] must be an involution, or its inverse must be among the maps, "
                    "got a map that none of them undoes, position and log-det, at test points"
                )

    def image(self, number: int, position: PyTree) -> Image:
        """The image under one of the maps."""
        function, log_det = self.functions[number], self.log_dets[number]
        flat, unravel = ravel_pytree(position)
        if log_det is None and is_signed_permutation(function, flat, unravel):
            log_det = 0.0
        elif log_det is None:
            jacobian = jax.jacfwd(lambda x: ravel_pytree(function(unravel(x)))[0])(flat)
            log_det = jnp.linalg.slogdet(jacobian)[1]
        elif callable(log_det):
            log_det = log_det(position)
        return Image(function(position), jnp.asarray(log_det, flat.dtype))


def _shapes(position: PyTree) -> tuple[Any, ...]:
    """Structure, shapes and dtypes."""
    return jax.tree.structure(position), [
        (jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(position)
    ]


def flat_of(position: PyTree) -> Array:
    """The flat vector of a position."""
    return ravel_pytree(position)[0]


def points_around(position: PyTree, number: int = 4) -> PyTree:
    """A few points around the position, or around zero where it is traced."""
    with jax.ensure_compile_time_eval():
        generator = np.random.default_rng(0)
        return jax.tree.map(
            lambda leaf: jnp.asarray(
                generator.normal(size=(number, *leaf.shape)) + (np.asarray(leaf) if is_concrete(leaf) else 0.0),
                leaf.dtype,
            ),
            position,
        )


def _is_inverse(maps: Maps, number: int, other: int, points: PyTree) -> bool:
    """Whether one map undoes another at test points. Where its values are traced nothing is seen, and it counts."""
    with jax.ensure_compile_time_eval():

        def errors(position: PyTree) -> tuple[Array, Array]:
            there = maps.image(number, position)
            back = maps.image(other, there.position)
            flat = flat_of(position)
            return jnp.abs(flat_of(back.position) - flat) / (1 + jnp.abs(flat)), there.log_det + back.log_det

        found = jax.vmap(errors)(points)
    if not is_concrete(found):
        return True
    tolerance = 1e-3 if found[1].dtype == jnp.float32 else 1e-6
    return all(bool(np.all(np.abs(error) < tolerance)) for error in found)


def is_signed_permutation(function: Callable, like: Array, unravel: Callable) -> bool:
    """Whether a map only permutes the coordinates and changes signs, seen at concrete points; False where traced."""
    probe = np.arange(1.0, like.size + 1)
    points = np.concatenate([probe[None], np.random.default_rng(0).normal(size=(4, like.size))])
    with jax.ensure_compile_time_eval():
        images = jax.vmap(lambda x: flat_of(function(unravel(x))))(jnp.asarray(points, like.dtype))
    if not is_concrete(images):
        return False
    found = np.asarray(images)
    indices, signs = np.abs(found[0]).round().astype(int) - 1, np.sign(found[0])
    if not np.array_equal(np.sort(indices), np.arange(like.size)):
        return False
    return np.array_equal(found, signs * points.astype(found.dtype)[:, indices])
