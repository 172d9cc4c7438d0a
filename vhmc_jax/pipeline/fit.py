"""Fit: a guide that describes the modes."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from vhmc_jax.base import Array, PyTree
from vhmc_jax.fit import FitOptions, GuideReport
from vhmc_jax.fit.coverage import coverage_of, worst
from vhmc_jax.fit.fit_guide import fit_modes
from vhmc_jax.fit.given import report_on
from vhmc_jax.pipeline.discover import Discovered, larger_population
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.pipeline.produce import Produced
from vhmc_jax.search import Modes, Population


class Fitted(NamedTuple):
    """A guide for the modes that were found.

    Attributes
    ----------
    modes
        The modes.
    guide
        What carries chains between them: a mixture, a product of mixtures, or what the user gave.
    report
        How good it is.
    population
        The population by which the guide was audited; None where there is none.
    notes
        Sentences about the search.
    cost
        Evaluations.
    """

    modes: Modes
    guide: Any
    report: GuideReport
    population: Population | None
    notes: tuple[str, ...]
    cost: Cost


def fit(
    rng_key: Array,
    logdensity_fn: Callable,
    region: PyTree | Callable,
    found: Discovered,
    options: FitOptions,
    pilot: Produced | None = None,
    is_again: bool = False,
) -> Fitted:
    """Describe each mode, and weigh it.

    Parameters
    ----------
    rng_key
        Key of the fit.
    logdensity_fn
        Log density of a pytree position.
    region
        Where a larger population begins, where one is needed.
    found
        The modes.
    options
        How to fit.
    pilot
        A run with an earlier guide, to whose draws the modes are fitted.
    is_again
        Whether this is the second round: the population is then the draws of the first, and the guide has to be fitted
        to it. It also has to cover the population of the first.

    Returns
    -------
    The guide.
    """
    draws = None if pilot is None else (pilot.seen.draws, pilot.seen.logdensities)
    audit, more = None if is_again else found.audit, None
    if found.more is not None:
        more = functools.partial(larger_population, found.more, logdensity_fn, region)
    guide, report = fit_modes(rng_key, logdensity_fn, found.modes, options, draws, audit, more, found.max_gradients)
    if is_again and found.audit is not None:  # draws of a first round that missed mass do not show it
        seen = coverage_of(found.audit, guide, report.log_evidence, report.expected_acceptance)
        report = report._replace(coverage=worst(report.coverage, seen))
    cost = Cost(report.num_gradients, report.num_densities)
    return Fitted(found.modes, guide, report, found.audit, found.notes, cost)


def take(
    rng_key: Array,
    logdensity_fn: Callable,
    guide: Any,
    found: Discovered,
    options: FitOptions,
) -> Fitted:
    """Take the user's guide as it is, and judge it as a fitted one is judged.

    Parameters
    ----------
    rng_key
        Key of the guide's draws.
    logdensity_fn
        Log density of a pytree position.
    guide
        The guide.
    found
        The modes, and the population that the guide has to cover.
    options
        Only ``num_tries`` is used.

    Returns
    -------
    The guide with a report.
    """
    report = report_on(rng_key, logdensity_fn, guide, found.modes, options, found.audit)
    cost = Cost(report.num_gradients, report.num_densities)
    return Fitted(found.modes, guide, report, found.audit, found.notes, cost)
