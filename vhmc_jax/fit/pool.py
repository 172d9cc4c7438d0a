"""Draws of all components of a guide, evaluated once: they weigh the components, judge the guide, and start chains.

Every component comes with a ladder: itself at twice its scale, at four times, and so on. Draws from the rungs see mass
that the component misses, however broad, and a rung that explains some of it becomes a component of the guide.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, Self

import jax
import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.density import FlatDensity
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.importance import resampled
from vhmc_jax.guide import Mixture
from vhmc_jax.programs import SOON_COMPILED, program

HALO_SCALE = 2.0
"""Scale of the first rung, the halo. It has as many draws as the component itself."""

FAR_SCALES = 2.0 ** np.arange(2, 11)
"""Scales of the rungs beyond."""

NUM_FAR_DRAWS = 64
"""Draws of each rung beyond the halo."""

MOST_LADDERS = 16
"""Up to this many components each have rungs beyond the halo. More of them share one ladder around all."""

MOST_HALOS = 128
"""Up to this many components have halos."""

BLOCK = 4096
"""Points that are evaluated together, so that pools of any size share a few compiled programs."""


class Pool(NamedTuple):
    """Draws of components and of their rungs.

    Attributes
    ----------
    components
        The components, then their halos, then the rungs beyond.
    scales
        Scale of each relative to the component that it belongs to: 1 for the components themselves.
    counts
        Draws of each.
    points
        The draws, those of one component together, shape (n, d).
    mixture
        The mixture of all of these with weights in proportion to their counts.
    logdensities
        log π there, shape (n,); −inf where it is not finite.
    num_densities
        Density values taken for this pool and for what was replaced in it.
    """

    components: Components
    scales: np.ndarray
    counts: np.ndarray
    points: np.ndarray
    mixture: Mixture
    logdensities: np.ndarray
    num_densities: int

    @classmethod
    def of(
        cls,
        generator: np.random.Generator,
        density: FlatDensity,
        components: Components,
        mixture_of: Callable,
        num_draws: int,
        has_ladders: bool = True,
    ) -> Self:
        """Draw so many of each of these components, and of their rungs.

        Parameters
        ----------
        generator
            NumPy's, for the draws.
        density
            Log density of a flat vector.
        components
            The components.
        mixture_of
            The mixture of some components with given weights.
        num_draws
            Draws of each component and of its halo.
        has_ladders
            Whether each component has rungs beyond the halo, if these are few. Otherwise all share one ladder.
        """
        ladder, scales = _with_ladder(components, has_ladders and len(components.modes) <= MOST_LADDERS)
        counts = np.where(scales > HALO_SCALE, NUM_FAR_DRAWS, num_draws)
        mixture, numbers = mixture_of(ladder, counts / counts.sum()), np.repeat(np.arange(len(counts)), counts)
        points = mixture.on_host().sample_components(generator, numbers).astype(mixture.means.dtype)
        logdensities = values_of(density, points)
        return cls(ladder, scales, counts, points, mixture, logdensities, len(points))

    def replaced(self, new: Self, mixture_of: Callable) -> Self:
        """The same with another description of the modes that ``new`` describes."""
        return self._joined(new, mixture_of, ~np.isin(self.components.modes, new.components.modes))

    def extended(self, new: Self, mixture_of: Callable) -> Self:
        """The same with further components and their draws."""
        return self._joined(new, mixture_of, np.ones(len(self.counts), bool))

    def _joined(self, new: Self, mixture_of: Callable, stays: np.ndarray) -> Self:
        """Those of its components that stay, and the new ones."""
        are_kept = np.repeat(stays, self.counts)
        components = self.components.select(stays).joined(new.components)
        counts = np.concatenate([self.counts[stays], new.counts])
        return type(self)(
            components=components,
            scales=np.concatenate([self.scales[stays], new.scales]),
            counts=counts,
            points=np.concatenate([self.points[are_kept], new.points]),
            mixture=mixture_of(components, counts / counts.sum()),
            logdensities=np.concatenate([self.logdensities[are_kept], new.logdensities]),
            num_densities=self.num_densities + new.num_densities,
        )

    def log_components(self) -> np.ndarray:
        """Log density of each of its components at all draws, without weights, shape (n, component)."""
        host = self.mixture.on_host()
        return host.component_log_probs(host.squared_distances(self.points)) - np.log(host.weights)

    def starts(self, generator: np.random.Generator, log_importance: np.ndarray, most: int) -> np.ndarray:
        """Draws in proportion to their importance weights, none of them twice or where the density is zero."""
        return resampled(generator, self.points, log_importance, most)


def _with_ladder(components: Components, has_ladders: bool) -> tuple[Components, np.ndarray]:
    """The components and their rungs, each on a ladder of its own or all on one, and the scale of each."""
    num, scales = len(components.modes), [np.ones(len(components.modes))]
    parts = [components]
    if num <= MOST_HALOS:
        parts.append(components.scaled(HALO_SCALE))
        scales.append(np.full(num, HALO_SCALE))
    far, far_scales = (components, FAR_SCALES) if has_ladders else (components.together(), FAR_SCALES / 4)
    for scale in far_scales:
        parts.append(far.scaled(scale))
        scales.append(np.full(len(far.modes), max(scale, 2 * HALO_SCALE)))
    return functools.reduce(Components.joined, parts), np.concatenate(scales)


def values_of(density: Callable, points: np.ndarray) -> np.ndarray:
    """Log density at points (n, d), in double precision; −inf where it is not finite. The density is a pytree."""
    padding = -len(points) % (BLOCK if len(points) > BLOCK else _power_of_two(len(points)))
    padded = np.concatenate([points, np.repeat(points[-1:], padding, axis=0)])
    blocks = [np.asarray(_values(density, block)) for block in np.split(padded, max(1, len(padded) // BLOCK))]
    values = np.concatenate(blocks)[: len(points)].astype(np.float64)
    return np.where(np.isfinite(values), values, -np.inf)


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


@functools.partial(program, options=SOON_COMPILED)
def _values(density: Callable, x: Array) -> Array:
    return jax.vmap(density)(x)
