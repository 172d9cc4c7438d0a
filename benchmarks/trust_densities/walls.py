"""Densities with an edge: walls, boxes, simplices, a forbidden disc.

Truths by formula; those of the disc are integrals over its polar coordinates, subtracted from the Gaussian's.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.random import Generator
from scipy.special import betainc, digamma, gammaln, ndtr, polygamma

import vhmc_jax as vj
from trust_densities.record import Case, Density, Line, below, cube, gaussian_region, mean_of, moments, within


def wall_and_mode_logdensity(x: Any) -> Any:
    """½ Exp(1) on x > 0 and ½ N(40, 1)."""
    exponential = jnp.where(x[0] > 0, -x[0], -jnp.inf)
    return jnp.logaddexp(exponential, -0.5 * (x[0] - 40.0) ** 2 - 0.5 * np.log(2 * np.pi)) + jnp.log(0.5)


def wall_and_mode() -> Density:
    def draw(rng: Generator, n: int) -> np.ndarray:
        return np.where(rng.random(n) < 0.5, rng.exponential(size=n), 40 + rng.standard_normal(n))[:, None]

    mean = 0.5 + 20.0
    quantities = moments([mean], [0.5 * 2 + 0.5 * (1600 + 1) - mean**2])
    quantities += [below(0, t, 0.5 * -np.expm1(-t) + 0.5 * ndtr(t - 40)) for t in (0.5, 2.0, 20.0, 40.0)]
    region = vj.box(jnp.full(1, -10.0), jnp.full(1, 60.0))
    return Density(1, wall_and_mode_logdensity, region, quantities, 0.0, draw, has_edges=True)


def exponential_logdensity(x: Any) -> Any:
    return jnp.where(jnp.all(x > 0), -jnp.sum(x), -jnp.inf)


def exponential(dim: int) -> Density:
    """e^{−Σx} on x > 0: the maximum is the corner."""
    quantities = [*moments(np.ones(dim), np.ones(dim)), below(0, 0.1, -np.expm1(-0.1)), below(0, 3.0, -np.expm1(-3.0))]

    def draw(rng: Generator, n: int) -> np.ndarray:
        return rng.exponential(size=(n, dim))

    region = vj.box(jnp.full(dim, -1.0), jnp.full(dim, 9.0))
    return Density(dim, exponential_logdensity, region, quantities, 0.0, draw, has_edges=True)


def half_normal_logdensity(x: Any) -> Any:
    return jnp.where(jnp.all(x > 0), -0.5 * jnp.sum(x**2), -jnp.inf)


def half_normal(dim: int) -> Density:
    mean = np.sqrt(2 / np.pi)
    quantities = moments(np.full(dim, mean), np.full(dim, 1 - 2 / np.pi))
    quantities += [below(0, 0.1, 2 * ndtr(0.1) - 1), below(0, 2.0, 2 * ndtr(2.0) - 1)]

    def draw(rng: Generator, n: int) -> np.ndarray:
        return np.abs(rng.standard_normal((n, dim)))

    region, log_z = gaussian_region(dim, 2.0), 0.5 * dim * np.log(np.pi / 2)
    return Density(dim, half_normal_logdensity, region, quantities, log_z, draw, has_edges=True)


def hard_box_logdensity(x: Any) -> Any:
    return jnp.where(jnp.all(jnp.abs(x) < 2), 0.0, -jnp.inf)


def hard_box(dim: int) -> Density:
    """Uniform on (−2, 2)ᵈ."""
    quantities = [*moments(np.zeros(dim), np.full(dim, 4 / 3)), below(0, -1.8, 0.05), below(0, 0.5, 0.625)]

    def draw(rng: Generator, n: int) -> np.ndarray:
        return rng.uniform(-2, 2, (n, dim))

    return Density(dim, hard_box_logdensity, cube(dim, 3.0), quantities, dim * np.log(4), draw, has_edges=True)


def soft_box_logdensity(x: Any) -> Any:
    return jnp.sum(jax.nn.log_sigmoid(20 * (x + 2)) + jax.nn.log_sigmoid(20 * (2 - x)))


def soft_box(dim: int) -> Density:
    """Flat on (−2, 2)ᵈ with edges 0.05 wide."""

    def log_factor(x: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0, -20 * (x + 2)) - np.logaddexp(0, -20 * (2 - x))

    line = Line(log_factor, -5.0, 5.0)
    mean, variance = line.moments()
    quantities = moments(np.full(dim, mean), np.full(dim, variance))
    quantities += [below(0, t, line.below(t)) for t in (-1.9, 0.5)]

    def draw(rng: Generator, n: int) -> np.ndarray:
        return line.draw(rng, (n, dim))

    return Density(dim, soft_box_logdensity, cube(dim, 4.0), quantities, dim * line.log_z, draw)


def sticks_logdensity(alpha: Any, x: Any) -> Any:
    """Dirichlet in the logits of the pieces broken off a stick, the Jacobian included."""
    rest = jnp.flip(jnp.cumsum(jnp.flip(alpha)))[1:]
    return jnp.sum(alpha[:-1] * jax.nn.log_sigmoid(x) + rest * jax.nn.log_sigmoid(-x))


def simplex_logdensity(alpha: Any, x: Any) -> Any:
    """Dirichlet in p₁ … p_{K−1}, nothing outside of the simplex."""
    p = jnp.append(x, 1 - jnp.sum(x))
    is_inside = jnp.all(p > 0)
    return jnp.where(is_inside, jnp.sum((alpha - 1) * jnp.log(jnp.where(is_inside, p, 1.0))), -jnp.inf)


def dirichlet_sticks(alpha: tuple[float, ...]) -> Density:
    """Dirichlet(α) by breaking sticks: the coordinates are the logits of independent beta variables."""
    a = np.array(alpha)
    first, rest = a[:-1], np.cumsum(a[::-1])[::-1][1:]
    quantities = moments(digamma(first) - digamma(rest), polygamma(1, first) + polygamma(1, rest))
    quantities.append(below(0, 0.0, betainc(first[0], rest[0], 0.5)))

    def draw(rng: Generator, n: int) -> np.ndarray:
        gammas = rng.gamma(a, size=(n, len(a)))
        return np.log(gammas[:, :-1] / np.cumsum(gammas[:, ::-1], axis=1)[:, ::-1][:, 1:])

    logdensity, dim = Partial(sticks_logdensity, jnp.asarray(a, jnp.float32)), len(first)
    return Density(dim, logdensity, cube(dim, 8.0), quantities, gammaln(a).sum() - gammaln(a.sum()), draw)


def dirichlet(alpha: tuple[float, ...]) -> Density:
    """Dirichlet(α) on the simplex itself: every coordinate is a beta variable."""
    a = np.array(alpha)
    first, total = a[:-1], a.sum()
    quantities = moments(first / total, first * (total - first) / (total**2 * (total + 1)))
    quantities += [below(0, t, betainc(a[0], total - a[0], t)) for t in (0.02, 0.5)]

    def draw(rng: Generator, n: int) -> np.ndarray:
        return rng.dirichlet(a, n)[:, :-1]

    logdensity, dim = Partial(simplex_logdensity, jnp.asarray(a, jnp.float32)), len(first)
    region, log_z = vj.box(jnp.zeros(dim), jnp.ones(dim)), gammaln(a).sum() - gammaln(total)
    return Density(dim, logdensity, region, quantities, log_z, draw, has_edges=True)


CENTRE, RADIUS = 1.0, 0.22


def disc_logdensity(x: Any) -> Any:
    """N(0, I) with a penalty of −10¹⁰ within a disc of radius 0.22 around (1, 0)."""
    is_forbidden = (x[0] - CENTRE) ** 2 + x[1] ** 2 < RADIUS**2
    return -0.5 * jnp.sum(x**2) - jnp.where(is_forbidden, 1e10, 0.0)


def disc() -> Density:
    nodes, weights = np.polynomial.legendre.leggauss(40)
    r, angle = 0.5 * RADIUS * (nodes + 1)[:, None], np.linspace(0, 2 * np.pi, 64, endpoint=False)
    x, y = CENTRE + r * np.cos(angle), r * np.sin(angle)
    masses = (0.5 * RADIUS * weights)[:, None] * r * np.exp(-0.5 * (x**2 + y**2)) / 64
    mass = masses.sum()

    def mean(function: Any, truth: float) -> float:
        """The Gaussian's mean of a function, without the disc."""
        return float((truth - np.sum(masses * function(x, y))) / (1 - mass))

    first = mean(lambda x, y: x, 0.0)
    squares = mean(lambda x, y: x**2, 1.0), mean(lambda x, y: y**2, 1.0)
    quantities = [
        *moments([first, 0.0], [squares[0] - first**2, squares[1]]),
        mean_of("mean x0²", lambda x: x[:, 0] ** 2, squares[0]),
        below(0, CENTRE - RADIUS, ndtr(CENTRE - RADIUS) / (1 - mass)),
        below(0, CENTRE + RADIUS, (ndtr(CENTRE + RADIUS) - mass) / (1 - mass)),
        within(CENTRE - RADIUS, -np.expm1(-0.5 * (CENTRE - RADIUS) ** 2) / (1 - mass)),
    ]

    def draw(rng: Generator, n: int) -> np.ndarray:
        draws = rng.standard_normal((2 * n, 2))
        return draws[np.hypot(draws[:, 0] - CENTRE, draws[:, 1]) >= RADIUS][:n]

    return Density(2, disc_logdensity, cube(2, 5.0), quantities, np.log(2 * np.pi * (1 - mass)), draw, has_edges=True)


CASES = [
    Case("exponential and far mode", "wall", wall_and_mode),
    Case("exponential d = 1", "wall", partial(exponential, 1)),
    Case("half-normal d = 5", "wall", partial(half_normal, 5)),
    Case("forbidden disc", "wall", disc),
    Case("hard box d = 2", "box", partial(hard_box, 2)),
    Case("soft box d = 3", "box", partial(soft_box, 3)),
    Case("Dirichlet(½) sticks", "simplex", partial(dirichlet_sticks, (0.5,) * 4)),
    Case("Dirichlet(½) plain", "simplex", partial(dirichlet, (0.5,) * 3)),
    Case("Dirichlet(4, 3, 2, 3) plain", "simplex", partial(dirichlet, (4.0, 3.0, 2.0, 3.0))),
]
