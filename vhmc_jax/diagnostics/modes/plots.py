"""Pictures of a mode report: weights with error bars, and the transition matrix."""

from typing import Any

import numpy as np

from vhmc_jax.diagnostics.modes.report import ModeReport
from vhmc_jax.diagnostics.plots import COLOURS, new_axes

# Cells of larger matrices are too small for a number.
MAX_NUMBERED = 10


def plot_mode_weights(report: ModeReport, truth: Any = None, *, ax: Any = None) -> Any:
    """Mode weights with their 95 % intervals, beside those of the guide and, where known, the true ones.

    Parameters
    ----------
    report
        From :func:`mode_report`.
    truth
        True weights, (mode,).
    ax
        Axes to draw into.

    Returns
    -------
    The axes. A mode that no draw visited is a cross at zero.
    """
    ax = new_axes(ax)
    modes = np.arange(len(report.weights))
    seen = np.isfinite(report.errors)
    bars = np.stack([report.weights - report.lower, report.upper - report.weights])[:, seen]
    if truth is not None:
        truth = np.asarray(truth)
        if truth.shape != modes.shape:
            raise ValueError(f"truth must hold {len(modes)} weights, got shape {truth.shape}")
        ax.hlines(truth, modes - 0.35, modes + 0.35, color="0.55", linewidth=2.5, label="truth", zorder=1)
    if report.guide_weights is not None:
        ax.plot(
            modes + 0.22,
            report.guide_weights,
            "D",
            color=COLOURS[1],
            markerfacecolor="none",
            markersize=4,
            label="guide",
        )
    ax.errorbar(
        modes[seen], report.weights[seen], bars, fmt="o", color=COLOURS[0], markersize=4, capsize=2.5,
        linewidth=1.2, label="draws, 95 %", zorder=3,
    )  # fmt: skip
    if (~seen).any():
        ax.plot(modes[~seen], report.weights[~seen], "kx", markersize=6, label="no error known", zorder=3)
    ax.set(xlabel="mode", ylabel="weight", xlim=(-0.6, len(modes) - 0.4))
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]) if (~seen).any() else 0.0)
    if len(modes) <= MAX_NUMBERED:
        ax.set_xticks(modes)
    ax.legend(frameon=False)
    return ax


def plot_transitions(report: ModeReport, *, ax: Any = None) -> Any:
    """Transition matrix between modes, on a logarithmic scale, since chains mostly stay where they are.

    Parameters
    ----------
    report
        From :func:`mode_report`.
    ax
        Axes to draw into.

    Returns
    -------
    The axes. Blank cells are transitions that never happened.
    """
    ax = new_axes(ax)
    matrix = report.transition_matrix
    k = len(matrix)
    shown = np.ma.masked_where(~(matrix > 0), matrix)
    low = 10 ** np.floor(np.log10(shown.min())) if shown.count() else 0.1
    image = ax.imshow(shown, norm="log", vmin=min(low, 0.1), vmax=1, cmap="cividis")
    colourbar = ax.figure.colorbar(image, ax=ax, shrink=0.85)
    colourbar.outline.set_visible(False)
    colourbar.set_label("probability")
    if k <= MAX_NUMBERED:
        middle = np.sqrt(min(low, 0.1))
        for (row, column), value in np.ndenumerate(matrix):
            if value > 0:
                colour = "black" if value > middle else "white"
                ax.text(column, row, f"{value:.2g}", ha="center", va="center", color=colour, fontsize="small")
        ax.set(xticks=range(k), yticks=range(k))
    ax.set(xlabel="to mode", ylabel="from mode")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax
