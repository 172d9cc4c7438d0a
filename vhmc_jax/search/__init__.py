"""The search for modes: where to start, how to climb, and which ends are one mode."""

from vhmc_jax.search.modes import Modes, find_modes
from vhmc_jax.search.region import Box, box

__all__ = ["Box", "Modes", "box", "find_modes"]
