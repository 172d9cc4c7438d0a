"""Descriptions of the modes by a guide, each better than the one before it and dearer.

Laplace's approximation with its ladders; the same, refitted to importance-weighted draws; a product of mixtures over
blocks of coordinates; chains around the modes; a mixture for a larger population; components where draws find mass that
the others leave uncovered.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity
from vhmc_jax.diagnostics.draws import flatten_draws
from vhmc_jax.diagnostics.pareto import HIGH_PARETO_K
from vhmc_jax.fit.assess import Judged
from vhmc_jax.fit.attempt import LEAST_RISE, Attempt, Fitting
from vhmc_jax.fit.components import laplace
from vhmc_jax.fit.coverage import worst
from vhmc_jax.fit.growth import grown
from vhmc_jax.fit.local_fit import LocalFit
from vhmc_jax.fit.mass import components_of_mass
from vhmc_jax.fit.options import GOOD_ACCEPTANCE, FitOptions
from vhmc_jax.fit.product_fit import ProductAttempt, fit_blocks
from vhmc_jax.fit.report import NUM_STARTS, GuideReport, Tried
from vhmc_jax.guide import Mixture, ProductMixture
from vhmc_jax.search import Modes
from vhmc_jax.search.population import Population

WELL_COVERED = 0.02
"""Share of a population that a guide may leave uncovered."""
ACCEPTABLE = 0.5
"""Acceptance of jumps from every mode at which a refined guide will do without a larger population."""
GOOD_ENOUGH = 0.8
"""Acceptance from every mode at which a refined guide will do without chains around the modes."""
HOPELESS, FEW_DIMENSIONS = 0.3, 8
"""In few dimensions, and below this acceptance, a population tells more than chains around the modes."""
MOST_LOCAL = 32
"""The most modes around which chains are run."""
DEGREES_OF_FREEDOM = (1.0, 2.0, 3.0, 5.0, 10.0)
"""Of the Student-t components that are tried where tails are long."""


class Descriptions:
    """The description so far, and the way to a better one.

    Parameters
    ----------
    rng_key
        Key of the whole fit.
    density
        Log density of a flat vector.
    flat_modes
        The modes as rows.
    modes
        The modes.
    options
        How to fit, and which descriptions may be tried.
    audit
        A small population, which the guide has to cover; None for none.
    more
        Makes a larger one; None where there is none.
    max_gradients
        The most gradients of populations of blocks of coordinates.
    """

    def __init__(
        self,
        rng_key: Array,
        density: FlatDensity,
        flat_modes: Array,
        modes: Modes,
        options: FitOptions,
        audit: Population | None,
        more: Callable[[], Population] | None,
        max_gradients: int,
    ):
        keys = (random.as_jax_key(key) for key in random.split(rng_key, 5))
        self._key_local, self._key_em, key_pool, self._key_mass, self._key_blocks = keys
        self._density, self._flat_modes, self._modes, self._options = density, flat_modes, modes, options
        self._audit, self._more, self._max_gradients = audit, more, max_gradients
        self._fitting = Fitting(density, options, random.generator(key_pool), flat_modes.dtype, *flat_modes.shape)
        self._attempt: Attempt
        self._product: ProductAttempt | None = None
        self._local: LocalFit | None = None
        self._population: Population | None = None
        self._is_laplace = False
        self._tried: list[Tried] = []

    def by_pilot(self, positions: PyTree, logdensities: Array) -> None:
        """Components fitted to the draws of a pilot run, each mode to its share."""
        draws = flatten_draws(positions)
        self._local = LocalFit.of_pilot(self._flat_modes, self._modes, draws, jnp.asarray(logdensities))
        components = self._local.components(self._key_em, self._options.max_components)
        self._take("components fitted to a pilot run", self._fitting.assess(self._fitting.draw(components)))

    def by_laplace(self) -> None:
        """Laplace's approximation: Gaussians, or Student-t distributions where tails are long and they do better."""
        fitting = self._fitting
        self._take("Laplace's approximation", fitting.assess(fitting.draw(laplace(self._flat_modes, self._modes))))
        if self._options.df is None and self._attempt.has_long_tails:
            self._take("Student-t distributions", self._with_tails())
        self._is_laplace = not len(self._attempt.poor_modes(self._options.good_acceptance))

    def by_draws(self) -> None:
        """Components refitted to their importance-weighted draws while that pays."""
        if self._options.good_acceptance == 1 or not self._may("draws"):
            return
        refined = self._fitting.refined(self._attempt, self._options.good_acceptance)
        self._take("components fitted to their draws", refined)

    def by_product(self) -> bool:
        """Whether a product over blocks does better: for modes too many to be listed, or bent in many directions."""
        if not self._may("product"):
            return False
        scouts = self._more() if self._audit is None and self._more is not None else self._audit
        if scouts is None:
            return False
        uncovered = self._attempt.coverage_of(scouts).share
        if not len(self._poor_modes) and uncovered <= WELL_COVERED:
            return False
        modes, generator = np.asarray(self._flat_modes), self._fitting.generator
        product = fit_blocks(
            self._key_blocks, self._density, scouts, modes, self._options, generator, self._max_gradients
        )
        if product is None:
            return False
        self._product, is_better = product, product.is_better(self._attempt, uncovered)
        sizes = sum(mixture.num_components for mixture in product.guide.mixtures)
        tried = Tried(f"a product over {len(product.guide.blocks)} blocks of coordinates", product.score, sizes)
        if is_better:
            self._tried.append(tried)
        else:  # the last one is the guide
            self._tried.insert(-1, tried)
            self._attempt = self._attempt.with_further_cost(product.num_densities)
        return is_better

    def by_chains(self) -> None:
        """Components fitted to chains around the modes from which jumps fail, where these are few."""
        poor = self._poor_modes
        has_population = self._more is not None and self._may("population")
        is_hopeless = has_population and self._fitting.dim <= FEW_DIMENSIONS and self._attempt.score < HOPELESS
        if not 0 < len(poor) <= MOST_LOCAL or is_hopeless or not self._may("chains"):
            return
        self._local = LocalFit.of(self._key_local, self._density, self._flat_modes, self._modes, poor, self._options)
        drawn = self._fitting.draw(self._local.components(self._key_em, self._options.max_components))
        attempt = self._fitting.assess(self._attempt.pool.replaced(drawn, self._fitting.mixture_of))
        self._take("components fitted to chains", self._fitting.refined(attempt, GOOD_ENOUGH))

    def by_population(self) -> None:
        """Components fitted to a larger population, where jumps still fail or the small one is not covered."""
        if self._more is None or not self._may("population"):
            return
        is_uncovered = self._audit is None or self._attempt.coverage_of(self._audit).share > WELL_COVERED
        if not is_uncovered and not len(self._attempt.poor_modes(ACCEPTABLE)):
            return
        self._population = self._more()
        mass = components_of_mass(self._key_mass, self._population, self._flat_modes, self._modes)
        drawn = self._fitting.redraw(self._attempt.kept.joined(mass), self._attempt.pool)
        attempt = self._fitting.refined(self._fitting.assess(drawn), self._options.good_acceptance)
        self._take("components fitted to a population", attempt)

    def by_growth(self) -> None:
        """Further components where draws find mass; not where Laplace's approximation sufficed.

        It never suffices where tails are long: jumps succeed, and yet what lies beyond the last rung is out of reach.
        """
        has_more = self._local is not None or self._population is not None or self._attempt.has_long_tails
        self._is_laplace = self._is_laplace and not has_more
        if self._is_laplace or not self._may("growth"):
            return
        generous = self._fitting.generous()
        wide = generous.assess(self._attempt.pool)
        attempt = grown(generous, wide)
        has_grown = attempt.guide is not wide.guide
        self._take("components where draws found more mass" if has_grown else "the same with more halos", attempt)

    def guide_with_report(self) -> tuple[Mixture, GuideReport]:
        """The mixture, and how good it is."""
        if not self._is_laplace:
            self._attempt = self._attempt.padded()
        # It was fitted to the larger population. The small one it has not seen.
        populations = [each for each in (self._audit, self._population) if each is not None]
        coverage = worst(*(self._attempt.coverage_of(each) for each in populations))
        return self._attempt.guide, self._report()._replace(coverage=coverage)

    def product_with_report(self) -> tuple[ProductMixture, GuideReport]:
        """The product, and how good it is. There is one mode, of which nothing can be said mode by mode."""
        product = self._product
        assert product is not None
        report = self._report()._replace(
            **product.judged._asdict(),
            mode_weights=np.ones(1),
            mode_weight_errors=np.zeros(1),
            component_modes=np.zeros(1, int),
            is_laplace=False,
            step_sizes=np.full(1, np.nan),
            acceptance_rates=np.full(1, np.nan),
            starts=product.starts(self._fitting.generator, NUM_STARTS),
            log_evidence=product.log_evidence,
            coverage=product.coverage,
            notes=(),
            num_densities=self._attempt.pool.num_densities + product.num_densities,
        )
        return product.guide, report

    def _may(self, name: str) -> bool:
        return name in self._options.refinements

    def _take(self, name: str, attempt: Attempt) -> None:
        """Go on with another description. The same guide, with what it cost to try another, is none."""
        if not self._tried or attempt.guide is not self._attempt.guide:
            self._tried.append(Tried(name, attempt.score, len(attempt.component_modes)))
        self._attempt = attempt

    @property
    def _poor_modes(self) -> np.ndarray:
        """Numbers of the modes from which too few jumps succeed."""
        good = self._options.good_acceptance
        return self._attempt.poor_modes(min(good, GOOD_ENOUGH) if good < 1 else good)

    def _with_tails(self) -> Attempt:
        """With the Student-t components that do best, where these do better than Gaussian ones."""
        best = self._attempt
        for df in DEGREES_OF_FREEDOM:
            student = self._fitting.student(df)
            pool = student.draw(laplace(self._flat_modes, self._modes, df))
            other = student.assess(pool._replace(num_densities=pool.num_densities + best.pool.num_densities))
            # Student-t tails go on where the ladder of Gaussian ones ends, so that as good is good enough.
            rise = 0.0 if best.has_long_tails > other.has_long_tails else LEAST_RISE
            if other.score > best.score + rise:
                best, self._fitting = other, student
            else:
                best = best.with_cost_of(other)
        return best

    def _report(self) -> GuideReport:
        attempt, local, population = self._attempt, self._local, self._population
        step_sizes = np.full(len(attempt.mode_weights), np.nan)
        acceptance_rates = step_sizes.copy()
        num_gradients = sum(each.num_gradients for each in (population, self._product) if each is not None)
        if local is not None:
            # The draws are of as many modes as the program was compiled for: the first are those that were asked for.
            step_sizes[local.modes] = local.draws.step_sizes[: len(local.modes)]
            acceptance_rates[local.modes] = local.draws.acceptance_rates[: len(local.modes)]
            num_gradients += int(local.draws.num_gradients)
        least_weight = self._options.weight_floor / len(attempt.mode_weights)
        notes = _notes(attempt.judged, attempt.mode_weights, least_weight)
        return GuideReport(
            **attempt.judged._asdict(),
            mode_weights=attempt.mode_weights,
            mode_weight_errors=attempt.mode_weight_errors,
            component_modes=attempt.component_modes,
            is_laplace=self._is_laplace,
            step_sizes=step_sizes,
            acceptance_rates=acceptance_rates,
            starts=attempt.pool.starts(self._fitting.generator, attempt.found.log_importance, NUM_STARTS),
            log_evidence=attempt.found.log_evidence,
            coverage=None,
            notes=notes if local is None else (*local.notes, *notes),
            num_gradients=num_gradients,
            num_densities=attempt.pool.num_densities,
            tried=tuple(self._tried),
        )


def _notes(judged: Judged, mode_weights: np.ndarray, least_weight: float) -> tuple[str, ...]:
    """A long tail alone costs little: jumps are exact. It is noted where they fail too, if the mode matters."""
    fails = (judged.expected_acceptance_by_mode < GOOD_ACCEPTANCE) & (mode_weights > least_weight)
    if not np.any(is_poor := (judged.pareto_k > HIGH_PARETO_K) & fails):
        return ()
    return (
        f"Pareto-k is above {HIGH_PARETO_K} for modes {np.flatnonzero(is_poor).tolist()}, and jumps from them succeed "
        f"less often than in {GOOD_ACCEPTANCE:.0%} of cases: their shape or their weights may be off. "
        "Raise num_draws or max_components, or use Student-t components (df=5).",
    )
