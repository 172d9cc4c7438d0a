"""Guides: normalised densities that are easy to draw from, on flat vectors."""

from vhmc_jax.guide.images import symmetrised
from vhmc_jax.guide.mixture import GaussianMixture, Mixture, StudentTMixture
from vhmc_jax.guide.protocol import Guide, HasComponents, Prepares, require_guide

__all__ = [
    "GaussianMixture",
    "Guide",
    "HasComponents",
    "Mixture",
    "Prepares",
    "StudentTMixture",
    "require_guide",
    "symmetrised",
]
