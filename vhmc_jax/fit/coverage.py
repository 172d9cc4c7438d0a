"""Whether a guide covers a population: a second opinion on where the mass is.

The population does not share the guide's blind spots: it comes from the region and not from the peaks. A particle is
uncovered where the target, normalised, is many times as dense as the guide.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy

from vhmc_jax.guide import host_of
from vhmc_jax.search.population import Population

UNCOVERED_RATIO = 5.0
"""π / (Z q) above which a particle is uncovered."""
LEAST_EFFICIENCY = 0.1
CONFIDENCE = 0.95


class Coverage(NamedTuple):
    """How much of a population a guide leaves uncovered.

    Attributes
    ----------
    share
        Share of the particles.
    upper
        Its upper confidence bound, 95 %, as if the particles were independent.
    """

    share: float
    upper: float


def worst(*coverages: Coverage | None) -> Coverage | None:
    """The one that leaves most uncovered, of those there are."""
    return max((each for each in coverages if each is not None), key=lambda each: each.share, default=None)


def coverage_of(population: Population, guide: Any, log_evidence: float, efficiency: float = 1.0) -> Coverage:
    """Count the particles that a guide does not cover.

    Parameters
    ----------
    population
        The particles.
    guide
        The guide.
    log_evidence
        Log of the target's normalising constant, as the guide has it.
    efficiency
        Share of the guide's mass that lies where the target's does. Where it is small, π / (Z q) is great everywhere.

    Returns
    -------
    Their share.
    """
    limit = np.log(UNCOVERED_RATIO / max(efficiency, LEAST_EFFICIENCY))
    is_uncovered = log_ratios_of(population, guide, log_evidence) > limit
    number, total = int(is_uncovered.sum()), len(is_uncovered)
    upper = 1.0 if number == total else float(scipy.special.betaincinv(number + 1, total - number, CONFIDENCE))
    return Coverage(number / total, upper)


def log_ratios_of(population: Population, guide: Any, log_evidence: float) -> np.ndarray:
    """Log π − log q − log Z at the particles, shape (n,)."""
    return population.logdensities - host_of(guide).at(population.flat).log_prob - log_evidence
