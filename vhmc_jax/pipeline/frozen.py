"""What is decided before production, and left alone while draws are made."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vhmc_jax import random
from vhmc_jax.base import Array, Kernel, PyTree
from vhmc_jax.density import unravel_rows
from vhmc_jax.fit import GuideReport
from vhmc_jax.kernels.vhmc import vhmc
from vhmc_jax.search import Modes, Population


class Frozen(NamedTuple):
    """Everything that production needs; nothing of it changes while draws are made.

    Attributes
    ----------
    modes
        What the search for modes found.
    guide
        What carries chains between modes: a mixture, a product of mixtures, or what the user gave.
    guide_report
        How good it is.
    log_envelope
        log c of the jumps.
    num_tries
        The most candidates of a jump.
    jump_probability
        β.
    step_size
        ε of the local move, or (low, high) where it is drawn at each step: where the modes have several scales.
    num_integration_steps
        Its leapfrog steps, (low, high).
    friction
        γ of its thermostats.
    inverse_mass_matrix
        M⁻¹: the inverse of the mean precision of the modes.
    acceptance_rate
        Acceptance of the local move at the end of the tuning; NaN where it was not measured, since the step size
        follows from Laplace's Gaussians.
    population
        A small population, for a second opinion on where the mass is; None where there is none.
    notes
        Sentences about the search: what may be wrong, and what to do about it.
    num_images
        With symmetries, the images of a position: all that is here is about one of them.
    has_found_labels
        Whether ``sample`` found these symmetries by itself. It then finds them again.
    """

    modes: Modes
    guide: Any
    guide_report: GuideReport
    log_envelope: float
    num_tries: int
    jump_probability: float
    step_size: float | tuple[float, float]
    num_integration_steps: tuple[int, int]
    friction: float
    inverse_mass_matrix: Any
    acceptance_rate: float
    population: Population | None
    notes: tuple[str, ...]
    num_images: int = 1
    has_found_labels: bool = False

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
        return unravel_rows(self.flat_starts(rng_key, num_chains), self.modes.template)

    def flat_starts(self, rng_key: Array, num_chains: int) -> np.ndarray:
        """The same as rows, shape (n, d)."""
        draws = self.guide_report.starts
        numbers = random.generator(rng_key).choice(len(draws), num_chains, replace=num_chains > len(draws))
        return draws[numbers]
