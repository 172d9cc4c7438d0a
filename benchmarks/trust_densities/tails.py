"""Heavy tails. Probabilities only where moments do not exist, or have no finite variance.

A coordinate of a multivariate Student-t is Student-t with the same degrees of freedom ν, and |x|²/d has the F
distribution with (d, ν) degrees of freedom.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.random import Generator
from scipy.special import fdtri, gammaln, logsumexp, stdtr, stdtrit

from trust_densities.record import Case, Density, below, cube, mean_of, within


def log_t(x: Any, df: Any, dim: int) -> Any:
    """Log density of the standard Student-t without its constant; the last axis of x is the coordinate."""
    return -0.5 * (df + dim) * jnp.log1p(jnp.sum(x**2, axis=-1) / df)


def log_constant(df: Any, dim: int) -> Any:
    return gammaln((df + dim) / 2) - gammaln(df / 2) - dim / 2 * np.log(df * np.pi)


def student_logdensity(df: Any, constant: Any, x: Any) -> Any:
    return constant + log_t(x, df, x.shape[-1])


def student(df: float, dim: int) -> Density:
    """The standard Student-t."""
    logdensity = Partial(student_logdensity, df, float(log_constant(df, dim)))
    quantities = [below(0, stdtrit(df, p), p) for p in (0.01, 0.2, 0.5, 0.99)]
    quantities += [within(np.sqrt(dim * fdtri(dim, df, p)), p) for p in (0.3, 0.95)]
    if df > 2:
        quantities.append(mean_of("mean x0", lambda x: x[:, 0], 0.0))
    return Density(dim, logdensity, cube(dim, 20.0), quantities, 0.0, partial(draw_student, df, dim))


def draw_student(df: float, dim: int, rng: Generator, n: int) -> np.ndarray:
    return rng.standard_normal((n, dim)) / np.sqrt(rng.chisquare(df, (n, 1)) / df)


WEIGHTS, CENTRES, DFS = np.array([0.6, 0.4]), np.array([-8.0, 8.0]), np.array([3.0, 2.0])


def pair_logdensity(constants: Any, x: Any) -> Any:
    terms = jax.vmap(log_t, (0, 0, None))(x - jnp.asarray(CENTRES, x.dtype)[:, None], jnp.asarray(DFS, x.dtype), 2)
    return jax.nn.logsumexp(terms + constants)


def student_pair() -> Density:
    """0.6 t₃ around (−8, −8) and 0.4 t₂ around (8, 8), d = 2."""
    constants = jnp.asarray(np.log(WEIGHTS) + log_constant(DFS, 2), jnp.float32)
    thresholds = (-12.0, -8.0, 0.0, 8.0, 12.0)
    quantities = [below(0, t, WEIGHTS @ stdtr(DFS, t - CENTRES)) for t in thresholds]

    def draw(rng: Generator, n: int) -> np.ndarray:
        first = rng.random((n, 1)) < WEIGHTS[0]
        draws = [c + draw_student(df, 2, rng, n) for c, df in zip(CENTRES, DFS, strict=True)]
        return np.where(first, *draws)

    return Density(2, Partial(pair_logdensity, constants), cube(2, 20.0), quantities, 0.0, draw)


def student_mixture_logdensity(means: Any, constants: Any, x: Any) -> Any:
    return jax.nn.logsumexp(constants + log_t(x - means.astype(x.dtype), 2.0, x.shape[-1]))


def student_mixture(num_modes: int, dim: int) -> Density:
    """Student-t components with two degrees of freedom around centres in [−10, 10]ᵈ, weights in the ratio 1 to 3.

    The mean of a component's responsibility is its weight.
    """
    rng = np.random.default_rng(0)
    means = rng.uniform(-10.0, 10.0, (num_modes, dim)).astype(np.float32)
    weights = rng.uniform(1.0, 3.0, num_modes)
    weights /= weights.sum()
    constants = np.log(weights) + log_constant(2.0, dim)

    def share(k: int, x: np.ndarray) -> np.ndarray:
        square = np.stack([np.sum((x - mean) ** 2, axis=1) for mean in means], axis=1)
        log_terms = constants - 0.5 * (2.0 + dim) * np.log1p(square / 2.0)
        return np.exp(log_terms[:, k] - logsumexp(log_terms, axis=1))

    heaviest, lightest = int(np.argmax(weights)), int(np.argmin(weights))
    quantities = [below(i, t, weights @ stdtr(2.0, t - means[:, i])) for i in (0, dim - 1) for t in (-12.0, 0.0, 6.0)]
    quantities.append(mean_of("the heaviest mode", partial(share, heaviest), weights[heaviest]))
    quantities.append(mean_of("the lightest mode", partial(share, lightest), weights[lightest]))

    def draw(rng: Generator, n: int) -> np.ndarray:
        return means[rng.choice(num_modes, n, p=weights)] + draw_student(2.0, dim, rng, n)

    logdensity = Partial(student_mixture_logdensity, jnp.asarray(means), jnp.asarray(constants, jnp.float32))
    return Density(dim, logdensity, cube(dim, 20.0), quantities, 0.0, draw)


CASES = [
    Case("Cauchy d = 1", "heavy tails", partial(student, 1.0, 1)),
    Case("Cauchy d = 2", "heavy tails", partial(student, 1.0, 2)),
    Case("t, 2 df, d = 2", "heavy tails", partial(student, 2.0, 2)),
    Case("t, 3 df, d = 5", "heavy tails", partial(student, 3.0, 5)),
    Case("pair of t, d = 2", "heavy tails", student_pair),
]
