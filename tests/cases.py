"""Targets, a guide and controls that the statistical tests of several kernels share."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from invariance import Report
from jax.tree_util import Partial
from scipy import integrate

import vhmc_jax as vj
from vhmc_jax import targets
from vhmc_jax.base import Kernel
from vhmc_jax.moves.candidate import Heights, Jump

KEY = jax.random.key(2019)
TARGETS: dict[str, Any] = {
    "gaussian": targets.correlated_gaussian(),
    "skewed": targets.skewed(),
    # A wide component and a narrow one that stands out of its flank: chords are skewed, and some have other roots.
    "mixture": targets.GaussianMixtureTarget(
        [0.6, 0.4], [[0.0, 0.0], [1.2, 0.8]], [[[1.2, 0.0], [0.5, 0.9]], [[0.4, 0.0], [-0.1, 0.4]]]
    ),
}
DENSE = np.array([[1.3, -0.4], [-0.4, 0.6]])
# Modes of unequal weight and scale: where all are alike, so are the acceptances of the local move in them.
PAIR = targets.GaussianMixtureTarget([0.7, 0.3], [[2.5, -2.5], [-2.5, 2.5]], [1.0, 0.75])


class GaussianWithHole:
    """N(0, I) on the plane outside a disc, which a penalty of −10¹⁰ forbids."""

    CENTRE, RADIUS, PENALTY = np.array([1.0, 0.0]), 0.22, -1e10

    def __init__(self) -> None:
        def mass(function: Any) -> float:
            """Integral of the Gaussian times a function over the disc."""

            def integrand(radius: float, angle: float) -> float:
                x = self.CENTRE + radius * np.array([np.cos(angle), np.sin(angle)])
                return radius * function(x) * np.exp(-0.5 * x @ x) / (2 * np.pi)

            return integrate.dblquad(integrand, 0, 2 * np.pi, 0, self.RADIUS)[0]

        left = 1 - mass(lambda x: 1.0)
        self.log_normalizer = float(np.log(2 * np.pi * left))
        # By symmetry in the second coordinate its mean and the covariance are zero.
        self.mean = np.array([-mass(lambda x: x[0]) / left, 0.0])
        squares = [(1 - mass(lambda x, i=i: x[i] ** 2)) / left for i in range(2)]
        self.covariance = np.diag(squares) - np.outer(self.mean, self.mean)

    def is_inside(self, x: Any) -> Any:
        """Whether points (..., 2) are forbidden."""
        return ((x - self.CENTRE.astype(x.dtype)) ** 2).sum(-1) < self.RADIUS**2

    def logdensity(self, x: Any) -> Any:
        """As people write it."""
        return -0.5 * jnp.sum(x**2) + jnp.where(self.is_inside(x), self.PENALTY, 0.0).astype(x.dtype)

    def sample(self, rng_key: Any, num_draws: int, dtype: Any = jnp.float32) -> jax.Array:
        """Exact draws: those of the Gaussian outside the disc."""
        draws = np.asarray(jax.random.normal(rng_key, (num_draws + num_draws // 20 + 100, 2), dtype))
        return jnp.asarray(draws[~self.is_inside(draws)][:num_draws])


HOLE = GaussianWithHole()
# Log densities that single precision rounds: by 1,024 in the hole, by 0.008 with the offset.
LARGE: dict[str, Any] = {
    "penalty": HOLE,
    "offset 1e5": replace(PAIR, log_normalizer=1e5),
    "offset -1e5": replace(PAIR, log_normalizer=-1e5),
}
FAR_ENVELOPE = -3.8e7
"""Single precision resolves 4 there."""

every_large = pytest.mark.parametrize("target", LARGE.values(), ids=LARGE.keys())
every_target = pytest.mark.parametrize("name", TARGETS)
every_dtype = pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])


def guide_of_a_pair(pair: Any, dtype: Any = jnp.float32) -> vj.GaussianMixture:
    """A guide that is off in means, scales and weights: 0.55 for 0.7, one component too narrow, the other too wide."""
    scales = np.array([[[0.9, 0.0], [0.1, 0.85]], [[1.15, 0.0], [-0.2, 1.05]]])
    means = pair.means + np.array([[0.3, -0.2], [-0.1, 0.25]])
    return vj.GaussianMixture(*(jnp.asarray(a, dtype) for a in (np.log([0.55, 0.45]), means, scales)))


def guide_of_a_large(target: Any) -> vj.GaussianMixture:
    """A guide that is off, in single precision."""
    if target is not HOLE:
        return guide_of_a_pair(target)
    arrays = (np.zeros(1), np.array([[0.3, -0.2]]), 1.2 * np.eye(2)[None])
    return vj.GaussianMixture(*(jnp.asarray(a, jnp.float32) for a in arrays))


def log_weight_difference(self: Jump, there: Heights, here: Heights) -> Any:
    """A broken ``Jump.log_weight_ratio``: log w at each point, where a far envelope rounds π / q away."""
    return jnp.maximum(self.log_ratio(there), 0.0) - jnp.maximum(self.log_ratio(here), 0.0)


def retraced(kernel: Kernel) -> Kernel:
    """The same kernel as another function, so that what a test has replaced in its parts is seen when it is traced."""

    def step(rng_key: Any, state: Any) -> Any:
        return kernel.step(rng_key, state)

    return Kernel(kernel.init, Partial(step))


def assert_acceptance(report: Report) -> None:
    """Near 1 a mistake in the accept step would not show."""
    assert 0.7 < report.info_means.acceptance_rate < 0.9, f"choose another step size: {report}"
