"""Log evidence: the normalising constant of the target, by bridge sampling between a guide and the draws.

Notation: p the unnormalised target, q the normalised guide, ℓ = log p − log q, n₁ draws x of the target worth
as many independent ones, n₂ independent draws y of the guide, so many of each of its components, c = log ∫ p.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_count
from vhmc_jax.base import as_pytree_function
from vhmc_jax.density import FlatDensity
from vhmc_jax.diagnostics.bridge import Bridge
from vhmc_jax.diagnostics.draws import check_draws, flatten_draws, map_draws
from vhmc_jax.diagnostics.ess import MIN_DRAWS, split_ess
from vhmc_jax.diagnostics.modes.bridge import ModeShares, bridge_modes
from vhmc_jax.diagnostics.modes.labels import modes_of_components, shares_of_modes, values_at
from vhmc_jax.diagnostics.pareto import HIGH_PARETO_K, pareto_k
from vhmc_jax.diagnostics.strata import Strata
from vhmc_jax.guide import OnHost, as_guide
from vhmc_jax.programs import program
from vhmc_jax.threads import one_blas_thread

MAX_GUIDE_DRAWS = 100_000
LIGHT_TAILS = 0.1
"""By how much importance sampling may then differ from the bridge before it is said."""
COARSE = 0.05
"""Distance between neighbouring values of the log density from which rounding is noted. Single precision has 0.008 at
10⁵, where tests of invariance see nothing, and 0.06 at 10⁶."""


class Evidence(NamedTuple):
    """An estimate of log ∫ p with what is needed to judge it.

    Attributes
    ----------
    log_evidence
        By bridge sampling.
    error
        Its standard error, with the autocorrelation of the draws taken into account.
    importance, importance_error
        The same by importance sampling from the guide alone, as a check.
    ess
        Effective number of the draws for their part of the bridge.
    pareto_k
        Of the importance weights p/q at the guide's draws. Above 0.7 the check means little, and the guide
        misses part of the target's tails.
    mode_weights, mode_weight_errors
        Weights of the modes by bridges within each, and their standard errors, (mode,); None where ``mode_of`` was
        not given, or where there is no estimate of the evidence. Where the guide fits, they are known far better than
        by the share of the draws in each mode. Weighed is the mass that the guide holds a mode responsible for. Where
        modes overlap, the error includes how far that depends on the guide.
    notes
        Sentences: what is NaN and why, and what to beware of.
    """

    log_evidence: float
    error: float
    importance: float
    importance_error: float
    ess: float
    pareto_k: float
    mode_weights: np.ndarray | None
    mode_weight_errors: np.ndarray | None
    notes: tuple[str, ...]


@one_blas_thread
def log_evidence(
    rng_key: Array,
    logdensity_fn: Callable[[Any], Array],
    guide: Any,
    draws: Any,
    *,
    num_guide_draws: int | None = None,
    logdensities: Any = None,
    mode_of: Any = None,
    guide_values: Any = None,
) -> Evidence:
    r"""Log normalising constant of a density by Meng and Wong's optimal bridge.

    .. math:: e^c = \frac{\frac1{n_2}\sum_j p(y_j) / (s_1 p(y_j) + s_2 e^c q(y_j))}
        {\frac1{n_1}\sum_i q(x_i) / (s_1 p(x_i) + s_2 e^c q(x_i))}, \qquad s_i = n_i / (n_1 + n_2)

    The fixed point c is the root of a monotone function, found by Newton's method in a bracket. The effective
    number of draws stands for n₁ in s₁ and in the error.

    Parameters
    ----------
    rng_key
        For the guide's draws.
    logdensity_fn
        Log density p of a position (a pytree), up to the constant that is sought.
    guide
        Object with ``sample(rng_key)`` and ``log_prob(x)`` on flat vectors, normalised. It must not have been
        fitted to these very draws: a guide that has seen them biases the evidence.
    draws
        Draws of the target, a pytree of (chain, draw, ...) arrays.
    num_guide_draws
        By default as many as there are draws, at most 100,000. Of a mixture of this package each component has a least
        number of them, so that one of little weight is seen too.
    logdensities
        Values of ``logdensity_fn`` at the draws, (chain, draw), where they are at hand.
    mode_of
        Number of the mode of each component of a mixture, −1 for none, for the weights of the modes.
    guide_values
        ``guide.on_host().at(x)`` of a mixture of this package at the flat draws, (chain · draw, d), where they are at
        hand.

    Returns
    -------
    The estimate.

    References
    ----------
    Meng & Wong (1996), equation 4.1; Frühwirth-Schnatter (2004), section 3, for the error.
    """
    guide = as_guide(guide)
    x = flatten_draws(draws := check_draws(draws))
    one_draw = jax.tree.map(lambda leaf: np.asarray(leaf)[0, 0], draws)
    density = Partial(_as_vector, FlatDensity.at(logdensity_fn, one_draw))
    size = x.shape[0] * x.shape[1]
    count = min(size, MAX_GUIDE_DRAWS) if num_guide_draws is None else num_guide_draws
    count = as_count("num_guide_draws", count, 2)
    y, strata, guide_at_draws, guide_at_guide, components = _guide_values(rng_key, guide, x, count, guide_values)
    if mode_of is not None and components is None:
        raise TypeError(f"mode_of is for a mixture of this package, got a {type(guide).__name__}")
    if logdensities is None:
        target_at_draws = np.asarray(map_draws(density, x, 1)[..., 0], np.float64)
    else:
        target_at_draws = np.asarray(logdensities, np.float64)
        if target_at_draws.shape != x.shape[:2]:
            raise ValueError(f"logdensities must have shape {x.shape[:2]}, got {target_at_draws.shape}")
    ratios_at_draws = target_at_draws - guide_at_draws
    target_at_guide = np.asarray(map_draws(density, y, 1), np.float64).ravel()
    # As for the chains: what is no finite number is density zero.
    target_at_guide = np.where(np.isfinite(target_at_guide), target_at_guide, -np.inf)
    ratios_at_guide = target_at_guide - guide_at_guide
    evidence = bridge(ratios_at_draws, ratios_at_guide, strata)
    evidence = evidence._replace(notes=(*evidence.notes, *_rounding_notes(target_at_draws, x.dtype)))
    if components is None or mode_of is None or not np.isfinite(evidence.log_evidence):
        return evidence
    modes = modes_of_components(draws, guide, mode_of)
    weights, errors = _mode_weights(ratios_at_draws, ratios_at_guide, strata, components, modes, evidence.ess)
    return evidence._replace(mode_weights=weights, mode_weight_errors=errors)


class _Components(NamedTuple):
    """Responsibilities of the guide's components at the chains' draws and at its own, and their weights in it."""

    at_draws: np.ndarray
    at_guide: np.ndarray
    weights: np.ndarray


def _mode_weights(
    ratios_at_draws: np.ndarray,
    ratios_at_guide: np.ndarray,
    strata: Strata,
    components: _Components,
    mode_of: np.ndarray,
    ess: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the modes by bridges within each, and their errors."""
    _, at_draws = shares_of_modes(components.at_draws, mode_of)
    own_shares, at_guide = shares_of_modes(components.at_guide, mode_of)
    return bridge_modes(
        ModeShares(ratios_at_draws, at_draws.reshape(*ratios_at_draws.shape, -1)),
        ModeShares(ratios_at_guide, at_guide),
        strata,
        own_shares=own_shares,
        own_weights=shares_of_modes(components.weights, mode_of)[0],
        efficiency=min(1.0, ess / ratios_at_draws.size),
    )


def _guide_values(
    rng_key: Array, guide: Any, x: Array, count: int, values: Any
) -> tuple[Any, Strata, np.ndarray, np.ndarray, _Components | None]:
    """Draws of the guide (draw, 1, d), its log density at the chains' draws and at its own, and its components'."""
    if (at_draws := values_at(x, guide, values)) is not None:
        host = guide.on_host()
        generator = random.generator(rng_key)
        strata = Strata.of(host.weights, count)
        if strata is None:
            strata, own = Strata.of_one(count), host.sample(generator, count)
        else:
            own = host.sample_components(generator, strata.labels)
        at_guide = host.at(own := own.astype(x.dtype))
        components = _Components(at_draws.shares, at_guide.shares, host.weights)
        return own[:, None], strata, at_draws.log_prob.reshape(x.shape[:2]), at_guide.log_prob, components
    if isinstance(guide, OnHost):
        host = guide.on_host()
        own = host.sample(random.generator(rng_key), count).astype(x.dtype)
        here, there = (host.at(np.asarray(z)).log_prob for z in (x.reshape(-1, x.shape[-1]), own))
        return own[:, None], Strata.of_one(count), here.reshape(x.shape[:2]), there, None
    log_prob = Partial(_as_vector, as_pytree_function(guide.log_prob))
    y = jnp.asarray(_sample(as_pytree_function(guide.sample), jax.random.split(rng_key, count)), x.dtype)[:, None]
    here, there = (np.asarray(map_draws(log_prob, z, 1)[..., 0], np.float64) for z in (x, y))
    return y, Strata.of_one(count), here, there.ravel(), None


def bridge(ratios_at_draws: np.ndarray, ratios_at_guide: np.ndarray, strata: Strata | None = None) -> Evidence:
    """Evidence from log p − log q at draws of the target (chain, draw) and of the guide (n,)."""
    strata = Strata.of_one(len(ratios_at_guide)) if strata is None else strata
    importance, importance_error = _importance(ratios_at_guide, strata)
    k = pareto_k(ratios_at_guide[strata.is_plain])
    problem = _what_is_wrong(ratios_at_draws, ratios_at_guide)
    if problem:
        return Evidence(np.nan, np.nan, importance, importance_error, np.nan, k, None, None, (problem,))
    n1, n2 = ratios_at_draws.size, ratios_at_guide.size
    weights = np.full(n1, 1 / n1), strata.draw_weights
    both = Bridge(ratios_at_draws.ravel(), ratios_at_guide, *weights, float(n1), float(n2))
    estimate = both.solve(guess=float(np.median(ratios_at_draws)))
    for _ in range(2):  # the effective number of draws depends, weakly, on the estimate
        both = both._replace(size=_effective_size(both, estimate, ratios_at_draws.shape))
        estimate = both.solve(guess=estimate)
    at_draws, at_guide = both.terms(estimate)
    variance = at_draws.var(ddof=1) / at_draws.mean() ** 2 / both.size
    error = float(np.sqrt(variance + _relative_variance(at_guide, strata)))
    notes = []
    is_light = k > HIGH_PARETO_K
    # Light tails make the importance estimate too low, and its error too small, where the bridge is right.
    slack = LIGHT_TAILS if is_light else 0.0
    if abs(importance - estimate) > slack + 4 * np.hypot(error, importance_error):
        why = (
            f"Pareto-k is {k:.2f}, above {HIGH_PARETO_K}, so the guide's tails are too light"
            if is_light
            else "they do not cover the same modes, or the guide was fitted to these draws"
        )
        notes.append(
            f"Importance sampling gives {importance:.5g} ± {importance_error:.2g}, the bridge {estimate:.5g} "
            f"± {error:.2g}: {why}."
        )
    return Evidence(estimate, error, importance, importance_error, both.size, k, None, None, tuple(notes))


def _what_is_wrong(ratios_at_draws: np.ndarray, ratios_at_guide: np.ndarray) -> str:
    """Why there can be no estimate, or an empty string."""
    num_bad = int((~np.isfinite(ratios_at_draws)).sum())
    if num_bad:
        return f"NaN: log p − log q is not finite at {num_bad:,} of the draws."
    if np.isnan(ratios_at_guide).any() or np.isposinf(ratios_at_guide).any():
        return "NaN: log p − log q is NaN or infinite at some of the guide's draws."
    if not np.isfinite(ratios_at_guide).any():
        return "NaN: the target's density is zero at every draw of the guide."
    if ratios_at_draws.shape[1] < MIN_DRAWS:
        return f"NaN: an error needs at least {MIN_DRAWS} draws a chain, there are {ratios_at_draws.shape[1]}."
    return ""


def _rounding_notes(logdensities: np.ndarray, dtype: Any) -> list[str]:
    """A sentence where the log density is so large that its differences are rounded away."""
    size = np.median(np.abs(logdensities))
    if not np.isfinite(size) or (spacing := float(np.spacing(size.astype(dtype)))) < COARSE:
        return []
    return [
        f"The log density is about {size:.0e} in size, where {np.dtype(dtype)} resolves {spacing:.2g}: its differences "
        "are rounded. Subtract a constant from it, or use double precision."
    ]


def _effective_size(both: Bridge, estimate: float, shape: tuple[int, ...]) -> float:
    """Effective number of the draws for their part of the bridge; all of them if that part is constant."""
    effective = float(split_ess(both.terms(estimate)[0].reshape(shape)))
    return effective if np.isfinite(effective) else float(both.at_draws.size)


def _importance(ratios: np.ndarray, strata: Strata) -> tuple[float, float]:
    """Log of the mean of e^ℓ over the guide's draws, and its standard error."""
    if np.isnan(ratios).any() or not np.isfinite(ratios.max()):
        return float("nan"), float("nan")
    weights = np.exp(ratios - ratios.max())
    estimate = np.log(strata.draw_weights @ weights) + ratios.max()
    return float(estimate), float(np.sqrt(_relative_variance(weights, strata)))


def _relative_variance(values: np.ndarray, strata: Strata) -> float:
    """Variance of a mean over the guide, in units of its square."""
    return float(strata.variance_of_mean(values) / (strata.draw_weights @ values) ** 2)


def _as_vector(function: Callable[[Array], Array], x: Array) -> Array:
    return jnp.asarray(function(x), x.dtype)[None]


@program
def _sample(sample: Callable[[Array], Array], keys: Array) -> Array:
    return jax.vmap(sample)(keys)
