"""Draws of all components of a guide, evaluated once: they weigh the components, judge the guide, and start chains.

Notation: q̄ the density of the pool, the mean of its components; q a guide; π the target.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.diagnostics.modes.labels import shares_of_modes
from vhmc_jax.diagnostics.pareto import pareto_k
from vhmc_jax.fit.envelope import best_envelope, jump_acceptance
from vhmc_jax.fit.shapes import Shapes
from vhmc_jax.programs import SOON_COMPILED, program

GOOD_ACCEPTANCE = 0.9
"""From here on a mode is well described, and one candidate enough: others would cost more than the jumps they save."""
MANY_TRIES = 4
HALO_SCALE = 2.0
"""Every component has a halo, itself at twice the scale: draws from it see mass that the component misses."""


class Pool(NamedTuple):
    """Draws of components and of their halos, in equal numbers.

    Attributes
    ----------
    shapes
        The components, then the halos, each in the order of the modes.
    is_halo
        Which are halos, shape (n,).
    x
        Draws of each, shape (n, draw, d).
    mixture
        The mixture of the shapes with equal weights.
    logdensities
        log π there, shape (n, draw); −inf where it is not finite.
    num_densities
        Density values taken for this pool and for what was replaced in it.
    """

    shapes: Shapes
    is_halo: np.ndarray
    x: np.ndarray
    mixture: Any
    logdensities: np.ndarray
    num_densities: int

    @classmethod
    def of(
        cls, generator: np.random.Generator, density: Callable, shapes: Shapes, mixture_of: Callable, num_draws: int
    ) -> Self:
        """Draw so many of each of these shapes, and of their halos.

        Parameters
        ----------
        generator
            NumPy's, for the draws.
        density
            Log density of a flat vector, a callable pytree.
        shapes
            The components.
        mixture_of
            The mixture of some shapes with equal weights.
        num_draws
            Draws of each.
        """
        halos = shapes._replace(scale_trils=HALO_SCALE * shapes.scale_trils)
        both = Shapes(*(np.concatenate(pair) for pair in zip(shapes, halos, strict=True)))
        is_halo = np.arange(len(both.modes)) >= len(shapes.modes)
        mixture, components = mixture_of(both), np.repeat(np.arange(len(is_halo)), num_draws)
        x = mixture.on_host().sample_components(generator, components).astype(mixture.means.dtype)
        logdensities = np.asarray(_values(density, x), np.float64)
        logdensities = np.where(np.isfinite(logdensities), logdensities, -np.inf)
        shape = len(is_halo), num_draws
        return cls(both, is_halo, x.reshape(*shape, -1), mixture, logdensities.reshape(shape), logdensities.size)

    def replaced(self, new: Self, mixture_of: Callable) -> Self:
        """The same with another description of the modes that ``new`` describes."""
        stays = ~np.isin(self.shapes.modes, new.shapes.modes)
        modes = np.concatenate([self.shapes.modes[stays], new.shapes.modes])
        order = np.lexsort((modes, np.concatenate([self.is_halo[stays], new.is_halo])))

        def joined(old: np.ndarray, other: np.ndarray) -> np.ndarray:
            return np.concatenate([old[stays], other])[order]

        shapes = Shapes(*(joined(old, other) for old, other in zip(self.shapes, new.shapes, strict=True)))
        return type(self)(
            shapes=shapes,
            is_halo=joined(self.is_halo, new.is_halo),
            x=joined(self.x, new.x),
            mixture=mixture_of(shapes),
            logdensities=joined(self.logdensities, new.logdensities),
            num_densities=self.num_densities + new.num_densities,
        )

    @property
    def points(self) -> np.ndarray:
        """All draws, shape (n · draw, d)."""
        return self.x.reshape(-1, self.x.shape[-1])

    def log_components(self) -> np.ndarray:
        """Log density of each of its components at all draws, without weights, shape (n · draw, component)."""
        host = self.mixture.on_host()
        return host.component_log_probs(host.squared_distances(self.points)) - host.log_weights


@functools.partial(program, options=SOON_COMPILED)
def _values(density: Callable, x: Array) -> Array:
    return jax.vmap(density)(x)


def judge(
    pool: Pool, log_pool: np.ndarray, guide: Any, component_modes: np.ndarray, num_tries: int | None, generator: Any
) -> dict[str, Any]:
    """How a guide will do: its best envelope, the jumps that will succeed, and Pareto-k.

    Parameters
    ----------
    pool
        Draws of its components.
    log_pool
        log q̄ at the draws.
    guide
        The mixture, with its weights.
    component_modes
        The mode of each component of the guide; −1 for none.
    num_tries
        Candidates of a jump; None for one where that is good enough in every mode, else ``MANY_TRIES``.
    generator
        NumPy's, for the draws that Pareto-k looks at.

    Returns
    -------
    Fields of ``GuideReport``.
    """
    _, log_prob, shares = guide.on_host().at(pool.points)
    log_ratios = pool.logdensities.ravel() - log_prob
    # A mean over the guide is one over the pool with these weights; what the pool does not reach, π does not either.
    log_weights = log_prob - log_pool - np.log(len(log_prob))
    weights = np.exp(log_weights)
    shares, _ = shares_of_modes(shares, component_modes)
    # Where few draws carry the weight, the envelope is fitted to them, and what it promises is not to be trusted.
    trusted = _effective_shares(log_ratios, weights, shares)
    for tries in (1, MANY_TRIES) if num_tries is None else (num_tries,):
        envelope, acceptance = best_envelope(log_ratios, tries, weights)
        by_mode = np.minimum(jump_acceptance(log_ratios, envelope, tries, weights, shares), trusted)
        if np.all(by_mode >= GOOD_ACCEPTANCE):
            break

    # Draws that could be the guide's own, in each mode as many as there are.
    label = np.argmax(shares, axis=1)
    greatest = np.asarray([log_weights[label == mode].max(initial=-np.inf) for mode in range(shares.shape[1])])
    is_guide = np.log(generator.uniform(size=len(label))) < log_weights - greatest[label]
    return {
        "log_envelope": envelope,
        "num_tries": tries,
        "expected_acceptance": acceptance,
        "expected_acceptance_by_mode": by_mode,
        "pareto_k": np.asarray([pareto_k(log_ratios[is_guide & (label == mode)]) for mode in range(shares.shape[1])]),
    }


def _effective_shares(log_ratios: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Kish's effective size of each mode's importance weights under the guide, as a share of its draws."""
    importance = np.exp(log_ratios - log_ratios.max())
    total = (weights * importance) @ shares
    return total**2 / np.maximum((weights * importance**2) @ shares * (weights @ shares), 1e-300)
