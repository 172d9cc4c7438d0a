"""The audit: what disagrees with the answer, by how much, and what to do about it.

Every check is one function that returns sentences. None means that nothing disagrees. The checks are of two kinds.
Some ask whether the chains agree with one another: R-hat, effective sizes, jumps that fail. The others ask whether
something that does not share the guide's blind spots agrees with it: a population, and the search's own counts.
"""

from typing import Any, NamedTuple

import numpy as np

from vhmc_jax.diagnostics.evidence import Evidence
from vhmc_jax.diagnostics.modes.report import ModeReport
from vhmc_jax.fit import GuideReport
from vhmc_jax.guide import Mixture, host_of
from vhmc_jax.pipeline.agreement import (
    LEAST_SHARE,
    LEAST_SHARE_AGAIN,
    NUM_ERRORS,
    Round,
    chains_disagree,
    rounds_disagree,
)
from vhmc_jax.pipeline.discover import FEW_DIMENSIONS
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.produce import Produced

HIGH_MODE_RHAT, LEAST_WEIGHT = 1.05, 0.01
"""R-hat of a mode's indicator from which chains disagree about its weight, for modes of at least that weight."""
MANY_UNCOVERED = 0.08
"""Share of the population that the guide leaves uncovered from which it is said."""
MORE_MASS, MORE_MASS_PER_DIMENSION = 3.0, 0.25
"""The population's log evidence may be above that of the chains by so much, beside its errors, and by more for each
dimension beyond those in which it has many particles. There its evidence is right on average, so that it is more than
exp(3) times too great in one run of 20 at most. Of two modes 34 standard deviations apart in 32 dimensions it was
exp(4) times too great: particles that adapt to where they are do not leave their density quite invariant."""
LESS_MASS = 10.0
"""By how much it may be below it. A population that ended 200 nats below had no particle where the mass is."""
MANY_MODES = 60
"""With more modes a second round would take long, and find more of them."""
MANY_UNDISCOVERED = 0.01
"""Mass of the modes that were seen once or twice by the search from which it is said."""
FEWER_JUMPS = 0.1
"""By how much fewer jumps than expected may be accepted."""
MANY_DIVERGENCES = 0.1
"""Share of steps that diverged from which it is said."""
MANY_FLAT, MOST_FLAT = 0.01, 0.5
"""Share of the starts that ran off to infinity or ended where the density is flat from which it is said, and from which
a second round is of no use."""
MANY_FAILED, DENSER = 0.2, 10.0
"""Share of the starts that did not converge, and of their ends where log π − log q − log Z is above that, from which it
is said."""
EXPECTED_VISITS = 10
"""Draws in a mode that the fit promises, from which one wonders where there are none."""


class Audit(NamedTuple):
    """What disagrees with the answer.

    Attributes
    ----------
    notes
        Sentences, causes before what follows from them; none where the answer can be trusted.
    asks_again
        Whether a second round may help: the chains saw what the guide does not describe.
    """

    notes: tuple[str, ...]
    asks_again: bool


def audit(
    frozen: Frozen, produced: Produced, report: ModeReport, evidence: Evidence, before: Round | None = None
) -> Audit:
    """Everything that disagrees with the answer.

    Parameters
    ----------
    frozen
        The parameters of production, with what the search and the population saw.
    produced
        The draws.
    report
        Mode report.
    evidence
        Log evidence.
    before
        The first round, where this is the second.

    Returns
    -------
    Sentences, and whether to try again.
    """
    necks = _necks_are_missing(frozen, evidence)
    causes = (
        *_density_is_improper(frozen),
        *_steps_diverge(produced),
        *frozen.notes,
        *necks,
        *_modes_are_missing(frozen),
    )
    missing = _mass_is_missing(frozen, evidence)
    effects = (
        *_jumps_fail(frozen, produced.infos),
        *(() if before is None else rounds_disagree(before, Round(produced, evidence))),
        *_modes_disagree(report, frozen.guide_report),
        *chains_disagree(produced, LEAST_SHARE if before is None else LEAST_SHARE_AGAIN),
    )
    may_help = len(report.weights) <= MANY_MODES and _share_ran_off(frozen) < MOST_FLAT
    return Audit((*causes, *missing, *evidence.notes, *effects), bool(necks or missing or effects) and may_help)


def _modes_disagree(report: ModeReport, fit: GuideReport) -> list[str]:
    """Chains that disagree about the weight of a mode, and modes without a visit that should have had some."""
    found = []
    matters = (report.weights > LEAST_WEIGHT) & (report.weights < 1 - LEAST_WEIGHT)
    if len(modes := np.flatnonzero(matters & (report.rhat > HIGH_MODE_RHAT))):
        found.append(
            f"Chains disagree about the weights of modes {_first(modes)} (R-hat above {HIGH_MODE_RHAT}): raise "
            "num_samples or jump_probability."
        )
    if len(report.unseen_modes):
        # By the fit, since the guide gives every mode more than a floor; and of draws that are worth fewer.
        unseen, worth = np.array(report.unseen_modes), np.nanmin(np.append(report.ess, report.labels.size))
        least = (fit.mode_weights - 2 * fit.mode_weight_errors)[unseen]
        if len(unseen := unseen[least * worth > EXPECTED_VISITS]):
            found.append(f"Modes {_first(unseen)} have weight in the fit and were never visited: raise num_samples.")
    return found


def _jumps_fail(frozen: Frozen, infos: Any) -> list[str]:
    """Fewer jumps accepted than the fit promised."""
    num_jumps, num_accepted = int(np.sum(infos.is_jump)), int(np.sum(infos.jump_accepted))
    if not num_jumps:
        return []
    share, expected = num_accepted / num_jumps, frozen.guide_report.expected_acceptance
    if num_accepted == 0:
        return ["No jump was accepted: the guide does not fit. Chains move locally, and modes keep their starts."]
    if share < expected - FEWER_JUMPS:
        return [
            f"{share:.0%} of jumps were accepted where {expected:.0%} were expected: part of the target lies where the "
            "fit did not look. Give num_pilot=200, or raise num_samples."
        ]
    return []


def _mass_is_missing(frozen: Frozen, evidence: Evidence) -> list[str]:
    """The population sees mass that the guide and the chains do not."""
    found, coverage, population = [], frozen.guide_report.coverage, frozen.population
    if coverage is not None and coverage.share > MANY_UNCOVERED:
        found.append(
            f"{coverage.share:.1%} of a population of particles (at most {coverage.upper:.1%}) lies where the guide "
            "has hardly any density: mass may be missing, or its share may be wrong. Give a tighter region, or raise "
            "max_evaluations."
        )
    if population is None:
        return found
    if not population.has_arrived:
        found.append("The population did not reach the target within max_evaluations: there is no second opinion.")
    else:
        error = np.hypot(population.log_evidence_error, np.nan_to_num(evidence.error))
        excess = population.log_evidence - evidence.log_evidence
        further = max(0, population.flat.shape[1] - FEW_DIMENSIONS)
        if excess > MORE_MASS + MORE_MASS_PER_DIMENSION * further + NUM_ERRORS * error:
            found.append(
                f"The population's log evidence is {population.log_evidence:.2f} ± "
                f"{population.log_evidence_error:.2f}, that of the chains {evidence.log_evidence:.2f}: the chains miss "
                "mass. Give a tighter region, or more num_starts."
            )
        elif -excess > LESS_MASS + NUM_ERRORS * error:
            found.append(
                f"The population's log evidence is only {population.log_evidence:.2f}, that of the chains "
                f"{evidence.log_evidence:.2f}: it did not find the mass, so that there is no second opinion. Give a "
                "tighter region."
            )
    return found


def _modes_are_missing(frozen: Frozen) -> list[str]:
    """The search was still finding modes that matter when it ended."""
    modes = frozen.modes
    if modes.undiscovered_mass <= MANY_UNDISCOVERED or len(modes.logdensities) == 1:
        return []
    if not isinstance(frozen.guide, Mixture):  # nobody lists its modes; the population tells whether it covers them
        return []
    return [
        f"Modes with {modes.undiscovered_mass:.1%} of the mass were seen only once or twice in {modes.num_starts:,} "
        "starts: there are others. Raise num_starts, or give symmetries that the modes have."
    ]


def _necks_are_missing(frozen: Frozen, evidence: Evidence) -> list[str]:
    """Climbs that did not end lead where the target is far denser than the guide: into the neck of a funnel."""
    modes = frozen.modes
    if modes.failed_ends is None or modes.failures.unconverged < MANY_FAILED * modes.num_starts:
        return []
    ends, heights = modes.failed_ends
    ratios = heights - host_of(frozen.guide).at(ends).log_prob - evidence.log_evidence
    if not np.mean(ratios > DENSER) > MANY_FAILED:
        return []
    return [
        f"{modes.failures.unconverged} of {modes.num_starts:,} climbs did not end, and lead to where the target is "
        f"over exp({DENSER:.0f}) times denser than the guide: a mode, or a narrow part such as the neck of a funnel, "
        "may be missing. Change variables."
    ]


def _density_is_improper(frozen: Frozen) -> list[str]:
    """Starts that ran off."""
    if not _share_ran_off(frozen) > MANY_FLAT:
        return []
    failures = frozen.modes.failures
    return [
        f"{failures.escaped + failures.flat} of {frozen.modes.num_starts:,} starts ran off to infinity or ended where "
        "the density does not fall: it may be improper. Check its sign and its tails."
    ]


def _share_ran_off(frozen: Frozen) -> float:
    """Share of the starts that ran off to infinity or ended where the density is flat."""
    failures = frozen.modes.failures
    return (failures.escaped + failures.flat) / max(frozen.modes.num_starts, 1)


def _steps_diverge(produced: Produced) -> list[str]:
    """Many divergences."""
    share = float(np.mean(produced.infos.is_divergent))
    if not share > MANY_DIVERGENCES:
        return []
    return [
        f"{share:.1%} of steps diverged: raise target_acceptance, or change variables where the density has an edge."
    ]


def _first(numbers: np.ndarray) -> str:
    """Numbers with commas, the first five of many."""
    text = ", ".join(str(number) for number in numbers[:5])
    return text if len(numbers) <= 5 else f"{text} and {len(numbers) - 5} more"
