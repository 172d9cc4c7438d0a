"""Functions of a NumPyro model at a position: density, values and the way back, likelihood, predictions; and the prior.

Each traces the model, called with its arguments, by NumPyro's handlers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vhmc_jax.base import Array, PyTree
from vhmc_jax.models.call_arguments import Arguments

IMPROPER_WIDTH = 10.0
"""A site with an improper prior is sought uniformly from −10 to 10 in its unconstrained coordinates."""


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
        sites = sites_of(self.model, self.arguments, rng_key).items()
        found = {name: _coordinates(site["fn"].support, site["value"]) for name, site in sites if is_latent(site)}
        return {name: jnp.where(jnp.isfinite(x), x, jnp.zeros_like(x)) for name, x in found.items()}

    def log_prob(self, position: PyTree) -> Array:
        """Log density of the prior, its Jacobian included."""
        biject_to = import_numpyro().distributions.biject_to
        values = constrained(self.model, self.arguments, position)
        log_probs, sites = _site_log_probs(self.model, self.arguments, values)
        transforms = {name: biject_to(sites[name]["fn"].support) for name in position}
        log_dets = [transforms[name].log_abs_det_jacobian(x, values[name]).sum() for name, x in position.items()]
        return sum(log_dets, start=sum(log_probs[name].sum() for name in position))


def logdensity(model: Callable, arguments: Arguments, position: PyTree) -> Array:
    """Log density of a position."""
    potential_energy = import_numpyro().infer.util.potential_energy
    return -potential_energy(_seeded(model, arguments), (), {}, position)


def faster_logdensity(model: Callable, arguments: Arguments, position: PyTree) -> Array:
    """The same, where no value can lie outside its support."""
    with import_numpyro().validation_enabled(False):
        return logdensity(model, arguments, position)


def constrained(model: Callable, arguments: Arguments, position: PyTree) -> dict[str, Array]:
    """Latent and deterministic sites of a position."""
    constrain_fn = import_numpyro().infer.util.constrain_fn
    return constrain_fn(_seeded(model, arguments), (), {}, position, return_deterministic=True)


def unconstrained(model: Callable, arguments: Arguments, values: Mapping[str, Array]) -> dict[str, Array]:
    """The position at which the latent sites have given values."""
    handlers = import_numpyro().handlers
    sites = handlers.trace(handlers.substitute(_seeded(model, arguments), data=dict(values))).get_trace()
    return {name: _coordinates(sites[name]["fn"].support, value) for name, value in values.items()}


@jax.jit
def log_probs(model: Callable, arguments: Arguments, position: PyTree) -> dict[str, Array]:
    """Log probabilities of all sites."""
    return _site_log_probs(model, arguments, constrained(model, arguments, position))[0]


def log_likelihood(model: Callable, arguments: Arguments, position: PyTree) -> dict[str, Array]:
    """Log probabilities of the values of the observed sites."""
    values, sites = _site_log_probs(model, arguments, constrained(model, arguments, position))
    return {name: values[name] for name, site in sites.items() if is_data(site)}


def predicted(model: Callable, arguments: Arguments, rng_key: Array, position: PyTree) -> dict[str, Array]:
    """The observed sites, drawn anew."""
    handlers = import_numpyro().handlers
    free = handlers.uncondition(handlers.seed(lambda: arguments.call(model), rng_seed=rng_key))
    held = handlers.substitute(free, data=constrained(model, arguments, position))
    sites = handlers.trace(held).get_trace()
    return {name: site["value"] for name, site in sites.items() if _is_predicted(site)}


def sites_of(model: Callable, arguments: Arguments, rng_key: Array) -> dict[str, Any]:
    """The sites of a run of the model, latent ones drawn from the prior."""
    numpyro = import_numpyro()

    def improper(site: dict) -> Any:
        if is_latent(site) and is_improper(site["fn"]):
            return numpyro.infer.init_to_uniform(site, radius=IMPROPER_WIDTH)
        return None

    seeded = numpyro.handlers.seed(lambda: arguments.call(model), rng_seed=rng_key)
    return numpyro.handlers.trace(numpyro.handlers.substitute(seeded, substitute_fn=improper)).get_trace()


def is_latent(site: dict) -> bool:
    """Whether a site is sampled and has no value given."""
    return site["type"] == "sample" and not site["is_observed"]


def is_data(site: dict) -> bool:
    """Whether a site is observed, and not a factor."""
    return site["type"] == "sample" and site["is_observed"] and type(site["fn"]).__name__ != "Unit"


def is_improper(distribution: Any) -> bool:
    """Whether a distribution, or the one that it wraps, has no draws."""
    while hasattr(distribution, "base_dist"):
        distribution = distribution.base_dist
    return type(distribution).__name__ in ("ImproperUniform", "Unit")


def import_numpyro() -> Any:
    """NumPyro, or an error that says how to get it."""
    try:
        import numpyro
        import numpyro.infer.util
    except ImportError as error:
        raise ImportError("from_numpyro needs NumPyro: pip install 'vhmc-jax[numpyro]'") from error
    return numpyro


def _coordinates(support: Any, value: Array) -> Array:
    """Unconstrained coordinates of a value within its support."""
    transform = import_numpyro().distributions.biject_to(support)
    if type(transform).__name__ != "StickBreakingTransform":
        return transform.inv(value)
    # NumPyro takes what is left of the stick from 1, which leaves no digit of a small weight at its end.
    left = jnp.flip(jnp.cumsum(jnp.flip(value[..., 1:], -1), axis=-1), -1)
    numbers = jnp.arange(left.shape[-1], 0, -1, dtype=left.dtype)
    return jnp.log(value[..., :-1]) - jnp.log(left) + jnp.log(numbers)


def _site_log_probs(model: Callable, arguments: Arguments, values: Mapping[str, Array]) -> tuple[dict, dict]:
    """Log probabilities of all sample sites at given values, and the sites."""
    compute_log_probs = import_numpyro().infer.util.compute_log_probs
    return compute_log_probs(_seeded(model, arguments), (), {}, values, sum_log_prob=False)


def _seeded(model: Callable, arguments: Arguments) -> Callable:
    """The model as a function of nothing, with a key for those that ask for one."""
    return import_numpyro().handlers.seed(lambda: arguments.call(model), rng_seed=0)


def _is_predicted(site: dict) -> bool:
    """Whether a site would be observed, and is no factor."""
    return bool(site.get("infer", {}).get("was_observed")) and type(site["fn"]).__name__ != "Unit"
