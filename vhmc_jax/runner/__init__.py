"""Running kernels: many chains in one compiled program, and the tuning of a step size."""

from vhmc_jax.runner.adaptation import AdaptedStepSize, adapt_step_size
from vhmc_jax.runner.chains import Chains, run_chains
from vhmc_jax.runner.tuning import TunedTrajectory, tune

__all__ = ["AdaptedStepSize", "Chains", "TunedTrajectory", "adapt_step_size", "run_chains", "tune"]
