"""Fit: a guide that describes the modes."""

from collections.abc import Callable
from typing import NamedTuple

from vhmc_jax.base import Array
from vhmc_jax.fit import FitOptions, GuideReport
from vhmc_jax.fit.fit_guide import fit_modes
from vhmc_jax.guide import Mixture
from vhmc_jax.pipeline.discover import Discovered
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.pipeline.produce import Produced
from vhmc_jax.search import Modes


class Fitted(NamedTuple):
    """A guide for the modes that were found.

    Attributes
    ----------
    modes
        The modes.
    guide
        The mixture that carries chains between them.
    report
        How good it is.
    notes
        Sentences about the search and the fit.
    cost
        Evaluations.
    """

    modes: Modes
    guide: Mixture
    report: GuideReport
    notes: tuple[str, ...]
    cost: Cost


def fit(
    rng_key: Array,
    logdensity_fn: Callable,
    found: Discovered,
    options: FitOptions,
    pilot: Produced | None = None,
) -> Fitted:
    """Describe each mode, and weigh it.

    Parameters
    ----------
    rng_key
        Key of the fit.
    logdensity_fn
        Log density of a pytree position.
    found
        The modes.
    options
        How to fit.
    pilot
        A run with an earlier guide, to whose draws the modes are fitted.

    Returns
    -------
    The guide.
    """
    draws = None if pilot is None else (pilot.draws, pilot.logdensities)
    guide, report = fit_modes(rng_key, logdensity_fn, found.modes, options, draws)
    cost = Cost(report.num_gradients, report.num_densities)
    return Fitted(found.modes, guide, report, (*found.notes, *report.notes), cost)
