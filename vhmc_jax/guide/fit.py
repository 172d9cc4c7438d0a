"""From modes to a guide: draw around each, fit it, weigh it."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree, as_count, as_parameter, as_pytree_function
from vhmc_jax.diagnostics.ess import ess
from vhmc_jax.diagnostics.pareto import pareto_k
from vhmc_jax.guide.em import fit_mixture
from vhmc_jax.guide.envelope import best_envelope, jump_acceptance
from vhmc_jax.guide.local_draws import LocalDraws, draw_locally
from vhmc_jax.guide.mixture import GaussianMixture, StudentTMixture
from vhmc_jax.guide.modes import Modes
from vhmc_jax.guide.shrinkage import GaussianFit, fit_gaussian
from vhmc_jax.guide.weights import weigh_components, weight_errors

HIGH_PARETO_K, GOOD_ACCEPTANCE = 0.7, 0.9


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
        Step size of the local chains of each mode.
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
    num_weight_draws: int = 1024,
    num_tries: int = 4,
    target_acceptance: Any = 0.8,
    max_components: int = 4,
    df: float | None = None,
    defensive_weight: float = 0.01,
    weight_floor: float = 0.01,
) -> tuple[Any, GuideReport]:
    """Fit a mixture to a density whose modes are known.

    Chains of Langevin HMC start at every mode; the draws that stayed with their mode give a mean and a covariance,
    both shrunk toward the Laplace approximation, or a few components where one cannot describe the mode; the weights
    are those of the greatest likelihood over importance-weighted draws from the components.

    Parameters
    ----------
    rng_key
        Key of the whole fit.
    logdensity_fn
        Log density of a pytree position, up to a constant.
    modes
        From ``find_modes``.
    num_draws
        Draws for each mode, over all its chains.
    num_chains
        Chains for each mode.
    num_warmup
        Iterations in which the step size of each mode is found.
    num_weight_draws
        Draws from each component for its weight; each costs one density value.
    num_tries
        Candidates of a jump, for which the envelope is chosen.
    target_acceptance
        Acceptance of the local chains.
    max_components
        Most components for one mode; 1 for a Gaussian a mode.
    df
        Degrees of freedom of Student-t components; None for Gaussian ones.
    defensive_weight
        Weight of one wide component over everything; 0 for none.
    weight_floor
        Least weight of a mode in the guide, as a share of 1/k, so that none is lost.

    Returns
    -------
    The guide, on flat vectors, and a report.
    """
    num_chains = as_count("num_chains", num_chains, 1)
    num_draws = max(1, as_count("num_draws", num_draws, 1) // num_chains)
    num_weight_draws = as_count("num_weight_draws", num_weight_draws, 16)
    num_tries = as_count("num_tries", num_tries, 1)
    for name, value in (("defensive_weight", defensive_weight), ("weight_floor", weight_floor)):
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
    key_local, key_em, key_weights, key_quality = (random.as_jax_key(key) for key in random.split(rng_key, 4))
    flat_modes, density = flat_problem(logdensity_fn, modes)

    draws = draw_locally(
        key_local,
        density,
        flat_modes,
        modes.covariances,
        as_parameter("target_acceptance", target_acceptance, positive=True, at_most=1.0),
        num_chains=num_chains,
        num_draws=num_draws,
        num_warmup=as_count("num_warmup", num_warmup, 1),
    )
    gaussians, component_modes = _fit_modes(key_em, modes, flat_modes, draws, max_components)
    components = gaussians if df is None else _student(gaussians, df)
    mode_weights, errors, guide, component_modes = _weigh(
        key_weights, density, components, component_modes, num_weight_draws, defensive_weight, weight_floor
    )
    quality = _assess(key_quality, density, guide, component_modes, num_weight_draws, num_tries)
    report = GuideReport(
        mode_weights=mode_weights,
        mode_weight_errors=errors,
        **quality,
        component_modes=component_modes,
        step_sizes=np.asarray(draws.step_sizes),
        acceptance_rates=np.asarray(draws.acceptance_rates),
        num_gradients=int(draws.num_gradients),
        num_densities=num_weight_draws * (components.num_components + len(mode_weights)),
    )
    _warn(report)
    return guide, report


def flat_problem(logdensity_fn: Callable, modes: Modes) -> tuple[Array, Callable]:
    """Modes as rows of a matrix, and the density as a function of such a row."""
    first = jax.tree.map(lambda leaf: leaf[0], modes.positions)
    flat_modes = jax.vmap(lambda position: ravel_pytree(position)[0])(modes.positions)
    return flat_modes, Partial(_flat_logdensity, as_pytree_function(logdensity_fn), first)


def _flat_logdensity(logdensity_fn: Callable, template: PyTree, x: Array) -> Array:
    return jnp.asarray(logdensity_fn(ravel_pytree(template)[1](x)), dtype=x.dtype)


@jax.jit
def _labels(modes: Array, logdensities: Array, scale_trils: Array, draws: Array) -> Array:
    """The mode whose Laplace approximation, with its height, is greatest at each draw of (..., d)."""

    def label(x: Array) -> Array:
        white = jax.vmap(lambda scale, mode: solve_triangular(scale, x - mode, lower=True))(scale_trils, modes)
        return jnp.argmax(logdensities - 0.5 * jnp.sum(white**2, axis=-1))

    return jax.vmap(label)(draws.reshape(-1, draws.shape[-1])).reshape(draws.shape[:-1])


@jax.jit
def _fit_gaussians(draws: Array, modes: Array, scale_trils: Array, sizes: Array, weights: Array) -> GaussianFit:
    return jax.vmap(
        lambda draws, mode, scale, size, weights: fit_gaussian(draws, mode, scale, effective_size=size, weights=weights)
    )(draws, modes, scale_trils, sizes, weights)


def _fit_modes(
    rng_key: Array, modes: Modes, flat_modes: Array, draws: LocalDraws, max_components: int
) -> tuple[GaussianMixture, np.ndarray]:
    """Components for every mode, with equal weights, and the mode that each belongs to."""
    num_modes, dim = flat_modes.shape
    scale_trils = jnp.linalg.cholesky(modes.covariances)
    belongs = _labels(flat_modes, modes.logdensities, scale_trils, draws.positions)
    belongs = belongs == jnp.arange(num_modes)[:, None, None]
    flat_draws = draws.positions.reshape(num_modes, -1, dim)
    weights = belongs.reshape(num_modes, -1).astype(flat_draws.dtype)
    sizes = _effective_sizes(draws, weights)
    gaussians = _fit_gaussians(flat_draws, flat_modes, scale_trils, sizes, weights)

    mixtures = []
    for number in range(num_modes):
        gaussian = jax.tree.map(lambda leaf: leaf[number], gaussians)  # noqa: B023 - used at once
        if max_components == 1:
            mixtures.append((gaussian.mean[None], gaussian.scale_tril[None]))
            continue
        fit = fit_mixture(
            jax.random.fold_in(rng_key, number),
            flat_draws[number],
            gaussian,
            effective_size=float(sizes[number]),
            weights=weights[number],
            max_components=max_components,
        )
        mixtures.append((fit.mixture.means, fit.mixture.scale_trils))
    component_modes = np.repeat(np.arange(num_modes), [len(means) for means, _ in mixtures])
    means, scales = (jnp.concatenate(parts) for parts in zip(*mixtures, strict=True))
    return GaussianMixture(jnp.zeros(len(means), means.dtype), means, scales), component_modes


def _effective_sizes(draws: LocalDraws, weights: Array) -> Array:
    """Independent draws that those of each mode are worth for a covariance, times the share that stayed.

    That is the effective size of the squares (a mean over coordinates) or of the log density, whichever is less: along
    trajectories the coordinates themselves may be anticorrelated, and worth more than the draws are for their spread.
    """
    num_modes, num_chains, num_draws, _ = draws.positions.shape
    total, dtype = num_chains * num_draws, draws.positions.dtype
    if num_draws < 8:
        sizes = jnp.full(num_modes, float(num_chains), dtype)
    else:
        squares = jnp.asarray(ess(jnp.moveaxis(draws.positions, 0, 2), kind="sd"), dtype)
        energies = jnp.asarray(ess(jnp.moveaxis(draws.logdensities, 0, 2), kind="mean"), dtype)
        sizes = jnp.nan_to_num(jnp.minimum(jnp.mean(squares, axis=-1), energies), nan=float(num_chains))
    return jnp.clip(sizes, 1.0, total) * jnp.maximum(jnp.mean(weights, axis=1), 1 / total)


def _student(components: GaussianMixture, df: float) -> StudentTMixture:
    """Student-t components with the same means and, where df > 2, the same covariances."""
    shrink = np.sqrt((df - 2) / df) if df > 2 else 1.0
    scales = components.scale_trils * jnp.asarray(shrink, components.scale_trils.dtype)
    return StudentTMixture(components.log_weights, components.means, scales, df)


@functools.partial(jax.jit, static_argnames="num_draws")
def _evaluate(rng_key: Array, density: Callable, guide: Any, num_draws: int) -> tuple[Array, Array]:
    """Log density of the target and of each weighted component of the guide, at draws of the guide."""
    draws = jax.vmap(guide.sample)(jax.random.split(rng_key, num_draws))
    return jax.vmap(density)(draws), jax.vmap(guide.component_log_probs)(draws)


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
    components: Any,
    component_modes: np.ndarray,
    num_draws: int,
    defensive_weight: float,
    weight_floor: float,
) -> tuple[np.ndarray, np.ndarray, Any, np.ndarray]:
    """Mode weights with errors, the guide with its weights, and the mode of each of its components."""
    evaluated = _evaluate_components(rng_key, density, components, num_draws)
    found = weigh_components(*(np.asarray(values, np.float64) for values in evaluated))
    belongs = (component_modes[:, None] == np.arange(component_modes.max() + 1)).astype(float)
    mode_weights = found.weights @ belongs
    errors = weight_errors(found, belongs)

    lift = np.maximum(mode_weights, weight_floor / len(mode_weights)) / np.maximum(mode_weights, 1e-300)
    # A mode whose draws all had density zero has no shares to lift: its components get the floor in equal parts.
    weights = np.where(found.weights > 0, found.weights, 1e-300 / belongs.sum(axis=0)[component_modes])
    weights = weights * lift[component_modes]
    guide = _with_weights(components, weights / weights.sum(), defensive_weight)
    if defensive_weight > 0:
        component_modes = np.append(component_modes, -1)
    return mode_weights, errors, guide, component_modes


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
    logdensities, log_probs = (
        np.asarray(v, np.float64) for v in _evaluate(rng_key, density, guide, num_draws * int(num_modes))
    )
    log_prob = np.logaddexp.reduce(log_probs, axis=1)
    log_ratios = logdensities - log_prob
    envelope, acceptance = best_envelope(log_ratios, num_tries)
    responsibilities = np.exp(log_probs - log_prob[:, None])
    shares = np.stack([responsibilities[:, component_modes == mode].sum(axis=1) for mode in range(num_modes)])
    return {
        "log_envelope": envelope,
        "expected_acceptance": acceptance,
        "expected_acceptance_by_mode": np.asarray(
            [jump_acceptance(log_ratios, envelope, num_tries, share) for share in shares]
        ),
        "pareto_k": np.asarray([pareto_k(log_ratios[np.argmax(shares, axis=0) == mode]) for mode in range(num_modes)]),
    }


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
