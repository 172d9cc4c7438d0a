"""Relative error of the running mean against a known one."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from vhmc_jax.arguments import is_concrete
from vhmc_jax.diagnostics.draws import check_draws, flatten_draws


@jax.jit
def _curve(x: Array, truth: Array) -> Array:
    """Relative error after each draw of x (chain, draw, d)."""
    counts = jnp.arange(1, x.shape[1] + 1, dtype=x.dtype)
    errors = jnp.cumsum(x - truth, axis=1) / counts[:, None]
    scale = jnp.sum(jnp.abs(truth))
    return jnp.sum(jnp.abs(errors), axis=-1) / jnp.where(scale > 0, scale, jnp.nan)


def relative_error_of_mean(draws: Any, mean: Any) -> Array:
    r"""Relative error of the mean after each draw of each chain; jit-able.

    .. math:: \mathrm{REM}_t = \sum_i |\bar\theta_i^t - \theta_i^*| \Big/ \sum_i |\theta_i^*|

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    mean
        True mean θ*, a pytree like one draw. It must not be zero in every component, since the relative error is not
        defined then. A traced ``mean`` cannot be checked; where it is zero, the result is NaN.

    Returns
    -------
    Array (chain, draw); NaN from the first draw on that is not finite.

    References
    ----------
    Gu & Sun (2019), section 5.3.
    """
    x = flatten_draws(check_draws(draws))
    truth = jnp.asarray(ravel_pytree(mean)[0], x.dtype)
    if truth.shape != x.shape[-1:]:
        raise ValueError(f"mean has {truth.size} components, a draw has {x.shape[-1]}")
    if is_concrete(truth) and not jnp.any(truth):
        raise ValueError(
            "mean is zero in every component, so an error relative to it is undefined; "
            "compare with mmd_curve, or shift the target"
        )
    return _curve(x, truth)
