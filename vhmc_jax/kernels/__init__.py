"""Markov kernels, one file each."""

from vhmc_jax.kernels.hmc import hmc

__all__ = ["hmc"]
