"""NumPyro's models as problems.

NumPyro's own functions trace the model: ``potential_energy`` is the log density, ``constrain_fn`` the way back, and the
prior of the latent sites is the region. ``initialize_model`` would return new closures with each call, and JAX would
compile for each. Here the model is a constant and its arrays are arguments, so that other data of the same shape
compile nothing.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.models.call_arguments import Arguments
from vhmc_jax.models.prior import require_finite_draws
from vhmc_jax.models.problem import Problem
from vhmc_jax.models.support import must_compare

IMPROPER_WIDTH = 10.0
"""A site with an improper prior is sought uniformly from −10 to 10 in its unconstrained coordinates."""
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
    _import_numpyro()
    if not callable(model):
        raise TypeError(f"model must be a function with NumPyro's primitives, got {type(model).__name__}: {model!r}")
    function = as_pytree_function(model)
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
    is_proper = not any(_is_improper(site["fn"]) for site in latent.values())
    problem = Problem(
        logdensity_fn=Partial(_logdensity if must_compare(sites, observed) else _faster, function, arguments),
        region=prior if is_proper else Partial(Prior.__call__, prior),
        constrain=Partial(_constrained, function, arguments),
        log_likelihood=Partial(_log_likelihood, function, arguments) if observed else None,
        observed_data=observed,
        dims=_dims(sites),
    )
    require_finite_draws(problem, Partial(_log_probs, function, arguments))
    return problem


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of the latent sites in unconstrained space. Called with a key, it draws one position.

    Attributes
    ----------
    model
        The model, a callable pytree.
    arguments
        What it is called with.
    """

    model: Callable
    arguments: Arguments

    def __call__(self, rng_key: Array) -> PyTree:
        """Draw one position. A coordinate that is not finite, since rounding put a value on its edge, becomes 0."""
        numpyro = _import_numpyro()
        biject_to = numpyro.distributions.biject_to
        found = {}
        for name, site in _trace(self.model, self.arguments, rng_key).items():
            if _is_latent(site):
                x = biject_to(site["fn"].support).inv(site["value"])
                found[name] = jnp.where(jnp.isfinite(x), x, jnp.zeros_like(x))
        return found

    def log_prob(self, position: PyTree) -> Array:
        """Log density of the prior, its Jacobian included."""
        numpyro = _import_numpyro()
        values = _constrained(self.model, self.arguments, position)
        log_probs, sites = _site_log_probs(self.model, self.arguments, values)
        transforms = {name: numpyro.distributions.biject_to(sites[name]["fn"].support) for name in position}
        log_dets = [transforms[name].log_abs_det_jacobian(x, values[name]).sum() for name, x in position.items()]
        return sum(log_dets, start=sum(log_probs[name].sum() for name in position))


def _logdensity(model: Callable, arguments: Arguments, position: PyTree) -> Array:
    potential_energy = _import_numpyro().infer.util.potential_energy
    return -potential_energy(_seeded(model, arguments), (), {}, position)


def _faster(model: Callable, arguments: Arguments, position: PyTree) -> Array:
    """The same, where no value can lie outside its support."""
    with _import_numpyro().validation_enabled(False):
        return _logdensity(model, arguments, position)


def _constrained(model: Callable, arguments: Arguments, position: PyTree) -> dict[str, Array]:
    """Latent and deterministic sites of a position."""
    constrain_fn = _import_numpyro().infer.util.constrain_fn
    return constrain_fn(_seeded(model, arguments), (), {}, position, return_deterministic=True)


def _site_log_probs(model: Callable, arguments: Arguments, values: Mapping[str, Array]) -> tuple[dict, dict]:
    """Log probabilities of all sample sites at given values, and the sites."""
    compute_log_probs = _import_numpyro().infer.util.compute_log_probs
    return compute_log_probs(_seeded(model, arguments), (), {}, values, sum_log_prob=False)


@jax.jit
def _log_probs(model: Callable, arguments: Arguments, position: PyTree) -> dict[str, Array]:
    return _site_log_probs(model, arguments, _constrained(model, arguments, position))[0]


def _log_likelihood(model: Callable, arguments: Arguments, position: PyTree) -> dict[str, Array]:
    log_probs, sites = _site_log_probs(model, arguments, _constrained(model, arguments, position))
    return {name: log_probs[name] for name, site in sites.items() if _is_data(site)}


def _seeded(model: Callable, arguments: Arguments) -> Callable:
    """The model as a function of nothing, with a key for those that ask for one."""
    return _import_numpyro().handlers.seed(lambda: arguments.call(model), rng_seed=0)


def _trace(model: Callable, arguments: Arguments, rng_key: Array) -> dict[str, Any]:
    """The sites of a run of the model, latent ones drawn from the prior."""
    numpyro = _import_numpyro()

    def improper(site: dict) -> Any:
        if site["type"] == "sample" and not site["is_observed"] and _is_improper(site["fn"]):
            return numpyro.infer.init_to_uniform(site, radius=IMPROPER_WIDTH)
        return None

    seeded = numpyro.handlers.seed(lambda: arguments.call(model), rng_seed=rng_key)
    return numpyro.handlers.trace(numpyro.handlers.substitute(seeded, substitute_fn=improper)).get_trace()


def _traced(model: Callable, positional: tuple, named: dict[str, Any]) -> tuple[Arguments, dict[str, Any]]:
    """The arguments and the sites. Nothing is computed; arrays that Python has to read become constants."""
    sites: dict[str, Any] = {}

    def record(arguments: Arguments, rng_key: Array) -> None:
        sites.update(_trace(model, arguments, rng_key))

    arguments, rng_key = Arguments.of(positional, named), jax.random.key(0)
    try:
        jax.eval_shape(record, arguments, rng_key)
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
    latent = {name: site for name, site in sites.items() if _is_latent(site)}
    if not latent:
        raise ValueError("the model must have a latent site, numpyro.sample without obs, got none")
    for name, site in latent.items():
        if site["fn"].support.is_discrete:
            raise ValueError(
                f"site {name!r} is discrete and latent: {type(site['fn']).__name__}. Marginalise it, for a mixture by "
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
    sites = _trace(model, arguments, jax.random.key(0))
    return {name: site["value"] for name, site in sites.items() if _is_data(site)}


def _is_latent(site: dict) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _is_data(site: dict) -> bool:
    """Whether a site is observed, and not a factor."""
    return site["type"] == "sample" and site["is_observed"] and type(site["fn"]).__name__ != "Unit"


def _is_improper(distribution: Any) -> bool:
    """Whether a distribution, or the one that it wraps, has no draws."""
    while hasattr(distribution, "base_dist"):
        distribution = distribution.base_dist
    return type(distribution).__name__ in ("ImproperUniform", "Unit")


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


def _import_numpyro() -> Any:
    try:
        import numpyro
        import numpyro.infer.util
    except ImportError as error:
        raise ImportError("from_numpyro needs NumPyro: pip install 'vhmc-jax[numpyro]'") from error
    return numpyro
