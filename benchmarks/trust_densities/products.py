"""Densities made of one-dimensional factors: wells, signs, quartic tops, kinks, and the φ⁴ chain.

Products have the truths of their factors, by formula or on a grid. The chain is integrated site by site with its
transfer matrix on a grid.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.random import Generator
from scipy.special import gamma, gammaincc, ndtr

import vhmc_jax as vj
from trust_densities.record import Case, Density, Line, below, cube, moments, probability


def many_well_logdensity(x: Any) -> Any:
    """The first half of x are wells ½a + 6a² − a⁴, the second half is standard normal."""
    a, b = jnp.split(x, 2)
    return jnp.sum(0.5 * a + 6 * a**2 - a**4) - 0.5 * jnp.sum(b**2)


def many_well(dim: int) -> Density:
    num_wells = dim // 2
    line = Line(lambda a: 0.5 * a + 6 * a**2 - a**4, -5.0, 5.0)
    means, variances = np.zeros(dim), np.ones(dim)
    means[:num_wells], variances[:num_wells] = line.moments()
    right = 1 - line.below(0.0)
    quantities = moments(means, variances)
    quantities += [below(0, 0.0, 1 - right), below(num_wells - 1, 0.0, 1 - right)]
    quantities.append(probability("x0 > 0, x1 > 0", lambda x: (x[:, 0] > 0) & (x[:, 1] > 0), right**2))

    def draw(rng: Generator, n: int) -> np.ndarray:
        return np.concatenate([line.draw(rng, (n, num_wells)), rng.standard_normal((n, num_wells))], axis=1)

    log_z = num_wells * (line.log_z + 0.5 * np.log(2 * np.pi))
    return Density(dim, many_well_logdensity, cube(dim, 3.0), quantities, log_z, draw)


def signs_logdensity(x: Any) -> Any:
    """Every coordinate is 0.7 N(−3, 0.6²) + 0.3 N(3, 0.6²), not normalised."""
    terms = [jnp.log(w) - 0.5 * ((x - c) / 0.6) ** 2 for w, c in ((0.7, -3.0), (0.3, 3.0))]
    return jnp.sum(jnp.logaddexp(*terms))


def signs(dim: int) -> Density:
    """2ᵈ modes, weights 0.7ᵏ 0.3ᵈ⁻ᵏ."""
    mean, variance = -1.2, 0.36 + 9 - 1.2**2
    left = 0.7 * ndtr(5.0) + 0.3 * ndtr(-5.0)
    quantities = [*moments(np.full(dim, mean), np.full(dim, variance)), below(0, 0.0, left), below(dim - 1, 0.0, left)]
    quantities.append(probability("x0 < 0, x1 < 0", lambda x: (x[:, 0] < 0) & (x[:, 1] < 0), left**2))

    def draw(rng: Generator, n: int) -> np.ndarray:
        return np.where(rng.random((n, dim)) < 0.7, -3.0, 3.0) + 0.6 * rng.standard_normal((n, dim))

    log_z = dim * (0.5 * np.log(2 * np.pi) + np.log(0.6))
    return Density(dim, signs_logdensity, cube(dim, 6.0), quantities, log_z, draw)


def quartic_logdensity(x: Any) -> Any:
    return -jnp.sum(x**4)


def laplace_logdensity(x: Any) -> Any:
    return -jnp.sum(jnp.abs(x))


def pair_logdensity(factor: Callable, x: Any) -> Any:
    """0.7 around −5·1 and 0.3 around 5·1."""
    return jnp.logaddexp(jnp.log(0.7) + factor(x + 5.0), jnp.log(0.3) + factor(x - 5.0))


def draw_quartic(rng: Generator, shape: Any) -> np.ndarray:
    """|x|⁴ has the gamma law of shape ¼."""
    return rng.gamma(0.25, size=shape) ** 0.25 * rng.choice([-1.0, 1.0], shape)


def draw_laplace(rng: Generator, shape: Any) -> np.ndarray:
    return rng.laplace(size=shape)


LAWS = {
    quartic_logdensity: (gamma(0.75) / gamma(0.25), lambda t: gammaincc(0.25, t**4), 2 * gamma(1.25), draw_quartic),
    laplace_logdensity: (2.0, lambda t: np.exp(-t), 2.0, draw_laplace),
}
"""Variance, P(|x| > t), normalising constant and draws of one factor."""


def product(factor: Callable, dim: int) -> Density:
    variance, tail, constant, draw_factor = LAWS[factor]
    quantities = [
        *moments(np.zeros(dim), np.full(dim, variance)),
        below(0, -0.5, 0.5 * tail(0.5)),
        below(dim - 1, 0.0, 0.5),
    ]
    return Density(
        dim, factor, cube(dim, 6.0), quantities, dim * np.log(constant), lambda rng, n: draw_factor(rng, (n, dim))
    )


def product_pair(factor: Callable, dim: int) -> Density:
    variance, tail, constant, draw_factor = LAWS[factor]
    quantities = moments(np.full(dim, -2.0), np.full(dim, variance + 25 - 2.0**2))
    quantities += [below(0, 0.0, 0.7 - 0.2 * tail(5.0)), below(0, -5.0, 0.35 + 0.15 * tail(10.0))]

    def draw(rng: Generator, n: int) -> np.ndarray:
        return draw_factor(rng, (n, dim)) + np.where(rng.random((n, 1)) < 0.7, -5.0, 5.0)

    logdensity = Partial(partial(pair_logdensity, factor))
    return Density(dim, logdensity, cube(dim, 10.0), quantities, dim * np.log(constant), draw)


def gumbel_logdensity(x: Any) -> Any:
    return vj.targets.skewed().logdensity(x)


def skewed() -> Density:
    """The logarithm of an exponential variable, and a normal one that follows it."""
    target = vj.targets.skewed()
    quantities = [*moments(target.mean, np.diag(target.covariance)), below(0, -2.0, -np.expm1(-np.exp(-2.0)))]

    def draw(rng: Generator, n: int) -> np.ndarray:
        first = np.log(rng.exponential(size=n))
        return np.stack([first, 0.5 * first + rng.standard_normal(n)], axis=1)

    return Density(2, gumbel_logdensity, cube(2, 6.0), quantities, target.log_normalizer, draw)


COUPLING, BETA = 0.1, 20.0


def chain_logdensity(field: float, x: Any) -> Any:
    """−β [a d Σ(Δφ)²/2 + Σ((1 − φ²)²/4 + bφ)/(a d)], φ = 0 beyond both ends, a = 0.1, β = 20."""
    scale = COUPLING * x.shape[0]
    differences = jnp.diff(jnp.pad(x, 1))
    return -BETA * (scale * jnp.sum(differences**2) / 2 + jnp.sum((1 - x**2) ** 2 / 4 + field * x) / scale)


def chain(dim: int, field: float) -> Density:
    """Messages from the right by the transfer matrix; draws from the left with them."""
    scale, grid = COUPLING * dim, np.linspace(-3.0, 3.0, 601)
    cell = grid[1] - grid[0]
    site = np.exp(-BETA / scale * ((1 - grid**2) ** 2 / 4 + field * grid))
    link = np.exp(-BETA * scale / 2 * (grid[:, None] - grid) ** 2)
    end = np.exp(-BETA * scale / 2 * grid**2)
    right, left = [end], [end]
    for _ in range(dim - 1):
        right.insert(0, cell * link @ (site * right[0]))
        left.append(cell * link @ (site * left[-1]))
    log_z = np.log(cell * np.sum(site * end * right[0]))
    marginals = [site * a * b for a, b in zip(left, right, strict=True)]
    marginals = [m / m.sum() for m in marginals]
    means = np.array([m @ grid for m in marginals])
    variances = np.array([m @ grid**2 for m in marginals]) - means**2
    middle = dim // 2
    quantities = moments(means, variances, [0, middle, dim - 1])
    for threshold in (-0.505, 0.005, 0.505):  # between two grid points
        quantities.append(below(middle, threshold, marginals[middle][grid < threshold].sum()))

    def draw(rng: Generator, n: int) -> np.ndarray:
        states = np.empty((n, dim), int)
        states[:, 0] = rng.choice(len(grid), n, p=marginals[0])
        for i in range(1, dim):
            steps = link * (site * right[i])
            cumulative = np.cumsum(steps, axis=1)
            for state in np.unique(states[:, i - 1]):
                chosen = np.flatnonzero(states[:, i - 1] == state)
                uniforms = rng.random(len(chosen)) * cumulative[state, -1]
                states[chosen, i] = np.searchsorted(cumulative[state], uniforms)
        return grid[states] + cell * rng.uniform(-0.5, 0.5, (n, dim))

    return Density(dim, Partial(chain_logdensity, field), cube(dim, 2.0), quantities, float(log_z), draw)


CASES = [
    Case("many-well d = 8", "wells", partial(many_well, 8)),
    Case("many-well d = 16", "wells", partial(many_well, 16)),
    Case("many-well d = 32", "wells", partial(many_well, 32)),
    Case("φ⁴ chain d = 8", "φ⁴", partial(chain, 8, 0.02)),
    Case("φ⁴ chain d = 16", "φ⁴", partial(chain, 16, 0.0)),
    Case("1024 modes d = 10", "many modes", partial(signs, 10)),
    Case("quartic d = 5", "quartic", partial(product, quartic_logdensity, 5)),
    Case("two quartics d = 2", "quartic", partial(product_pair, quartic_logdensity, 2)),
    Case("Laplace d = 2", "kink", partial(product, laplace_logdensity, 2)),
    Case("two Laplace d = 2", "kink", partial(product_pair, laplace_logdensity, 2)),
    Case("skewed", "easy", skewed),
]
