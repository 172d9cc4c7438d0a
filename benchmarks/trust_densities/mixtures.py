"""Mixtures of Gaussians: every truth is a formula.

Means and variances are those of mixtures, probabilities of half-spaces are sums of normal distribution functions, and
probabilities of balls around a common centre are sums of χ² distribution functions. The densities are normalised, so
that log Z is the offset.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.random import Generator
from scipy.special import chdtr, ndtr

import vhmc_jax as vj
from trust_densities.record import Case, Density, below, cube, gaussian_region, moments, within


def mixture(
    target: vj.targets.GaussianMixtureTarget,
    region: Any,
    thresholds: tuple[tuple[int, float], ...] = (),
    radii: tuple[float, ...] = (),
) -> Density:
    """A mixture with its moments, half-spaces (coordinate, threshold) and, if it is centred, balls."""
    k, d = target.means.shape
    scales = target.scale_trils
    sds = np.linalg.norm(scales, axis=2) if scales.ndim == 3 else np.broadcast_to(scales.reshape(k, -1), (k, d))
    quantities = moments(target.mean, np.diag(target.covariance))
    for i, t in thresholds:
        quantities.append(below(i, t, target.weights @ ndtr((t - target.means[:, i]) / sds[:, i])))
    quantities += [within(r, target.weights @ chdtr(d, (r / sds[:, 0]) ** 2)) for r in radii]
    logdensity = Partial(type(target).logdensity, target)
    return Density(d, logdensity, region, quantities, float(target.log_normalizer), partial(_draw, target))


def _draw(target: vj.targets.GaussianMixtureTarget, rng: Generator, n: int) -> np.ndarray:
    """Draws component by component, with NumPy in double precision."""
    draws = []
    for count, mean, scale in zip(rng.multinomial(n, target.weights), target.means, target.scale_trils, strict=True):
        noise = rng.standard_normal((count, target.dim))
        draws.append(mean + (noise @ scale.T if scale.ndim == 2 else noise * scale))
    return rng.permutation(np.concatenate(draws))


def gaussians(weights: Any, means: Any, scales: Any, region: Any, *args: Any, offset: float = 0.0) -> Density:
    """A mixture from its parameters."""
    return mixture(vj.targets.GaussianMixtureTarget(weights, means, scales, offset), region, *args)


def concentric(widths: tuple[float, ...], dim: int, half_width: float, radii: tuple[float, ...]) -> Density:
    """Equal weights, one centre, several widths: below the narrowest nothing has a peak of its own."""
    k = len(widths)
    half_space = ((0, -0.5 * widths[-1]),)
    return gaussians(np.full(k, 1 / k), np.zeros((k, dim)), widths, cube(dim, half_width), half_space, radii)


def pair(weight: float, a: Any, b: Any, sds: tuple[float, float], region: Any, offset: float = 0.0) -> Density:
    """Two Gaussians, told apart by the half-space midway along the first coordinate."""
    middle = 0.5 * (a[0] + b[0])
    return gaussians([weight, 1 - weight], [a, b], sds, region, ((0, middle),), offset=offset)


def lattice(rows: int, columns: int, spacing: float, sd: float) -> Density:
    """Modes near the points of a lattice in the plane, moved a little, with weights in the ratio 1 to 3."""
    rng = np.random.default_rng(0)
    corner = np.array([rows - 1, columns - 1]) / 2
    points = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), -1).reshape(-1, 2) - corner
    means = spacing * (points + rng.uniform(-0.15, 0.15, points.shape))
    weights = rng.uniform(1.0, 3.0, len(means))
    high = spacing * (corner + 1)
    region = vj.box(-jnp.asarray(high, jnp.float32), jnp.asarray(high, jnp.float32))
    between = tuple((i, 0.5 * spacing * (count % 2)) for i, count in enumerate((rows, columns)))  # between two rows
    return gaussians(weights / weights.sum(), means, np.full(len(means), sd), region, between)


def one(scale: Any, region: Any, offset: float = 0.0) -> Density:
    """One Gaussian around zero with this Cholesky factor, or with these standard deviations."""
    scale = np.asarray(scale, float)
    sd = scale[0, 0] if scale.ndim == 2 else scale[0]
    return gaussians([1.0], np.zeros((1, len(scale))), scale[None], region, ((0, -sd),), offset=offset)


def ridge_cholesky(correlation: float) -> np.ndarray:
    """Cholesky factor of two standard normal variables of this correlation."""
    return np.array([[1.0, 0.0], [correlation, np.sqrt(1 - correlation**2)]])


def autoregressive_cholesky(correlation: float, dim: int) -> np.ndarray:
    """Cholesky factor of standard normal variables, neighbours of which have this correlation."""
    return np.linalg.cholesky(correlation ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim))))


def starts_in_one_mode() -> Density:
    """The far pair with given starts, of which one in ten lies near the smaller mode."""
    rng = np.random.default_rng(1)
    centres = np.where(np.arange(200)[:, None] % 10 == 0, -4.0, 4.0)
    starts = jnp.asarray(centres + 2.0 * rng.standard_normal((200, 2)), jnp.float32)
    return pair(0.3, (-4.0, -4.0), (4.0, 4.0), (1.0, 1.0), starts)


def known(target: Any, half_width: float, *args: Any) -> Density:
    """A mixture of ``vj.targets`` in a box around zero."""
    return mixture(target, cube(target.dim, half_width), *args)


def constant(value: float, dim: int) -> np.ndarray:
    return np.full(dim, value)


T = vj.targets
X = (5.0, 0.0)

CASES = [
    Case("broad half d = 2", "broad", partial(concentric, (1.0, 10.0), 2, 30.0, (4.0, 20.0))),
    Case("broad half d = 8", "broad", partial(concentric, (1.0, 10.0), 8, 30.0, (6.0, 28.0))),
    Case("broad half d = 20", "broad", partial(concentric, (1.0, 10.0), 20, 30.0, (10.0, 45.0))),
    Case("spike in a slab d = 2", "spike", partial(pair, 0.5, (1.0, 2.0), (0.0, 0.0), (0.1, 3.0), cube(2, 10.0))),
    Case("spike in a slab d = 5", "spike", partial(concentric, (0.1, 3.0), 5, 10.0, (1.0, 7.0))),
    Case("spike beside a slab", "spike", partial(pair, 0.4, (7.0, 7.0), (0.0, 0.0), (0.1, 2.0), cube(2, 10.0))),
    Case("three scales d = 2", "nested", partial(concentric, (0.1, 1.0, 10.0), 2, 30.0, (0.5, 5.0))),
    Case("three scales d = 5", "nested", partial(concentric, (0.3, 1.0, 5.0), 5, 20.0, (1.1, 4.0))),
    Case("weights .98 and .02", "rare", partial(pair, 0.98, (-5.0, 0.0), X, (1.0, 1.0), cube(2, 10.0))),
    Case("weights .995 and .005", "rare", partial(pair, 0.995, (-5.0, 0.0), X, (1.0, 0.7), cube(2, 10.0))),
    Case("100 modes d = 2", "many modes", partial(lattice, 10, 10, 10.0, 1.0)),
    Case("1000 modes d = 2", "many modes", partial(lattice, 40, 25, 2.0, 0.2)),
    Case("mode outside the box", "region", partial(pair, 0.6, (-3.0, 0.0), (9.0, 0.0), (1.0, 1.0), cube(2, 5.0))),
    Case("mode on the edge", "region", partial(pair, 0.5, (-3.0, 0.0), (6.0, 6.0), (1.0, 1.0), cube(2, 6.0))),
    Case("box beside the target", "region", partial(pair, 0.6, (-3.0, 0.0), (3.0, 0.0), (1.0, 1.0),
         vj.box(jnp.full(2, 10.0), jnp.full(2, 20.0)))),
    Case("given starts", "region", starts_in_one_mode),
    Case("ridge .999", "ridge", partial(one, ridge_cholesky(0.999), cube(2, 5.0))),
    Case("condition 1e8 d = 10", "condition", partial(one, np.logspace(2, -2, 10), cube(10, 200.0))),
    Case("pair + 1e6", "offset", partial(pair, 0.7, (-5.0, 0.0), X, (1.0, 1.0), cube(2, 10.0), 1e6)),
    Case("pair − 1e6", "offset", partial(pair, 0.7, (-5.0, 0.0), X, (1.0, 1.0), cube(2, 10.0), -1e6)),
    Case("pair d = 1", "one dimension", partial(pair, 0.7, (-3.0,), (2.0,), (0.5, 1.0), cube(1, 8.0))),
    Case("three modes d = 1", "one dimension", partial(gaussians, [0.2, 0.5, 0.3], [[-9.0], [0.0], [6.0]],
         [0.3, 1.0, 0.5], cube(1, 15.0), ((0, -5.0), (0, 3.5)))),
    Case("overlapping d = 1", "overlap", partial(pair, 0.6, (-1.3,), (1.3,), (1.0, 1.0), cube(1, 6.0))),
    Case("Gaussian d = 200", "d = 200", partial(one, np.linspace(1.0, 2.0, 200), cube(200, 5.0))),
    Case("pair d = 200", "d = 200", partial(pair, 0.7, constant(-1.0, 200), constant(1.0, 200), (1.0, 1.0),
         cube(200, 5.0))),
    Case("widths .8, 1.2 d = 20", "widths", partial(pair, 0.5, constant(-2.0, 20), constant(2.0, 20), (0.8, 1.2),
         cube(20, 6.0))),
    # The wide mode takes every start in 100 dimensions: the basin of the narrow one is below the bound of the report.
    Case("widths .8, 1.2 d = 100", "needle", partial(pair, 0.5, constant(-2.0, 100), constant(2.0, 100), (0.8, 1.2),
         cube(100, 6.0)), True),
    Case("needle", "needle", partial(pair, 0.5, (-4.0, -4.0), (4.0, 4.0), (0.01, 1.0), cube(2, 10.0)), True),
    Case("far pair", "easy", lambda: known(T.far_pair(0.7), 10.0, ((0, 0.0),))),
    Case("GMM-40", "easy", lambda: known(T.gmm40(), 50.0, ((0, 0.0), (1, 0.0)))),
    Case("pair d = 32", "easy", lambda: known(T.high_dimensional_pair(32), 5.0, ((0, 0.0),))),
    Case("Gaussian d = 5", "easy", partial(one, (1.0, 2.0, 0.5, 1.0, 3.0), gaussian_region(5, 4.0))),
]  # fmt: skip
