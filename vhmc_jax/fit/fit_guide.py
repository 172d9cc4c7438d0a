"""From modes to a guide: draw around each, fit it, weigh it."""

import warnings
from collections.abc import Callable
from typing import Any, cast

import jax
from jax.flatten_util import ravel_pytree

from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity
from vhmc_jax.fit.descriptions import Descriptions
from vhmc_jax.fit.options import FitOptions
from vhmc_jax.fit.product_fit import MOST_GRADIENTS
from vhmc_jax.fit.report import GuideReport
from vhmc_jax.guide import Mixture, ProductMixture
from vhmc_jax.search import Modes
from vhmc_jax.search.population import Population
from vhmc_jax.threads import one_blas_thread


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
    if not isinstance(modes, Modes):
        raise TypeError(f"modes must be what find_modes returns, got {type(modes).__name__}")
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
    max_gradients: int = MOST_GRADIENTS,
) -> tuple[Mixture | ProductMixture, GuideReport]:
    """``fit_guide`` without warnings, and with populations.

    One description of the modes after another, each tried only where those before do not suffice, and where the
    options allow it.

    Parameters
    ----------
    rng_key, logdensity_fn, modes, options, pilot
        As for ``fit_guide``.
    audit
        A small population, which the guide has to cover.
    more
        Makes a larger one. It is called where the guide does not cover the small one, where jumps fail, or where there
        is no small one.
    max_gradients
        The most gradients of populations of blocks of coordinates.
    """
    density = FlatDensity.at(logdensity_fn, modes.template)
    flat_modes = jax.vmap(lambda position: ravel_pytree(position)[0])(modes.positions)
    found = Descriptions(rng_key, density, flat_modes, modes, options, audit, more, max_gradients)
    if pilot is not None:
        found.by_pilot(*pilot)
    else:
        found.by_laplace()
        found.by_draws()
        if found.by_product():
            return found.product_with_report()
        found.by_chains()
    found.by_population()
    found.by_growth()
    return found.guide_with_report()
