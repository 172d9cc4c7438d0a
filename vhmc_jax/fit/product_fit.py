"""A guide that is a product over blocks of coordinates, for ambiguities and bends that are independent of each other.

Where blocks are independent, the density of one of them is known up to a constant: π(x_B, b_−B) as a function of x_B,
with the other coordinates held at any point b. So each block is fitted as a density of few dimensions.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.density import FlatDensity
from vhmc_jax.fit.assess import Judged, judge
from vhmc_jax.fit.attempt import LEAST_RISE, Attempt, Fitting
from vhmc_jax.fit.blocks import find_blocks, fit_product
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.coverage import Coverage, coverage_of
from vhmc_jax.fit.growth import divided, grown
from vhmc_jax.fit.importance import log_mean, resampled
from vhmc_jax.fit.mass import WORTH
from vhmc_jax.fit.options import FitOptions
from vhmc_jax.fit.pool import values_of
from vhmc_jax.guide import Mixture, ProductMixture
from vhmc_jax.search.population import Population

NUM_DRAWS = 4096
"""Draws by which a product is judged."""
ACCEPTABLE, LEAST_MORE = 0.4, 0.02
"""Acceptance of jumps from which a product will do; and how much more of a population it has to cover, which is also
how much of the mass that was found before it may lose."""
LOST = 5.0
"""log π − log q − log Z above which a draw of another guide is lost. A poor guide's few draws of great weight lie in
the tails, where a product of good blocks has ratios of 5 to 20; a mode that it misses has far greater ones."""
MOST_COMPONENTS = 16
"""Of the mixture of each block."""
ACCEPTANCE_OF_BLOCKS = 0.97
"""Acceptance that a block should have by itself: of sixteen blocks at once a jump then succeeds in 0.6 of cases."""
NUM_BLOCK_DRAWS = 512
"""Draws for the weight of each component of a block, half of them from its halo."""
DEFENCE_OF_BLOCKS = 1e-3
"""Weight of the wide component of a block. With ten times that, sixteen blocks would waste a jump in six."""


@functools.partial(jax.tree_util.register_dataclass, data_fields=["density", "base", "block"], meta_fields=[])
@dataclass(frozen=True)
class BlockDensity:
    """The log density as a function of one block, the other coordinates at a base point.

    Attributes
    ----------
    density
        Log density of a flat vector.
    base
        The base point, shape (d,).
    block
        Numbers of the coordinates of the block.
    """

    density: FlatDensity
    base: Array
    block: Array

    def __call__(self, x: Array) -> Array:
        """Log density where the block is at x."""
        return self.density(self.base.at[self.block].set(x))


class ProductAttempt(NamedTuple):
    """A product, and what is known of it.

    Attributes
    ----------
    guide
        The product.
    points, logdensities
        Draws of it, shape (n, d), and log π there.
    log_importance
        log π − log q there.
    judged
        How the guide will do. All modes count as one: their number is that of the combinations of components.
    coverage
        How much of the population it leaves uncovered.
    num_densities
        Density values taken.
    """

    guide: ProductMixture
    points: np.ndarray
    logdensities: np.ndarray
    log_importance: np.ndarray
    judged: Judged
    coverage: Coverage
    num_densities: int

    @property
    def score(self) -> float:
        """Acceptance of jumps that can be relied on."""
        return float(self.judged.expected_acceptance_by_mode[0])

    @property
    def log_evidence(self) -> float:
        """Log of the mean importance weight: an estimate of log ∫ π."""
        return log_mean(self.log_importance)

    def is_better(self, attempt: Attempt, uncovered: float) -> bool:
        """Whether it will do, loses nothing that an attempt has found, and does better or leaves less uncovered."""
        log_ratios = attempt.pool.logdensities - self.guide.on_host().at(attempt.pool.points).log_prob
        lost = attempt.share_of(log_ratios - self.log_evidence > LOST)
        if self.score < ACCEPTABLE or lost > LEAST_MORE:
            return False
        return self.score > attempt.score + LEAST_RISE or self.coverage.share < uncovered - LEAST_MORE

    def starts(self, generator: np.random.Generator, most: int) -> np.ndarray:
        """Draws in proportion to their importance weights, none of them twice."""
        return resampled(generator, self.points, self.log_importance, most)


def fit_blocks(
    rng_key: Array,
    density: FlatDensity,
    population: Population,
    flat_modes: np.ndarray,
    options: FitOptions,
    generator: np.random.Generator,
) -> ProductAttempt | None:
    """A product of mixtures for a population; None where its coordinates do not fall into blocks.

    Parameters
    ----------
    rng_key
        Of the first means.
    density
        Log density of a flat vector.
    population
        The particles.
    flat_modes
        The modes as rows.
    options
        How to fit.
    generator
        NumPy's, for the draws.

    Returns
    -------
    The product, judged by draws of its own.
    """
    x, size = population.flat, WORTH * len(population.flat)
    found, num_densities = find_blocks(density, x, generator, centres=flat_modes)
    if len(found.blocks) < 2 or not found.is_small:
        return None
    first = fit_product(rng_key, x, found.blocks, effective_size=size, max_components=MOST_COMPONENTS).guide
    base = x[np.argmax(population.logdensities)]
    mixtures, num_densities = [], num_densities + NUM_DRAWS
    for block, mixture in zip(first.blocks, first.mixtures, strict=True):
        of_block = BlockDensity(density, jnp.asarray(base), jnp.asarray(block, jnp.int32))
        mixture, cost = _fit_block(of_block, mixture, options, generator)
        mixtures.append(mixture)
        num_densities += cost
    guide = ProductMixture(first.blocks, mixtures)
    host = guide.on_host()
    points = host.sample(generator, NUM_DRAWS).astype(x.dtype)
    logdensities, log_prob = values_of(density, points), host.at(points).log_prob
    if not np.isfinite(logdensities).any():
        return None
    judged = judge(logdensities, log_prob, log_prob, np.ones((NUM_DRAWS, 1)), options.num_tries, generator)
    log_importance = logdensities - log_prob
    score = float(judged.expected_acceptance_by_mode[0])
    coverage = coverage_of(population, guide, log_mean(log_importance), score)
    return ProductAttempt(guide, points, logdensities, log_importance, judged, coverage, num_densities)


def _fit_block(
    density: Any, start: Mixture, options: FitOptions, generator: np.random.Generator
) -> tuple[Mixture, int]:
    """The mixture of one block, refined on draws of its own, and the density values that it took."""
    options = replace(
        options, num_tries=1, defensive_weight=DEFENCE_OF_BLOCKS, df=None, num_weight_draws=NUM_BLOCK_DRAWS
    )
    dtype, dim = start.means.dtype, start.dim
    fitting = Fitting(density, options, generator, dtype, num_modes=1, dim=dim)
    means, scale_trils = (np.asarray(array, np.float64) for array in (start.means, start.scale_trils))
    attempt = fitting.assess(fitting.draw(Components(means, scale_trils, np.zeros(len(means), int))))
    attempt = fitting.refined(attempt, ACCEPTANCE_OF_BLOCKS)
    attempt = divided(fitting, attempt, ACCEPTANCE_OF_BLOCKS, MOST_COMPONENTS)
    attempt = grown(fitting.generous(), attempt)
    return attempt.guide, attempt.pool.num_densities
