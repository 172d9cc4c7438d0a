"""Does a kernel leave its target invariant? Exact draws, a few steps of many chains, tests of what comes out.

The chains start from independent exact draws, so after any number of steps an exact kernel's chains are again
independent exact draws, and plain tests apply: no autocorrelation, no effective sample size. The draws are
whitened with the exact covariance, so that a narrow direction counts as much as a wide one; then each of
these must agree with the truth:

- every first and second moment of the whitened coordinates (z-tests with the exact values),
- the mean log density (z-test with fresh exact draws),
- the law of each whitened coordinate and of the log density (two-sample Kolmogorov–Smirnov, fresh draws).

In two dimensions these are 6 z-tests and 3 KS tests. With |z| < 5 (p = 5.7e-7) and KS p > 1e-6 an exact
kernel fails one check with a probability of at most 6.5e-6, hence one of a hundred checks with less than
1e-3. Seeds are fixed: a test that passes once passes always, and one that fails is to be explained, not run
with another seed.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from vhmc_jax import random
from vhmc_jax.base import Kernel

NUM_CHAINS = 40_000
NUM_FRESH = 200_000
MAX_Z = 5.0
MIN_P = 1e-6


class Report(NamedTuple):
    """What one check found.

    Attributes
    ----------
    z_scores
        By name of the statistic.
    p_values
        Of the Kolmogorov–Smirnov tests, by name of the statistic.
    info_means
        Means of the info's fields over all chains and steps.
    """

    z_scores: dict[str, float]
    p_values: dict[str, float]
    info_means: Any

    @property
    def is_invariant(self) -> bool:
        """Whether every test passed; a NaN is a failure."""
        return all(abs(z) < MAX_Z for z in self.z_scores.values()) and all(p > MIN_P for p in self.p_values.values())

    def __str__(self) -> str:
        z_scores = ", ".join(f"{name} {z:+.1f}" for name, z in self.z_scores.items())
        p_values = ", ".join(f"{name} {p:.1e}" for name, p in self.p_values.items())
        return f"z: {z_scores}; KS p: {p_values}; acceptance {self.info_means.acceptance_rate:.3f}"


@functools.partial(jax.jit, static_argnames="num_steps")
def _run(kernel: Kernel, positions: jax.Array, rng_key: jax.Array, num_steps: int) -> tuple[jax.Array, Any]:
    """Positions after ``num_steps`` steps of every chain, and the infos' means."""
    chain_keys = jax.random.split(rng_key, len(positions))

    def body(t: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        states, sums = carry
        keys = jax.vmap(lambda key: random.as_jax_key(random.fold_in(key, t)))(chain_keys)
        states, infos = jax.vmap(kernel.step)(keys, states)
        return states, jax.tree.map(lambda total, info: total + jnp.mean(info, dtype=total.dtype), sums, infos)

    states = jax.vmap(kernel.init)(positions, chain_keys)
    _, infos = jax.eval_shape(jax.vmap(kernel.step), chain_keys, states)
    states, sums = jax.lax.fori_loop(
        0, num_steps, body, (states, jax.tree.map(lambda _: jnp.zeros((), jnp.float32), infos))
    )
    return states.position, jax.tree.map(lambda total: total / num_steps, sums)


class Sample(NamedTuple):
    """Draws as they are tested: whitened coordinates on the leading axis, and log densities."""

    white: np.ndarray
    logdensities: np.ndarray


def _whiten(target: Any, draws: jax.Array) -> Sample:
    draws = jnp.asarray(draws, jnp.float64)
    whitening = np.linalg.inv(np.linalg.cholesky(target.covariance))
    white = whitening @ (np.asarray(draws) - target.mean).T
    return Sample(white, np.asarray(jax.jit(jax.vmap(target.logdensity))(draws)))


@functools.cache
def _fresh(target: Any) -> Sample:
    """Exact draws to compare with, the same for all checks of a target: a sum of error rates still holds."""
    return _whiten(target, target.sample(jax.random.key(0), NUM_FRESH, jnp.float64))


def compare(target: Any, draws: jax.Array, info_means: Any = None) -> Report:
    """Test independent draws against the target's exact moments and against fresh exact draws."""
    (white, logdensities), fresh = _whiten(target, draws), _fresh(target)

    def z_score(values: np.ndarray, truth: float, variance_of_truth: float = 0.0) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):  # draws that are all the same: infinite, or NaN
            return float((values.mean() - truth) / np.sqrt(values.var() / len(values) + variance_of_truth))

    z_scores = {f"x{i}": z_score(x, 0.0) for i, x in enumerate(white)}
    for i, j in zip(*np.triu_indices(len(white)), strict=True):
        z_scores[f"x{i}x{j}"] = z_score(white[i] * white[j], float(i == j))
    z_scores["log density"] = z_score(logdensities, fresh.logdensities.mean(), fresh.logdensities.var() / NUM_FRESH)
    pairs = {f"x{i}": (x, y) for i, (x, y) in enumerate(zip(white, fresh.white, strict=True))}
    pairs["log density"] = (logdensities, fresh.logdensities)
    p_values = {name: float(stats.ks_2samp(*pair, method="asymp").pvalue) for name, pair in pairs.items()}
    return Report(z_scores, p_values, info_means)


def check_invariance(
    kernel: Kernel, target: Any, rng_key: jax.Array, num_steps: int = 4, dtype: Any = jnp.float32
) -> Report:
    """Run ``num_steps`` steps of many chains from exact draws in the given dtype, and test what comes out."""
    key_start, key_run = jax.random.split(rng_key)
    positions = target.sample(key_start, NUM_CHAINS, dtype)
    draws, info_means = _run(kernel, positions, key_run, num_steps)
    assert draws.dtype == dtype
    return compare(target, draws, info_means)


def check_mixing(
    kernel: Kernel, target: Any, start: Any, rng_key: jax.Array, num_steps: int, dtype: Any = jnp.float32
) -> Report:
    """The same tests with all chains started at one point: a kernel that never moves is always invariant."""
    positions = jnp.tile(jnp.asarray(start, dtype), (NUM_CHAINS, 1))
    draws, info_means = _run(kernel, positions, rng_key, num_steps)
    return compare(target, draws, info_means)


def assert_invariant(report: Report) -> None:
    """Fail with all figures unless every test of the report passed."""
    assert report.is_invariant, f"the draws are not the target's: {report}"


def assert_not_invariant(report: Report) -> None:
    """The control: a broken kernel must fail the assertion that the sound one passes."""
    assert not report.is_invariant, f"a broken kernel passed: {report}"
