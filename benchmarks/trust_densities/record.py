"""What a density of the benchmark is, and the tools that its truths are computed with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.random import Generator

import vhmc_jax as vj


class Quantity(NamedTuple):
    """A mean that is known: of a function of the draws.

    Attributes
    ----------
    name
        What it is, for the table.
    kind
        "mean" or "probability".
    function
        Draws (n, d) → values (n,).
    truth
        Exact mean of the values.
    """

    name: str
    kind: str
    function: Callable[[np.ndarray], np.ndarray]
    truth: float


@dataclass(frozen=True)
class Density:
    """A log density with its truth.

    Attributes
    ----------
    dim
        Dimension d.
    logdensity
        Flat vector → log density, in JAX.
    region
        What ``vj.sample`` takes: a box, a sampler of starts, or starts.
    quantities
        Known means; all of them have a finite variance under the density.
    log_z
        Log integral of the density, or None.
    draw
        (generator, n) → exact draws (n, d). Only the check of the truths uses it.
    has_edges
        Whether the density jumps somewhere. Stein's identity does not hold then.
    """

    dim: int
    logdensity: Callable
    region: Any
    quantities: Sequence[Quantity]
    log_z: float | None
    draw: Callable[[Generator, int], np.ndarray]
    has_edges: bool = False


class Case(NamedTuple):
    """A density that is built when it is asked for.

    Attributes
    ----------
    name, family
        Where it stands in the table.
    build
        () → Density.
    is_needle
        Whether one of its modes is too small for any search that knows nothing of it.
    """

    name: str
    family: str
    build: Callable[[], Density]
    is_needle: bool = False


def cube(dim: int, half_width: float) -> vj.search.region.Box:
    """The box [−h, h]ᵈ."""
    return vj.box(jnp.full(dim, -half_width), jnp.full(dim, half_width))


def gaussian_region(dim: int, scale: float) -> Partial:
    """A sampler of starts: N(0, scale² I), without a density."""
    return Partial(_gaussian_start, jnp.full(dim, scale))


def _gaussian_start(scales: jax.Array, rng_key: jax.Array) -> jax.Array:
    return scales * jax.random.normal(rng_key, scales.shape)


def moments(means: Any, variances: Any, coordinates: Iterable[int] | None = None) -> list[Quantity]:
    """Mean and variance of the first two coordinates and of the last one, or of those that are given."""
    dim = len(means)
    chosen = sorted({0, min(1, dim - 1), dim - 1}) if coordinates is None else coordinates
    quantities = []
    for i in chosen:
        mean, variance = float(means[i]), float(variances[i])
        quantities.append(Quantity(f"mean x{i}", "mean", lambda x, i=i: x[:, i], mean))
        quantities.append(Quantity(f"var. x{i}", "mean", lambda x, i=i, m=mean: (x[:, i] - m) ** 2, variance))
    return quantities


def mean_of(name: str, function: Callable, truth: float) -> Quantity:
    """The mean of a function of the draws."""
    return Quantity(name, "mean", function, float(truth))


def probability(name: str, is_in: Callable, truth: float) -> Quantity:
    """The probability of a set, by its indicator."""
    return Quantity(f"P({name})", "probability", lambda x: is_in(x).astype(float), float(truth))


def below(coordinate: int, threshold: float, truth: float) -> Quantity:
    """The probability that a coordinate is below a threshold."""
    return probability(f"x{coordinate} < {threshold:.3g}", lambda x: x[:, coordinate] < threshold, truth)


def within(radius: float, truth: float) -> Quantity:
    """The probability of the ball around zero."""
    return probability(f"|x| < {radius:.3g}", lambda x: np.sum(x**2, axis=1) < radius**2, truth)


class Line:
    """A one-dimensional density on an equidistant grid: the trapezoidal rule, and draws by inversion.

    Parameters
    ----------
    log_function
        Grid (n,) → log density up to a constant.
    low, high
        Ends of the grid. The density must be negligible beyond them.
    num_points
        Points of the grid. The rule converges faster than any power for smooth densities that vanish at the ends.
    """

    def __init__(self, log_function: Callable, low: float, high: float, num_points: int = 20_001):
        self.x = np.linspace(low, high, num_points)
        log_values = log_function(self.x)
        top = np.max(log_values)
        masses = np.exp(log_values - top)
        masses[[0, -1]] *= 0.5
        self.log_z = float(top + np.log(np.sum(masses) * (self.x[1] - self.x[0])))
        self.masses = masses / np.sum(masses)

    def mean(self, function: Callable) -> float:
        """Expectation of a function of the grid."""
        return float(self.masses @ function(self.x))

    def moments(self) -> tuple[float, float]:
        """Mean and variance."""
        mean = self.mean(lambda x: x)
        return mean, self.mean(lambda x: (x - mean) ** 2)

    def below(self, threshold: float) -> float:
        """Probability of the values below a threshold, by the distribution function between grid points."""
        return float(np.interp(threshold, *self._distribution()))

    def draw(self, rng: Generator, shape: Any) -> np.ndarray:
        """Independent draws by inversion."""
        edges, distribution = self._distribution()
        return np.interp(rng.random(shape), distribution, edges)

    def _distribution(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the cells around the grid points, and the distribution function there."""
        middles = 0.5 * (self.x[1:] + self.x[:-1])
        edges = np.concatenate([self.x[:1], middles, self.x[-1:]])
        return edges, np.concatenate([[0.0], np.cumsum(self.masses)])
