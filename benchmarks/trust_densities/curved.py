"""Valleys and continua of maxima: bananas, Rosenbrock's function, ring, shell, spiral, torus.

Bananas and Rosenbrock's function are polynomials of Gaussian variables: truths by formula. The others have a radius
with a one-dimensional density, integrated on a grid, and angles with a known law.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.random import Generator
from scipy.special import gammaln, ive, ndtr

import vhmc_jax as vj
from trust_densities.record import Case, Density, Line, below, cube, gaussian_region, mean_of, moments, within

BEND, WIDTH = 0.5, 3.0


def bananas_logdensity(x: Any) -> Any:
    """Pairs (a, b): a ~ N(0, 9) and b − (a² − 9)/2 ~ N(0, 1), not normalised."""
    a, b = x[0::2], x[1::2]
    return -0.5 * jnp.sum((a / WIDTH) ** 2 + (b - BEND * (a**2 - WIDTH**2)) ** 2)


def bananas(num_pairs: int, region: Any) -> Density:
    dim, variance = 2 * num_pairs, 1 + 2 * BEND**2 * WIDTH**4
    quantities = moments(np.zeros(dim), np.tile([WIDTH**2, variance], num_pairs))
    quantities += [below(0, -4.0, ndtr(-4 / WIDTH)), below(0, 0.0, 0.5)]

    def draw(rng: Generator, n: int) -> np.ndarray:
        a, b = rng.standard_normal((2, n, num_pairs))
        a = WIDTH * a
        return np.stack([a, b + BEND * (a**2 - WIDTH**2)], axis=2).reshape(n, dim)

    log_z = num_pairs * (np.log(2 * np.pi) + np.log(WIDTH))
    return Density(dim, bananas_logdensity, region, quantities, log_z, draw)


def twisted_logdensity(x: Any) -> Any:
    """Haario's banana: x₀ ~ N(0, 100), x₁ + 0.03 (x₀² − 100) ~ N(0, 1), the others standard normal."""
    return -0.5 * (x[0] ** 2 / 100 + (x[1] + 0.03 * (x[0] ** 2 - 100)) ** 2 + jnp.sum(x[2:] ** 2))


def twisted(dim: int) -> Density:
    variances = np.ones(dim)
    variances[:2] = 100.0, 1 + 0.03**2 * 2 * 100**2

    def draw(rng: Generator, n: int) -> np.ndarray:
        x = rng.standard_normal((n, dim))
        x[:, 0] *= 10
        x[:, 1] -= 0.03 * (x[:, 0] ** 2 - 100)
        return x

    quantities = [*moments(np.zeros(dim), variances), below(0, -15.0, ndtr(-1.5)), below(0, 0.0, 0.5)]
    log_z = 0.5 * dim * np.log(2 * np.pi) + np.log(10)
    return Density(dim, twisted_logdensity, cube(dim, 30.0), quantities, log_z, draw)


SHIFT = 8.0


def two_twisted_logdensity(x: Any) -> Any:
    """0.6 of the banana around x₂ = −8, and 0.4 of one that bends the other way around x₂ = 8."""
    first = twisted_logdensity(x.at[2].add(SHIFT))
    second = twisted_logdensity(x.at[1].multiply(-1).at[2].add(-SHIFT))
    return jnp.logaddexp(jnp.log(0.6) + first, jnp.log(0.4) + second)


def two_twisted(dim: int) -> Density:
    one, mean = twisted(dim), -0.2 * SHIFT
    quantities = [*moments(np.zeros(dim), [100.0, 1 + 0.03**2 * 2 * 100**2] + [1.0] * (dim - 2))]
    quantities += moments([0.0, 0.0, mean], [0.0, 0.0, 1 + SHIFT**2 - mean**2], [2])
    quantities += [below(0, -15.0, ndtr(-1.5)), below(2, 0.0, 0.6 * ndtr(SHIFT) + 0.4 * ndtr(-SHIFT))]

    def in_first(x: np.ndarray) -> np.ndarray:
        return np.where(x[:, 2] < 0, x[:, 1], 0.0)

    quantities.append(mean_of("mean x1 x0² in the first", lambda x: in_first(x) * x[:, 0] ** 2, -0.6 * 600.0))

    def draw(rng: Generator, n: int) -> np.ndarray:
        x, is_second = one.draw(rng, n), rng.random(n) < 0.4
        x[is_second, 1] *= -1
        x[:, 2] += np.where(is_second, SHIFT, -SHIFT)
        return x

    return Density(dim, two_twisted_logdensity, cube(dim, 30.0), quantities, one.log_z, draw)


def rosenbrock_logdensity(x: Any) -> Any:
    """Rosenbrock's function of pairs (a, b), divided by 20: a ~ N(1, 10) and b | a ~ N(a², 0.1)."""
    a, b = x[0::2], x[1::2]
    return -jnp.sum(100 * (b - a**2) ** 2 + (1 - a) ** 2) / 20


def rosenbrock(num_pairs: int) -> Density:
    dim, root = 2 * num_pairs, np.sqrt(10)

    def draw(rng: Generator, n: int) -> np.ndarray:
        a = 1 + root * rng.standard_normal((n, num_pairs))
        b = a**2 + np.sqrt(0.1) * rng.standard_normal((n, num_pairs))
        return np.stack([a, b], axis=2).reshape(n, dim)

    quantities = moments(np.tile([1.0, 11.0], num_pairs), np.tile([10.0, 2 * 10**2 + 4 * 10 + 0.1], num_pairs))
    quantities += [below(0, -3.0, ndtr(-4 / root)), below(0, 1.0, 0.5), below(0, 6.0, ndtr(5 / root))]
    region = vj.box(jnp.tile(jnp.array([-10.0, -10.0]), num_pairs), jnp.tile(jnp.array([10.0, 60.0]), num_pairs))
    return Density(dim, rosenbrock_logdensity, region, quantities, num_pairs * np.log(2 * np.pi), draw)


def ring_logdensity(x: Any) -> Any:
    return -0.5 * ((jnp.linalg.norm(x) - 5.0) / 0.2) ** 2


def shell_logdensity(x: Any) -> Any:
    return -0.5 * ((jnp.linalg.norm(x) - 4.0) / 0.3) ** 2


def sphere(logdensity: Any, dim: int, radius: float, sd: float) -> Density:
    """A Gaussian radius around a sphere; r^{d−1} is the volume's part, and directions are uniform."""
    line = Line(lambda r: (dim - 1) * np.log(r) - 0.5 * ((r - radius) / sd) ** 2, radius - 10 * sd, radius + 10 * sd)
    log_area = np.log(2) + dim / 2 * np.log(np.pi) - gammaln(dim / 2)
    square = line.mean(np.square) / dim

    def draw(rng: Generator, n: int) -> np.ndarray:
        x = rng.standard_normal((n, dim))
        return x / np.linalg.norm(x, axis=1, keepdims=True) * line.draw(rng, (n, 1))

    mean, variance = line.moments()
    quantities = [
        *moments(np.zeros(dim), np.full(dim, square)),
        below(0, 0.0, 0.5),
        within(radius, line.below(radius)),
        mean_of("mean |x|", lambda x: np.linalg.norm(x, axis=1), mean),
        mean_of("var. |x|", lambda x: (np.linalg.norm(x, axis=1) - mean) ** 2, variance),
    ]
    return Density(dim, logdensity, cube(dim, 2 * radius), quantities, line.log_z + log_area, draw)


PITCH, SHARPNESS = 3.0, 20.0


def spiral_logdensity(x: Any) -> Any:
    """Polar coordinates: r like N(6, 4), and the angle minus 2π r / 3 with von Mises's law."""
    r = jnp.sqrt(jnp.sum(x**2) + 1e-12)
    turn = 2 * jnp.pi * r / PITCH
    cosine = (x[0] * jnp.cos(turn) + x[1] * jnp.sin(turn)) / r
    return SHARPNESS * (cosine - 1) - 0.5 * ((r - 6.0) / 2.0) ** 2


def spiral() -> Density:
    line = Line(lambda r: np.log(r) - 0.5 * ((r - 6.0) / 2.0) ** 2, 1e-9, 26.0)
    concentration = ive(1, SHARPNESS) / ive(0, SHARPNESS)  # E cos of von Mises's law
    second = ive(2, SHARPNESS) / ive(0, SHARPNESS)  # E cos 2φ

    def draw(rng: Generator, n: int) -> np.ndarray:
        r = line.draw(rng, n)
        angle = 2 * np.pi * r / PITCH + rng.vonmises(0.0, SHARPNESS, n)
        return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)

    means = [concentration * line.mean(lambda r, f=f: r * f(2 * np.pi * r / PITCH)) for f in (np.cos, np.sin)]
    bent = second * line.mean(lambda r: r**2 * np.cos(4 * np.pi * r / PITCH))
    square = line.mean(np.square)
    squares = np.array([square + bent, square - bent]) / 2
    quantities = [
        *moments(means, squares - np.square(means)),
        within(4.0, line.below(4.0)),
        within(8.0, line.below(8.0)),
        mean_of("mean |x|", lambda x: np.linalg.norm(x, axis=1), line.moments()[0]),
    ]
    log_z = line.log_z + np.log(2 * np.pi * ive(0, SHARPNESS))
    return Density(2, spiral_logdensity, cube(2, 14.0), quantities, log_z, draw)


RING, TUBE, SKIN = 4.0, 1.5, 0.1


def torus_logdensity(x: Any) -> Any:
    """The surface of a torus, as thick as a Gaussian."""
    around = jnp.sqrt(x[0] ** 2 + x[1] ** 2 + 1e-12) - RING
    return -0.5 * ((jnp.sqrt(around**2 + x[2] ** 2 + 1e-12) - TUBE) / SKIN) ** 2


def torus() -> Density:
    """With t the distance from the tube's centre line and φ the angle there, the volume is t (R + t cos φ)."""
    line = Line(lambda t: np.log(t) - 0.5 * ((t - TUBE) / SKIN) ** 2, TUBE - 10 * SKIN, TUBE + 10 * SKIN)
    square = line.mean(np.square)
    quantities = [
        # E (R + t cos φ)² and E t² sin² φ, where φ has the density (1 + t cos φ / R) / 2π.
        *moments(np.zeros(3), [0.5 * (RING**2 + 1.5 * square)] * 2 + [0.5 * square]),
        below(0, 0.0, 0.5),
        mean_of("mean ρ", lambda x: np.hypot(x[:, 0], x[:, 1]), RING + square / (2 * RING)),
    ]

    def draw(rng: Generator, n: int) -> np.ndarray:
        t, phi = line.draw(rng, 4 * n), rng.uniform(0, 2 * np.pi, 4 * n)
        keep = rng.random(4 * n) * 2 * RING < RING + t * np.cos(phi)  # t is below 2.5
        t, phi = t[keep][:n], phi[keep][:n]
        rho, angle = RING + t * np.cos(phi), rng.uniform(0, 2 * np.pi, len(t))
        return np.stack([rho * np.cos(angle), rho * np.sin(angle), t * np.sin(phi)], axis=1)

    log_z = line.log_z + np.log(2 * np.pi * 2 * np.pi * RING)
    return Density(3, torus_logdensity, cube(3, 8.0), quantities, log_z, draw)


CASES = [
    Case("banana d = 2", "banana", partial(bananas, 1, cube(2, 15.0))),
    Case("bananas d = 10", "banana", partial(bananas, 5, gaussian_region(10, 5.0))),
    Case("twisted d = 20", "banana", partial(twisted, 20)),
    Case("Rosenbrock d = 2", "banana", partial(rosenbrock, 1)),
    Case("ring d = 2", "continuum", partial(sphere, ring_logdensity, 2, 5.0, 0.2)),
    Case("shell d = 5", "continuum", partial(sphere, shell_logdensity, 5, 4.0, 0.3)),
    Case("spiral d = 2", "continuum", spiral),
    Case("torus d = 3", "continuum", torus),
]
