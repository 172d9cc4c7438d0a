"""The search for modes: where to start, how to climb, and which ends are one mode."""

from vhmc_jax.search.modes import Modes, find_modes
from vhmc_jax.search.starts import box

__all__ = ["Modes", "box", "find_modes"]
