"""Tune: every number of the production kernel."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_parameter
from vhmc_jax.base import Array, Kernel, as_pytree_function
from vhmc_jax.fit import GuideReport
from vhmc_jax.kernels.lhmc import lhmc
from vhmc_jax.pipeline.fit import Fitted
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.pipeline.step_size import step_size_for
from vhmc_jax.runner.adaptation import adapt_step_size

NUM_STEPS = (1, 3)
"""Leapfrog steps of the local move: between jumps it has to spread within a mode, not to cross it."""
MANY_STEPS, SELDOM = (5, 20), 0.4
"""Leapfrog steps where jumps succeed less often than that: then the local move has to cross the mode."""
MAX_DENSE = 64
"""Up to this dimension the mass is a matrix, beyond it a diagonal: a product with a matrix would cost more than most
gradients."""
FRICTION = 0.5
"""γ of the thermostats where it is not given."""
NUM_ADAPTATION_STEPS, NUM_ADAPTATION_CHAINS = 50, 16
"""Of the dual averaging, where the step size is measured."""
LOCAL_SHARE = (0.2, 0.5)
"""Least and greatest share of the evaluations for local moves, where the jump probability is not given."""


class Tuning(NamedTuple):
    """What is wanted of the production kernel.

    Attributes
    ----------
    target_acceptance
        Acceptance of the local moves.
    jump_probability
        β, or None to choose it.
    friction
        γ, or None for ``FRICTION``.
    """

    target_acceptance: Any
    jump_probability: float | None
    friction: float | None

    def checked(self) -> Self:
        """The same, or an error that names what is wrong."""
        if self.jump_probability is not None:
            as_parameter("jump_probability", self.jump_probability, nonnegative=True, at_most=1.0)
        if self.friction is not None:
            as_parameter("friction", self.friction, nonnegative=True)
        return self


class Tuned(NamedTuple):
    """The parameters of production, and what it cost to find them.

    Attributes
    ----------
    frozen
        The parameters.
    cost
        Evaluations.
    """

    frozen: Frozen
    cost: Cost


def tune(
    rng_key: Array,
    logdensity_fn: Callable,
    fitted: Fitted,
    tuning: Tuning,
) -> Tuned:
    """Choose mass, jump probability and step size, then freeze everything.

    Where Laplace's Gaussians describe the modes the step size follows from them; elsewhere it is measured.

    Parameters
    ----------
    rng_key
        Key of the adaptation.
    logdensity_fn
        Log density of a pytree position.
    fitted
        The guide.
    tuning
        What is wanted.

    Returns
    -------
    The frozen parameters.
    """
    friction = FRICTION if tuning.friction is None else tuning.friction
    report, (covariances, weights) = fitted.report, _shapes(fitted)
    num_steps = NUM_STEPS if report.expected_acceptance >= SELDOM else MANY_STEPS
    beta = jump_probability_for(report, num_steps) if tuning.jump_probability is None else tuning.jump_probability
    frozen = Frozen(
        modes=fitted.modes,
        guide=fitted.guide,
        guide_report=report,
        log_envelope=report.log_envelope,
        num_tries=report.num_tries,
        jump_probability=beta,
        step_size=np.nan,
        num_integration_steps=num_steps,
        friction=friction,
        inverse_mass_matrix=inverse_mass_of(covariances, weights),
        acceptance_rate=np.nan,
        population=fitted.population,
        notes=fitted.notes,
    )
    if report.is_laplace:
        step_size = step_size_for(
            float(tuning.target_acceptance),
            covariances,
            weights,
            frozen.inverse_mass_matrix,
            num_steps,
            friction,
        )
        return Tuned(frozen._replace(step_size=step_size), Cost(0, 0))
    key_starts, key_adapt = (random.as_jax_key(key) for key in random.split(rng_key))
    adapted = adapt_step_size(
        key_adapt,
        Partial(_local_of(num_steps), as_pytree_function(logdensity_fn), friction, frozen.inverse_mass_matrix),
        initial_positions=frozen.starts(key_starts, NUM_ADAPTATION_CHAINS),
        target_acceptance=tuning.target_acceptance,
        num_steps=NUM_ADAPTATION_STEPS,
    )
    frozen = frozen._replace(step_size=float(adapted.step_size), acceptance_rate=float(adapted.acceptance_rate))
    return Tuned(frozen, Cost(int(adapted.num_gradients), 0))


def _shapes(fitted: Fitted) -> tuple[np.ndarray, np.ndarray]:
    """Covariances and weights of the modes, or of the guide's components where Laplace's Gaussians do not suffice."""
    if fitted.report.is_laplace:
        return np.asarray(fitted.modes.covariances, np.float64), fitted.report.mode_weights
    is_local = fitted.report.component_modes >= 0
    factors = np.asarray(fitted.guide.scale_trils, np.float64)[is_local]
    weights = fitted.guide.on_host().weights[is_local]
    return factors @ factors.swapaxes(1, 2), weights / weights.sum()


@functools.cache
def _local_of(num_steps: tuple[int, int]) -> Callable:
    """The factory of the local move: one object for each length, so that nothing is compiled again."""

    def local(logdensity_fn: Callable, friction: Any, inverse_mass_matrix: Array, step_size: Array) -> Kernel:
        return lhmc(
            logdensity_fn,
            step_size=step_size,
            num_integration_steps=num_steps,
            friction=friction,
            inverse_mass_matrix=inverse_mass_matrix,
        )

    return local


def inverse_mass_of(matrices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Inverse of the mean precision Σ wᵢ Σᵢ⁻¹: one mass that is valid in every mode, and right where all are alike."""
    if matrices.shape[-1] > MAX_DENSE:
        return 1 / np.einsum("k,ki->i", weights, 1 / np.diagonal(matrices, axis1=1, axis2=2))
    inverse_mass = np.linalg.inv(np.einsum("k,kij->ij", weights, np.linalg.inv(matrices)))
    return 0.5 * (inverse_mass + inverse_mass.T)


def jump_probability_for(report: GuideReport, num_steps: tuple[int, int]) -> float:
    """β such that local moves take a share s of the evaluations: β J / (1 − s) = (1 − β) T / s.

    J are the evaluations of a jump, T those of a trajectory. s is the share of jumps that fail in the mode where the
    most do, within bounds: where nearly all succeed, a jump is a fresh draw for one evaluation.
    """
    trajectory = np.mean(num_steps) + 2
    jump = 1 + (1 - report.expected_acceptance) * (report.num_tries - 1)
    share = np.clip(1 - report.expected_acceptance_by_mode.min(), *LOCAL_SHARE)
    return float((1 - share) * trajectory / ((1 - share) * trajectory + share * jump))
