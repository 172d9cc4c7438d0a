"""What the warm-up decides, and production leaves alone."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.base import Array, Kernel, PyTree, as_pytree_function
from vhmc_jax.density import unravel_rows
from vhmc_jax.fit import GuideReport, fit_guide
from vhmc_jax.kernels.lhmc import lhmc
from vhmc_jax.kernels.vhmc import vhmc
from vhmc_jax.pipeline.step_size import step_size_for
from vhmc_jax.runner.adaptation import adapt_step_size
from vhmc_jax.search import Modes

NUM_STEPS = (1, 3)
"""Leapfrog steps of the local move: between jumps it has to spread within a mode, not to cross it."""
MAX_DENSE = 64
"""Up to this dimension the mass is a matrix, beyond it a diagonal: a product with a matrix would cost more than most
gradients."""
NUM_ADAPTATION_STEPS = 50
LOCAL_SHARE = (0.2, 0.5)
"""Least and greatest share of the evaluations for local moves, where the jump probability is not given."""


class Frozen(NamedTuple):
    """Everything that production needs; nothing of it changes while draws are made.

    Attributes
    ----------
    modes
        What the search for modes found.
    guide
        The mixture that carries chains between modes.
    guide_report
        How good it is.
    log_envelope
        log c of the jumps.
    num_tries
        The most candidates of a jump.
    jump_probability
        β.
    step_size
        ε of the local move.
    num_integration_steps
        Its leapfrog steps, (low, high).
    friction
        γ of its thermostats.
    inverse_mass_matrix
        M⁻¹: the inverse of the mean precision of the modes.
    acceptance_rate
        Acceptance of the local move at the end of the warm-up; where Laplace's Gaussians describe the modes and the
        step size follows from them, the acceptance that was asked for.
    num_gradients
        Gradients that search and warm-up took.
    num_densities
        Density values that they took.
    """

    modes: Modes
    guide: Any
    guide_report: GuideReport
    log_envelope: float
    num_tries: int
    jump_probability: float
    step_size: float
    num_integration_steps: tuple[int, int]
    friction: float
    inverse_mass_matrix: Any
    acceptance_rate: float
    num_gradients: int
    num_densities: int

    def kernel(self, logdensity_fn: Callable) -> Kernel:
        """The frozen VHMC kernel on a log density: the one it was made for, or another with the same modes."""
        return vhmc(
            logdensity_fn,
            self.guide,
            step_size=self.step_size,
            num_integration_steps=self.num_integration_steps,
            friction=self.friction,
            inverse_mass_matrix=self.inverse_mass_matrix,
            jump_probability=self.jump_probability,
            log_envelope=self.log_envelope,
            num_tries=self.num_tries,
        )

    def starts(self, rng_key: Array, num_chains: int) -> PyTree:
        """Positions for chains: draws of the fit, about the target's, none of them twice where there are enough."""
        draws = self.guide_report.starts
        generator = random.generator(rng_key)
        numbers = generator.choice(len(draws), num_chains, replace=num_chains > len(draws))
        return unravel_rows(draws[numbers], self.modes.template)


def warm_up(
    rng_key: Array,
    logdensity_fn: Callable,
    modes: Modes,
    *,
    target_acceptance: Any,
    num_tries: int | None,
    jump_probability: float | None,
    friction: float,
    **fit_options: Any,
) -> Frozen:
    """Fit the guide and choose every number of the production kernel.

    Parameters
    ----------
    rng_key
        Key of the fit and of the adaptation.
    logdensity_fn
        Log density of a pytree position.
    modes
        From ``find_modes``.
    target_acceptance
        Acceptance of the local moves.
    num_tries
        Candidates of a jump, or None to choose them.
    jump_probability
        β, or None to choose it.
    friction
        γ.
    fit_options
        Further options of ``fit_guide``.

    Returns
    -------
    The frozen parameters.
    """
    key_fit, key_starts, key_adapt = random.split(rng_key, 3)
    guide, report = fit_guide(
        random.as_jax_key(key_fit),
        logdensity_fn,
        modes,
        num_tries=num_tries,
        target_acceptance=target_acceptance,
        **fit_options,
    )
    frozen = Frozen(
        modes=modes,
        guide=guide,
        guide_report=report,
        log_envelope=report.log_envelope,
        num_tries=report.num_tries,
        jump_probability=_jump_probability(report) if jump_probability is None else jump_probability,
        step_size=1.0,
        num_integration_steps=NUM_STEPS,
        friction=friction,
        inverse_mass_matrix=_inverse_mass(modes.covariances, report.mode_weights),
        acceptance_rate=0.0,
        num_gradients=modes.num_gradients + report.num_gradients,
        num_densities=modes.num_densities + report.num_densities,
    )
    if report.num_gradients == 0 and fit_options.get("pilot") is None:  # Laplace's Gaussians are good enough
        step_size = step_size_for(
            float(target_acceptance),
            np.asarray(modes.covariances, np.float64),
            report.mode_weights,
            frozen.inverse_mass_matrix,
            NUM_STEPS,
            friction,
        )
        return frozen._replace(step_size=step_size, acceptance_rate=float(target_acceptance))
    local = Partial(_local, as_pytree_function(logdensity_fn), friction, frozen.inverse_mass_matrix)
    starts = frozen.starts(random.as_jax_key(key_starts), num_chains=16)
    adapted = adapt_step_size(
        random.as_jax_key(key_adapt),
        local,
        initial_positions=starts,
        target_acceptance=target_acceptance,
        num_steps=NUM_ADAPTATION_STEPS,
    )
    return frozen._replace(
        step_size=float(adapted.step_size),
        acceptance_rate=float(adapted.acceptance_rate),
        num_gradients=frozen.num_gradients + int(adapted.num_gradients),
    )


def _local(logdensity_fn: Callable, friction: Any, inverse_mass_matrix: Array, step_size: Array) -> Kernel:
    return lhmc(
        logdensity_fn,
        step_size=step_size,
        num_integration_steps=NUM_STEPS,
        friction=friction,
        inverse_mass_matrix=inverse_mass_matrix,
    )


def _inverse_mass(covariances: Array, weights: np.ndarray) -> np.ndarray:
    """Inverse of the mean precision Σ wᵢ Σᵢ⁻¹: one mass that is valid in every mode, and right where all are alike."""
    matrices = np.asarray(covariances, np.float64)
    if matrices.shape[-1] > MAX_DENSE:
        return 1 / np.einsum("k,ki->i", weights, 1 / np.diagonal(matrices, axis1=1, axis2=2))
    inverse_mass = np.linalg.inv(np.einsum("k,kij->ij", weights, np.linalg.inv(matrices)))
    return 0.5 * (inverse_mass + inverse_mass.T)


def _jump_probability(report: GuideReport) -> float:
    """β such that local moves take a share s of the evaluations: β J / (1 − s) = (1 − β) T / s.

    J are the evaluations of a jump, T those of a trajectory. s is the share of jumps that fail in the mode where the
    most do, within bounds: where nearly all succeed, a jump is a fresh draw for one evaluation.
    """
    trajectory = np.mean(NUM_STEPS) + 2
    jump = 1 + (1 - report.expected_acceptance) * (report.num_tries - 1)
    share = np.clip(1 - report.expected_acceptance_by_mode.min(), *LOCAL_SHARE)
    return float((1 - share) * trajectory / ((1 - share) * trajectory + share * jump))
