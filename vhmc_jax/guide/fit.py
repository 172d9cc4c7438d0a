"""From modes to a guide: draw around each, fit it, weigh it."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree, as_count, as_parameter, as_pytree_function
from vhmc_jax.diagnostics.draws import flatten_draws
from vhmc_jax.diagnostics.pareto import pareto_k
from vhmc_jax.guide.envelope import best_envelope, jump_acceptance
from vhmc_jax.guide.mixture import GaussianMixture, StudentTMixture
from vhmc_jax.guide.modes import Modes
from vhmc_jax.guide.shapes import LocalFit, Shapes, laplace
from vhmc_jax.guide.weights import weigh_components, weight_errors

HIGH_PARETO_K, GOOD_ACCEPTANCE = 0.7, 0.9
HALO_SCALE, LEAST_HALO = 2.0, 0.02
"""Every component has a halo, itself at twice the scale: draws from it see mass that the component misses. Where
it explains that share of its mode, the guide keeps it."""


class GuideReport(NamedTuple):
    """How good a guide is.

    Attributes
    ----------
    log_envelope
        log c that makes the most jumps succeed.
    mode_weights
        Weight of each mode in the target, shape (k,).
    mode_weight_errors
        Their standard errors.
    expected_acceptance
        Probability that a jump from a draw of the target succeeds.
    expected_acceptance_by_mode
        The same from a draw in each mode.
    pareto_k
        Tail of the importance weights of each mode's components: above 0.7 the fit is not to be trusted.
    component_modes
        For each component of the guide the mode it describes; −1 for the defensive one.
    step_sizes
        Step size of the local chains of each mode; NaN where none were needed.
    acceptance_rates
        Their acceptance.
    num_gradients
        Gradients taken.
    num_densities
        Density values taken.
    """

    log_envelope: float
    mode_weights: np.ndarray
    mode_weight_errors: np.ndarray
    expected_acceptance: float
    expected_acceptance_by_mode: np.ndarray
    pareto_k: np.ndarray
    component_modes: np.ndarray
    step_sizes: np.ndarray
    acceptance_rates: np.ndarray
    num_gradients: int
    num_densities: int


def fit_guide(
    rng_key: Array,
    logdensity_fn: Callable,
    modes: Modes,
    *,
    num_draws: int = 1024,
    num_chains: int = 16,
    num_warmup: int = 64,
    num_weight_draws: int | None = None,
    num_tries: int = 4,
    target_acceptance: Any = 0.8,
    max_components: int = 4,
    df: float | None = None,
    good_acceptance: float = GOOD_ACCEPTANCE,
    defensive_weight: float = 0.01,
    weight_floor: float = 0.01,
    pilot: tuple[PyTree, Array] | None = None,
) -> tuple[Any, GuideReport]:
    """Fit a mixture to a density whose modes are known.

    A mode is described by its Laplace approximation where jumps from it succeed often enough. Elsewhere chains of
    Langevin HMC start; the draws that stayed with their mode give a mean and a covariance, both shrunk toward
    Laplace's, or a few components where one cannot describe the mode. The weights are those of the greatest
    likelihood over importance-weighted draws from all components.

    Parameters
    ----------
    rng_key
        Key of the whole fit.
    logdensity_fn
        Log density of a pytree position, up to a constant.
    modes
        From ``find_modes``.
    num_draws
        Draws for each mode that needs them, over all its chains.
    num_chains
        Chains for each such mode.
    num_warmup
        Iterations in which the step size of each mode is found.
    num_weight_draws
        Draws for the weight of each component, half of them from its halo at twice the scale; each costs one density
        value. Half as many for each mode judge the guide. By default 1,024, and fewer for more than 16 modes.
    num_tries
        Candidates of a jump, for which the envelope is chosen.
    target_acceptance
        Acceptance of the local chains.
    max_components
        Most components for one mode; 1 for a Gaussian a mode.
    df
        Degrees of freedom of Student-t components; None for Gaussian ones.
    good_acceptance
        Expected acceptance of jumps from a mode whose Laplace approximation will do; 1 to draw around every mode.
    defensive_weight
        Weight of one wide component over everything; 0 for none.
    weight_floor
        Least weight of a mode in the guide, as a share of 1/k, so that none is lost.
    pilot
        Draws of the target, (chain, draw, ...), and their log densities, from a run with an earlier guide: every mode
        is fitted to its share of them, and no chains are run.

    Returns
    -------
    The guide, on flat vectors, and a report.
    """
    num_chains = as_count("num_chains", num_chains, 1)
    sizes = {
        "num_chains": num_chains,
        "num_draws": max(1, as_count("num_draws", num_draws, 1) // num_chains),
        "num_warmup": as_count("num_warmup", num_warmup, 1),
    }
    if num_weight_draws is None:
        num_weight_draws = default_weight_draws(len(modes.logdensities))
    num_weight_draws = as_count("num_weight_draws", num_weight_draws, 16)
    num_tries, max_components = as_count("num_tries", num_tries, 1), as_count("max_components", max_components, 1)
    target_acceptance = as_parameter("target_acceptance", target_acceptance, positive=True, at_most=1.0)
    for name, value in (("defensive_weight", defensive_weight), ("weight_floor", weight_floor)):
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
    if not 0 <= good_acceptance <= 1:
        raise ValueError(f"good_acceptance must be from 0 to 1, got {good_acceptance}")
    key_local, key_em, key_weights, key_quality = (random.as_jax_key(key) for key in random.split(rng_key, 4))
    flat_modes, density = flat_problem(logdensity_fn, modes)
    num_modes, num_densities = len(flat_modes), 0

    def judge(shapes: Shapes) -> dict[str, Any]:
        """Weigh the components and assess the guide that they make."""
        nonlocal num_densities
        num_densities += num_weight_draws // 2 * (2 * len(shapes.modes) + num_modes)
        make = functools.partial(_components, dtype=flat_modes.dtype, df=df)
        weighed = _weigh(key_weights, density, shapes, make, num_weight_draws // 2, defensive_weight, weight_floor)
        guide, component_modes = weighed["guide"], weighed["component_modes"]
        num_draws = num_weight_draws // 2 * num_modes
        return weighed | _assess(key_quality, density, guide, component_modes, num_draws, num_tries)

    local = None
    if pilot is not None:
        positions, logdensities = pilot
        local = LocalFit.of_pilot(flat_modes, modes, flatten_draws(positions), jnp.asarray(logdensities))
        judged = judge(local.shapes(key_em, max_components))
    else:
        judged = judge(shapes := laplace(flat_modes, modes))
        if len(poor := np.flatnonzero(judged["expected_acceptance_by_mode"] < good_acceptance)):
            local = LocalFit.of(key_local, density, flat_modes, modes, poor, target_acceptance, **sizes)
            judged = judge(shapes.replaced(local.shapes(key_em, max_components)))

    guide, unknown = judged.pop("guide"), np.full(num_modes, np.nan)
    report = GuideReport(
        **judged,
        step_sizes=unknown if local is None else local.by_mode(local.draws.step_sizes, num_modes),
        acceptance_rates=unknown if local is None else local.by_mode(local.draws.acceptance_rates, num_modes),
        num_gradients=0 if local is None else int(local.draws.num_gradients),
        num_densities=num_densities,
    )
    _warn(report)
    return guide, report


def default_weight_draws(num_modes: int) -> int:
    """Draws for the weight of each component."""
    return min(1024, max(256, 16384 // num_modes))


def flat_problem(logdensity_fn: Callable, modes: Modes) -> tuple[Array, Callable]:
    """Modes as rows of a matrix, and the density as a function of such a row."""
    first = jax.tree.map(lambda leaf: leaf[0], modes.positions)
    flat_modes = jax.vmap(lambda position: ravel_pytree(position)[0])(modes.positions)
    return flat_modes, Partial(_flat_logdensity, as_pytree_function(logdensity_fn), first)


def _flat_logdensity(logdensity_fn: Callable, template: PyTree, x: Array) -> Array:
    return jnp.asarray(logdensity_fn(ravel_pytree(template)[1](x)), dtype=x.dtype)


def _components(shapes: Shapes, dtype: Any, df: float | None) -> Any:
    """A mixture of these shapes with equal weights; Student-t components where df > 2 with the same covariances."""
    shrink = 1.0 if df is None or df <= 2 else np.sqrt((df - 2) / df)
    log_weights, means = jnp.zeros(len(shapes.modes), dtype), jnp.asarray(shapes.means, dtype)
    scale_trils = jnp.asarray(shrink * shapes.scale_trils, dtype)
    if df is None:
        return GaussianMixture(log_weights, means, scale_trils)
    return StudentTMixture(log_weights, means, scale_trils, df)


def draw_guide(
    rng_key: Array, density: Callable, guide: Any, num_draws: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of a guide, the log density of the target there, and that of each weighted component of the guide."""
    x, logdensities, log_probs = _draw_guide(rng_key, density, guide, num_draws)
    return np.asarray(x), np.asarray(logdensities, np.float64), np.asarray(log_probs, np.float64)


@functools.partial(jax.jit, static_argnames="num_draws")
def _draw_guide(rng_key: Array, density: Callable, guide: Any, num_draws: int) -> tuple[Array, Array, Array]:
    draws = jax.vmap(guide.sample)(jax.random.split(rng_key, num_draws))
    return draws, jax.vmap(density)(draws), jax.vmap(guide.component_log_probs)(draws)


@functools.partial(jax.jit, static_argnames="num_draws")
def _evaluate_components(rng_key: Array, density: Callable, components: Any, num_draws: int) -> tuple[Array, Array]:
    """Log density of the target and of each component, at draws of every component in turn, in equal numbers."""
    k = components.num_components
    sample = jax.vmap(jax.vmap(components.sample_component, (0, None)))
    draws = sample(jax.random.split(rng_key, (k, num_draws)), jnp.arange(k)).reshape(-1, components.dim)
    equal_weights = jnp.log(jnp.asarray(k, components.means.dtype))
    return jax.vmap(density)(draws), jax.vmap(components.component_log_probs)(draws) + equal_weights


def _weigh(
    rng_key: Array,
    density: Callable,
    shapes: Shapes,
    make: Callable,
    num_draws: int,
    defensive_weight: float,
    weight_floor: float,
) -> dict[str, Any]:
    """Mode weights with errors, the guide with its weights, and the mode of each of its components."""
    halos = shapes._replace(scale_trils=HALO_SCALE * shapes.scale_trils)
    both = Shapes(*(np.concatenate(pair) for pair in zip(shapes, halos, strict=True)))
    evaluated = _evaluate_components(rng_key, density, make(both), num_draws)
    found = weigh_components(*(np.asarray(values, np.float64) for values in evaluated))
    belongs = (both.modes[:, None] == np.arange(both.modes.max() + 1)).astype(float)
    mode_weights, errors = found.weights @ belongs, weight_errors(found, belongs)

    is_kept = np.arange(len(both.modes)) < len(shapes.modes)
    is_kept |= found.weights > LEAST_HALO * mode_weights[both.modes]
    kept, belongs = Shapes(*(part[is_kept] for part in both)), belongs[is_kept]
    component_modes = kept.modes
    lift = np.maximum(mode_weights, weight_floor / len(mode_weights)) / np.maximum(mode_weights, 1e-300)
    # A mode whose draws all had density zero has no shares to lift: its components get the floor in equal parts.
    weights = found.weights[is_kept]
    weights = np.where(weights > 0, weights, 1e-300 / belongs.sum(axis=0)[component_modes]) * lift[component_modes]
    guide = _with_weights(make(kept), weights / weights.sum(), defensive_weight)
    if defensive_weight > 0:
        component_modes = np.append(component_modes, -1)
    return {
        "mode_weights": mode_weights,
        "mode_weight_errors": errors,
        "guide": guide,
        "component_modes": component_modes,
    }


def _with_weights(components: Any, weights: np.ndarray, defensive_weight: float) -> Any:
    """The mixture with these weights, and a wide component with twice its covariance."""
    dtype = components.means.dtype
    means, scales = (np.asarray(array, np.float64) for array in (components.means, components.scale_trils))
    if defensive_weight > 0:
        centre = weights @ means
        offsets = means - centre
        covariance = np.einsum("k,kij,klj->il", weights, scales, scales) + (weights[:, None] * offsets).T @ offsets
        wide = np.linalg.cholesky(2 * covariance)
        means, scales = np.concatenate([means, centre[None]]), np.concatenate([scales, wide[None]])
        weights = np.append((1 - defensive_weight) * weights, defensive_weight)
    log_weights, all_means, all_scales = (jnp.asarray(array, dtype) for array in (np.log(weights), means, scales))
    if isinstance(components, StudentTMixture):
        return StudentTMixture(log_weights, all_means, all_scales, components.df[0])
    return GaussianMixture(log_weights, all_means, all_scales)


def _assess(
    rng_key: Array, density: Callable, guide: Any, component_modes: np.ndarray, num_draws: int, num_tries: int
) -> dict[str, Any]:
    """Envelope, expected acceptance and Pareto-k, from draws of the guide."""
    num_modes = component_modes.max() + 1
    _, logdensities, log_probs = draw_guide(rng_key, density, guide, num_draws)
    log_prob = np.logaddexp.reduce(log_probs, axis=1)
    log_ratios = logdensities - log_prob
    envelope, acceptance = best_envelope(log_ratios, num_tries)
    responsibilities = np.exp(log_probs - log_prob[:, None])
    shares = np.stack([responsibilities[:, component_modes == mode].sum(axis=1) for mode in range(num_modes)])
    by_mode = np.asarray([jump_acceptance(log_ratios, envelope, num_tries, share) for share in shares])
    return {
        "log_envelope": envelope,
        "expected_acceptance": acceptance,
        # Where few draws carry the weight, the envelope is fitted to them, and what it promises is not to be trusted.
        "expected_acceptance_by_mode": np.minimum(by_mode, [_effective_share(log_ratios, share) for share in shares]),
        "pareto_k": np.asarray([pareto_k(log_ratios[np.argmax(shares, axis=0) == mode]) for mode in range(num_modes)]),
    }


def _effective_share(log_ratios: np.ndarray, shares: np.ndarray) -> float:
    """Kish's effective size of a mode's importance weights, as a share of its draws."""
    weights = np.exp(log_ratios - log_ratios.max())
    total = shares @ weights
    return float(total**2 / max(shares @ weights**2 * shares.sum(), 1e-300))


def _warn(report: GuideReport) -> None:
    """A long tail alone costs little: jumps are exact, and a warning is due where they fail as well."""
    fails = report.expected_acceptance_by_mode < GOOD_ACCEPTANCE
    if np.any(is_poor := (report.pareto_k > HIGH_PARETO_K) & fails):
        modes = np.flatnonzero(is_poor).tolist()
        warnings.warn(
            f"Pareto-k is above {HIGH_PARETO_K} for modes {modes}, and jumps from them succeed less often than in "
            f"{GOOD_ACCEPTANCE:.0%} of cases: their shape or their weights may be off. "
            "Raise num_draws or max_components, or use Student-t components (df=5).",
            stacklevel=3,
        )
