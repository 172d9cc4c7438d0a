"""Exact MCMC kernels in JAX for densities with several distant modes."""

from importlib.metadata import version

from vhmc_jax import diagnostics, targets
from vhmc_jax.base import Info, Kernel, State, TrustWarning
from vhmc_jax.fit import FitOptions, GuideReport, estimate_log_envelope, fit_guide
from vhmc_jax.guide import GaussianMixture, Guide, StudentTMixture
from vhmc_jax.kernels import (
    ComposedInfo,
    ComposedState,
    EquipotentialInfo,
    JumpInfo,
    MagneticState,
    VHMCInfo,
    cycle,
    equipotential,
    hmc,
    jump,
    lhmc,
    lhmc_et,
    magnetic_hmc,
    mixture,
    monomial_gamma_hmc,
    vhmc,
    with_jumps,
)
from vhmc_jax.metropolis import MetropolisStep, Proposal, log_acceptance, metropolis_info
from vhmc_jax.pipeline import Frozen, Phase, Result, sample
from vhmc_jax.runner import AdaptedStepSize, Chains, adapt_step_size, run_chains
from vhmc_jax.search import Box, Modes, Population, box, find_modes, population
from vhmc_jax.store import StoredRun, load, open_run, save

__version__ = version("vhmc-jax")

__all__ = [
    "AdaptedStepSize",
    "Box",
    "Chains",
    "ComposedInfo",
    "ComposedState",
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
    "StoredRun",
    "StudentTMixture",
    "TrustWarning",
    "VHMCInfo",
    "__version__",
    "adapt_step_size",
    "box",
    "cycle",
    "diagnostics",
    "equipotential",
    "estimate_log_envelope",
    "find_modes",
    "fit_guide",
    "hmc",
    "jump",
    "lhmc",
    "lhmc_et",
    "load",
    "log_acceptance",
    "magnetic_hmc",
    "metropolis_info",
    "mixture",
    "monomial_gamma_hmc",
    "open_run",
    "population",
    "run_chains",
    "sample",
    "save",
    "targets",
    "vhmc",
    "with_jumps",
]
