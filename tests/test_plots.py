"""Pictures of draws show what they were given, on the axes they were given."""

import sys

import matplotlib as mpl
import numpy as np
import pytest

from vhmc_jax.diagnostics import mmd_curve, plot_autocorrelation, plot_mmd, plot_scatter, plot_trace
from vhmc_jax.diagnostics.plots import MAX_POINTS

mpl.use("Agg")
import matplotlib.pyplot as plt

RNG = np.random.default_rng(0)
LABELS = RNG.integers(-1, 2, (4, 200))
DRAWS = {"a": RNG.normal(size=(4, 200)), "b": RNG.normal(size=(4, 200, 2))}


class Guide:
    """Two components in three dimensions."""

    means = np.array([[0.0, 1.0, 2.0], [5.0, 5.0, 5.0]])
    scale_trils = np.broadcast_to(np.diag([1.0, 2.0, 3.0]), (2, 3, 3))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_scatter_shows_modes_and_ellipses_of_the_chosen_components():
    ax = plot_scatter(DRAWS, Guide(), components=("b[1]", "a"), labels=LABELS)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("b[1]", "a")
    assert texts(ax) == ["no mode", "mode 0", "mode 1"]
    assert sum(len(points.get_offsets()) for points in ax.collections) == 800
    inner, outer = (ax.lines[i].get_xydata() for i in (0, 1))
    np.testing.assert_allclose(np.ptp(inner, axis=0), [6.0, 2.0], rtol=1e-2)
    np.testing.assert_allclose(np.ptp(outer, axis=0), [12.0, 4.0], rtol=1e-2)
    np.testing.assert_allclose(inner.mean(0), [2.0, 0.0], atol=0.05)
    figure = ax.figure
    figure.canvas.draw()


def test_many_draws_are_thinned():
    ax = plot_scatter(RNG.normal(size=(10, 10_000, 2)))
    assert MAX_POINTS <= len(ax.collections[0].get_offsets()) < 2 * MAX_POINTS


def test_trace_shows_one_chain_by_mode():
    ax = plot_trace(DRAWS, component=2, labels=LABELS, chain=3)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), DRAWS["b"][3, :, 1])
    assert [len(points.get_offsets()) for points in ax.collections] == [(LABELS[3] == m).sum() for m in (-1, 0, 1)]


def test_curves_are_compared_on_one_axes():
    ax = plot_autocorrelation(DRAWS, label="first")
    assert plot_autocorrelation(DRAWS, component="a", max_lag=50, mean=3.0, label="second", ax=ax) is ax
    assert texts(ax) == ["first", "second"]
    first, second = (line for line in ax.lines if line.get_gid() == "curve")
    assert len(first.get_ydata()) == 101
    assert second.get_ydata()[1:].min() > 0.5
    assert (first.get_color(), first.get_linestyle()) != (second.get_color(), second.get_linestyle())


def test_mmd_is_on_logarithmic_axes():
    curve = mmd_curve(DRAWS, mean={"a": 0.0, "b": np.zeros(2)}, covariance=np.eye(3))
    ax = plot_mmd(curve)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    np.testing.assert_allclose(ax.lines[0].get_ydata()[-1], curve[:, -1].mean())
    ax.figure.canvas.draw()


def test_unknown_components_and_a_missing_matplotlib_are_named(monkeypatch):
    with pytest.raises(ValueError, match=r"component must be one of \['a', 'b\[0\]', 'b\[1\]'\]"):
        plot_trace(DRAWS, component="c")
    with pytest.raises(ValueError, match="got 3"):
        plot_trace(DRAWS, component=3)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"vhmc-jax\[plots\]"):
        plot_trace(DRAWS)
