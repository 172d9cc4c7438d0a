"""Pictures of a mode report."""

import matplotlib as mpl
import numpy as np
import pytest

from vhmc_jax.diagnostics import mode_report, plot_mode_weights, plot_transitions

mpl.use("Agg")
import matplotlib.pyplot as plt

LABELS = np.random.default_rng(0).choice(2, (4, 200), p=[0.3, 0.7])


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_weights_have_error_bars_and_unseen_modes_a_cross():
    report = mode_report(labels=LABELS, num_modes=3)
    ax = plot_mode_weights(report, truth=[0.3, 0.7, 0.0])
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert set(names) == {"truth", "no error known", "draws, 95 %"}
    bars = ax.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose(np.array(bars)[:, :, 1], np.stack([report.lower, report.upper], 1)[:2])
    ax.figure.canvas.draw()
    with pytest.raises(ValueError, match="truth must hold 3"):
        plot_mode_weights(report, truth=[1.0])


def test_transitions_show_numbers_where_they_fit_and_blanks_where_nothing_happened():
    report = mode_report(labels=LABELS, num_modes=3)
    ax = plot_transitions(report)
    assert len(ax.texts) == 4
    assert ax.images[0].get_array().mask.sum() == 5
    assert not plot_transitions(mode_report(labels=LABELS, num_modes=20)).texts
    ax.figure.canvas.draw()
