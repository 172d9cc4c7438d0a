"""Guides: normalised densities that are easy to draw from, on flat vectors."""

from vhmc_jax.guide.mixture import GaussianMixture, StudentTMixture

__all__ = ["GaussianMixture", "StudentTMixture"]
