"""A guide that the user gives: how it will do, and what it says about the modes that the search found."""

from collections.abc import Callable
from typing import Any

import numpy as np

from vhmc_jax import random
from vhmc_jax.base import Array
from vhmc_jax.density import FlatDensity
from vhmc_jax.diagnostics.draws import flatten_draws
from vhmc_jax.diagnostics.modes.labels import labels_from_centres
from vhmc_jax.fit.assess import judge
from vhmc_jax.fit.coverage import coverage_of
from vhmc_jax.fit.importance import log_mean, resampled
from vhmc_jax.fit.options import FitOptions
from vhmc_jax.fit.pool import values_of
from vhmc_jax.fit.report import NUM_STARTS, GuideReport
from vhmc_jax.guide import host_of
from vhmc_jax.search import Modes
from vhmc_jax.search.population import Population
from vhmc_jax.threads import one_blas_thread

NUM_DRAWS = 4096
"""Draws by which the guide is judged."""


@one_blas_thread
def report_on(
    rng_key: Array,
    logdensity_fn: Callable,
    guide: Any,
    modes: Modes,
    options: FitOptions,
    audit: Population | None,
) -> GuideReport:
    """What ``fit_guide`` reports, on a guide that was not fitted.

    Parameters
    ----------
    rng_key
        Key of the guide's draws.
    logdensity_fn
        Log density of a pytree position.
    guide
        The guide.
    modes
        The modes that were found. A draw belongs to that whose Gaussian is densest there.
    options
        Of these ``num_tries`` alone is read.
    audit
        A small population, to which the guide is compared; None where there is none.

    Returns
    -------
    The report.
    """
    generator, host = random.generator(rng_key), host_of(guide)
    points = host.sample(generator, NUM_DRAWS)
    logdensities = values_of(FlatDensity.at(logdensity_fn, modes.template), points)
    log_prob = host.at(points).log_prob
    if not np.isfinite(logdensities).any():
        raise ValueError("the log density must be finite somewhere in the guide, got zero density at all of its draws")
    log_importance = logdensities - log_prob
    centres = np.asarray(flatten_draws(modes.positions, 1))
    shares = labels_from_centres(points[None], centres, modes.covariances).responsibilities[0]
    judged = judge(logdensities, log_prob, log_prob, shares, options.num_tries, generator)
    weights = np.exp(log_importance - log_importance.max())
    weights /= weights.sum()
    mode_weights = weights @ shares
    log_evidence = log_mean(log_importance)
    coverage = None
    if audit is not None:
        coverage = coverage_of(audit, guide, log_evidence, judged.expected_acceptance)
    return GuideReport(
        **judged._asdict(),
        mode_weights=mode_weights,
        mode_weight_errors=np.sqrt(weights**2 @ (shares - mode_weights) ** 2),
        component_modes=None,
        is_laplace=False,
        step_sizes=np.full(len(mode_weights), np.nan),
        acceptance_rates=np.full(len(mode_weights), np.nan),
        starts=resampled(generator, points, log_importance, NUM_STARTS),
        log_evidence=log_evidence,
        coverage=coverage,
        notes=(),
        num_gradients=0,
        num_densities=NUM_DRAWS,
    )
