"""The mode report as text: a table, two matrices where they are small, and sentences."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vhmc_jax.diagnostics.modes.report import ModeReport

# Matrices of more modes than this do not fit a screen and are left to the report's fields.
MAX_PRINTED = 10
MAX_PARAMETERS = 20


def mode_table(report: "ModeReport") -> str:
    """Table of modes, transition matrix, jump acceptance and notes, as one string."""
    num_chains, num_draws = report.labels.shape
    parts = [
        f"Mode report: {num_chains:,} chains of {num_draws:,} draws, {len(report.weights)} modes, "
        f"entropic coverage {_number(report.entropic_coverage, '.3f')}",
        _weights(report),
    ]
    if report.locations is not None:
        parts.append(_locations(report))
    if len(report.weights) <= MAX_PRINTED:
        parts.append(_matrix("Transition matrix (row: mode of a draw; column: of the next)", report.transition_matrix))
        if report.jump_acceptance is not None:
            parts.append(_matrix("Acceptance of jumps (row: from; column: to)", report.jump_acceptance))
    parts.append("\n".join(f"- {note}" for note in report.notes))
    return "\n\n".join(parts)


def mode_notes(report: "ModeReport") -> tuple[str, ...]:
    """What is NaN and why, what to beware of, and what no report can tell."""
    notes = [
        *_notes_on_movement(report),
        *_notes_on_draws(report),
    ]
    notes.append("Modes that neither the mode search nor a chain has reached cannot be ruled out" + _searched(report))
    return tuple(notes)


def _searched(report: "ModeReport") -> str:
    """How small a mode the search would still have found, where that is known."""
    share, basin = report.undiscovered_share, report.smallest_basin
    if basin is not None:
        return f". The search finds a mode with 95 % probability if its basin fills {basin:.2%} of the region."
    if share is None:
        return "; no estimate of their share was given."
    return f"; the search estimates that {share:.2%} of starting points lead to modes not yet found."


def _notes_on_movement(report: "ModeReport") -> list[str]:
    num_chains, k = len(report.labels), len(report.weights)
    num_seen = int((report.num_chains_seen > 0).sum())
    notes = []
    if report.unseen_modes:
        which = _list(report.unseen_modes)
        known = (
            ""
            if report.guide_weights is None
            else f" (weight in the guide: {report.guide_weights[list(report.unseen_modes)].sum():.3g})"
        )
        notes.append(f"Never visited: mode {which}{known}. The draws tell no error of its weight: NaN.")
    if num_seen == 1 and k > 1:
        notes.append("Every draw is in one mode: its weight of 1 has no error that draws could tell, hence NaN.")
    elif len(report.stuck_chains) == num_chains and num_seen > 1:
        notes.append("No chain left its mode: these are the weights of the starting points, not of the target.")
    elif report.stuck_chains:
        which = _list(report.stuck_chains)
        notes.append(f"{len(report.stuck_chains)} of {num_chains} chains never left their mode: chain {which}.")
    if k == 1:
        notes.append("With one mode there is no weight to estimate and no coverage: NaN.")
    memory = (
        np.bincount(report.labels[report.labels >= 0], minlength=k) / report.labels.size - report.weights_by_transitions
    )
    for mode in np.flatnonzero(np.abs(memory) > 0.83 * report.errors):  # more than 1.5 times the rest of the error
        notes.append(
            f"Mode {mode} still remembers where chains started: weight {report.weights[mode]:.3g} by draws, "
            f"{report.weights_by_transitions[mode]:.3g} by transitions. Run longer."
        )
    overlapping = np.flatnonzero(report.partition_errors > 0.83 * report.errors)
    if len(overlapping):
        notes.append(
            f"Modes {_list(overlapping)} overlap: weighed is what the guide holds them responsible for. Most of the "
            "error is how far that depends on the guide."
        )
    return notes


def _notes_on_draws(report: "ModeReport") -> list[str]:
    notes = []
    if report.labels.shape[1] < 4:
        notes.append("Errors need at least four draws a chain: NaN.")
    disagreeing = np.flatnonzero(report.rhat > 1.05)
    if len(disagreeing):
        notes.append(f"Chains disagree about the weight of mode {_list(disagreeing)} (R-hat above 1.05).")
    num_lost = int((report.labels < 0).sum())
    if num_lost:
        notes.append(
            f"{num_lost:,} draws belong to no mode: out of the reach of all, not finite, or labelled so. "
            "Weights are shares of all."
        )
    if report.far_share > 0:
        notes.append(
            f"{report.far_share:.2%} of draws are far from every mode (beyond 6 normal standard deviations): "
            "long tails, or a mode that is not among these. Each counts with its most probable mode, if it has one."
        )
    return notes


def _weights(report: "ModeReport") -> str:
    head = ["mode", "weight", "error", "95 % interval", "ESS", "R-hat", "round trips", "chains"]
    columns = [
        [str(mode) for mode in range(len(report.weights))],
        [f"{w:.4f}" for w in report.weights],
        [_number(e, ".4f") for e in report.errors],
        [
            f"[{low:.4f}, {high:.4f}]" if low == low else "-"
            for low, high in zip(report.lower, report.upper, strict=True)
        ],
        [_number(n, ",.0f") for n in report.ess],
        [_number(r, ".3f") for r in report.rhat],
        [f"{n:,}" for n in report.round_trips],
        [f"{n:,}" for n in report.num_chains_seen],
    ]
    if report.guide_weights is not None:
        head.insert(4, "guide")
        columns.insert(4, [f"{w:.4f}" for w in report.guide_weights])
    return _align([head, *zip(*columns, strict=True)])


def _locations(report: "ModeReport") -> str:
    found = report.locations
    assert found is not None
    num_modes = min(len(found.means), MAX_PRINTED)
    rows = [["", *(str(mode) for mode in range(num_modes))]]
    for i, name in enumerate(found.names[:MAX_PARAMETERS]):
        pairs = zip(found.means[:num_modes, i], found.sds[:num_modes, i], strict=True)
        rows.append([name, *("-" if np.isnan(mean) else f"{mean:.4g} ± {sd:.2g}" for mean, sd in pairs)])
    lines = ["Parameters in each mode (mean ± standard deviation of its draws)", _align(rows)]
    left_out = [
        f"{count} more {what}"
        for count, what in ((len(found.means) - num_modes, "modes"), (len(found.names) - len(rows) + 1, "parameters"))
        if count > 0
    ]
    return "\n".join([*lines, *([f"... and {' and '.join(left_out)}"] if left_out else [])])


def _matrix(title: str, matrix: np.ndarray) -> str:
    head = ["", *(str(mode) for mode in range(len(matrix)))]
    rows = [[str(mode), *(_number(value, ".4f") for value in row)] for mode, row in enumerate(matrix)]
    return title + "\n" + _align([head, *rows])


def _align(rows: list) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)


def _number(value: float, spec: str) -> str:
    return "-" if np.isnan(value) else format(value, spec)


def _list(numbers: np.ndarray | tuple[int, ...]) -> str:
    """Numbers with commas, the first ten of many."""
    text = ", ".join(str(n) for n in numbers[:10])
    return text if len(numbers) <= 10 else f"{text} and {len(numbers) - 10} more"
