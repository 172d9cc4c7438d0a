"""Pictures of draws: scatter with the guide, trace by mode, autocorrelation, MMD curve.

Every function draws into the axes it is given, or into new ones, and returns them. Colours are those of Okabe
and Ito (indigo for their yellow and black), which colour-blind readers tell apart; markers and line styles
repeat the distinction for print.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from vhmc_jax.diagnostics.autocorrelation import autocorrelation
from vhmc_jax.diagnostics.draws import check_draws, named_components

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#332288")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<", ">", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
# More points than this make a picture heavier and no clearer.
MAX_POINTS = 5_000


def pyplot() -> Any:
    """Matplotlib's ``pyplot``, imported when the first picture is drawn."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'vhmc-jax[plots]'") from error
    return plt


def new_axes(ax: Any = None) -> Any:
    """The axes given, or new ones; without the frame's upper and right sides."""
    if ax is None:
        ax = pyplot().subplots(figsize=(4.2, 3.2), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_scatter(
    draws: Any,
    guide: Any = None,
    *,
    components: tuple[int | str, int | str] = (0, 1),
    labels: np.ndarray | None = None,
    ax: Any = None,
) -> Any:
    """Scatter of two components, coloured by mode, with the guide's ellipses at one and two deviations.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays; of many draws an even selection is shown.
    guide
        Mixture with ``means`` and ``scale_trils``.
    components
        Two components by number, in the order of ``ravel_pytree``, or by name.
    labels
        Mode of each draw, (chain, draw), for instance ``report.labels``.
    ax
        Axes to draw into.

    Returns
    -------
    The axes.
    """
    ax = new_axes(ax)
    (i, x_name, x), (j, y_name, y) = (_component(draws, c) for c in components)
    every = max(1, x.size // MAX_POINTS)
    x, y = x.ravel()[::every], y.ravel()[::every]
    modes = np.zeros(x.size, int) if labels is None else np.ravel(labels)[::every]
    for mode in np.unique(modes):
        style = {"color": "0.6", "marker": ".", "label": "no mode"} if mode < 0 else _mode_style(mode)
        chosen = modes == mode
        ax.scatter(x[chosen], y[chosen], s=5, alpha=0.5, linewidths=0, rasterized=True, **style)
    if guide is not None:
        _draw_ellipses(ax, guide, i, j)
    if labels is not None and len(np.unique(modes)) <= len(COLOURS):
        legend = ax.legend(frameon=False, markerscale=2.5, handletextpad=0.2, borderaxespad=0.2)
        for handle in legend.legend_handles:
            handle.set_alpha(1)
    ax.set(xlabel=x_name, ylabel=y_name)
    return ax


def plot_trace(
    draws: Any, *, component: int | str = 0, labels: np.ndarray | None = None, chain: int = 0, ax: Any = None
) -> Any:
    """Trace of one component of one chain, each draw coloured by its mode.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    component
        By number, in the order of ``ravel_pytree``, or by name.
    labels
        Mode of each draw, (chain, draw), for instance ``report.labels``.
    chain
        Which chain.
    ax
        Axes to draw into.

    Returns
    -------
    The axes.
    """
    ax = new_axes(ax)
    _, name, x = _component(draws, component)
    x = x[chain]
    iterations = np.arange(1, x.size + 1)
    modes = np.zeros(x.size, int) if labels is None else np.asarray(labels)[chain]
    ax.plot(iterations, x, color="0.75", linewidth=0.5, zorder=1)
    for mode in np.unique(modes):
        style = {"color": "0.5", "marker": ".", "label": "no mode"} if mode < 0 else _mode_style(mode)
        chosen = modes == mode
        ax.scatter(iterations[chosen], x[chosen], s=7, linewidths=0, rasterized=True, zorder=2, **style)
    ax.set(xlabel=f"draw of chain {chain}", ylabel=name, xlim=(0, x.size + 1))
    return ax


def plot_autocorrelation(
    draws: Any,
    *,
    component: int | str = 0,
    max_lag: int | None = None,
    mean: float | None = None,
    label: str | None = None,
    ax: Any = None,
) -> Any:
    """Autocorrelation of one component: the mean over chains, and a band that holds 80 % of them.

    Call it again with the same axes to compare samplers.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    component
        By number, in the order of ``ravel_pytree``, or by name.
    max_lag
        Largest lag; by default 100 or all there are.
    mean
        True mean of the component, where known; by default each chain's own.
    label
        Name in the legend.
    ax
        Axes to draw into.

    Returns
    -------
    The axes.
    """
    ax = new_axes(ax)
    _, name, x = _component(draws, component)
    max_lag = min(100, x.shape[1] - 1) if max_lag is None else max_lag
    rho = np.asarray(autocorrelation(jnp.asarray(x), max_lag, mean=mean))
    if not ax.lines:
        ax.axhline(0, color="0.6", linewidth=0.6, gid="reference")
    _draw_curves(ax, np.arange(max_lag + 1), rho, label)
    ax.set(xlabel="lag", ylabel=f"autocorrelation of {name}", xlim=(0, max_lag))
    return ax


def plot_mmd(curve: Any, *, label: str | None = None, ax: Any = None) -> Any:
    """MMD² against the number of draws, on logarithmic axes: the mean over chains and a band of 80 % of them.

    Call it again with the same axes to compare samplers.

    Parameters
    ----------
    curve
        (chain, draw), from :func:`mmd_curve`.
    label
        Name in the legend.
    ax
        Axes to draw into.

    Returns
    -------
    The axes.
    """
    ax = new_axes(ax)
    curve = np.atleast_2d(np.asarray(curve))
    # Points even on the logarithmic axis: thousands at its right end would be one blot.
    counts = np.unique(np.geomspace(1, curve.shape[1], 200).astype(int))
    _draw_curves(ax, counts, curve[:, counts - 1], label)
    ax.set(xscale="log", yscale="log", xlabel="draws", ylabel="MMD²")
    return ax


def _component(draws: Any, component: int | str) -> tuple[int, str, np.ndarray]:
    """Number, name and (chain, draw) values of a component."""
    components = named_components(check_draws(draws))
    names = list(components)
    known = component in names if isinstance(component, str) else 0 <= component < len(names)
    if not known:
        raise ValueError(f"component must be one of {names} or its number, got {component!r}")
    name = component if isinstance(component, str) else names[component]
    return names.index(name), name, components[name]


def _mode_style(mode: int) -> dict[str, Any]:
    return {
        "color": COLOURS[mode % len(COLOURS)],
        "marker": MARKERS[mode % len(MARKERS)],
        "label": f"mode {mode}",
    }


def _draw_ellipses(ax: Any, guide: Any, i: int, j: int) -> None:
    """Outlines of each component of a mixture at one and two standard deviations of components i and j."""
    angles = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    means, scales = np.asarray(guide.means)[:, [i, j]], np.asarray(guide.scale_trils)[:, [i, j], :]
    for mean, scale in zip(means, scales, strict=True):
        x, y = mean[:, None] + np.linalg.cholesky(scale @ scale.T) @ circle
        for radius, width in ((1, 1.0), (2, 0.6)):
            ax.plot(
                mean[0] + radius * (x - mean[0]),
                mean[1] + radius * (y - mean[1]),
                "k-",
                linewidth=width,
                zorder=3,
            )


def _draw_curves(ax: Any, x: np.ndarray, curves: np.ndarray, label: str | None) -> None:
    """Mean of curves (chain, point) and a band from their 10 % to their 90 % quantile, in the next style."""
    number = sum(line.get_gid() == "curve" for line in ax.lines)
    colour, style = COLOURS[number % len(COLOURS)], LINES[number % len(LINES)]
    ax.plot(x, curves.mean(0), color=colour, linestyle=style, linewidth=1.4, label=label, gid="curve")
    if len(curves) > 1:
        low, high = np.quantile(curves, [0.1, 0.9], axis=0)
        ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    if label is not None:
        ax.legend(frameon=False)
