"""Markov kernels, one file each."""

from vhmc_jax.kernels.block_jump import BlockJumpInfo, block_jump
from vhmc_jax.kernels.compose import ComposedInfo, ComposedState, cycle, mixture
from vhmc_jax.kernels.equipotential import EquipotentialInfo, equipotential
from vhmc_jax.kernels.hmc import hmc
from vhmc_jax.kernels.jump import JumpInfo, jump
from vhmc_jax.kernels.lhmc import lhmc
from vhmc_jax.kernels.lhmc_et import lhmc_et
from vhmc_jax.kernels.magnetic_hmc import MagneticState, magnetic_hmc
from vhmc_jax.kernels.monomial_gamma_hmc import monomial_gamma_hmc
from vhmc_jax.kernels.vhmc import vhmc
from vhmc_jax.kernels.with_jumps import VHMCInfo, with_jumps

__all__ = [
    "BlockJumpInfo",
    "ComposedInfo",
    "ComposedState",
    "EquipotentialInfo",
    "JumpInfo",
    "MagneticState",
    "VHMCInfo",
    "block_jump",
    "cycle",
    "equipotential",
    "hmc",
    "jump",
    "lhmc",
    "lhmc_et",
    "magnetic_hmc",
    "mixture",
    "monomial_gamma_hmc",
    "vhmc",
    "with_jumps",
]
