"""Exact MCMC kernels in JAX for densities with several distant modes."""

from importlib.metadata import version

from vhmc_jax import diagnostics, targets
from vhmc_jax.base import Info, Kernel, State, TrustWarning
from vhmc_jax.fit import AnnealingFit, FitOptions, GuideReport, estimate_log_envelope, fit_annealing, fit_guide
from vhmc_jax.guide import GaussianMixture, Guide, StudentTMixture
from vhmc_jax.kernels import (
    ComposedInfo,
    ComposedState,
    DelayedRejectionInfo,
    EquipotentialInfo,
    JumpInfo,
    MagneticState,
    VHMCInfo,
    annealed_jump,
    cycle,
    delayed_rejection,
    equipotential,
    hmc,
    jump,
    lhmc,
    lhmc_et,
    magnetic_hmc,
    mixture,
    monomial_gamma_hmc,
    symmetry,
    vhmc,
    with_jumps,
)
from vhmc_jax.metropolis import MetropolisStep, Proposal, log_acceptance, metropolis_info
from vhmc_jax.moves.symmetries import Symmetries, permutations, signs
from vhmc_jax.pipeline import Frozen, Phase, Result, sample
from vhmc_jax.runner import AdaptedStepSize, Chains, adapt_step_size, run_chains
from vhmc_jax.search import Box, Modes, Population, box, find_modes, population

__version__ = version("vhmc-jax")

__all__ = [
    "AdaptedStepSize",
    "AnnealingFit",
    "Box",
    "Chains",
    "ComposedInfo",
    "ComposedState",
    "DelayedRejectionInfo",
    "EquipotentialInfo",
    "FitOptions",
    "Frozen",
    "GaussianMixture",
    "Guide",
    "GuideReport",
    "Info",
    "JumpInfo",
    "Kernel",
    "MagneticState",
    "MetropolisStep",
    "Modes",
    "Phase",
    "Population",
    "Proposal",
    "Result",
    "State",
    "StudentTMixture",
    "Symmetries",
    "TrustWarning",
    "VHMCInfo",
    "__version__",
    "adapt_step_size",
    "annealed_jump",
    "box",
    "cycle",
    "delayed_rejection",
    "diagnostics",
    "equipotential",
    "estimate_log_envelope",
    "find_modes",
    "fit_annealing",
    "fit_guide",
    "hmc",
    "jump",
    "lhmc",
    "lhmc_et",
    "log_acceptance",
    "magnetic_hmc",
    "metropolis_info",
    "mixture",
    "monomial_gamma_hmc",
    "permutations",
    "population",
    "run_chains",
    "sample",
    "signs",
    "symmetry",
    "targets",
    "vhmc",
    "with_jumps",
]
