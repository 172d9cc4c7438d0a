"""From modes to a guide: draw around each, fit it, weigh it."""

import warnings
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity
from vhmc_jax.diagnostics.draws import flatten_draws
from vhmc_jax.diagnostics.pareto import HIGH_PARETO_K
from vhmc_jax.fit.assess import Judged
from vhmc_jax.fit.attempt import LEAST_RISE, Attempt, Fitting
from vhmc_jax.fit.components import laplace
from vhmc_jax.fit.coverage import Coverage
from vhmc_jax.fit.growth import grown
from vhmc_jax.fit.local_fit import LocalFit
from vhmc_jax.fit.mass import components_of_mass
from vhmc_jax.fit.options import GOOD_ACCEPTANCE, FitOptions
from vhmc_jax.fit.product_fit import ProductAttempt, fit_blocks
from vhmc_jax.fit.report import NUM_STARTS, GuideReport
from vhmc_jax.guide import Mixture, ProductMixture
from vhmc_jax.search import Modes
from vhmc_jax.search.population import Population
from vhmc_jax.threads import one_blas_thread

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


def fit_guide(
    rng_key: Array,
    logdensity_fn: Callable,
    modes: Modes,
    *,
    pilot: tuple[PyTree, Array] | None = None,
    **options: Any,
) -> tuple[Mixture, GuideReport]:
    """Fit a mixture to a density whose modes are known.

    A mode is described by its Laplace approximation where jumps from it succeed often enough. Elsewhere chains of
    Langevin HMC start; the draws that stayed with their mode give a mean and a covariance, both shrunk toward
    Laplace's, or a few components where one cannot describe the mode. The weights are those of the greatest
    likelihood over importance-weighted draws from all components.

    Parameters
    ----------
    rng_key
        Key of the whole fit.
    logdensity_fn
        Log density of a pytree position, up to a constant.
    modes
        From ``find_modes``.
    pilot
        Draws of the target, (chain, draw, ...), and their log densities, from a run with an earlier guide: every mode
        is fitted to its share of them, and no chains are run.
    options
        Those of ``FitOptions``: ``num_draws``, ``max_components``, ``df`` and so on.

    Returns
    -------
    The guide, on flat vectors, and a report. What the report notes is warned of, too.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> target = vj.targets.far_pair(0.7)
    >>> region = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
    >>> modes = vj.find_modes(jax.random.key(0), target.logdensity, region)
    >>> guide, report = vj.fit_guide(jax.random.key(1), target.logdensity, modes)
    >>> report.mode_weights.round(2).tolist()
    [0.7, 0.3]
    """
    guide, report = fit_modes(rng_key, logdensity_fn, modes, FitOptions(**options), pilot)
    for note in report.notes:
        warnings.warn(note, stacklevel=2)
    return cast(Mixture, guide), report  # without a population there are no products


@one_blas_thread
def fit_modes(
    rng_key: Array,
    logdensity_fn: Callable,
    modes: Modes,
    options: FitOptions,
    pilot: tuple[PyTree, Array] | None = None,
    audit: Population | None = None,
    more: Callable[[], Population] | None = None,
) -> tuple[Mixture | ProductMixture, GuideReport]:
    """``fit_guide`` without warnings, and with populations.

    Five descriptions, each tried only where those before do not suffice: Laplace's Gaussians with their ladders; the
    same, refined on importance-weighted draws; chains around the modes; a mixture for a larger population; a product
    of mixtures over blocks of coordinates that are independent of each other in the population.

    Parameters
    ----------
    rng_key, logdensity_fn, modes, options, pilot
        As for ``fit_guide``.
    audit
        A small population, which the guide has to cover.
    more
        Makes a larger one. It is called where the guide does not cover the small one, where jumps fail, or where there
        is no small one.
    """
    keys = (random.as_jax_key(key) for key in random.split(rng_key, 5))
    key_local, key_em, key_pool, key_mass, key_blocks = keys
    density = FlatDensity.at(logdensity_fn, modes.template)
    flat_modes = jax.vmap(lambda position: ravel_pytree(position)[0])(modes.positions)
    fitting = Fitting(density, options, random.generator(key_pool), flat_modes.dtype, *flat_modes.shape)

    local = population = None
    is_laplace, num_gradients = False, 0
    if pilot is not None:
        positions, logdensities = pilot
        local = LocalFit.of_pilot(flat_modes, modes, flatten_draws(positions), jnp.asarray(logdensities))
        attempt = fitting.assess(fitting.draw(local.components(key_em, options.max_components)))
    else:
        attempt = fitting.assess(fitting.draw(laplace(flat_modes, modes)))
        if options.df is None and attempt.has_long_tails:
            fitting, attempt = _with_tails(fitting, attempt, flat_modes, modes)
        is_laplace = not len(poor := attempt.poor_modes(options.good_acceptance))
        if options.good_acceptance < 1:
            attempt = fitting.refined(attempt, options.good_acceptance)
            poor = attempt.poor_modes(min(options.good_acceptance, GOOD_ENOUGH))
        scouts = audit if audit is not None or more is None else more()
        if scouts is not None:
            # Modes that are too many to be listed, or that bend in many directions at once, may be a product.
            uncovered = attempt.coverage_of(scouts).share
            product = None
            if len(poor) or uncovered > WELL_COVERED:
                product = fit_blocks(key_blocks, density, scouts, np.asarray(flat_modes), options, fitting.generator)
            if product is not None and product.is_better(attempt, uncovered):
                return product.guide, _product_report(fitting, attempt, product)
            if product is not None:
                attempt, num_gradients = attempt.with_further_cost(product.num_densities), product.num_gradients
        is_hopeless = more is not None and fitting.dim <= FEW_DIMENSIONS and attempt.score < HOPELESS
        if 0 < len(poor) <= MOST_LOCAL and not is_hopeless:
            local = LocalFit.of(key_local, density, flat_modes, modes, poor, options)
            drawn = fitting.draw(local.components(key_em, options.max_components))
            attempt = fitting.assess(attempt.pool.replaced(drawn, fitting.mixture_of))
            attempt = fitting.refined(attempt, GOOD_ENOUGH)

    coverage = None if audit is None else attempt.coverage_of(audit)
    is_uncovered = coverage is None or coverage.share > WELL_COVERED
    if more is not None and (is_uncovered or len(attempt.poor_modes(ACCEPTABLE))):
        population = more()
        mass = components_of_mass(key_mass, population, flat_modes, modes)
        drawn = fitting.redraw(attempt.kept.joined(mass), attempt.pool)
        attempt = fitting.refined(fitting.assess(drawn), options.good_acceptance)
        coverage = attempt.coverage_of(population)
    is_laplace = is_laplace and local is None and population is None
    if not is_laplace:
        generous = fitting.generous()
        attempt = grown(generous, generous.assess(attempt.pool)).padded()
    report = _report(fitting, attempt, local, population, coverage, is_laplace)
    return attempt.guide, report._replace(num_gradients=report.num_gradients + num_gradients)


def _with_tails(fitting: Fitting, attempt: Attempt, flat_modes: Array, modes: Modes) -> tuple[Fitting, Attempt]:
    """The same with the Student-t components that do best, where these do better than Gaussian ones."""
    best = fitting, attempt
    for df in DEGREES_OF_FREEDOM:
        student = fitting.student(df)
        pool = student.draw(laplace(flat_modes, modes, df))
        pool = pool._replace(num_densities=pool.num_densities + best[1].pool.num_densities)
        other = student.assess(pool)
        # Student-t tails go on where the ladder of Gaussian ones ends, so that as good is good enough.
        is_better = other.score > best[1].score + (0.0 if best[1].has_long_tails > other.has_long_tails else LEAST_RISE)
        best = (student, other) if is_better else (best[0], best[1].with_cost_of(other))
    return best


def _product_report(fitting: Fitting, attempt: Attempt, product: ProductAttempt) -> GuideReport:
    """The report on a product. There is one mode, of which nothing can be said mode by mode."""
    return _report(fitting, attempt, None, None, None, False)._replace(
        **product.judged._asdict(),
        mode_weights=np.ones(1),
        mode_weight_errors=np.zeros(1),
        component_modes=np.zeros(1, int),
        step_sizes=np.full(1, np.nan),
        acceptance_rates=np.full(1, np.nan),
        starts=product.starts(fitting.generator, NUM_STARTS),
        log_evidence=product.log_evidence,
        coverage=product.coverage,
        notes=(),
        num_gradients=product.num_gradients,
        num_densities=attempt.pool.num_densities + product.num_densities,
    )


def _report(
    fitting: Fitting,
    attempt: Attempt,
    local: LocalFit | None,
    population: Population | None,
    coverage: Coverage | None,
    is_laplace: bool,
) -> GuideReport:
    step_sizes = np.full(len(attempt.mode_weights), np.nan)
    acceptance_rates = step_sizes.copy()
    num_gradients = 0 if population is None else population.num_gradients
    if local is not None:
        # The draws are of as many modes as the program was compiled for: the first are those that were asked for.
        step_sizes[local.modes] = local.draws.step_sizes[: len(local.modes)]
        acceptance_rates[local.modes] = local.draws.acceptance_rates[: len(local.modes)]
        num_gradients += int(local.draws.num_gradients)
    least_weight = fitting.options.weight_floor / len(attempt.mode_weights)
    return GuideReport(
        **attempt.judged._asdict(),
        mode_weights=attempt.mode_weights,
        mode_weight_errors=attempt.mode_weight_errors,
        component_modes=attempt.component_modes,
        is_laplace=is_laplace,
        step_sizes=step_sizes,
        acceptance_rates=acceptance_rates,
        starts=attempt.pool.starts(fitting.generator, attempt.found.log_importance, NUM_STARTS),
        log_evidence=attempt.found.log_evidence,
        coverage=coverage,
        notes=(*(() if local is None else local.notes), *_notes(attempt.judged, attempt.mode_weights, least_weight)),
        num_gradients=num_gradients,
        num_densities=attempt.pool.num_densities,
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
