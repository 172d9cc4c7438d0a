"""Step size, schedule and envelope of annealed jumps, from paths forwards.

Notation: as in ``dynamics.annealing``; D = log π − log q, W the weight of a path.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_array, as_count, as_parameter
from vhmc_jax.base import Array, PRNGKey, PyTree
from vhmc_jax.density import FlatDensity, require_scalar
from vhmc_jax.dynamics.annealing import Annealing, run_path
from vhmc_jax.dynamics.kinetic import gaussian_kinetic
from vhmc_jax.fit.envelope import best_envelope, matching_template
from vhmc_jax.guide import as_guide
from vhmc_jax.moves.candidate import Jump, jump_from_guide

COARSE = 2.0 ** -np.arange(0, 4.5, 0.5)
"""Step sizes that are tried first, as shares of the largest."""
FINE = 2.0 ** np.array([-0.25, 0.0, 0.25])
"""Those that are tried with the fitted schedule, as shares of the best so far."""


class AnnealingFit(NamedTuple):
    """Settings for ``annealed_jump``, and what to expect of it.

    Attributes
    ----------
    schedule
        λ₀ = 0 to λ_T = 1.
    step_size
        ε.
    log_envelope
        log c.
    acceptance_rate
        Share of annealed jumps that will be accepted, as the paths predict.
    num_gradients
        Gradients that the fit took.
    """

    schedule: np.ndarray
    step_size: float
    log_envelope: float
    acceptance_rate: float
    num_gradients: int


def fit_annealing(
    rng_key: PRNGKey,
    logdensity_fn: Callable,
    guide: Any,
    *,
    num_steps: int,
    num_tries: int = 1,
    largest_step_size: Any = 1.0,
    friction: Any = 1.0,
    inverse_mass_matrix: Any = 1.0,
    num_paths: int = 500,
    template: PyTree | None = None,
) -> AnnealingFit:
    """Find the step size, the schedule and the envelope with which the most annealed jumps are accepted.

    Step sizes are tried on a grid with equal steps of λ. Then λ is spaced so that its steps times the spread of D along
    the paths are alike, and step sizes near the best are tried again.

    Parameters
    ----------
    rng_key
        Key of the paths.
    logdensity_fn
        Log density of a position, up to a constant.
    guide
        Anything with ``sample(rng_key)`` and ``log_prob(x)`` on flat vectors.
    num_steps
        T ≥ 1.
    num_tries
        K, the paths that a jump tries.
    largest_step_size
        Step sizes from this down to a sixteenth are tried. With the guide's covariance as ``inverse_mass_matrix`` they
        are in units of the guide's scale, and 1 is large.
    friction
        γ ≥ 0 of the thermostats.
    inverse_mass_matrix
        M⁻¹: a scalar, a vector (diagonal) or a matrix.
    num_paths
        Paths for each setting that is tried.
    template
        One position, where positions are pytrees and not flat vectors. Only its structure, shapes and dtypes are read.

    Returns
    -------
    The settings. Where the predicted acceptance is not far above that of ``jump``, times 2T + 1, jumps serve better.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> guide = vj.GaussianMixture(jnp.zeros(1), jnp.zeros((1, 2)), 2.0 * jnp.eye(2)[None])  # twice too wide
    >>> fit = vj.fit_annealing(jax.random.key(0), lambda x: -0.5 * x @ x, guide, num_steps=4)
    >>> type(fit).__name__
    'AnnealingFit'
    """
    guide = as_guide(guide)
    num_steps, num_tries = as_count("num_steps", num_steps, 1), as_count("num_tries", num_tries, 1)
    num_paths = as_count("num_paths", num_paths, 2)
    largest = float(as_parameter("largest_step_size", largest_step_size, positive=True))
    template = matching_template(guide, template)
    require_scalar(logdensity_fn, template)
    density = FlatDensity.at(logdensity_fn, template)
    jump = jump_from_guide(guide, 0.0, num_tries, "exact")
    annealing = Annealing(
        as_array(np.linspace(0.0, 1.0, num_steps + 1), jnp.result_type(float)),
        as_array(largest, jnp.result_type(float)),
        as_parameter("friction", friction, nonnegative=True),
        gaussian_kinetic(inverse_mass_matrix),
    )

    def try_out(schedule: np.ndarray, step_size: float, number: int) -> tuple[AnnealingFit, np.ndarray]:
        settings = Annealing(
            as_array(schedule, annealing.schedule.dtype),
            as_array(step_size, annealing.step_size.dtype),
            annealing.friction,
            annealing.kinetic,
        )
        log_weights, ratios = _paths(random.fold_in(rng_key, number), density, jump, settings, num_paths)
        log_weights = np.nan_to_num(np.asarray(log_weights, np.float64), nan=-np.inf, posinf=-np.inf)
        envelope, acceptance = best_envelope(log_weights, num_tries) if np.any(log_weights > -np.inf) else (0.0, 0.0)
        return AnnealingFit(np.asarray(schedule), float(step_size), float(envelope), float(acceptance), 0), np.asarray(
            ratios, np.float64
        )

    coarse = [try_out(np.asarray(annealing.schedule), largest * share, i) for i, share in enumerate(COARSE)]
    best, ratios = max(coarse, key=lambda found: found[0].acceptance_rate)
    spaced = _spaced(best.schedule, ratios)
    fine = [try_out(spaced, best.step_size * share, len(COARSE) + i)[0] for i, share in enumerate(FINE)]
    best = max([best, *fine], key=lambda found: found.acceptance_rate)
    return best._replace(num_gradients=(len(COARSE) + len(FINE)) * num_paths * (num_steps + 1))


@functools.partial(jax.jit, static_argnames="num_paths")
def _paths(
    rng_key: PRNGKey, density: FlatDensity, jump: Jump, annealing: Annealing, num_paths: int
) -> tuple[Array, Array]:
    """Log weights of paths forwards, shape (n,), and D before each of their steps, shape (n, T)."""

    def one(rng_key: PRNGKey) -> tuple[Array, Array]:
        key_start, key_path = random.split(rng_key)
        x = jump.sample(key_start)
        path = run_path(annealing, density, jump.guide.log_prob, key_path, density.state_at(x))
        heights = jump.heights(path.state.logdensity, x)
        return heights.logdensity - heights.log_prob - path.excess, path.log_ratios

    return jax.vmap(lambda number: one(random.fold_in(rng_key, number)))(jnp.arange(num_paths))


def _spaced(schedule: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """λ with equal steps of ∫ spread(D) dλ. The spread is by quantiles, since tails would rule a standard deviation."""
    finite = np.where(np.isfinite(ratios), ratios, np.nan)
    low, high = np.nanquantile(finite, [0.16, 0.84], axis=0)
    lengths = np.diff(schedule) * np.maximum(0.5 * (high - low), 1e-3)
    travelled = np.concatenate([[0.0], np.cumsum(lengths)])
    spaced = np.interp(np.linspace(0.0, travelled[-1], len(schedule)), travelled, schedule)
    spaced[0], spaced[-1] = 0.0, 1.0
    return spaced
