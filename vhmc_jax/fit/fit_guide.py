"""From modes to a guide: draw around each, fit it, weigh it."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity
from vhmc_jax.diagnostics.draws import flatten_draws
from vhmc_jax.fit.components import Components, laplace
from vhmc_jax.fit.local_fit import LocalFit
from vhmc_jax.fit.options import GOOD_ACCEPTANCE, FitOptions
from vhmc_jax.fit.pool import Judged, Pool, judge
from vhmc_jax.fit.weights import ComponentWeights, weigh_components, weight_errors
from vhmc_jax.guide import GaussianMixture, Mixture, StudentTMixture
from vhmc_jax.search import Modes

HIGH_PARETO_K = 0.7
"""Above it the importance weights have no variance that a sample could show."""
LEAST_HALO = 0.02
"""Where a halo explains that share of its mode, the guide keeps it."""
NUM_STARTS = 256
"""Draws, about the target's, that a report keeps."""


class GuideReport(NamedTuple):
    """How good a guide is.

    Attributes
    ----------
    log_envelope
        log c that makes the most jumps succeed.
    num_tries
        The most candidates of a jump, for which that holds.
    mode_weights
        Weight of each mode in the target, shape (k,).
    mode_weight_errors
        Their standard errors.
    expected_acceptance
        Probability that a jump from a draw of the target succeeds.
    expected_acceptance_by_mode
        The same from a draw in each mode.
    pareto_k
        Tail of the importance weights of each mode's components: above 0.7 the fit is not to be trusted.
    component_modes
        For each component of the guide the mode it describes; −1 for the defensive one.
    is_laplace
        Whether Laplace's Gaussians describe every mode, so that no draws were needed.
    step_sizes
        Step size of the local chains of each mode; NaN where none were needed.
    acceptance_rates
        Their acceptance.
    starts
        A few draws, about the target's, for chains to start from, flat, shape (n, d).
    notes
        Sentences: what may be wrong with the fit, and what to do about it.
    num_gradients
        Gradients taken.
    num_densities
        Density values taken.
    """

    log_envelope: float
    num_tries: int
    mode_weights: np.ndarray
    mode_weight_errors: np.ndarray
    expected_acceptance: float
    expected_acceptance_by_mode: np.ndarray
    pareto_k: np.ndarray
    component_modes: np.ndarray
    is_laplace: bool
    step_sizes: np.ndarray
    acceptance_rates: np.ndarray
    starts: np.ndarray
    notes: tuple[str, ...]
    num_gradients: int
    num_densities: int


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
    """
    guide, report = fit_modes(rng_key, logdensity_fn, modes, FitOptions(**options), pilot)
    for note in report.notes:
        warnings.warn(note, stacklevel=2)
    return guide, report


def fit_modes(
    rng_key: Array,
    logdensity_fn: Callable,
    modes: Modes,
    options: FitOptions,
    pilot: tuple[PyTree, Array] | None = None,
) -> tuple[Mixture, GuideReport]:
    """``fit_guide`` without warnings."""
    key_local, key_em, key_pool = (random.as_jax_key(key) for key in random.split(rng_key, 3))
    density = FlatDensity.at(logdensity_fn, modes.template)
    flat_modes = jax.vmap(lambda position: ravel_pytree(position)[0])(modes.positions)
    generator = random.generator(key_pool)
    mixture_of = functools.partial(_mixture, dtype=flat_modes.dtype, df=options.df)
    num_draws = options.weight_draws(len(flat_modes)) // 2

    def draw(components: Components) -> Pool:
        return Pool.of(generator, density, components, mixture_of, num_draws)

    def assess(pool: Pool) -> tuple[Weighed, Judged, np.ndarray]:
        """The guide that the components make, how it will do, and draws for chains to start from."""
        found = weigh_components(pool.logdensities.ravel(), pool.log_components())
        weighed = _weigh(pool, found, mixture_of, options)
        judged = judge(pool, found.log_pool, weighed.guide, weighed.component_modes, options.num_tries, generator)
        return weighed, judged, pool.starts(generator, found.log_importance, NUM_STARTS)

    local = None
    if pilot is not None:
        positions, logdensities = pilot
        local = LocalFit.of_pilot(flat_modes, modes, flatten_draws(positions), jnp.asarray(logdensities))
        pool = draw(local.components(key_em, options.max_components))
        assessed = assess(pool)
    else:
        pool = draw(laplace(flat_modes, modes))
        assessed = assess(pool)
        if len(poor := np.flatnonzero(assessed[1].expected_acceptance_by_mode < options.good_acceptance)):
            local = LocalFit.of(key_local, density, flat_modes, modes, poor, options)
            pool = pool.replaced(draw(local.components(key_em, options.max_components)), mixture_of)
            assessed = assess(pool)
    weighed, judged, starts = assessed
    return weighed.guide, _report(weighed, judged, starts, local, pool.num_densities, options)


def _mixture(
    components: Components,
    weights: np.ndarray | None = None,
    defensive_weight: float = 0.0,
    *,
    dtype: Any,
    df: float | None,
) -> Mixture:
    """A mixture of these components, with equal weights by default.

    With a defensive weight there is a wide component besides, with twice the covariance of the others together.
    Student-t components have the covariances of the Gaussian ones where df > 2.
    """
    shrink = 1.0 if df is None or df <= 2 else np.sqrt((df - 2) / df)
    weights = np.full(len(components.modes), 1 / len(components.modes)) if weights is None else weights
    means, scales = components.means, shrink * components.scale_trils
    if defensive_weight > 0:
        centre = weights @ means
        offsets = means - centre
        covariance = np.einsum("k,kij,klj->il", weights, scales, scales) + (weights[:, None] * offsets).T @ offsets
        wide = np.linalg.cholesky(2 * covariance)
        means, scales = np.concatenate([means, centre[None]]), np.concatenate([scales, wide[None]])
        weights = np.append((1 - defensive_weight) * weights, defensive_weight)
    log_weights, means, scales = (array.astype(dtype) for array in (np.log(weights), means, scales))
    if df is None:
        return GaussianMixture(log_weights, means, scales)
    return StudentTMixture(log_weights, means, scales, df)


class Weighed(NamedTuple):
    """A guide with its weights.

    Attributes
    ----------
    guide
        The mixture.
    component_modes
        The mode of each of its components; −1 for the defensive one.
    mode_weights, mode_weight_errors
        Weights of the modes in the target, and their standard errors.
    """

    guide: Mixture
    component_modes: np.ndarray
    mode_weights: np.ndarray
    mode_weight_errors: np.ndarray


def _weigh(pool: Pool, found: ComponentWeights, mixture_of: Callable, options: FitOptions) -> Weighed:
    """The guide that the components and those halos make that explain something, with weights and errors."""
    modes = pool.components.modes
    belongs = (modes[:, None] == np.arange(modes.max() + 1)).astype(float)
    mode_weights, errors = found.weights @ belongs, weight_errors(found, belongs)

    is_kept = ~pool.is_halo | (found.weights > LEAST_HALO * mode_weights[modes])
    kept, belongs = pool.components.select(is_kept), belongs[is_kept]
    component_modes = kept.modes
    least = options.weight_floor / len(mode_weights)
    lift = np.maximum(mode_weights, least) / np.maximum(mode_weights, 1e-300)
    # A mode whose draws all had density zero has no shares to lift: its components get the floor in equal parts.
    weights = found.weights[is_kept]
    weights = np.where(weights > 0, weights, 1e-300 / belongs.sum(axis=0)[component_modes]) * lift[component_modes]
    guide = mixture_of(kept, weights / weights.sum(), options.defensive_weight)
    if options.defensive_weight > 0:
        component_modes = np.append(component_modes, -1)
    return Weighed(guide, component_modes, mode_weights, errors)


def _report(
    weighed: Weighed,
    judged: Judged,
    starts: np.ndarray,
    local: LocalFit | None,
    num_densities: int,
    options: FitOptions,
) -> GuideReport:
    step_sizes = np.full(len(weighed.mode_weights), np.nan)
    acceptance_rates = step_sizes.copy()
    if local is not None:
        # The draws are of as many modes as the program was compiled for: the first are those that were asked for.
        step_sizes[local.modes] = local.draws.step_sizes[: len(local.modes)]
        acceptance_rates[local.modes] = local.draws.acceptance_rates[: len(local.modes)]
    least_weight = options.weight_floor / len(weighed.mode_weights)
    return GuideReport(
        **judged._asdict(),
        mode_weights=weighed.mode_weights,
        mode_weight_errors=weighed.mode_weight_errors,
        component_modes=weighed.component_modes,
        is_laplace=local is None,
        step_sizes=step_sizes,
        acceptance_rates=acceptance_rates,
        starts=starts,
        notes=(*(() if local is None else local.notes), *_notes(judged, weighed.mode_weights, least_weight)),
        num_gradients=0 if local is None else int(local.draws.num_gradients),
        num_densities=num_densities,
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
