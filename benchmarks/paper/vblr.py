"""Gaussian approximations of logistic regression's posterior: at its maximum, and variational (VBLR).

Notation: as in ``targets.logistic``; m and S mean and covariance of the Gaussian, P the prior's precision,
λ(ξ) = tanh(ξ/2)/(4ξ).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.arguments import as_count, as_parameter
from vhmc_jax.base import Array
from vhmc_jax.targets.logistic import LogisticRegressionTarget

HALVINGS = 0.5 ** np.arange(12)
"""Steps that the line search of Newton's method tries."""

# σ(z) = Σ wᵢ Φ(cᵢ z) to 2e-9, everywhere: Monahan & Stefanski (1992), Normal scale mixture approximations to F*(z).
_PROBITS = np.array(
    [
        [0.003246343272134, 1.365340806296348],
        [0.051517477033972, 1.059523971016916],
        [0.195077912673858, 0.830791313765644],
        [0.315569823632818, 0.650732166639391],
        [0.274149576158423, 0.508135425366489],
        [0.131076880695470, 0.396313345166341],
        [0.027912418727972, 0.308904252267995],
        [0.001449567805354, 0.238212616409306],
    ]
)


class GaussianPosterior(NamedTuple):
    """A Gaussian approximation of the coefficients' posterior.

    Attributes
    ----------
    mean
        m, shape (d,): the posterior's maximum, or the variational mean.
    covariance
        S, shape (d, d): the inverse of the negative Hessian at the maximum, or the variational covariance.
    bounds
        What each iteration reached, shape (max_iterations,), the last one repeated to the end: the log density at the
        iterate, or a lower bound on the log evidence log ∫ p(y | θ) p(θ) dθ, with the prior normalised.
    num_iterations
        Iterations made.
    is_converged
        Whether the last one moved the mean by less than the tolerance.
    """

    mean: Array
    covariance: Array
    bounds: Array
    num_iterations: Array
    is_converged: Array

    def probabilities(self, design: Any) -> Array:
        """Predictive probabilities E σ(xᵀθ) of y = 1, one for each row x of a design matrix."""
        design = jnp.asarray(design, self.mean.dtype)
        variance = jnp.sum((design @ self.covariance) * design, axis=1)
        return expected_sigmoid(design @ self.mean, variance)


def expected_sigmoid(mean: Array, variance: Array) -> Array:
    """E σ(z) for z ~ N(mean, variance), to 2e-9: σ as a mixture of probits, whose expectations are known.

    Parameters
    ----------
    mean
        Of z, any shape.
    variance
        Of z, of the same shape, not negative.

    Returns
    -------
    Probabilities of that shape.
    """
    weights, scales = jnp.asarray(_PROBITS.T, mean.dtype)
    slopes = scales / jnp.sqrt(1 + scales**2 * variance[..., None])
    return jnp.sum(weights * jax.scipy.special.ndtr(slopes * mean[..., None]), axis=-1)


def maximum_a_posteriori(
    target: LogisticRegressionTarget, *, max_iterations: int = 100, tolerance: float | None = None
) -> GaussianPosterior:
    """The maximum of the posterior, by Newton's method with a line search, and Laplace's covariance there.

    The log density is strictly concave: there is one maximum, and this finds it. Predictions at the maximum itself are
    σ(Xm); ``probabilities`` averages over Laplace's Gaussian.

    Parameters
    ----------
    target
        The posterior.
    max_iterations
        Bound on the iterations.
    tolerance
        Converged when a step Δ, measured by Δᵀ S⁻¹ Δ, is below this; None for ten times the rounding error of the
        default float type.

    Returns
    -------
    The maximum, with the covariance and the log densities on the way.
    """
    return _newton(target, as_count("max_iterations", max_iterations, 1), _tolerance(tolerance))


def variational_logistic(
    target: LogisticRegressionTarget, *, max_iterations: int = 2000, tolerance: float | None = None
) -> GaussianPosterior:
    """Variational Bayesian logistic regression with Jaakkola and Jordan's bound.

    log σ(z) ≥ log σ(ξ) + (z − ξ)/2 − λ(ξ)(z² − ξ²) makes the posterior a Gaussian with S⁻¹ = P + 2 Xᵀ diag(λ) X and
    m = S Xᵀ(y − ½); then ξᵢ² = xᵢᵀ(S + mmᵀ)xᵢ makes the bound on the evidence as high as that Gaussian allows. The
    two in turn never lower it.

    Parameters
    ----------
    target
        The posterior.
    max_iterations
        Bound on the iterations.
    tolerance
        Converged when a change Δ of the mean, measured by Δᵀ S⁻¹ Δ, is below this; None for ten times the rounding
        error of the default float type.

    Returns
    -------
    The Gaussian, with the bound after each iteration.

    Notes
    -----
    The bound's bias is known: KL(q ‖ π) ≤ log Z − L for the evidence Z and the bound L, hence by Talagrand's inequality
    |m − E θ| ≤ √(2 v (log Z − L)) with v the largest prior variance. The covariance tends to be too small.

    References
    ----------
    Jaakkola & Jordan (2000), Bayesian parameter estimation via variational methods, section 3.
    """
    return _jaakkola_jordan(target, as_count("max_iterations", max_iterations, 1), _tolerance(tolerance))


def _tolerance(tolerance: float | None) -> Array:
    default = 10 * float(jnp.finfo(jnp.result_type(float)).eps)
    return as_parameter("tolerance", default if tolerance is None else tolerance, positive=True)


@functools.partial(jax.jit, static_argnames="max_iterations")
def _newton(target: LogisticRegressionTarget, max_iterations: int, tolerance: Array) -> GaussianPosterior:
    design, labels, precision = _data(target)

    def hessian(x: Array) -> Array:
        probability = jax.nn.sigmoid(design @ x)
        return (design.T * (probability * (1 - probability))) @ design + jnp.diag(precision)

    def update(x: Array) -> tuple[Array, Array, Array]:
        gradient = design.T @ (labels - jax.nn.sigmoid(design @ x)) - precision * x
        newton_step = jnp.linalg.solve(hessian(x), gradient)
        decrement = gradient @ newton_step
        shares = jnp.asarray(HALVINGS, x.dtype)
        candidates = x + shares[:, None] * newton_step
        values, value = jax.vmap(target.logdensity)(candidates), target.logdensity(x)
        rounding = 10 * jnp.finfo(x.dtype).eps * jnp.abs(value)
        first = jnp.argmax(values >= value + 1e-4 * shares * decrement - rounding)
        return candidates[first], values[first], decrement

    mean, *progress = _repeat(update, jnp.zeros_like(precision), max_iterations, tolerance)
    return GaussianPosterior(mean, _inverse(hessian(mean))[0], *progress)


@functools.partial(jax.jit, static_argnames="max_iterations")
def _jaakkola_jordan(target: LogisticRegressionTarget, max_iterations: int, tolerance: Array) -> GaussianPosterior:
    design, labels, precision = _data(target)
    drive = design.T @ (labels - 0.5)

    def gaussian(xi: Array) -> tuple[Array, Array, Array]:
        covariance, log_det = _inverse(jnp.diag(precision) + 2 * (design.T * _lambda(xi)) @ design)
        mean = covariance @ drive
        bound = 0.5 * (log_det + jnp.sum(jnp.log(precision)) + drive @ mean)
        return mean, covariance, bound + jnp.sum(jax.nn.log_sigmoid(xi) - 0.5 * xi + _lambda(xi) * xi**2)

    def update(carry: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array, Array]:
        xi, last_mean = carry
        mean, covariance, bound = gaussian(xi)
        difference = design @ (mean - last_mean)
        change = jnp.sum(precision * (mean - last_mean) ** 2) + 2 * jnp.sum(_lambda(xi) * difference**2)
        new_xi = jnp.sqrt(jnp.sum((design @ covariance) * design, axis=1) + (design @ mean) ** 2)
        return (new_xi, mean), bound, change

    start = (jnp.zeros_like(labels), jnp.zeros_like(precision))
    (xi, _), *progress = _repeat(update, start, max_iterations, tolerance)
    mean, covariance, _ = gaussian(xi)
    return GaussianPosterior(mean, covariance, *progress)


def _repeat(update: Callable, start: Any, max_iterations: int, tolerance: Array) -> tuple[Any, Array, Array, Array]:
    """Repeat ``update(carry) -> (carry, bound, change)`` until the change is below the tolerance.

    Returns the last carry, the bounds, how many there are, and whether the tolerance was reached.
    """

    def body(state: tuple[Any, Array, Array, Array]) -> tuple[Any, Array, Array, Array]:
        carry, bounds, count, _ = state
        carry, bound, change = update(carry)
        return carry, bounds.at[count].set(bound), count + 1, change <= tolerance

    def goes_on(state: tuple[Any, Array, Array, Array]) -> Array:
        return ~state[3] & (state[2] < max_iterations)

    bounds = jnp.zeros(max_iterations, tolerance.dtype)
    carry, bounds, count, is_converged = jax.lax.while_loop(
        goes_on, body, (start, bounds, jnp.int32(0), jnp.bool_(False))
    )
    is_made = jnp.arange(max_iterations, dtype=count.dtype) < count
    return carry, jnp.where(is_made, bounds, bounds[count - 1]), count, is_converged


def _data(target: LogisticRegressionTarget) -> tuple[Array, Array, Array]:
    """Design, labels and prior precision, in the default float type."""
    design, labels, variance = (jnp.asarray(a, float) for a in target.tree_flatten()[0])
    return design, labels, 1 / variance


def _inverse(precision: Array) -> tuple[Array, Array]:
    """Inverse of a positive definite matrix, and the log determinant of that inverse."""
    factor = jnp.linalg.cholesky(precision)
    identity = jnp.eye(len(precision), dtype=precision.dtype)
    return jax.scipy.linalg.cho_solve((factor, True), identity), -2 * jnp.sum(jnp.log(jnp.diagonal(factor)))


def _lambda(xi: Array) -> Array:
    """λ(ξ) = tanh(ξ/2)/(4ξ), ⅛ at 0."""
    is_small = jnp.abs(xi) < 1e-2
    away = jnp.where(is_small, 1.0, xi)
    return jnp.where(is_small, 0.125 - xi**2 / 96 + xi**4 / 960, jnp.tanh(0.5 * away) / (4 * away))
