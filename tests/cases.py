"""Targets, a guide and controls that the statistical tests of several kernels share."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from invariance import Report
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax import targets
from vhmc_jax.base import Kernel

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

every_target = pytest.mark.parametrize("name", TARGETS)
every_dtype = pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])


def guide_of_a_pair(pair: Any, dtype: Any = jnp.float32) -> vj.GaussianMixture:
    """A guide that is off in means, scales and weights: 0.55 for 0.7, one component too narrow, the other too wide."""
    scales = np.array([[[0.9, 0.0], [0.1, 0.85]], [[1.15, 0.0], [-0.2, 1.05]]])
    means = pair.means + np.array([[0.3, -0.2], [-0.1, 0.25]])
    return vj.GaussianMixture(*(jnp.asarray(a, dtype) for a in (np.log([0.55, 0.45]), means, scales)))


def retraced(kernel: Kernel) -> Kernel:
    """The same kernel as another function, so that what a test has replaced in its parts is seen when it is traced."""

    def step(rng_key: Any, state: Any) -> Any:
        return kernel.step(rng_key, state)

    return Kernel(kernel.init, Partial(step))


def assert_acceptance(report: Report) -> None:
    """Near 1 a mistake in the accept step would not show."""
    assert 0.7 < report.info_means.acceptance_rate < 0.9, f"choose another step size: {report}"
