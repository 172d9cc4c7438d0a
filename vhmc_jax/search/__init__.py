"""The search: peaks by climbing, mass by tempering."""

from vhmc_jax.search.modes import Modes, find_modes
from vhmc_jax.search.population import Path, Population, population
from vhmc_jax.search.region import Box, box

__all__ = ["Box", "Modes", "Path", "Population", "box", "find_modes", "population"]
