"""Markov kernels, one file each."""

from vhmc_jax.kernels.compose import ComposedInfo, ComposedState, cycle, mixture
from vhmc_jax.kernels.equipotential import EquipotentialInfo, equipotential
from vhmc_jax.kernels.hmc import hmc
from vhmc_jax.kernels.jump import JumpInfo, JumpState, jump
from vhmc_jax.kernels.lhmc import lhmc
from vhmc_jax.kernels.lhmc_et import lhmc_et
from vhmc_jax.kernels.vhmc import VHMCInfo, variational, vhmc

__all__ = [
    "ComposedInfo",
    "ComposedState",
    "EquipotentialInfo",
    "JumpInfo",
    "JumpState",
    "VHMCInfo",
    "cycle",
    "equipotential",
    "hmc",
    "jump",
    "lhmc",
    "lhmc_et",
    "mixture",
    "variational",
    "vhmc",
]
