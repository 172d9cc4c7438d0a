"""Markov kernels, one file each."""

from vhmc_jax.kernels.annealed_jump import annealed_jump
from vhmc_jax.kernels.block_jump import BlockJumpInfo, block_jump
from vhmc_jax.kernels.compose import ComposedInfo, ComposedState, cycle, mixture
from vhmc_jax.kernels.delayed_rejection import DelayedRejectionInfo, delayed_rejection
from vhmc_jax.kernels.equipotential import EquipotentialInfo, equipotential
from vhmc_jax.kernels.hmc import hmc
from vhmc_jax.kernels.jump import JumpInfo, jump
from vhmc_jax.kernels.lhmc import lhmc
from vhmc_jax.kernels.lhmc_et import lhmc_et
from vhmc_jax.kernels.magnetic_hmc import MagneticState, magnetic_hmc
from vhmc_jax.kernels.monomial_gamma_hmc import monomial_gamma_hmc
from vhmc_jax.kernels.symmetry import symmetry
from vhmc_jax.kernels.vhmc import vhmc
from vhmc_jax.kernels.with_jumps import VHMCInfo, with_jumps

__all__ = [
    "BlockJumpInfo",
    "ComposedInfo",
    "ComposedState",
    "DelayedRejectionInfo",
    "EquipotentialInfo",
    "JumpInfo",
    "MagneticState",
    "VHMCInfo",
    "annealed_jump",
    "block_jump",
    "cycle",
    "delayed_rejection",
    "equipotential",
    "hmc",
    "jump",
    "lhmc",
    "lhmc_et",
    "magnetic_hmc",
    "mixture",
    "monomial_gamma_hmc",
    "symmetry",
    "vhmc",
    "with_jumps",
]
