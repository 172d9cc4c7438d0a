"""Autocorrelation of every chain at every lag, by the fast Fourier transform."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vhmc_jax.diagnostics.draws import check_draws, map_blocks, namespace, smooth_length


def centre(x: Array) -> tuple[Array, Array]:
    """Chain means of x (chain, draw, ...) and deviations from them.

    The first draw is subtracted beforehand, and the mean of the differences is taken twice. In single precision a chain
    far from the origin then keeps its digits, and a chain that never moves gives exact zeros.
    """
    deviations = x - x[:, :1]
    first = deviations.mean(axis=1, keepdims=True)
    deviations = deviations - first
    second = deviations.mean(axis=1, keepdims=True)
    return (x[:, :1] + first + second)[:, 0], deviations - second


def spectrum(deviations: Array, length: int) -> Array:
    """Power of (chain, draw, ...) padded with zeros to ``length``: (chain, ..., frequency)."""
    xp = namespace(deviations)
    transform = xp.fft.rfft(xp.moveaxis(deviations, 1, -1), n=length, axis=-1)
    return transform.real**2 + transform.imag**2


@partial(jax.jit, static_argnums=2)
def _autocorrelation(x: Array, mean: Array | None, num_lags: int) -> Array:
    length = smooth_length(x.shape[1] + num_lags - 1)

    def block(x: Array) -> Array:
        deviations = centre(x)[1] if mean is None else x - mean
        sums = jnp.fft.irfft(spectrum(deviations, length), n=length, axis=-1)[..., :num_lags]
        return jnp.moveaxis(sums / sums[..., :1], -1, 1)

    blocks = map_blocks(block, x)
    return blocks.reshape(x.shape[0], num_lags, *x.shape[2:])


def autocorrelation(draws: Any, max_lag: int | None = None, *, mean: Any = None) -> Any:
    r"""Autocorrelation of each chain.

    .. math:: \rho_t = \sum_{i=1}^{n-t} (x_i - m)(x_{i+t} - m) \Big/ \sum_{i=1}^{n} (x_i - m)^2

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    max_lag
        Largest lag; by default every lag up to draws − 1. A smaller one is cheaper.
    mean
        True mean m, a pytree like one draw. By default it is each chain's own mean, with which a chain that is stuck
        in one mode looks perfect. Give the true mean where it is known.

    Returns
    -------
    Pytree of (chain, lag, ...) arrays. NaN for a chain that never moves or holds a value that is not finite.
    """
    draws = check_draws(draws)
    num_draws = jax.tree.leaves(draws)[0].shape[1]
    num_lags = num_draws if max_lag is None else max_lag + 1
    if not 1 <= num_lags <= num_draws:
        raise ValueError(f"max_lag must be from 0 to draws - 1 = {num_draws - 1}, got {max_lag}")
    if mean is None:
        return jax.tree.map(lambda x: _autocorrelation(x, None, num_lags), draws)
    structure: Any = jax.tree.structure(draws)
    if structure != jax.tree.structure(mean):
        raise ValueError("mean must have the structure of one draw")
    return jax.tree.map(lambda x, m: _autocorrelation(x, jnp.asarray(m, x.dtype), num_lags), draws, mean)
