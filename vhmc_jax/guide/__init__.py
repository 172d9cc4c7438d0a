"""The guide: finding the modes of a density, fitting them, weighing them."""

from vhmc_jax.guide.envelope import estimate_log_envelope
from vhmc_jax.guide.fit import GuideReport, fit_guide
from vhmc_jax.guide.mixture import GaussianMixture, StudentTMixture
from vhmc_jax.guide.modes import Modes, find_modes
from vhmc_jax.guide.starts import box

__all__ = [
    "GaussianMixture",
    "GuideReport",
    "Modes",
    "StudentTMixture",
    "box",
    "estimate_log_envelope",
    "find_modes",
    "fit_guide",
]
