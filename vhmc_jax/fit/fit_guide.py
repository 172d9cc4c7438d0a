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
from vhmc_jax.arguments import as_count, as_parameter
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.diagnostics.draws import flatten_draws
from vhmc_jax.fit.pool import GOOD_ACCEPTANCE, Pool, judge
from vhmc_jax.fit.shapes import LocalFit, Shapes, laplace
from vhmc_jax.fit.weights import ComponentWeights, weigh_components, weight_errors
from vhmc_jax.guide.mixture import GaussianMixture, StudentTMixture
from vhmc_jax.search.modes import Modes

HIGH_PARETO_K = 0.7
LEAST_HALO = 0.02
"""Where a halo explains that share of its mode, the guide keeps it."""
NUM_STARTS = 256
"""Draws, about the target's, that a report keeps."""


class GuideReport(NamedTuple):
    """How good a guide is.

    Attributes
    ----------
    log_envelope
        log c that makes the most jumps succeed.
    num_tries
        The most candidates of a jump, for which that holds.
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
    starts
        A few draws, about the target's, for chains to start from, flat, shape (n, d).
    num_gradients
        Gradients taken.
    num_densities
        Density values taken.
    """

    log_envelope: float
    num_tries: int
    mode_weights: np.ndarray
    mode_weight_errors: np.ndarray
    expected_acceptance: float
    expected_acceptance_by_mode: np.ndarray
    pareto_k: np.ndarray
    component_modes: np.ndarray
    step_sizes: np.ndarray
    acceptance_rates: np.ndarray
    starts: np.ndarray
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
    num_tries: int | None = 4,
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
        value. They judge the guide as well. By default 1,024, and fewer for more than 8 modes.
    num_tries
        Candidates of a jump, for which the envelope is chosen; None for one where nine jumps in ten then succeed, else
        four.
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
    max_components = as_count("max_components", max_components, 1)
    if num_tries is not None:
        num_tries = as_count("num_tries", num_tries, 1)
    target_acceptance = as_parameter("target_acceptance", target_acceptance, positive=True, at_most=1.0)
    for name, value in (("defensive_weight", defensive_weight), ("weight_floor", weight_floor)):
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
    if not 0 <= good_acceptance <= 1:
        raise ValueError(f"good_acceptance must be from 0 to 1, got {good_acceptance}")
    key_local, key_em, key_pool = random.split(rng_key, 3)
    flat_modes, density = flat_problem(logdensity_fn, modes)
    mixture_of = functools.partial(_mixture, dtype=flat_modes.dtype, df=df)
    generator = np.random.default_rng(np.asarray(jax.random.key_data(random.as_jax_key(key_pool))))

    def draw(shapes: Shapes) -> Pool:
        return Pool.of(generator, density, shapes, mixture_of, num_weight_draws // 2)

    def assess(pool: Pool) -> dict[str, Any]:
        """Weigh the components and judge the guide that they make."""
        found = weigh_components(pool.logdensities.ravel(), pool.log_components())
        weighed = _weigh(pool, found, mixture_of, defensive_weight, weight_floor)
        judged = judge(pool, found.log_pool, weighed["guide"], weighed["component_modes"], num_tries, generator)
        return weighed | judged | {"starts": _resample(generator, pool, found.log_importance)}

    local = None
    if pilot is not None:
        positions, logdensities = pilot
        local = LocalFit.of_pilot(flat_modes, modes, flatten_draws(positions), jnp.asarray(logdensities))
        assessed = assess(pool := draw(local.shapes(random.as_jax_key(key_em), max_components)))
    else:
        assessed = assess(pool := draw(laplace(flat_modes, modes)))
        if len(poor := np.flatnonzero(assessed["expected_acceptance_by_mode"] < good_acceptance)):
            local = LocalFit.of(
                random.as_jax_key(key_local), density, flat_modes, modes, poor, target_acceptance, **sizes
            )
            assessed = assess(
                pool := pool.replaced(draw(local.shapes(random.as_jax_key(key_em), max_components)), mixture_of)
            )

    guide, unknown = assessed.pop("guide"), np.full(len(flat_modes), np.nan)
    report = GuideReport(
        **assessed,
        step_sizes=unknown if local is None else local.by_mode(local.draws.step_sizes, len(unknown)),
        acceptance_rates=unknown if local is None else local.by_mode(local.draws.acceptance_rates, len(unknown)),
        num_gradients=0 if local is None else int(local.draws.num_gradients),
        num_densities=pool.num_densities,
    )
    _warn(report, least_weight=weight_floor / len(flat_modes))
    return guide, report


def default_weight_draws(num_modes: int) -> int:
    """Draws for the weight of each component."""
    return min(1024, max(256, 8192 // num_modes))


def flat_problem(logdensity_fn: Callable, modes: Modes) -> tuple[Array, Callable]:
    """Modes as rows of a matrix, and the density as a function of such a row."""
    flat_modes = jax.vmap(lambda position: ravel_pytree(position)[0])(modes.positions)
    return flat_modes, Partial(_flat_logdensity, as_pytree_function(logdensity_fn), modes.template)


def _flat_logdensity(logdensity_fn: Callable, template: PyTree, x: Array) -> Array:
    return jnp.asarray(logdensity_fn(ravel_pytree(template)[1](x)), dtype=x.dtype)


def _mixture(
    shapes: Shapes, weights: np.ndarray | None = None, defensive_weight: float = 0.0, *, dtype: Any, df: float | None
) -> Any:
    """A mixture of these shapes, with equal weights by default.

    With a defensive weight there is a wide component besides, with twice the covariance of the others together.
    Student-t components have the covariances of the shapes where df > 2.
    """
    shrink = 1.0 if df is None or df <= 2 else np.sqrt((df - 2) / df)
    weights = np.full(len(shapes.modes), 1 / len(shapes.modes)) if weights is None else weights
    means, scales = shapes.means, shrink * shapes.scale_trils
    if defensive_weight > 0:
        centre = weights @ means
        offsets = means - centre
        covariance = np.einsum("k,kij,klj->il", weights, scales, scales) + (weights[:, None] * offsets).T @ offsets
        wide = np.linalg.cholesky(2 * covariance)
        means, scales = np.concatenate([means, centre[None]]), np.concatenate([scales, wide[None]])
        weights = np.append((1 - defensive_weight) * weights, defensive_weight)
    log_weights, means, scales = (array.astype(dtype) for array in (np.log(weights), means, scales))
    if df is None:
        return GaussianMixture(log_weights, means, scales)
    return StudentTMixture(log_weights, means, scales, df)


def _weigh(
    pool: Pool, found: ComponentWeights, mixture_of: Callable, defensive_weight: float, weight_floor: float
) -> dict[str, Any]:
    """Mode weights with errors, the guide with its weights, and the mode of each of its components."""
    belongs = (pool.shapes.modes[:, None] == np.arange(pool.shapes.modes.max() + 1)).astype(float)
    mode_weights, errors = found.weights @ belongs, weight_errors(found, belongs)

    is_kept = ~pool.is_halo | (found.weights > LEAST_HALO * mode_weights[pool.shapes.modes])
    kept, belongs = Shapes(*(part[is_kept] for part in pool.shapes)), belongs[is_kept]
    component_modes = kept.modes
    lift = np.maximum(mode_weights, weight_floor / len(mode_weights)) / np.maximum(mode_weights, 1e-300)
    # A mode whose draws all had density zero has no shares to lift: its components get the floor in equal parts.
    weights = found.weights[is_kept]
    weights = np.where(weights > 0, weights, 1e-300 / belongs.sum(axis=0)[component_modes]) * lift[component_modes]
    guide = mixture_of(kept, weights / weights.sum(), defensive_weight)
    if defensive_weight > 0:
        component_modes = np.append(component_modes, -1)
    return {
        "mode_weights": mode_weights,
        "mode_weight_errors": errors,
        "guide": guide,
        "component_modes": component_modes,
    }


def _resample(generator: np.random.Generator, pool: Pool, log_importance: np.ndarray) -> np.ndarray:
    """Draws of the pool in proportion to their importance weights, none of them twice or where the density is zero."""
    noisy = log_importance + generator.gumbel(size=len(log_importance))
    num_starts = min(NUM_STARTS, np.count_nonzero(np.isfinite(noisy)))
    return pool.points[np.argsort(-noisy)[:num_starts]]


def _warn(report: GuideReport, least_weight: float) -> None:
    """A long tail alone costs little: jumps are exact. A warning is due where they fail too, if the mode matters."""
    fails = (report.expected_acceptance_by_mode < GOOD_ACCEPTANCE) & (report.mode_weights > least_weight)
    if np.any(is_poor := (report.pareto_k > HIGH_PARETO_K) & fails):
        modes = np.flatnonzero(is_poor).tolist()
        warnings.warn(
            f"Pareto-k is above {HIGH_PARETO_K} for modes {modes}, and jumps from them succeed less often than in "
            f"{GOOD_ACCEPTANCE:.0%} of cases: their shape or their weights may be off. "
            "Raise num_draws or max_components, or use Student-t components (df=5).",
            stacklevel=3,
        )
