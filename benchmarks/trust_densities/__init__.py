"""Densities with known truth, in families."""

from trust_densities import curved, hierarchies, labels, mixtures, products, tails, walls
from trust_densities.record import Case, Density, Quantity

CASES = [case for module in (mixtures, tails, curved, hierarchies, labels, products, walls) for case in module.CASES]
"""All cases, in the order of the table."""

__all__ = ["CASES", "Case", "Density", "Quantity"]
