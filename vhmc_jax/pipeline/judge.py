"""Judge: what the draws are worth, what may be wrong with them, and what to do about it."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.diagnostics.draws import flatten_draws
from vhmc_jax.diagnostics.evidence import Evidence, log_evidence
from vhmc_jax.diagnostics.modes.labels import values_at
from vhmc_jax.diagnostics.modes.report import ModeReport, mode_report
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.pipeline.produce import Produced

EVIDENCE_SHARE, LEAST_EVIDENCE_DRAWS, MOST_EVIDENCE_DRAWS = 1 / 8, 1024, 8192
"""Draws of the guide for the evidence: for each draw of the chains, at least, and at most. With 4 chains of 100 draws
and 1,024 of these, |z| of the log evidence was below 2 in 94 to 96 % of 200 runs (a Gaussian, two pairs); with 50 in
89 to 93 %."""
MANY_UNDISCOVERED = 0.02
"""Share of starts that lead to modes not yet found, from which it is said."""
MANY_DIVERGENCES = 0.001
"""Share of steps that diverged, from which it is said."""


class Judged(NamedTuple):
    """What the draws are worth.

    Attributes
    ----------
    modes
        Mode report.
    evidence
        Log evidence with its error and its check.
    notes
        Sentences about the run.
    cost
        Evaluations.
    """

    modes: ModeReport
    evidence: Evidence
    notes: tuple[str, ...]
    cost: Cost


def judge(rng_key: Array, logdensity_fn: Callable, frozen: Frozen, produced: Produced) -> Judged:
    """Report on modes and evidence, and look for what may be wrong.

    Parameters
    ----------
    rng_key
        For the guide's draws.
    logdensity_fn
        Log density of a pytree position.
    frozen
        The parameters of production.
    produced
        The draws.

    Returns
    -------
    The report.
    """
    component_modes = frozen.guide_report.component_modes
    # The guide is evaluated at the draws once, for both reports.
    guide_values = values_at(flatten_draws(produced.draws), frozen.guide)
    report = mode_report(
        produced.draws,
        frozen.guide,
        mode_of=component_modes.tolist(),
        infos=produced.infos,
        undiscovered_share=frozen.modes.undiscovered_share,
        guide_values=guide_values,
        logdensities=produced.logdensities,
    )
    wanted = math.ceil(EVIDENCE_SHARE * produced.logdensities.size)
    num_guide_draws = min(max(wanted, LEAST_EVIDENCE_DRAWS), MOST_EVIDENCE_DRAWS)
    evidence = log_evidence(
        rng_key,
        logdensity_fn,
        frozen.guide,
        produced.draws,
        logdensities=produced.logdensities,
        num_guide_draws=num_guide_draws,
        mode_of=component_modes,
        guide_values=guide_values,
    )
    notes = (*evidence.notes, *advice(frozen, produced.infos, report))
    return Judged(report, evidence, notes, Cost(0, num_guide_draws))


def advice(frozen: Frozen, infos: Any, report: ModeReport) -> list[str]:
    """Sentences about a run: what may be wrong, and what to do about it."""
    found = []
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
