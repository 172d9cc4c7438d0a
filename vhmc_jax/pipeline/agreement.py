"""Whether chains agree with one another, and a second round with the first."""

from typing import NamedTuple

import numpy as np
import scipy

from vhmc_jax.diagnostics.draws import coordinate_names, flatten_draws
from vhmc_jax.diagnostics.ess import MIN_DRAWS, split_ess
from vhmc_jax.diagnostics.evidence import Evidence
from vhmc_jax.diagnostics.rhat import rhat
from vhmc_jax.pipeline.produce import Produced

HIGH_RHAT = 1.01
"""R-hat of a coordinate or of the log density from which chains disagree: what the field recommends. Independent draws,
64 chains of 1,000, give at most 1.003. At 1.02 a tail with a twentieth of the mass was missed without a word."""
LEAST_ESS = 400.0
"""Effective size that a coordinate or the log density should have."""
LEAST_SHARE, LEAST_SHARE_AGAIN = 0.0, 0.2
"""The same as a share of the draws, in a first and in a second round. In a second round the guide should fit, so that
a low effective size is no longer excused."""
NUM_CANDIDATES = 2
"""Coordinates whose effective size, and R-hat of the ranks, is computed: those of the greatest R-hat."""
MORE_EVIDENCE = 0.02
"""By how much, beside its errors, a second round may change the log evidence."""
NUM_ERRORS = 4.0
"""Standard errors that count as a disagreement."""


class Round(NamedTuple):
    """What an earlier round said, for a second one to agree with.

    Attributes
    ----------
    produced
        Its draws.
    evidence
        Its log evidence.
    """

    produced: Produced
    evidence: Evidence


def chains_disagree(produced: Produced, least_share: float) -> list[str]:
    """R-hat of every coordinate and of the log density, and the least of their effective sizes."""
    x = np.asarray(flatten_draws(produced.draws), np.float64)
    values = np.concatenate([x, np.asarray(produced.logdensities, np.float64)[..., None]], axis=-1)
    if values.shape[1] < MIN_DRAWS or not np.isfinite(values).all():
        return []
    values = _squashed(values)
    # Of the values and of their distances from the median, which tell whether chains agree about the spread. What is
    # the same in every draw has no R-hat: a flat density, for instance.
    pairs = values, np.abs(values)
    rhats = np.nan_to_num(np.fmax(*(np.asarray(rhat(pair, "split")) for pair in pairs)), nan=0.0, posinf=np.inf)
    names = [*coordinate_names(produced.draws), "the log density"]
    worst = np.argsort(-rhats)[:NUM_CANDIDATES]
    chosen = [*worst, *({len(rhats) - 1} - set(worst))]
    # That of the ranks sees more, and takes longer.
    rhats[chosen] = np.fmax(rhats[chosen], np.nan_to_num(rhat(values[..., chosen]), nan=0.0, posinf=np.inf))
    greatest, limit = int(np.argmax(rhats)), _greatest_rhat(*values.shape[:2])
    found = []
    if rhats[greatest] > limit:
        found.append(
            f"Chains disagree: R-hat of {names[greatest]} is {rhats[greatest]:.3f}, above {limit:.3g}, and "
            f"{int(np.sum(rhats > limit))} of {len(rhats)} quantities are above it. Errors are too small. Raise "
            "num_samples, or change variables."
        )
    sizes = np.nan_to_num([min(float(split_ess(pair[..., i])) for pair in pairs) for i in chosen], nan=np.inf)
    num_draws = values.shape[0] * values.shape[1]
    least = max(min(LEAST_ESS, num_draws / 4), least_share * num_draws)
    if sizes.min() < least:
        found.append(
            f"The effective size of {names[chosen[int(np.argmin(sizes))]]} is {sizes.min():,.0f}, below {least:,.0f}: "
            "raise num_samples."
        )
    return found


def rounds_disagree(first: Round, second: Round) -> list[str]:
    """A second round may follow the first into its blind spot. It is trusted where both say the same."""
    found = []
    change = second.evidence.log_evidence - first.evidence.log_evidence
    error = np.hypot(np.nan_to_num(first.evidence.error), np.nan_to_num(second.evidence.error))
    if not abs(change) <= MORE_EVIDENCE + NUM_ERRORS * error:
        found.append(
            f"The second round changed the log evidence by {change:.2g}: the first one missed mass, and this one may "
            "miss more. Raise num_samples, or change variables."
        )
    draws = [np.asarray(flatten_draws(of.produced.seen.draws), np.float64) for of in (first, second)]
    middle, width = np.median(draws[1], axis=(0, 1)), np.std(draws[1], axis=(0, 1))
    (mean, error), (new_mean, new_error) = (_means(np.arctan((x - middle) / np.fmax(width, 1e-30))) for x in draws)
    z_scores = np.abs(new_mean - mean) / np.fmax(np.hypot(error, new_error), 1e-12)
    # With few chains an error from their spread is itself unsure, and with one there is none.
    if len(draws[0]) > 1 and z_scores.max() > scipy.special.stdtrit(len(draws[0]) - 1, scipy.special.ndtr(NUM_ERRORS)):
        name = coordinate_names(second.produced.seen.draws)[int(np.argmax(z_scores))]
        found.append(
            f"The two rounds disagree about {name} by {z_scores.max():.1f} standard errors: raise num_samples, or "
            "change variables."
        )
    return found


def _greatest_rhat(num_chains: int, num_draws: int) -> float:
    """``HIGH_RHAT``, and what chance adds to it for independent draws.

    With m halves of chains of n draws, n (R² − 1) + 1 is then about χ² with m − 1 degrees of freedom, divided by these.
    """
    chance = NUM_ERRORS * np.sqrt(2 / (2 * num_chains - 1)) / (num_draws // 2)
    return float(np.sqrt(HIGH_RHAT**2 + chance))


def _means(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of (chain, draw, ...), and their standard errors from the spread of the chains' means."""
    means = values.mean(axis=1)
    return means.mean(axis=0), means.std(axis=0) / np.sqrt(max(len(means) - 1, 1))


def _squashed(values: np.ndarray) -> np.ndarray:
    """Each component mapped into an interval, so that long tails do not hide behind an infinite variance."""
    low, middle, high = np.quantile(values[:, ::10].reshape(-1, values.shape[-1]), (0.25, 0.5, 0.75), axis=0)
    return np.arctan((values - middle) / np.where(high > low, high - low, 1.0))
