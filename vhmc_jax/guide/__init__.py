"""Guides: normalised densities that are easy to draw from, on flat vectors."""

from vhmc_jax.guide.foreign import as_guide, host_of
from vhmc_jax.guide.images import symmetrised
from vhmc_jax.guide.mixture import GaussianMixture, Mixture, StudentTMixture
from vhmc_jax.guide.product import ProductMixture
from vhmc_jax.guide.protocol import (
    Guide,
    HasBlocks,
    HasComponents,
    OnHost,
    Prepares,
    draw_from,
    require_guide,
    require_guide_fits,
)

__all__ = [
    "GaussianMixture",
    "Guide",
    "HasBlocks",
    "HasComponents",
    "Mixture",
    "OnHost",
    "Prepares",
    "ProductMixture",
    "StudentTMixture",
    "as_guide",
    "draw_from",
    "host_of",
    "require_guide",
    "require_guide_fits",
    "symmetrised",
]
