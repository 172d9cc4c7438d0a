"""Mode report: which modes the chains saw, with what weights, and how they moved between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from vhmc_jax.diagnostics.draws import check_draws, flatten_draws
from vhmc_jax.diagnostics.modes.labels import (
    ModeLabels,
    labels_as_given,
    labels_from_centres,
    labels_from_guide,
    modes_of_components,
    values_at,
)
from vhmc_jax.diagnostics.modes.locations import Locations, locate
from vhmc_jax.diagnostics.modes.partition import partition_errors
from vhmc_jax.diagnostics.modes.table import mode_notes, mode_table
from vhmc_jax.diagnostics.modes.weights import mode_weights
from vhmc_jax.diagnostics.rhat import rhat
from vhmc_jax.guide import Mixture
from vhmc_jax.guide.host import GuideValues
from vhmc_jax.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class ModeReport:
    """What the chains say about the modes; ``print(report)`` shows it as a table.

    Attributes
    ----------
    labels
        Mode of each draw, (chain, draw); −1 for a draw that belongs to none.
    weights
        Mean responsibility of each mode, (mode,). Where modes overlap this is the mass that the guide holds the mode
        responsible for.
    errors
        Standard errors of the weights, (mode,); NaN where ``notes`` says why.
    partition_errors
        The part of them that comes from the guide's partition among overlapping modes, (mode,); zero where it is not
        known.
    lower, upper
        95 % intervals of the weights, (mode,).
    weights_by_transitions
        The weights that the observed transitions would settle at, (mode,); they do not depend on where chains
        started. A difference from ``weights`` is what the starts left behind, and part of ``errors``.
    guide_weights
        Weights of the modes in the guide, without its components that belong to none, (mode,), or None.
    ess, rhat
        Effective sample size and split R-hat of the responsibilities, (mode,).
    num_chains_seen
        Number of chains that visited each mode, (mode,).
    transitions
        Number of moves from mode (row) to mode (column) between consecutive draws, (mode, mode).
    jump_attempts, jumps_accepted
        Candidates found by steps that begin with a jump, and those accepted, by pair (from, to),
        (mode, mode); None if infos do not tell.
    round_trips
        How often a chain left each mode and came back to it, summed over chains, (mode,).
    entropic_coverage
        Entropy of the weights over that of equal weights: 1 where all modes weigh the same, 0 where one
        alone was seen.
    stuck_chains
        Chains that never left the mode they started in.
    unseen_modes
        Modes that no draw belongs to.
    far_share
        Share of draws far from every mode: long tails, or a mode that the guide does not have.
    undiscovered_share
        Share of starting points that lead to modes not yet found, as the mode search estimates it, or None.
    smallest_basin
        Share of the searched region that the basin of a mode must have to be found with 95 % probability, or None.
    locations
        Values of the parameters in each mode, or None; see :meth:`located`.
    """

    labels: np.ndarray
    weights: np.ndarray
    errors: np.ndarray
    partition_errors: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weights_by_transitions: np.ndarray
    guide_weights: np.ndarray | None
    ess: np.ndarray
    rhat: np.ndarray
    num_chains_seen: np.ndarray
    transitions: np.ndarray
    jump_attempts: np.ndarray | None
    jumps_accepted: np.ndarray | None
    round_trips: np.ndarray
    entropic_coverage: float
    stuck_chains: tuple[int, ...]
    unseen_modes: tuple[int, ...]
    far_share: float
    undiscovered_share: float | None
    smallest_basin: float | None = None
    locations: Locations | None = None

    @property
    def transition_matrix(self) -> np.ndarray:
        """Probabilities of the next draw's mode (column) given this one's (row); NaN for unseen modes."""
        return _ratio(self.transitions, self.transitions.sum(1, keepdims=True))

    @property
    def jump_acceptance(self) -> np.ndarray | None:
        """Share of candidates accepted by pair (from, to); NaN for a pair that was never tried."""
        if self.jump_attempts is None or self.jumps_accepted is None:
            return None
        return _ratio(self.jumps_accepted, self.jump_attempts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences: what is NaN and why, what to beware of, and what no report can tell."""
        return mode_notes(self)

    def located(self, draws: Any) -> Self:
        """The report with the values at which its modes lie, by draws (chain, draw, ...) in the user's own terms."""
        return replace(self, locations=locate(draws, self.labels, len(self.weights)))

    def summary(self) -> str:
        """The report as text."""
        return mode_table(self)

    __str__ = summary


@one_blas_thread
def mode_report(
    draws: Any = None,
    guide: Any = None,
    *,
    mode_of: Sequence[int] | None = None,
    centres: Any = None,
    covariances: Any = None,
    labels: Any = None,
    num_modes: int | None = None,
    infos: Any = None,
    undiscovered_share: float | None = None,
    smallest_basin: float | None = None,
    guide_values: Any = None,
    logdensities: Any = None,
) -> ModeReport:
    """Which modes the chains saw, with what weights and errors, and how they moved between them.

    Modes are told in one of three ways: a guide, centres with covariances, or labels.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays; not needed with ``labels``.
    guide
        A guide with ``component_log_probs(x)`` on flat vectors, such as a mixture. A draw counts for each mode as
        far as the mode is responsible for it: overlapping modes are told apart as well as the guide is right.
    mode_of
        Number of the mode of each of the guide's components, where several make one mode; −1 for none. By
        default every component is a mode.
    centres, covariances
        Pytree like one draw with a leading axis of modes, and (mode, d, d): each draw counts for one mode.
    labels, num_modes
        Integers (chain, draw), −1 for none, and the number of modes (by default the largest label plus one).
    infos
        Pytree with fields ``is_jump``, ``jump_accepted``, ``jump_from`` and ``jump_to``, each (chain, draw),
        for the acceptance of jumps by pair. The last two are components of the guide, −1 for none.
    undiscovered_share
        Share of starting points that lead to a mode not yet found, from the mode search.
    smallest_basin
        Share of the searched region that the basin of a mode must have to be found with 95 % probability.
    guide_values
        ``guide.on_host().at(x)`` of a mixture of this package at the flat draws, (chain · draw, d), where they are at
        hand.
    logdensities
        Log densities of the draws, (chain, draw), up to a constant. With a mixture of this package they tell how far
        the weights of overlapping modes depend on it, which is then part of the errors.

    Returns
    -------
    The report.

    References
    ----------
    Blessing, Jia, Esslinger, Vargas & Neumann (2024), section 4, for the entropic mode coverage.
    """
    if sum(way is not None for way in (guide, centres, labels)) != 1:
        raise ValueError("modes must be told in one way: guide, or centres with covariances, or labels")
    components, partition = None, None
    if labels is not None:
        modes = labels_as_given(labels, num_modes)
    elif draws is None:
        raise ValueError("draws are needed to label them by a guide or by centres")
    elif guide is not None:
        components = modes_of_components(draws := check_draws(draws), guide, mode_of)
        guide_values = values_at(flatten_draws(draws), guide, guide_values)
        modes = labels_from_guide(draws, guide, components, guide_values)
        if guide_values is not None and logdensities is not None:
            partition = partition_errors(modes.responsibilities, _log_ratios(logdensities, guide_values, modes))
    else:
        if covariances is None:
            raise ValueError("centres need covariances: modes of unequal width are not told apart by distance alone")
        modes = labels_from_centres(check_draws(draws), centres, covariances)
    k = modes.responsibilities.shape[-1]
    attempts, accepted = _jump_counts(infos, modes.labels.shape, k, components)
    partition = np.zeros(k) if partition is None else partition
    return _assemble(
        modes, partition, _guide_weights(guide, components, k), attempts, accepted, undiscovered_share, smallest_basin
    )


def _log_ratios(logdensities: Any, guide_values: GuideValues, modes: ModeLabels) -> np.ndarray:
    """Values of log p − log q at the draws, (chain, draw)."""
    values, shape = np.asarray(logdensities, np.float64), modes.labels.shape
    if values.shape != shape:
        raise ValueError(f"logdensities must have shape {shape}, got {values.shape}")
    return values - guide_values.log_prob.reshape(shape)


def _assemble(
    modes: ModeLabels,
    partition: np.ndarray,
    guide_weights: np.ndarray | None,
    attempts: np.ndarray | None,
    accepted: np.ndarray | None,
    undiscovered_share: float | None,
    smallest_basin: float | None,
) -> ModeReport:
    k = modes.responsibilities.shape[-1]
    path = _forward_fill(modes.labels)
    seen = np.stack([(modes.labels == mode).any(1) for mode in range(k)], axis=1)
    before, after = path[:, :-1].ravel(), path[:, 1:].ravel()
    transitions = _pair_counts(before, after, before >= 0, k)
    weights = mode_weights(modes.responsibilities, modes.labels, transitions, partition)
    stuck = tuple(int(c) for c in np.flatnonzero(seen.sum(1) == 1)) if k > 1 else ()
    unseen = tuple(int(mode) for mode in np.flatnonzero(~seen.any(0)))
    return ModeReport(
        labels=modes.labels,
        weights=weights.mean,
        errors=weights.error,
        partition_errors=partition,
        lower=weights.lower,
        upper=weights.upper,
        weights_by_transitions=weights.by_transitions,
        guide_weights=guide_weights,
        ess=weights.ess,
        rhat=np.where(np.isnan(weights.error), np.nan, np.asarray(rhat(modes.responsibilities, "split"))),
        num_chains_seen=seen.sum(0),
        transitions=transitions,
        jump_attempts=attempts,
        jumps_accepted=accepted,
        round_trips=_round_trips(path, k),
        entropic_coverage=_entropic_coverage(weights.mean),
        stuck_chains=stuck,
        unseen_modes=unseen,
        far_share=modes.far_share,
        undiscovered_share=undiscovered_share,
        smallest_basin=smallest_basin,
    )


def _forward_fill(labels: np.ndarray) -> np.ndarray:
    """Labels with −1 replaced by the mode that the chain was in last; −1 stays where it was in none yet."""
    last = np.maximum.accumulate(np.where(labels >= 0, np.arange(labels.shape[1]), 0), axis=1)
    return np.take_along_axis(labels, last, axis=1)


def _pair_counts(before: np.ndarray, after: np.ndarray, counted: np.ndarray, k: int) -> np.ndarray:
    """Number of pairs (before, after) where counted, (k, k)."""
    pairs = before[counted].astype(np.int64) * k + after[counted]
    return np.bincount(pairs, minlength=k * k).reshape(k, k)


def _round_trips(path: np.ndarray, k: int) -> np.ndarray:
    """Visits beyond the first to each mode, summed over chains: a visit is a run of equal labels."""
    starts = np.concatenate([np.ones_like(path[:, :1], bool), path[:, 1:] != path[:, :-1]], axis=1) & (path >= 0)
    chain = np.broadcast_to(np.arange(len(path))[:, None], path.shape)
    visits = np.bincount(chain[starts] * k + path[starts], minlength=len(path) * k).reshape(len(path), k)
    return np.maximum(visits - 1, 0).sum(0)


def _entropic_coverage(weights: np.ndarray) -> float:
    """−Σ w log w / log k; NaN with one mode, which cannot be covered by halves."""
    if len(weights) < 2:
        return float("nan")
    positive = weights[weights > 0]
    return float(-(positive * np.log(positive)).sum() / np.log(len(weights)))


def _guide_weights(guide: Any, mode_of: np.ndarray | None, k: int) -> np.ndarray | None:
    if mode_of is None or not isinstance(guide, Mixture):
        return None
    weights = guide.on_host().weights
    found = np.bincount(mode_of[mode_of >= 0], weights[mode_of >= 0], minlength=k)
    return found / found.sum()


def _jump_counts(
    infos: Any, shape: tuple[int, ...], k: int, mode_of: np.ndarray | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Jumps proposed and accepted by pair of modes, or None where infos do not say from where to where."""
    get = infos.get if isinstance(infos, dict) else lambda name: getattr(infos, name, None)
    fields = [get(name) for name in ("is_jump", "jump_accepted", "jump_from", "jump_to")]
    if any(field is None for field in fields):
        return None, None
    tried, accepted, before, after = (np.asarray(field) for field in fields)
    if any(field.shape != shape for field in (tried, accepted, before, after)):
        raise ValueError(f"jump fields of infos must have the shape of labels, {shape}")
    if mode_of is not None:
        # One more entry, so that component -1, no candidate, is mode -1.
        modes = np.append(mode_of, -1)
        before, after = modes[before], modes[after]
    tried = tried.astype(bool) & (before >= 0) & (after >= 0)
    return _pair_counts(before, after, tried, k), _pair_counts(before, after, tried & accepted.astype(bool), k)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Part over whole, NaN where the whole is nothing."""
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
