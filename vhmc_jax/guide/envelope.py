"""The envelope of the jump: which log c lets the most jumps succeed.

Notation: ℓ = log π − log q at draws from the guide q, so that e^ℓ are importance weights for the target π;
w = max(1, e^{ℓ − log c}) is the weight of the jump's correction.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from vhmc_jax.base import Array, as_count, as_pytree_function

GRID_SIZE = 128
LARGEST = 600.0
"""Logarithm of a weight beyond which it is cut, lest it overflow: from there no jump leads away."""


def estimate_log_envelope(
    rng_key: Array, logdensity_fn: Callable, guide: Any, num_tries: int, *, num_draws: int = 2000
) -> float:
    """Estimate the log envelope that makes the most jumps succeed.

    A jump succeeds with probability [1 − (1 − p)ᴷ] E min(1, w(θ*) / w(θ)), p = E_q min(1, e^ℓ / c), for θ from the
    target and θ* in proportion to min(π, c q). All of it is estimated from draws of the guide.

    Parameters
    ----------
    rng_key
        Key of the draws.
    logdensity_fn
        Log density of a flat vector, up to a constant: ``lambda x: logdensity(unravel(x))`` for a pytree.
    guide
        Anything with ``sample(rng_key)`` and ``log_prob(x)`` on flat vectors.
    num_tries
        K, the candidates of a jump.
    num_draws
        Draws of the guide; each costs one density value.

    Returns
    -------
    log c.
    """
    num_tries = as_count("num_tries", num_tries, 1)
    num_draws = as_count("num_draws", num_draws, 2)
    log_ratios = _log_ratios(
        rng_key,
        as_pytree_function(logdensity_fn),
        as_pytree_function(guide.sample),
        as_pytree_function(guide.log_prob),
        num_draws,
    )
    log_envelope, _ = best_envelope(np.asarray(log_ratios), num_tries)
    return log_envelope


@functools.partial(jax.jit, static_argnames="num_draws")
def _log_ratios(rng_key: Array, logdensity_fn: Callable, sample: Callable, log_prob: Callable, num_draws: int) -> Array:
    def one(key: Array) -> Array:
        x = sample(key)
        return logdensity_fn(x) - log_prob(x)

    return jax.vmap(one)(jax.random.split(rng_key, num_draws))


def best_envelope(log_ratios: np.ndarray, num_tries: int) -> tuple[float, float]:
    """The log envelope with the greatest expected acceptance of a jump, and that acceptance.

    Parameters
    ----------
    log_ratios
        ℓ at draws of the guide.
    num_tries
        K.

    Returns
    -------
    log c and the probability that a jump from a draw of the target succeeds.
    """
    log_ratios = np.asarray(log_ratios, np.float64)
    log_ratios = np.where(np.isnan(log_ratios) | (log_ratios == np.inf), -np.inf, log_ratios)
    finite = log_ratios[np.isfinite(log_ratios)]
    if not finite.size:
        raise ValueError(
            "the target's density is zero at every draw of the guide: fit the guide where the target has mass"
        )
    # Beyond these ends the acceptance only falls: c q ≥ π everywhere, or every try passes.
    grid = np.linspace(np.quantile(finite, 0.01) - 1.0, finite.max(), GRID_SIZE)
    acceptances = np.asarray([jump_acceptance(log_ratios, c, num_tries) for c in grid])
    # Of values that are as good, the largest: it corrects at the fewest points.
    best = int(np.flatnonzero(acceptances >= acceptances.max() - 1e-6)[-1])
    return float(grid[best]), float(acceptances[best])


def jump_acceptance(
    log_ratios: np.ndarray, log_envelope: float, num_tries: int, shares: np.ndarray | None = None
) -> float:
    """Expected acceptance of a jump, from draws of the guide.

    Parameters
    ----------
    log_ratios
        ℓ at draws of the guide.
    log_envelope
        log c.
    num_tries
        K.
    shares
        For each draw how much of it belongs to the mode from which the jump starts; by default all.

    Returns
    -------
    The probability that a jump from a draw of the target (in that mode) succeeds.
    """
    relative = log_ratios - log_envelope
    passed = np.exp(np.minimum(relative, 0.0))
    found = -np.expm1(num_tries * np.log1p(-min(passed.mean(), 1 - 1e-12)))
    order = np.argsort(relative)
    weights = np.exp(np.clip(relative[order], 0.0, LARGEST))
    here = np.exp(relative[order] - relative.max()) * (1.0 if shares is None else shares[order])
    there = passed[order] / passed.sum()
    # E min(1, w*/w) over pairs: candidates above θ in the order are accepted, those below with w*/w.
    below, above = np.cumsum(there * weights), 1 - np.cumsum(there)
    return float(found * (here @ (below / weights + above)) / here.sum())
