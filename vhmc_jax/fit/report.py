"""How good a guide is, as users see it."""

from typing import NamedTuple

import numpy as np

from vhmc_jax.fit.coverage import Coverage

NUM_STARTS = 256
"""Draws, about the target's, that a report keeps."""


class Tried(NamedTuple):
    """A description of the modes that was tried.

    Attributes
    ----------
    name
        What it is.
    acceptance
        Share of jumps that it can be relied on to make succeed.
    num_components
        Its components.
    """

    name: str
    acceptance: float
    num_components: int


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
        For each component of the guide the mode it describes; −1 for one that belongs to none, as the defensive one.
        None for a guide that the user gave.
    is_laplace
        Whether Laplace's Gaussians describe every mode, so that no draws were needed.
    step_sizes
        Step size of the local chains of each mode; NaN where none were needed.
    acceptance_rates
        Their acceptance.
    starts
        A few draws, about the target's, for chains to start from, flat, shape (n, d).
    log_evidence
        Log of the normalising constant, by importance sampling.
    coverage
        How much of a population the guide leaves uncovered; None where there was none to compare it with.
    notes
        Sentences: what may be wrong with the fit, and what to do about it.
    num_gradients
        Gradients taken.
    num_densities
        Density values taken.
    tried
        The descriptions that were tried, one after another; the guide is the last one.
    """

    log_envelope: float
    num_tries: int
    mode_weights: np.ndarray
    mode_weight_errors: np.ndarray
    expected_acceptance: float
    expected_acceptance_by_mode: np.ndarray
    pareto_k: np.ndarray
    component_modes: np.ndarray | None
    is_laplace: bool
    step_sizes: np.ndarray
    acceptance_rates: np.ndarray
    starts: np.ndarray
    log_evidence: float
    coverage: Coverage | None
    notes: tuple[str, ...]
    num_gradients: int
    num_densities: int
    tried: tuple[Tried, ...] = ()

    @property
    def description(self) -> str:
        """A sentence on what the guide is, and one on what was tried before it."""
        if self.component_modes is None:
            return "The guide was given."
        if not self.tried:  # it was saved by an earlier version
            return "What was tried for the guide is not known."
        *before, last = self.tried
        number = f"{last.num_components} component{'' if last.num_components == 1 else 's'}"
        text = f"Guide: {last.name} ({number}); at least {last.acceptance:.2f} of jumps should succeed."
        if before:
            text += " Tried before: " + ", ".join(f"{each.name} {each.acceptance:.2f}" for each in before) + "."
        return text
