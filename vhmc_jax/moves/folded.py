"""A log density on one of all images of each position, which is part of a whole."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity
from vhmc_jax.moves.domain import Domain
from vhmc_jax.moves.maps import flat_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FoldedDensity:
    """A log density on a domain, −∞ elsewhere.

    Attributes
    ----------
    logdensity_fn
        The log density.
    domain
        The domain.
    """

    logdensity_fn: Callable
    domain: Domain

    def __call__(self, position: PyTree) -> Array:
        """Its value."""
        value = self.logdensity_fn(position)
        return jnp.where(self.domain.contains(position), value, jnp.asarray(-jnp.inf, jnp.result_type(value)))


def whole_of(density: FlatDensity) -> FlatDensity:
    """The density on all of the space: what climbs there does not stop at the walls of a domain, where no mode ends."""
    folded = density.logdensity_fn
    return FlatDensity(folded.logdensity_fn, density.unravel) if isinstance(folded, FoldedDensity) else density


def into_domain(density: FlatDensity, x: Array, logdensity: Array) -> tuple[Array, Array]:
    """The image of a position in the domain of a density, with its value there; itself where there is none."""
    folded = density.logdensity_fn
    if not isinstance(folded, FoldedDensity):
        return x, logdensity
    image = flat_of(folded.domain.representative(density.unravel(x)))
    return image, density.value(image)
