"""A mode for a density without a peak."""

import jax
import numpy as np

from vhmc_jax.arguments import as_array
from vhmc_jax.search.population import Population
from vhmc_jax.search.records import Modes


def mode_of_mass(population: Population, modes: Modes) -> Modes:
    """One mode for a density without a peak: the highest particle, with the covariance of all."""
    best = int(np.argmax(population.logdensities))
    x = population.flat.astype(np.float64)
    covariance = np.cov(x.T, bias=True).reshape(x.shape[1], -1) + 1e-9 * np.diag(x.var(axis=0) + 1e-300)
    dtype = population.flat.dtype
    with np.errstate(over="ignore"):
        scales = np.diagonal(covariance).astype(dtype)
    # Particles that ran off may all descend from one of them, and lie in one place.
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(
            "the density seems to be improper: no start led to a peak, and particles ended at coordinates up to "
            f"{np.abs(x).max():.1g}. Check the sign of logdensity_fn, and that its integral is finite"
        )
    return modes._replace(
        positions=jax.tree.map(lambda leaf: leaf[best : best + 1], population.positions),
        logdensities=as_array(population.logdensities[best : best + 1], dtype),
        covariances=as_array(covariance[None], dtype),
        basin_counts=as_array([0], np.int32),
        notes=(),
    )
