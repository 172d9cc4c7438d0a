"""What may be wrong with a run, and what to do about it."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax.base import PyTree
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.search import Modes

MANY_UNDISCOVERED = 0.02
MANY_DIVERGENCES = 0.001
WIDE_STARTS = 3


def warn_of_narrow_starts(initial_positions: PyTree | Callable, modes: Modes) -> None:
    """One mode says little where the starts cover little more than that mode."""
    if callable(initial_positions) or len(modes.logdensities) > 1:
        return
    starts = jax.vmap(lambda position: ravel_pytree(position)[0])(initial_positions)
    scales = np.sqrt(np.diagonal(modes.covariances[0]))
    if np.all(np.std(starts, axis=0) < WIDE_STARTS * scales):
        warnings.warn(
            f"All starts lie within {WIDE_STARTS} standard deviations of the one mode that they led to: others "
            "may be out of their reach. Give initial_positions that cover the region, vj.box(low, high) for instance.",
            stacklevel=3,
        )


def advice(frozen: Frozen, infos: Any, report: Any, evidence_notes: tuple[str, ...]) -> list[str]:
    """Sentences about a run, those of the evidence first."""
    found = list(evidence_notes)
    num_modes = len(report.weights)
    is_jump, accepted = np.asarray(infos.is_jump), np.asarray(infos.jump_accepted)
    if is_jump.any() and not accepted.any():
        found.append(
            "No jump was accepted: the guide does not fit. Raise num_draws or max_components, or use Student-t "
            "components (df=5)."
        )
    if num_modes > 1 and report.stuck_chains:
        found.append(
            f"{len(report.stuck_chains)} of {len(report.labels)} chains never left their mode: raise num_samples or "
            "jump_probability."
        )
    if report.unseen_modes:
        found.append(f"Modes {list(report.unseen_modes)} were never visited: raise num_samples.")
    if frozen.modes.undiscovered_share > MANY_UNDISCOVERED:
        found.append(
            f"About {frozen.modes.undiscovered_share:.1%} of starting points lead to modes not yet found: "
            "raise num_starts."
        )
    num_divergent = int(np.sum(np.asarray(infos.is_divergent)))
    if num_divergent > MANY_DIVERGENCES * is_jump.size:
        found.append(
            f"{num_divergent} of {is_jump.size} steps diverged: raise target_acceptance, or change variables where "
            "the density has an edge."
        )
    return found
