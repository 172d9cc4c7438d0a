"""Exact MCMC kernels in JAX for densities with several distant modes."""

from vhmc_jax import diagnostics, targets
from vhmc_jax.base import Info, Kernel, State
from vhmc_jax.guide.mixture import GaussianMixture, StudentTMixture
from vhmc_jax.kernels import (
    ComposedInfo,
    ComposedState,
    EquipotentialInfo,
    JumpInfo,
    JumpState,
    VHMCInfo,
    cycle,
    equipotential,
    hmc,
    jump,
    lhmc,
    lhmc_et,
    mixture,
    variational,
    vhmc,
)
from vhmc_jax.runner import AdaptedStepSize, Chains, adapt_step_size, run_chains

__all__ = [
    "AdaptedStepSize",
    "Chains",
    "ComposedInfo",
    "ComposedState",
    "EquipotentialInfo",
    "GaussianMixture",
    "Info",
    "JumpInfo",
    "JumpState",
    "Kernel",
    "State",
    "StudentTMixture",
    "VHMCInfo",
    "adapt_step_size",
    "cycle",
    "diagnostics",
    "equipotential",
    "hmc",
    "jump",
    "lhmc",
    "lhmc_et",
    "mixture",
    "run_chains",
    "targets",
    "variational",
    "vhmc",
]
