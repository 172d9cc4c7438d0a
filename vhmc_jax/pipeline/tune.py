"""Tune: every number of the production kernel."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_parameter
from vhmc_jax.base import Array, Kernel, as_pytree_function
from vhmc_jax.density import unravel_rows
from vhmc_jax.fit import GuideReport
from vhmc_jax.guide import Mixture
from vhmc_jax.kernels.lhmc import lhmc
from vhmc_jax.pipeline.fit import Fitted
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.pipeline.step_size import step_size_for
from vhmc_jax.runner.tuning import LENGTHS, MAX_DENSE
from vhmc_jax.runner.tuning import tune as tune_trajectory

NUM_STEPS = (1, 3)
"""Leapfrog steps of the local move between modes that Laplace's Gaussians describe: jumps do the rest."""
MANY_STEPS, MANY_STEPS_AGAIN, SELDOM = 8, 16, 0.4
"""Their mean number elsewhere, and in a second round. Where fewer jumps than ``SELDOM`` succeed, local moves have to
cross the modes, and the number is found by trying."""
SEVERAL_SCALES = 30.0
"""Where Laplace's Gaussians do not suffice, the step size is drawn from an interval that is so many times as wide. With
a single one, no local move leads into the neck of a funnel or along the far ends of Rosenbrock's valley. Ends of that
valley with 0.35 % of the mass were missed, without a sign, in one run of six."""
FRICTION = 0.5
"""γ of the thermostats where it is not given."""
NUM_TUNING_STEPS, NUM_TUNING_CHAINS = 32, 16
"""Iterations with each length, and chains, where the local move is tuned by trying."""
LOCAL_SHARE, LOCAL_SHARE_AGAIN = (0.2, 0.5), (0.8, 0.8)
"""Least and greatest share of the evaluations for local moves, where the jump probability is not given; and in a second
round. What two fits in a row missed, such as the neck of a funnel, is reached by local moves alone."""


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
    is_again
        Whether this is a second round. Local moves are then longer, and take most of the evaluations.
    """

    target_acceptance: Any
    jump_probability: float | None
    friction: float | None
    is_again: bool = False

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
    report = fitted.report
    frozen = Frozen(
        modes=fitted.modes,
        guide=fitted.guide,
        guide_report=report,
        log_envelope=report.log_envelope,
        num_tries=report.num_tries,
        jump_probability=np.nan,
        step_size=np.nan,
        num_integration_steps=NUM_STEPS,
        friction=friction,
        inverse_mass_matrix=_inverse_mass(fitted),
        acceptance_rate=np.nan,
        population=fitted.population,
        notes=fitted.notes,
    )
    if report.is_laplace:
        wanted, covariances = float(tuning.target_acceptance), np.asarray(fitted.modes.covariances, np.float64)
        mass, weights = frozen.inverse_mass_matrix, report.mode_weights
        step_size = step_size_for(wanted, covariances, weights, mass, NUM_STEPS, friction)
        tuned = Tuned(frozen._replace(step_size=step_size), Cost(0, 0))
    else:
        tuned = _tried(rng_key, logdensity_fn, frozen, tuning)
    beta = tuning.jump_probability
    if beta is None:
        bounds = LOCAL_SHARE_AGAIN if tuning.is_again else LOCAL_SHARE
        beta = jump_probability_for(report, tuned.frozen.num_integration_steps, bounds)
    return tuned._replace(frozen=tuned.frozen._replace(jump_probability=beta))


def _tried(rng_key: Array, logdensity_fn: Callable, frozen: Frozen, tuning: Tuning) -> Tuned:
    """Step sizes and length of the local move, measured on chains that start from the guide."""
    length = MANY_STEPS_AGAIN if tuning.is_again else MANY_STEPS
    key_starts, key_tune = (random.as_jax_key(key) for key in random.split(rng_key))
    starts = frozen.flat_starts(key_starts, NUM_TUNING_CHAINS)
    found = tune_trajectory(
        key_tune,
        Partial(_local, as_pytree_function(logdensity_fn, "logdensity_fn"), frozen.friction),
        unravel_rows(starts, frozen.modes.template),
        inverse_mass_matrix=frozen.inverse_mass_matrix,
        labels=_modes_of(frozen, starts),
        target_acceptance=tuning.target_acceptance,
        lengths=(length,) if frozen.guide_report.expected_acceptance >= SELDOM else LENGTHS,
        num_iterations=NUM_TUNING_STEPS,
    )
    frozen = frozen._replace(
        step_size=_interval(found.step_size),
        num_integration_steps=found.num_integration_steps,
        acceptance_rate=found.acceptance_rate,
    )
    return Tuned(frozen, Cost(found.num_gradients, 0))


def _local(
    logdensity_fn: Callable, friction: Any, step_size: Array, num_steps: tuple, inverse_mass_matrix: Array
) -> Kernel:
    """The local move whose greatest step size is given."""
    return lhmc(
        logdensity_fn,
        step_size=_interval(step_size),
        num_integration_steps=num_steps,
        friction=friction,
        inverse_mass_matrix=inverse_mass_matrix,
    )


def _interval(step_size: Any) -> tuple[Any, Any]:
    return step_size / SEVERAL_SCALES, step_size


def _modes_of(frozen: Frozen, x: np.ndarray) -> np.ndarray | None:
    """The mode that each of the rows is in, by the guide's components; None where it has none."""
    component_modes = frozen.guide_report.component_modes
    if component_modes is None or not isinstance(frozen.guide, Mixture):
        return None
    return component_modes[np.argmax(frozen.guide.on_host().at(x).shares, axis=1)]


def _inverse_mass(fitted: Fitted) -> np.ndarray:
    """From the modes where Laplace's Gaussians describe them, or the user's guide does; else from the components."""
    component_modes = fitted.report.component_modes
    if fitted.report.is_laplace or component_modes is None:
        return inverse_mass_of(np.asarray(fitted.modes.covariances, np.float64), fitted.report.mode_weights)
    if isinstance(fitted.guide, Mixture):
        return _inverse_mass_of_mixture(fitted.guide, component_modes >= 0)
    inverse_mass = np.zeros((fitted.guide.dim, fitted.guide.dim))
    for block, mixture in zip(fitted.guide.blocks, fitted.guide.mixtures, strict=True):
        part = _inverse_mass_of_mixture(mixture, np.ones(mixture.num_components, bool))
        inverse_mass[np.ix_(block, block)] = np.diag(part) if part.ndim == 1 else part
    return np.diagonal(inverse_mass) if fitted.guide.dim > MAX_DENSE else inverse_mass


def _inverse_mass_of_mixture(mixture: Mixture, is_local: np.ndarray) -> np.ndarray:
    factors = np.asarray(mixture.scale_trils, np.float64)[is_local]
    weights = mixture.on_host().weights[is_local]
    return inverse_mass_of(factors @ factors.swapaxes(1, 2), weights / weights.sum())


def inverse_mass_of(matrices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Inverse of the mean precision Σ wᵢ Σᵢ⁻¹: one mass that is valid in every mode, and right where all are alike."""
    if matrices.shape[-1] > MAX_DENSE:
        return 1 / np.einsum("k,ki->i", weights, 1 / np.diagonal(matrices, axis1=1, axis2=2))
    inverse_mass = np.linalg.inv(np.einsum("k,kij->ij", weights, np.linalg.inv(matrices)))
    return 0.5 * (inverse_mass + inverse_mass.T)


def jump_probability_for(
    report: GuideReport, num_steps: tuple[int, int], bounds: tuple[float, float] = LOCAL_SHARE
) -> float:
    """β such that local moves take a share s of the evaluations: β J / (1 − s) = (1 − β) T / s.

    J are the evaluations of a jump, T those of a trajectory. s is the share of jumps that fail, within bounds: halfway
    between all of them and those in the mode where the most do. Where nearly all succeed, a jump is a fresh draw for
    one evaluation.
    """
    trajectory = np.mean(num_steps) + 2
    jump = 1 + (1 - report.expected_acceptance) * (report.num_tries - 1)
    acceptance = 0.5 * (report.expected_acceptance + report.expected_acceptance_by_mode.min())
    share = np.clip(1 - acceptance, *bounds)
    return float((1 - share) * trajectory / ((1 - share) * trajectory + share * jump))
