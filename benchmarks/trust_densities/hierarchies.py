"""Funnels and the eight schools.

A funnel's narrow coordinate has a normal law, and given it the others are normal: probabilities are one-dimensional
integrals. In the eight schools the effects and their mean integrate out given the spread τ: one integral over log τ.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.random import Generator
from scipy.special import ndtr

import vhmc_jax as vj
from trust_densities.record import Case, Density, Line, below, cube, moments, probability

LOG_2PI = np.log(2 * np.pi)


def funnel_logdensity(sd: float, x: Any) -> Any:
    """The neck v = x₀ ~ N(0, sd²) and the others ~ N(0, eᵛ), normalised."""
    v, others = x[0], x[1:]
    log_others = -0.5 * (jnp.sum(others**2) * jnp.exp(-v) + len(others) * v)
    return -0.5 * (v / sd) ** 2 - jnp.log(sd) + log_others - 0.5 * len(x) * LOG_2PI


def funnel(dim: int) -> Density:
    line = Line(lambda v: -0.5 * (v / 3.0) ** 2, -30.0, 30.0)
    quantities = moments(np.zeros(dim), np.full(dim, 9.0), [0])
    quantities += [below(0, t, ndtr(t / 3)) for t in (-3.0, 0.0, 3.0)]
    for t in (-1.0, 0.1, 3.0):
        quantities.append(below(1, t, line.mean(lambda v, t=t: ndtr(t * np.exp(-v / 2)))))

    def draw(rng: Generator, n: int) -> np.ndarray:
        v = 3 * rng.standard_normal((n, 1))
        return np.concatenate([v, np.exp(v / 2) * rng.standard_normal((n, dim - 1))], axis=1)

    return Density(dim, Partial(funnel_logdensity, 3.0), cube(dim, 10.0), quantities, 0.0, draw)


SHIFT = 15.0


def two_funnels_logdensity(x: Any) -> Any:
    """0.6 of a funnel around x₁ = −15, and 0.4 of one around x₁ = 15 that narrows upwards; sd of v 1.5."""
    first = funnel_logdensity(1.5, x.at[1].add(SHIFT))
    second = funnel_logdensity(1.5, x.at[1].add(-SHIFT).at[0].multiply(-1))
    return jnp.logaddexp(jnp.log(0.6) + first, jnp.log(0.4) + second)


def two_funnels(dim: int) -> Density:
    line = Line(lambda v: -0.5 * (v / 1.5) ** 2, -15.0, 15.0)

    def cdf(t: float, centre: float) -> float:
        return line.mean(lambda v: ndtr((t - centre) * np.exp(-v / 2)))

    quantities = moments(np.zeros(3), np.full(3, 1.5**2), [0])
    quantities += [below(1, t, 0.6 * cdf(t, -SHIFT) + 0.4 * cdf(t, SHIFT)) for t in (-16.0, -14.0, 0.0, 15.0)]
    quantities += [below(2, t, cdf(t, 0.0)) for t in (-2.0, 0.1)]
    low = 0.6 * line.mean(lambda v: (v < -1) * ndtr(SHIFT * np.exp(-v / 2)))
    low += 0.4 * line.mean(lambda v: (v > 1) * ndtr(-SHIFT * np.exp(-v / 2)))
    quantities.append(probability("x0 < −1, x1 < 0", lambda x: (x[:, 0] < -1) & (x[:, 1] < 0), low))

    def draw(rng: Generator, n: int) -> np.ndarray:
        v = 1.5 * rng.standard_normal((n, 1))
        x = np.concatenate([v, np.exp(v / 2) * rng.standard_normal((n, dim - 1))], axis=1)
        is_second = rng.random(n) < 0.4
        x[is_second, 0] *= -1
        x[:, 1] += np.where(is_second, SHIFT, -SHIFT)
        return x

    return Density(dim, two_funnels_logdensity, cube(dim, 20.0), quantities, 0.0, draw)


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools_logdensity(x: Any) -> Any:
    """Position (μ, log τ, θ₁ … θ₈): μ ~ N(0, 5²), τ ~ half-Cauchy(5), θ ~ N(μ, τ²), effects ~ N(θ, errors²)."""
    mu, log_tau, theta = x[0], x[1], x[2:]
    tau = jnp.exp(log_tau)
    log_prior = _log_prior_of_spread(mu, log_tau)
    log_effects = -0.5 * jnp.sum(((theta - mu) / tau) ** 2) - 8 * (log_tau + 0.5 * LOG_2PI)
    return log_prior + log_effects + _log_likelihood_of_effects(theta)


def scaled_schools_logdensity(x: Any) -> Any:
    """The same, not centred: position (μ, log τ, z₁ … z₈) with θ = μ + τ z."""
    mu, log_tau, z = x[0], x[1], x[2:]
    log_prior = _log_prior_of_spread(mu, log_tau) - 0.5 * jnp.sum(z**2) - 4 * LOG_2PI
    return log_prior + _log_likelihood_of_effects(mu + jnp.exp(log_tau) * z)


def _log_prior_of_spread(mu: Any, log_tau: Any) -> Any:
    log_normal = -0.5 * (mu / 5) ** 2 - jnp.log(5.0) - 0.5 * LOG_2PI
    return log_normal + log_tau + jnp.log(2 / (5 * jnp.pi)) - jnp.log1p((jnp.exp(log_tau) / 5) ** 2)


def _log_likelihood_of_effects(theta: Any) -> Any:
    scaled = (jnp.asarray(EFFECTS, theta.dtype) - theta) / jnp.asarray(ERRORS, theta.dtype)
    return -0.5 * jnp.sum(scaled**2) - np.sum(np.log(ERRORS)) - 4 * LOG_2PI


def schools(is_centred: bool = True) -> Density:
    """Given τ: effectsᵢ ~ N(μ, errorsᵢ² + τ²), so that μ is normal, and θ given μ and τ too."""

    def given(log_tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance of μ, and log p(τ, effects) on log τ."""
        tau = np.exp(log_tau)
        variances = ERRORS**2 + tau[:, None] ** 2
        precision = 1 / 25 + np.sum(1 / variances, axis=1)
        mean = np.sum(EFFECTS / variances, axis=1) / precision
        log_p = -0.5 * np.sum(np.log(variances) + EFFECTS**2 / variances, axis=1) - 4 * LOG_2PI
        log_p += 0.5 * precision * mean**2 - 0.5 * np.log(25 * precision)
        return mean, 1 / precision, log_p + log_tau + np.log(2 / (5 * np.pi)) - np.log1p((tau / 5) ** 2)

    def effects(log_tau: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance given μ and τ, and the factor of μ in the mean, of θ or of z = (θ − μ)/τ."""
        tau = np.exp(log_tau)[:, None]
        weight = 1 / (1 + (tau / ERRORS) ** 2)
        mean, variance = weight * mu[:, None] + (1 - weight) * EFFECTS, (1 - weight) * ERRORS**2
        if is_centred:
            return mean, variance, weight
        return (mean - mu[:, None]) / tau, variance / tau**2, (weight - 1) / tau

    line = Line(lambda log_tau: given(log_tau)[2], -14.0, 10.0)
    mu, mu_variance, _ = given(line.x)
    last, last_variance, factor = effects(line.x, mu)
    last_variance = last_variance + factor**2 * mu_variance[:, None]
    stacked = np.column_stack([mu, line.x, last])
    variances = np.column_stack([mu_variance, np.zeros_like(mu), last_variance])
    means = line.masses @ stacked
    totals = line.masses @ (variances + (stacked - means) ** 2)
    quantities = moments(means, totals, [0, 1, 2, 9])
    quantities += [below(1, np.log(t), line.below(np.log(t))) for t in (0.5, 3.0, 8.0)]

    def draw(rng: Generator, n: int) -> np.ndarray:
        log_tau = line.draw(rng, n)
        mean, variance, _ = given(log_tau)
        mu = mean + np.sqrt(variance) * rng.standard_normal(n)
        mean, variance, _ = effects(log_tau, mu)
        return np.column_stack([mu, log_tau, mean + np.sqrt(variance) * rng.standard_normal((n, 8))])

    half_width = 30.0 if is_centred else 3.0
    region = vj.box(jnp.array([-20.0, -3.0] + [-half_width] * 8), jnp.array([20.0, 4.0] + [half_width] * 8))
    return Density(10, schools_logdensity if is_centred else scaled_schools_logdensity, region, quantities,
                   line.log_z, draw)  # fmt: skip


CASES = [
    Case("funnel d = 3", "funnel", partial(funnel, 3)),
    Case("funnel d = 10", "funnel", partial(funnel, 10)),
    Case("two funnels d = 3", "funnel", partial(two_funnels, 3)),
    Case("eight schools", "funnel", schools),
]
