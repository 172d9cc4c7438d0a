"""Maximum mean discrepancy from a target: as a curve with the quadratic kernel, or with any kernel.

The quadratic kernel k(x, y) = (1 + <x, y>)² has the feature map (1, √2 x, x ⊗ x), so its discrepancy is a
distance between first and second moments, and the curve against the number of draws is a running mean.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from vhmc_jax.diagnostics.draws import check_draws, flatten_draws


@jax.jit
def _curve(x: Array, first: Array, second: Array) -> Array:
    """MMD² of the first 1, 2, ..., n rows of x (chain, draw, d) from the moments E[y] and E[y ⊗ y]."""

    def one_chain(x: Array) -> Array:
        def step(carry: tuple[Array, Array, Array], row: Array) -> tuple[tuple[Array, Array, Array], Array]:
            # Running means of differences, not sums of features: single precision then keeps its digits.
            count, mean, outer = carry
            count = count + 1
            mean = mean + (row - first - mean) / count
            outer = outer + (jnp.outer(row, row) - second - outer) / count
            return (count, mean, outer), 2 * jnp.sum(mean**2) + jnp.sum(outer**2)

        start = (jnp.zeros((), x.dtype), jnp.zeros_like(first), jnp.zeros_like(second))
        return jax.lax.scan(step, start, x)[1]

    return jax.vmap(one_chain)(x)


def mmd_curve(draws: Any, reference: Any = None, *, mean: Any = None, covariance: Any = None) -> Array:
    r"""MMD² with the quadratic kernel after each draw of each chain, in O(N d²).

    .. math:: \mathrm{MMD}^2_t = \Big\|\frac1t\sum_{i\le t}\varphi(x_i) - \mathrm E\,\varphi(y)\Big\|^2
        = 2\,\|\bar x_t - \mathrm E\,y\|^2 + \|\overline{x x^T}_t - \mathrm E\,y y^T\|_F^2

    It equals the double sum over pairs (the biased, V-statistic estimate). It compares first and second moments only:
    zero does not mean that the distributions are the same.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    reference
        Draws of the target: a pytree like ``draws`` with one leading axis, (n, ...).
    mean, covariance
        Exact moments in place of ``reference``: a pytree like one draw, and a matrix in the order of
        ``ravel_pytree``.

    Returns
    -------
    Array (chain, draw); NaN from the first draw on that is not finite.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf & Smola (2012), equation 5.
    """
    x = flatten_draws(check_draws(draws))
    if (reference is None) == (mean is None or covariance is None):
        raise ValueError("mmd_curve needs either reference or both mean and covariance")
    if reference is None:
        first, second = _exact_moments(mean, covariance, x)
    else:
        y = _flat_reference(reference, x)
        first = jnp.mean(y, axis=0)
        second = y.T @ y / y.shape[0]
    return _curve(x, first, second)


def _exact_moments(mean: Any, covariance: Any, x: Array) -> tuple[Array, Array]:
    """E[y] and E[y ⊗ y] in the dtype of x (chain, draw, d)."""
    first = jnp.asarray(ravel_pytree(mean)[0], x.dtype)
    second = jnp.asarray(covariance, x.dtype)
    size = x.shape[-1]
    if first.shape != (size,) or second.shape != (size, size):
        raise ValueError(
            f"draws have {size} components; got mean of {first.size} and covariance of shape {second.shape}"
        )
    return first, second + jnp.outer(first, first)


def _flat_reference(reference: Any, x: Array) -> Array:
    """Reference draws (n, ...) as a matrix (n, d) in the dtype of x (chain, draw, d)."""
    leaves = jax.tree.map(lambda leaf: jnp.asarray(leaf, x.dtype), reference)
    sizes = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(leaves)}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(f"leaves of reference must share one leading axis of draws, got lengths {sorted(sizes)}")
    y = flatten_draws(leaves, num_leading=1)
    if y.shape[1] != x.shape[-1]:
        raise ValueError(f"reference has {y.shape[1]} components a draw, draws have {x.shape[-1]}")
    return y


def gaussian_kernel(bandwidth: float) -> Callable[[Array, Array], Array]:
    """exp(−‖x − y‖² / (2 bandwidth²)), a kernel that sees every moment."""
    if not bandwidth > 0:
        raise ValueError(f"bandwidth must be positive, got {bandwidth}")
    return lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2) / (2 * bandwidth**2))


def mmd(draws: Any, reference: Any, kernel: Callable[[Array, Array], Array], *, block_size: int = 500) -> Array:
    r"""MMD² with any kernel: the mean over blocks of the unbiased estimate, in O(N · block_size).

    .. math:: \frac{1}{b(b-1)} \sum_{i\ne j} k(x_i, x_j) + \frac{1}{c(c-1)} \sum_{i\ne j} k(y_i, y_j)
        - \frac{2}{bc} \sum_{i,j} k(x_i, y_j)

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays, pooled over chains. A block takes draws far apart, so that
        neighbours in a chain do not meet in one.
    reference
        Independent draws of the target: a pytree like ``draws`` with one leading axis, (n, ...).
    kernel
        ``kernel(x, y)``, a number for two flat vectors, for example ``gaussian_kernel(1.0)``.
    block_size
        Draws in a block, about. With as many as there are draws, the result is the plain unbiased estimate.

    Returns
    -------
    A number. It may be slightly negative, since the estimate is unbiased.

    References
    ----------
    Zaremba, Gretton & Blaschko (2013), equation 3.
    """
    x = flatten_draws(check_draws(draws))
    y = _flat_reference(reference, x)
    x = x.reshape(-1, x.shape[-1])
    if block_size < 2 or min(len(x), len(y)) < 2:
        raise ValueError(f"a block needs two draws of each, got block_size {block_size}, {len(x)} and {len(y)} draws")
    num_blocks = max(1, min(max(len(x), len(y)) // block_size, min(len(x), len(y)) // 2))
    return _block_mmd(x, y, kernel, num_blocks)


@partial(jax.jit, static_argnums=(2, 3))
def _block_mmd(x: Array, y: Array, kernel: Callable[[Array, Array], Array], num_blocks: int) -> Array:
    def blocks(z: Array) -> Array:
        size = len(z) // num_blocks
        return z[: size * num_blocks].reshape(size, num_blocks, -1).swapaxes(0, 1)

    def mean_kernel(a: Array, b: Array) -> Array:
        return jnp.mean(jax.lax.map(lambda row: jnp.mean(jax.vmap(lambda other: kernel(row, other))(b)), a))

    def unbiased(z: Array) -> Array:
        size = len(z)
        return (size * mean_kernel(z, z) - jnp.mean(jax.vmap(lambda row: kernel(row, row))(z))) / (size - 1)

    def one_block(pair: tuple[Array, Array]) -> Array:
        a, b = pair
        return unbiased(a) + unbiased(b) - 2 * mean_kernel(a, b)

    return jnp.mean(jax.lax.map(one_block, (blocks(x), blocks(y))))
