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

from vhmc_jax import random
from vhmc_jax.base import Array
from vhmc_jax.density import FlatDensity
from vhmc_jax.fit.assess import Judged, judge
from vhmc_jax.fit.attempt import LEAST_RISE, Attempt, Fitting
from vhmc_jax.fit.blocks import find_blocks, fit_product
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.coverage import Coverage, coverage_of
from vhmc_jax.fit.growth import divided, grown
from vhmc_jax.fit.importance import log_mean, resampled
from vhmc_jax.fit.mass import WORTH, mixture_of_mass
from vhmc_jax.fit.options import FitOptions
from vhmc_jax.fit.pool import values_of
from vhmc_jax.guide import Mixture, ProductMixture
from vhmc_jax.search.population import Population, population

NUM_DRAWS = 4096
"""Draws by which a product is judged."""
ACCEPTABLE, LEAST_MORE = 0.4, 0.02
"""Acceptance of jumps from which a product will do; and how much more of a population it has to cover, which is also
how much of the mass that was found before it may lose."""
FAR_BETTER = 4.0
"""Where it succeeds so many times as often as what was found before, a product will do with less."""
LOST = 5.0
"""log π − log q − log Z above which a draw of another guide is lost. A poor guide's few draws of great weight lie in
the tails, where a product of good blocks has ratios of 5 to 20; a mode that it misses has far greater ones."""
MOST_COMPONENTS = 16
"""Of the mixture of each block."""
ACCEPTANCE_OF_BLOCKS = 0.97
"""Acceptance that a block should have by itself: of sixteen blocks at once a jump then succeeds in 0.6 of cases."""
NUM_BLOCK_DRAWS, NUM_POOR_DRAWS = 512, 1024
"""Draws for the weight of each component of a block, half of them from its halo; and of a poor one. With 512 the guide
of Rosenbrock's function in ten dimensions left out the ends of two valleys of five."""
POOR_BLOCK = 0.6
"""Acceptance of a block below which it gets a population of its own: in its few dimensions that sees far more than the
population of the whole."""
NUM_PARTICLES, WIDER, MOST_GRADIENTS = 1024, 2.0, 500_000
"""Its particles; how much wider than the block's particles in the whole it begins; and the most gradients of all blocks
together, where nobody says how many."""
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
    num_gradients, num_densities
        Evaluations.
    """

    guide: ProductMixture
    points: np.ndarray
    logdensities: np.ndarray
    log_importance: np.ndarray
    judged: Judged
    coverage: Coverage
    num_gradients: int
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
        if self.score < min(ACCEPTABLE, FAR_BETTER * attempt.score) or lost > LEAST_MORE:
            return False
        return self.score > attempt.score + LEAST_RISE or self.coverage.share < uncovered - LEAST_MORE

    def starts(self, generator: np.random.Generator, most: int) -> np.ndarray:
        """Draws in proportion to their importance weights, none of them twice."""
        return resampled(generator, self.points, self.log_importance, most)


def fit_blocks(
    rng_key: Array,
    density: FlatDensity,
    scouts: Population,
    flat_modes: np.ndarray,
    options: FitOptions,
    generator: np.random.Generator,
    max_gradients: int = MOST_GRADIENTS,
) -> ProductAttempt | None:
    """A product of mixtures for a population; None where its coordinates do not fall into blocks.

    Parameters
    ----------
    rng_key
        Of the first means.
    density
        Log density of a flat vector.
    scouts
        Particles.
    flat_modes
        The modes as rows.
    options
        How to fit.
    generator
        NumPy's, for the draws.
    max_gradients
        The most gradients of populations of blocks.

    Returns
    -------
    The product, judged by draws of its own.
    """
    x, size = scouts.flat, WORTH * len(scouts.flat)
    found, num_densities = find_blocks(density, x, generator, centres=flat_modes)
    if len(found.blocks) < 2 or not found.is_small:
        return None
    key_first, key_blocks = (random.as_jax_key(key) for key in random.split(rng_key))
    first = fit_product(key_first, x, found.blocks, effective_size=size, max_components=MOST_COMPONENTS).guide
    base = jnp.asarray(x[np.argmax(scouts.logdensities)])
    mixtures, num_gradients, num_densities = [], 0, num_densities + NUM_DRAWS
    for number, (block, mixture) in enumerate(zip(first.blocks, first.mixtures, strict=True)):
        of_block = BlockDensity(density, base, jnp.asarray(block, jnp.int32))
        fitting = _fitting_of(of_block, mixture, options, generator)
        attempts = [_described(fitting, mixture)]
        if attempts[0].score < POOR_BLOCK:
            key_block = random.fold_in(key_blocks, number)
            key_particles, key_mixture = (random.as_jax_key(key) for key in random.split(key_block))
            particles = _population_of(key_particles, of_block, x[:, list(block)], max_gradients // len(first.blocks))
            if particles is not None:
                finer = _fitting_of(of_block, mixture, options, generator, NUM_POOR_DRAWS)
                attempts.append(_described(finer, mixture_of_mass(key_mixture, particles)))
                num_gradients += particles.num_gradients
        mixtures.append(max(attempts, key=lambda attempt: attempt.score).guide)
        num_densities += sum(attempt.pool.num_densities for attempt in attempts)
    guide = ProductMixture(first.blocks, mixtures)
    host = guide.on_host()
    points = host.sample(generator, NUM_DRAWS).astype(x.dtype)
    logdensities, log_prob = values_of(density, points), host.at(points).log_prob
    if not np.isfinite(logdensities).any():
        return None
    judged = judge(logdensities, log_prob, log_prob, np.ones((NUM_DRAWS, 1)), options.num_tries, generator)
    log_importance = logdensities - log_prob
    score = float(judged.expected_acceptance_by_mode[0])
    coverage = coverage_of(scouts, guide, log_mean(log_importance), score)
    return ProductAttempt(guide, points, logdensities, log_importance, judged, coverage, num_gradients, num_densities)


def _fitting_of(
    density: Any, start: Mixture, options: FitOptions, generator: np.random.Generator, num_draws: int = NUM_BLOCK_DRAWS
) -> Fitting:
    """How a block is fitted."""
    options = replace(options, num_tries=1, defensive_weight=DEFENCE_OF_BLOCKS, df=None, num_weight_draws=num_draws)
    return Fitting(density, options, generator, start.means.dtype, num_modes=1, dim=start.dim)


def _described(fitting: Fitting, start: Mixture) -> Attempt:
    """The mixture of one block, refined on draws of its own."""
    means, scale_trils = (np.asarray(array, np.float64) for array in (start.means, start.scale_trils))
    attempt = fitting.assess(fitting.draw(Components(means, scale_trils, np.zeros(len(means), int))))
    attempt = fitting.refined(attempt, ACCEPTANCE_OF_BLOCKS)
    attempt = divided(fitting, attempt, ACCEPTANCE_OF_BLOCKS, MOST_COMPONENTS)
    return grown(fitting.generous(), attempt)


def _population_of(rng_key: Array, density: Any, rows: np.ndarray, max_gradients: int) -> Population | None:
    """A population of one block alone. It starts from where the particles of the whole have it, and wider.

    None where the density of the block is zero nearly everywhere there.
    """
    middle = rows.mean(axis=0)
    wide = jnp.asarray(middle + WIDER * (rows - middle), rows.dtype)
    try:
        return population(rng_key, density, wide, num_particles=NUM_PARTICLES, max_gradients=max_gradients)
    except ValueError:
        return None
