"""Exact MCMC kernels in JAX for densities with several distant modes."""

from vhmc_jax.base import Info, Kernel, State
from vhmc_jax.kernels import hmc
from vhmc_jax.runner import Chains, run_chains

__all__ = ["Chains", "Info", "Kernel", "State", "hmc", "run_chains"]
