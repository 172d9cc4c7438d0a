"""One attempt at a guide: components, drawn from, weighed and judged; and the next attempt, made of its draws.

References
----------
.. [1] E. L. Ionides, Truncated importance sampling, Journal of Computational and Graphical Statistics 17, 2008.
"""

from dataclasses import replace
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from vhmc_jax.density import FlatDensity
from vhmc_jax.diagnostics.modes.labels import shares_of_modes
from vhmc_jax.fit.assess import Judged, judge
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.coverage import UNCOVERED_RATIO, Coverage, coverage_of
from vhmc_jax.fit.em import Parts, improve
from vhmc_jax.fit.options import FitOptions
from vhmc_jax.fit.pool import HALO_SCALE, Pool
from vhmc_jax.fit.weights import ComponentWeights, weigh_components, weight_errors
from vhmc_jax.guide import GaussianMixture, Mixture, StudentTMixture
from vhmc_jax.search.population import Population

LEAST_HALO = 0.02
"""Where a halo explains that share of what a component of its mode explains on average, the guide keeps it."""
LEAST_RUNG = 0.004
"""Where a rung beyond the halo explains that share of the target, the guide keeps it."""
NEGLIGIBLE = 1e-4
"""A mode of this weight or less does not decide whether a guide is good enough."""
NUM_ITERATIONS = 3
"""Iterations of EM in one round of refinement."""
GENEROUS = 0.1
"""Thrift of the last attempt where Laplace's Gaussians do not suffice."""
SIZES = (8, 16, 32, 64, 128)
"""Numbers of components of guides that are fitted to draws. With as many again between them, perturbed data of the 82
galaxies had guides of two sizes, and each size is another program."""
MOST_ROUNDS, LEAST_RISE = 5, 0.02
"""Rounds of refinement, and the rise of the acceptance for which another one is made."""


class Attempt(NamedTuple):
    """A guide, and what is known of it.

    Attributes
    ----------
    pool
        The draws.
    found
        Weights of all components of the pool.
    kept, scales
        Those components that the guide keeps, and the scale of each: 1 for a component itself, more for a rung.
    guide
        The mixture of them, and of a defensive one.
    component_modes
        The mode of each of its components; −1 for none.
    mode_weights, mode_weight_errors
        Weights of the modes in the target, and their standard errors.
    judged
        How the guide will do.
    """

    pool: Pool
    found: ComponentWeights
    kept: Components
    scales: np.ndarray
    guide: Mixture
    component_modes: np.ndarray
    mode_weights: np.ndarray
    mode_weight_errors: np.ndarray
    judged: Judged

    def poor_modes(self, acceptance: float) -> np.ndarray:
        """Numbers of the modes from which jumps will succeed less often, but for those that do not matter."""
        return np.flatnonzero((self.judged.expected_acceptance_by_mode < acceptance) & (self.mode_weights > NEGLIGIBLE))

    @property
    def has_long_tails(self) -> bool:
        """Whether rungs beyond the halo explain some of the target."""
        return bool(np.any(self.scales > HALO_SCALE))

    def with_cost_of(self, other: Self) -> Self:
        """The same, with the evaluations of a later attempt counted."""
        return self._replace(pool=self.pool._replace(num_densities=other.pool.num_densities))

    def with_further_cost(self, num_densities: int) -> Self:
        """The same, with so many further evaluations counted."""
        return self._replace(pool=self.pool._replace(num_densities=self.pool.num_densities + num_densities))

    def padded(self) -> Self:
        """The same guide with a number of components that others are likely to have: the heaviest stand there twice.

        A fit to draws has another number of components for every key, and each number is another program.
        """
        guide, modes = self.guide, self.component_modes
        missing = next(number for number in SIZES if number >= len(modes) or number == SIZES[-1]) - len(modes)
        if missing <= 0:
            return self
        log_weights, *others = (np.asarray(leaf) for leaf in jax.tree.leaves(guide))
        twice = np.resize(np.argsort(-log_weights), missing)
        order = np.append(np.arange(len(modes)), twice)
        log_weights = log_weights - np.log(np.bincount(order)).astype(log_weights.dtype)
        parts = (leaf[order] for leaf in (log_weights, *others))
        return self._replace(guide=type(guide)(*parts), component_modes=modes[order])

    @property
    def importance(self) -> np.ndarray:
        """Shares of the draws of the pool in the target's mass, shape (n,)."""
        return np.exp(self.found.log_importance - np.logaddexp.reduce(self.found.log_importance))

    def share_of(self, draws: np.ndarray) -> float:
        """Share of the target's mass at some draws of the pool, given by a mask."""
        return float(self.importance[draws].sum())

    def uncovered_importance(self) -> np.ndarray:
        """Shares of the target's mass at those draws of the pool that the guide leaves uncovered; 0 at the others."""
        log_prob = self.guide.on_host().at(self.pool.points).log_prob
        log_ratios = self.pool.logdensities - log_prob - self.found.log_evidence
        return np.where(log_ratios > np.log(UNCOVERED_RATIO), self.importance, 0.0)

    def coverage_of(self, population: Population) -> Coverage:
        """How much of a population the guide leaves uncovered."""
        return coverage_of(population, self.guide, self.found.log_evidence, self.score)

    @property
    def score(self) -> float:
        """Acceptance of jumps that can be relied on, over all modes."""
        return float(self.mode_weights @ self.judged.expected_acceptance_by_mode)


class Fitting(NamedTuple):
    """What all attempts share.

    Attributes
    ----------
    density
        Log density of a flat vector.
    options
        How to fit.
    generator
        NumPy's, for all draws.
    dtype
        Of the guide.
    num_modes, dim
        How many modes there are, and the dimension.
    thrift
        Factor of what a halo or a rung has to explain to be kept.
    """

    density: FlatDensity
    options: FitOptions
    generator: np.random.Generator
    dtype: Any
    num_modes: int
    dim: int
    thrift: float = 1.0

    def mixture_of(self, components: Components, weights: np.ndarray, defensive_weight: float = 0.0) -> Mixture:
        """A mixture of these components.

        With a defensive weight there is a wide component besides, with twice the covariance of the others together.
        Student-t components have the covariances of the Gaussian ones where df > 2.
        """
        df = self.options.df
        shrink = 1.0 if df is None or df <= 2 else np.sqrt((df - 2) / df)
        means, scales = components.means, shrink * components.scale_trils
        if defensive_weight > 0:
            centre = weights @ means
            offsets = means - centre
            covariance = np.einsum("k,kij,klj->il", weights, scales, scales) + (weights[:, None] * offsets).T @ offsets
            wide = np.linalg.cholesky(2 * covariance)
            means, scales = np.concatenate([means, centre[None]]), np.concatenate([scales, wide[None]])
            weights = np.append((1 - defensive_weight) * weights, defensive_weight)
        log_weights, means, scales = (array.astype(self.dtype) for array in (np.log(weights), means, scales))
        if df is None:
            return GaussianMixture(log_weights, means, scales)
        return StudentTMixture(log_weights, means, scales, df)

    def student(self, df: float) -> Self:
        """The same with Student-t components."""
        return self._replace(options=replace(self.options, df=df))

    def generous(self) -> Self:
        """The same, with more halos and rungs kept: they cover the tails better, with more components."""
        return self._replace(thrift=GENEROUS)

    def draw(self, components: Components, has_ladders: bool = True) -> Pool:
        """Draws of these components and of their rungs."""
        num_draws = max(8, self.options.weight_draws(len(components.modes)) // 2)
        return Pool.of(self.generator, self.density, components, self.mixture_of, num_draws, has_ladders)

    def redraw(self, components: Components, before: Pool) -> Pool:
        """Draws of the next attempt, its cost that of both. What rungs have found is a component by now."""
        pool = self.draw(components, has_ladders=False)
        return pool._replace(num_densities=pool.num_densities + before.num_densities)

    def assess(self, pool: Pool) -> Attempt:
        """The guide that the components of a pool make, and how it will do."""
        found = weigh_components(pool.logdensities, pool.log_components(), pool.counts)
        modes = pool.components.modes
        belongs = (modes[:, None] == np.arange(self.num_modes)).astype(float)
        mode_weights, errors = found.weights @ belongs, weight_errors(found, belongs)
        total = max(mode_weights.sum(), 1e-300)
        mode_weights, errors = mode_weights / total, errors / total

        is_kept = self._is_kept(pool, found.weights, mode_weights)
        kept, belongs = pool.components.select(is_kept), belongs[is_kept]
        weights = self._lifted(found.weights[is_kept], kept.modes, belongs)
        guide = self.mixture_of(kept, weights / weights.sum(), self.options.defensive_weight)
        component_modes = kept.modes
        if self.options.defensive_weight > 0:
            component_modes = np.append(component_modes, -1)
        _, log_prob, shares = guide.on_host().at(pool.points)
        shares, _ = shares_of_modes(shares, component_modes)
        judged = judge(pool.logdensities, found.log_pool, log_prob, shares, self.options.num_tries, self.generator)
        return Attempt(pool, found, kept, pool.scales[is_kept], guide, component_modes, mode_weights, errors, judged)

    def _is_kept(self, pool: Pool, weights: np.ndarray, mode_weights: np.ndarray) -> np.ndarray:
        """Components that describe a mode, and those rungs that explain something."""
        modes = pool.components.modes
        numbers = np.bincount(modes[(pool.scales == 1.0) & (modes >= 0)], minlength=len(mode_weights))
        fair = np.append(mode_weights / np.maximum(numbers, 1), 1.0)[modes]
        least = self.thrift * np.where(pool.scales > HALO_SCALE, LEAST_RUNG, LEAST_HALO * fair)
        return (pool.scales == 1.0) & (modes >= 0) | (weights > least)

    def _lifted(self, weights: np.ndarray, modes: np.ndarray, belongs: np.ndarray) -> np.ndarray:
        """Weights such that no mode has less than the floor."""
        # A mode whose draws all had density zero has no shares to lift: its components get the floor in equal parts.
        weights = np.maximum(weights, 1e-250)
        mode_weights, least = weights @ belongs, self.options.weight_floor / self.num_modes
        lift = np.maximum(mode_weights, least) / np.maximum(mode_weights, 1e-250)
        return weights * np.append(lift, 1.0)[modes]

    def refined(self, attempt: Attempt, good_acceptance: float) -> Attempt:
        """The best of some rounds: components fitted to the importance-weighted draws, drawn from and weighed anew."""
        best = attempt
        for _ in range(MOST_ROUNDS):
            if not len(best.poor_modes(good_acceptance)):
                break
            attempt = self.assess(self.redraw(self.improved(attempt), attempt.pool))
            rise = attempt.score - best.score
            best = best.with_cost_of(attempt) if rise <= 0 else attempt
            if rise < LEAST_RISE:
                break
        return best

    def improved(self, attempt: Attempt) -> Components:
        """The components of a guide after some iterations of EM on the draws of its pool."""
        host = attempt.guide.on_host()
        weights = host.weights[: len(attempt.kept.modes)]
        parts = Parts(weights / weights.sum(), attempt.kept.means, attempt.kept.scale_trils)
        log_importance = attempt.found.log_importance
        importance = np.exp(log_importance - log_importance.max())
        # Few great weights would make components of single points [1]_.
        importance = np.minimum(importance, np.sqrt(len(importance)) * importance.mean())
        parts = improve(parts, attempt.pool.points, importance, NUM_ITERATIONS)
        return Components(parts.means, parts.scale_trils, attempt.kept.modes)
