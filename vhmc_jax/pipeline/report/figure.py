"""One figure that tells at a glance whether to trust a run."""

import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vhmc_jax.diagnostics.draws import flatten_draws, named_components
from vhmc_jax.diagnostics.modes.locations import locate
from vhmc_jax.diagnostics.modes.plots import plot_mode_weights, plot_transitions
from vhmc_jax.diagnostics.plots import (
    COLOURS,
    MAX_POINTS,
    new_axes,
    plot_autocorrelation,
    plot_scatter,
    plot_trace,
    pyplot,
)
from vhmc_jax.fit.coverage import UNCOVERED_RATIO, log_ratios_of
from vhmc_jax.pipeline.produce import one_in
from vhmc_jax.pipeline.report.notebook import CUT_SHORT, title

if TYPE_CHECKING:
    from vhmc_jax.pipeline.result import Result

MOST_WEIGHTS = 30
"""Modes whose weights are shown: the heaviest."""
FARTHEST = 10.0
"""Log ratios beyond this are drawn at the edge."""
LETTERS = 12.5
"""Letters of the line below the headline to an inch of width."""
TRUSTED, WARNED = COLOURS[2], COLOURS[1]


def figure(result: "Result") -> Any:
    """All panels side by side, as a figure of matplotlib."""
    drawn = panels(result)
    names = list(drawn)
    layout = [names[:3], [names[3], *names[3:]]] if len(names) == 5 else [names[:2], names[2:]]
    width, below = 4.2 * len(layout[0]), result.warnings[0] if result.warnings else title(result)
    lines = textwrap.wrap(below if result.is_complete else f"{CUT_SHORT} {below}", int(LETTERS * width), max_lines=2)
    head = 0.7 + 0.18 * len(lines)
    page, axes = pyplot().subplot_mosaic(layout, figsize=(width, 7.1 + head), layout="constrained")
    page.get_layout_engine().set(rect=(0, 0, 1, 7.1 / (7.1 + head)))
    _headline(page, result, lines)
    for name, draw in drawn.items():
        draw(new_axes(axes[name]))
        axes[name].set_title(name)
    return page


def _headline(page: Any, result: "Result", lines: list[str]) -> None:
    """The verdict over the whole width, with lines of text below it, and a rule."""
    width, height = page.get_size_inches()
    warnings = f"{len(result.warnings)} warning{'' if len(result.warnings) == 1 else 's'}"
    verdict = "Nothing disagrees with the answer" if result.is_trusted else f"Not to be trusted yet: {warnings}"
    colour, left = TRUSTED if result.is_trusted else WARNED, 0.15 / width
    page.suptitle(verdict, x=left, y=1 - 0.12 / height, ha="left", va="top", size=18, weight="bold", color=colour)
    page.text(left, 1 - 0.47 / height, "\n".join(lines), va="top", size=11, linespacing=1.1)
    y = 1 - (0.54 + 0.18 * len(lines)) / height
    page.add_artist(pyplot().Line2D([left, 1 - left], [y, y], color=colour, linewidth=2))


def panels(result: "Result") -> dict[str, Callable[[Any], None]]:
    """Functions that draw one picture each into the axes they are given, by the picture's title.

    With one mode there are no weights and no moves to show, and the autocorrelation takes their place.
    """
    draws = one_in(result.judged_every, result.draws)
    components = named_components(draws)
    names = _telling(result, draws)
    chosen, first = {name: components[name] for name in names}, names[0]
    labels = np.asarray(result.modes.labels) if len(result.modes.weights) > 1 else None

    def scatter(ax: Any) -> None:
        if len(names) == 1:
            _histogram(ax, first, components[first], labels)
        else:
            plot_scatter(chosen, components=(names[0], names[1]), labels=labels, ax=ax)

    def trace(ax: Any) -> None:
        plot_trace(chosen, component=first, labels=labels, ax=ax)

    found = {"Draws by mode": scatter}
    if len(result.modes.weights) > 1:
        found["Weights of the modes"] = lambda ax: _weights(ax, result)
        found["Moves between modes"] = lambda ax: plot_transitions(result.modes, ax=ax) and None
    else:
        found["Autocorrelation"] = lambda ax: plot_autocorrelation(chosen, component=first, ax=ax) and None
    return found | {"Trace of one chain": trace, "Does the guide cover the target?": lambda ax: _coverage(ax, result)}


def _telling(result: "Result", draws: Any) -> list[str]:
    """The two components in which the modes are farthest apart; of one mode, the first two that vary."""
    report, components = result.modes, named_components(draws)
    found = report.locations or locate(draws, report.labels, len(report.weights))
    spreads = np.array([np.std(values, dtype=np.float64) for values in components.values()])
    weights = np.where(np.isfinite(found.means).all(axis=1), report.weights, 0.0)[:, None]
    middle = np.nansum(weights * np.nan_to_num(found.means), axis=0) / max(weights.sum(), 1e-300)
    between = np.sqrt(np.nansum(weights * (np.nan_to_num(found.means) - middle) ** 2, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.nan_to_num(between / spreads) if len(report.weights) > 1 else np.zeros(len(spreads))
    order = np.argsort(-(np.round(ratios, 3) + (spreads > 0)), kind="stable")
    names = list(components)
    return [names[i] for i in sorted(order[:2])]


def _histogram(ax: Any, name: str, values: np.ndarray, labels: np.ndarray | None) -> None:
    """Draws of the only component, stacked by mode."""
    labels = np.zeros(values.shape, int) if labels is None else labels
    modes = np.unique(labels)
    parts = [values[labels == mode] for mode in modes]
    colours = ["0.6" if mode < 0 else COLOURS[mode % len(COLOURS)] for mode in modes]
    ax.hist(parts, bins=60, stacked=True, density=True, color=colours, label=[f"mode {mode}" for mode in modes])
    if 1 < len(modes) <= len(COLOURS):
        ax.legend(frameon=False)
    ax.set(xlabel=name, ylabel="density of the draws")


def _weights(ax: Any, result: "Result") -> None:
    """Weights by the share of the draws, and by bridge sampling beside them."""
    report, evidence = result.modes, result.evidence
    heaviest = np.argsort(-report.weights, kind="stable")[:MOST_WEIGHTS]
    if len(report.weights) <= MOST_WEIGHTS:
        heaviest = np.arange(len(report.weights))
    guide_weights = None if report.guide_weights is None else report.guide_weights[heaviest]
    shares = {name: getattr(report, name)[heaviest] for name in ("weights", "errors", "lower", "upper")}
    plot_mode_weights(replace(report, guide_weights=guide_weights, **shares), ax=ax)
    if evidence.mode_weights is not None and evidence.mode_weight_errors is not None:
        ax.errorbar(
            np.arange(len(heaviest)) - 0.22,
            evidence.mode_weights[heaviest],
            1.96 * evidence.mode_weight_errors[heaviest],
            fmt="s",
            color=COLOURS[2],
            markersize=4,
            capsize=2.5,
            linewidth=1.2,
            label="bridge, 95 %",
        )
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]), top=1.25 * ax.get_ylim()[1])
    ax.legend(frameon=False, ncols=2, loc="upper center", columnspacing=1.0, handletextpad=0.4)
    if len(report.weights) > MOST_WEIGHTS:
        ax.set_xlabel(f"the {MOST_WEIGHTS} heaviest of {len(report.weights)} modes")


def _coverage(ax: Any, result: "Result") -> None:
    """How many times denser the target is than the guide, at the draws and at the population that audits the guide."""
    # Guide and population are about one of all images under symmetries.
    frozen, log_evidence = result.frozen, result.log_evidence - np.log(result.frozen.num_images)
    log_evidence = log_evidence if np.isfinite(log_evidence) else frozen.guide_report.log_evidence
    draws = result.unconstrained if result.representatives is None else result.representatives
    positions, logdensities = one_in(result.judged_every, (draws, result.logdensities))
    x = np.asarray(flatten_draws(positions), np.float64)
    x = x.reshape(-1, x.shape[-1])
    every = max(1, len(x) // MAX_POINTS)
    heights = np.ravel(np.asarray(logdensities, np.float64))[::every]
    ratios = {"draws": heights - frozen.guide.on_host().at(x[::every]).log_prob - log_evidence}
    if frozen.population is not None:
        ratios["population"] = log_ratios_of(frozen.population, frozen.guide, log_evidence)
    bins = np.linspace(-FARTHEST / 2, FARTHEST, 61)
    for i, (name, values) in enumerate(ratios.items()):
        inside = np.clip(values[np.isfinite(values)], bins[0], bins[-1])
        style = {"color": COLOURS[i], "label": name, "density": True}
        ax.hist(inside, bins, histtype="stepfilled" if i == 0 else "step", alpha=0.35 if i == 0 else 1.0, **style)
    limit = np.log(UNCOVERED_RATIO)
    ax.axvspan(limit, bins[-1], color="0.92", zorder=0)
    ax.text(limit + 0.3, 0.5, "here the guide\nis too thin", transform=ax.get_xaxis_transform())
    ax.legend(frameon=False)
    ax.set(xlabel="log(target / guide)", ylabel="share of the points", xlim=(bins[0], bins[-1]), yticks=[])
