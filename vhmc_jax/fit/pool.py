"""Draws of all components of a guide, evaluated once: they weigh the components, judge the guide, and start chains.

Notation: q̄ the density of the pool, the mean of its components; q a guide; π the target.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, Self

import jax
import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.density import FlatDensity
from vhmc_jax.diagnostics.modes.labels import shares_of_modes
from vhmc_jax.diagnostics.pareto import pareto_k
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.envelope import best_envelope, jump_acceptance
from vhmc_jax.fit.options import GOOD_ACCEPTANCE
from vhmc_jax.guide import Mixture
from vhmc_jax.programs import SOON_COMPILED, program

MANY_TRIES = 4
HALO_SCALE = 2.0
"""Every component has a halo, itself at twice the scale: draws from it see mass that the component misses."""


class Pool(NamedTuple):
    """Draws of components and of their halos, in equal numbers.

    Attributes
    ----------
    components
        The components, then the halos, each in the order of the modes.
    is_halo
        Which are halos, shape (n,).
    x
        Draws of each, shape (n, draw, d).
    mixture
        The mixture of the components with equal weights.
    logdensities
        log π there, shape (n, draw); −inf where it is not finite.
    num_densities
        Density values taken for this pool and for what was replaced in it.
    """

    components: Components
    is_halo: np.ndarray
    x: np.ndarray
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
    ) -> Self:
        """Draw so many of each of these components, and of their halos.

        Parameters
        ----------
        generator
            NumPy's, for the draws.
        density
            Log density of a flat vector.
        components
            The components.
        mixture_of
            The mixture of some components with equal weights.
        num_draws
            Draws of each.
        """
        both = components.joined(components._replace(scale_trils=HALO_SCALE * components.scale_trils))
        is_halo = np.arange(len(both.modes)) >= len(components.modes)
        mixture, numbers = mixture_of(both), np.repeat(np.arange(len(is_halo)), num_draws)
        x = mixture.on_host().sample_components(generator, numbers).astype(mixture.means.dtype)
        logdensities = np.asarray(_values(density, x), np.float64)
        logdensities = np.where(np.isfinite(logdensities), logdensities, -np.inf)
        shape = len(is_halo), num_draws
        return cls(both, is_halo, x.reshape(*shape, -1), mixture, logdensities.reshape(shape), logdensities.size)

    def replaced(self, new: Self, mixture_of: Callable) -> Self:
        """The same with another description of the modes that ``new`` describes."""
        stays = ~np.isin(self.components.modes, new.components.modes)
        components = self.components.select(stays).joined(new.components)
        order = np.lexsort((components.modes, np.concatenate([self.is_halo[stays], new.is_halo])))

        def joined(old: np.ndarray, other: np.ndarray) -> np.ndarray:
            return np.concatenate([old[stays], other])[order]

        return type(self)(
            components=components.select(order),
            is_halo=joined(self.is_halo, new.is_halo),
            x=joined(self.x, new.x),
            mixture=mixture_of(components.select(order)),
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
        return host.component_log_probs(host.squared_distances(self.points)) - np.log(host.weights)

    def starts(self, generator: np.random.Generator, log_importance: np.ndarray, most: int) -> np.ndarray:
        """Draws in proportion to their importance weights, none of them twice or where the density is zero."""
        noisy = log_importance + generator.gumbel(size=len(log_importance))
        number = min(most, np.count_nonzero(np.isfinite(noisy)))
        return self.points[np.argsort(-noisy)[:number]]


@functools.partial(program, options=SOON_COMPILED)
def _values(density: FlatDensity, x: Array) -> Array:
    return jax.vmap(density)(x)


class Judged(NamedTuple):
    """How a guide will do.

    Attributes
    ----------
    log_envelope
        log c that makes the most jumps succeed.
    num_tries
        The most candidates of a jump, for which that holds.
    expected_acceptance
        Probability that a jump from a draw of the target succeeds.
    expected_acceptance_by_mode
        The same from a draw in each mode.
    pareto_k
        Tail of the importance weights in each mode.
    """

    log_envelope: float
    num_tries: int
    expected_acceptance: float
    expected_acceptance_by_mode: np.ndarray
    pareto_k: np.ndarray


def judge(
    pool: Pool,
    log_pool: np.ndarray,
    guide: Mixture,
    component_modes: np.ndarray,
    num_tries: int | None,
    generator: np.random.Generator,
) -> Judged:
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
    The figures.
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
    tails = [pareto_k(log_ratios[is_guide & (label == mode)]) for mode in range(shares.shape[1])]
    return Judged(envelope, tries, acceptance, by_mode, np.asarray(tails))


def _effective_shares(log_ratios: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Kish's effective size of each mode's importance weights under the guide, as a share of its draws."""
    importance = np.exp(log_ratios - log_ratios.max())
    total = (weights * importance) @ shares
    return total**2 / np.maximum((weights * importance**2) @ shares * (weights @ shares), 1e-300)
