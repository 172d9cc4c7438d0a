"""Running kernels: many chains in one compiled program, and the tuning of a step size."""

from vhmc_jax.runner.chains import Chains, run_chains

__all__ = ["Chains", "run_chains"]
