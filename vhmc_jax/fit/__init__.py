"""From modes to a guide: their components, their weights, and the envelope of the jump."""

from vhmc_jax.fit.annealing import AnnealingFit, fit_annealing
from vhmc_jax.fit.envelope import estimate_log_envelope
from vhmc_jax.fit.fit_guide import fit_guide
from vhmc_jax.fit.options import FitOptions
from vhmc_jax.fit.report import GuideReport

__all__ = ["AnnealingFit", "FitOptions", "GuideReport", "estimate_log_envelope", "fit_annealing", "fit_guide"]
