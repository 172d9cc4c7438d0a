"""NumPyro's models as problems.

NumPyro's own functions trace the model: ``potential_energy`` is the log density, ``constrain_fn`` the way back, and the
prior of the latent sites is the region. ``initialize_model`` would return new closures with each call, and JAX would
compile for each. Here the model is a constant and its arrays are arguments, so that other data of the same shape
compile nothing.
"""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from vhmc_jax.base import Array, as_pytree_function
from vhmc_jax.models.call_arguments import Arguments
from vhmc_jax.models.numpyro_functions import (
    Prior,
    constrained,
    faster_logdensity,
    import_numpyro,
    is_data,
    is_improper,
    is_latent,
    log_likelihood,
    log_probs,
    logdensity,
    predicted,
    sites_of,
    unconstrained,
)
from vhmc_jax.models.prior import require_finite_draws
from vhmc_jax.models.problem import Problem
from vhmc_jax.models.support import must_compare, unwrapped

READ_IN_PYTHON = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
"""What JAX raises where Python reads the value of an argument."""


def from_numpyro(model: Callable, *args: Any, **kwargs: Any) -> Problem:
    """A problem from a NumPyro model: its posterior, given the observed sites.

    Parameters
    ----------
    model
        A function with NumPyro's primitives.
    args, kwargs
        What it is called with. Arrays are arguments of the compiled programs, so that other data of the same shape
        compile nothing; numbers and other objects are constants. Where the model reads values of its arrays in Python,
        they are constants too.

    Returns
    -------
    The problem. Draws hold the latent sites and the deterministic ones. The region is the prior; sites with an improper
    prior are sought from −10 to 10 in unconstrained space. Plates become dimensions.

    Examples
    --------
    >>> import jax, numpyro, numpyro.distributions as dist, vhmc_jax as vj
    >>> def model(y):
    ...     loc = numpyro.sample("loc", dist.Normal(0.0, 10.0))
    ...     numpyro.sample("y", dist.Normal(jax.numpy.abs(loc), 1.0), obs=y)
    >>> problem = vj.from_numpyro(model, jax.numpy.array([4.8, 5.1]))
    >>> sorted(problem.region(jax.random.key(0)))
    ['loc']
    """
    import_numpyro()
    if not callable(model):
        raise TypeError(f"model must be a function with NumPyro's primitives, got {type(model).__name__}: {model!r}")
    function = as_pytree_function(model, "model")
    arguments, sites = _traced(function, args, kwargs)
    latent = _checked_latent(sites)
    if not any(site["type"] == "sample" and site["is_observed"] for site in sites.values()):
        warnings.warn(
            f"The model has no observed site: the draws will be those of the prior of {', '.join(latent)}. Were data "
            "left out?",
            stacklevel=2,
        )
    observed = _checked_observed(function, arguments)
    prior = Prior(function, arguments)
    is_proper = not any(is_improper(site["fn"]) for site in latent.values())
    problem = Problem(
        logdensity_fn=Partial(logdensity if must_compare(sites, observed) else faster_logdensity, function, arguments),
        region=prior if is_proper else Partial(Prior.__call__, prior),
        constrain=Partial(constrained, function, arguments),
        unconstrain=Partial(unconstrained, function, arguments),
        parameters=tuple(latent),
        log_likelihood=Partial(log_likelihood, function, arguments) if observed else None,
        predict=Partial(predicted, function, arguments) if observed else None,
        prior=prior if is_proper else None,
        observed_data=observed,
        dims=_dims(sites),
    )
    require_finite_draws(problem, Partial(log_probs, function, arguments))
    return problem


def _traced(model: Callable, positional: tuple, named: dict[str, Any]) -> tuple[Arguments, dict[str, Any]]:
    """The arguments and the sites. Nothing is computed; arrays that Python has to read become constants."""
    sites: dict[str, Any] = {}

    def record(arguments: Arguments, rng_key: Array) -> None:
        sites.update(sites_of(model, arguments, rng_key))

    arguments, rng_key = Arguments.of(positional, named), jax.random.key(0)
    try:
        jax.eval_shape(record, arguments, rng_key)
    except AssertionError as error:
        if "unique names" not in str(error):
            raise
        raise ValueError(f"sites must have names of their own: {error}") from error
    except READ_IN_PYTHON:
        arguments = Arguments.of(positional, named, all_constant=True)
        jax.eval_shape(record, arguments, rng_key)
    return arguments, sites


def _checked_latent(sites: dict[str, Any]) -> dict[str, Any]:
    """The latent sites, or an error that names one which cannot be sampled."""
    for name, site in sites.items():
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            size, part = site["args"]
            raise ValueError(
                f"plate {name!r} takes a random subsample of {part} of {size}: the log density must be that of all "
                "data. Leave out subsample_size."
            )
        if site["type"] == "param":
            raise ValueError(f"site {name!r} is a numpyro.param, which has no prior: write numpyro.sample instead")
        if is_data(site) and not isinstance(site["value"], jax.Array | np.ndarray | np.generic | float | int):
            kind = type(site["value"]).__name__
            raise TypeError(f"observed site {name!r} must have an array as its value, got {kind}: {site['value']!r}")
    latent = {name: site for name, site in sites.items() if is_latent(site)}
    if not latent:
        raise ValueError("the model must have a latent site, numpyro.sample without obs, got none")
    for name, site in latent.items():
        if site["fn"].support.is_discrete:
            kind = type(unwrapped(site["fn"])).__name__
            raise ValueError(
                f"site {name!r} is discrete and latent: {kind}. Marginalise it, for a mixture by "
                "dist.MixtureSameFamily(dist.Categorical(weights), components)."
            )
        if type(site["fn"]).__name__ == "Delta":
            raise ValueError(f"site {name!r} has one value alone: write numpyro.deterministic instead of a Delta")
    return latent


def _checked_observed(model: Callable, arguments: Arguments) -> dict[str, np.ndarray]:
    """The observed values, or an error that names a site with missing ones."""
    observed = {name: np.asarray(value) for name, value in _observed_values(model, arguments).items()}
    for name, value in observed.items():
        if np.issubdtype(value.dtype, np.floating) and np.isnan(value).any():
            raise ValueError(
                f"observed site {name!r} must not hold NaN, got {int(np.isnan(value).sum())} of {value.size}: leave "
                "missing values out, or say which are there by obs_mask"
            )
    return observed


@jax.jit
def _observed_values(model: Callable, arguments: Arguments) -> dict[str, Array]:
    sites = sites_of(model, arguments, jax.random.key(0))
    return {name: site["value"] for name, site in sites.items() if is_data(site)}


def _dims(sites: dict[str, Any]) -> dict[str, list[str]]:
    """Names of the plates along the axes of each site that has any."""
    found = {}
    for name, site in sites.items():
        if site["type"] not in ("sample", "deterministic"):
            continue
        rank = len(site["fn"].batch_shape) if site["type"] == "sample" else np.ndim(site["value"])
        plates = {frame.dim: frame.name for frame in site["cond_indep_stack"]}
        if site["type"] == "deterministic" and rank != -min(plates, default=0):
            continue  # which of its axes are the plates' is not known
        names = [plates.get(axis - rank) or f"{name}_dim_{axis}" for axis in range(rank)]
        names += site.get("infer", {}).get("event_dims", ())
        if plates or site.get("infer", {}).get("event_dims"):
            found[name] = names
    return found
