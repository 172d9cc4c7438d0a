"""Components for mass that has no peak of its own: a mixture fitted to a population of particles."""

import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.fit.blocks import moments_of
from vhmc_jax.fit.components import Components, modes_at
from vhmc_jax.fit.em import fit_mixture
from vhmc_jax.guide import Mixture
from vhmc_jax.search import Modes
from vhmc_jax.search.population import Population

MOST_COMPONENTS = 32
DRAWS_PER_DIMENSION = 3
"""Particles that a component needs for each dimension."""
WORTH = 0.5
"""Independent draws that a particle is worth: some share an ancestor."""


def components_of_mass(rng_key: Array, population: Population, flat_modes: Array, modes: Modes) -> Components:
    """Gaussians for a population, each with the mode in whose reach it lies.

    Parameters
    ----------
    rng_key
        Draws the first means.
    population
        The particles.
    flat_modes
        The modes as rows.
    modes
        From ``find_modes``.

    Returns
    -------
    The components.
    """
    found = mixture_of_mass(rng_key, population)
    means, scale_trils = (np.asarray(array, np.float64) for array in (found.means, found.scale_trils))
    return Components(means, scale_trils, modes_at(means, flat_modes, modes))


def mixture_of_mass(rng_key: Array, population: Population) -> Mixture:
    """A mixture of as many Gaussians as the particles support."""
    x = population.flat.astype(np.float64)
    num, dim = x.shape
    one = moments_of(x, np.ones(num))
    most = max(1, min(MOST_COMPONENTS, num // (DRAWS_PER_DIMENSION * dim)))
    return fit_mixture(rng_key, x, one, effective_size=WORTH * num, max_components=most).mixture
