"""The figure of a result shows what it should for two modes, one mode, one coordinate, and many modes."""

import matplotlib as mpl
import numpy as np
import pytest
from reports import result_of

mpl.use("Agg")
import matplotlib.pyplot as plt

import vhmc_jax as vj


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def titles(figure):
    return [ax.get_title() for ax in figure.axes if ax.get_title()]


def axes(figure, title):
    return next(ax for ax in figure.axes if ax.get_title() == title)


def test_two_modes_have_weights_by_draws_and_by_bridge():
    figure = result_of(names=("b", "a")).plot()
    assert len(titles(figure)) == 5
    assert figure.get_suptitle() == "Nothing disagrees with the answer"
    assert [text.get_text() for text in figure.texts[1:]] == ["4 chains of 200 draws, 2 modes"]
    legend = axes(figure, "Weights of the modes").get_legend()
    assert {text.get_text() for text in legend.get_texts()} == {"draws, 95 %", "bridge, 95 %"}
    scatter = axes(figure, "Draws by mode")
    assert (scatter.get_xlabel(), scatter.get_ylabel()) == ("a", "b")
    figure.canvas.draw()


def test_one_mode_has_its_autocorrelation_instead_and_the_first_warning_is_in_the_headline():
    figure = result_of(num_modes=1, warnings=("Chains disagree.",)).plot()
    assert [text.get_text() for text in figure.texts[1:]] == ["Chains disagree."]
    assert "Autocorrelation" in titles(figure)
    assert len(titles(figure)) == 4
    assert figure.get_suptitle() == "Not to be trusted yet: 1 warning"
    figure.canvas.draw()


def test_the_headline_stays_above_the_pictures_however_long_it_is():
    cut_short = vj.Result(**{**vars(result_of(warnings=("word " * 200,))), "is_complete": False})
    for result in (result_of(), cut_short):
        figure = result.plot()
        figure.canvas.draw()
        (_, text), (rule,) = figure.texts, figure.artists
        lowest = text.get_window_extent().y0 / figure.bbox.height
        assert lowest > rule.get_ydata()[0] > max(ax.get_tightbbox().y1 for ax in figure.axes) / figure.bbox.height
    assert text.get_text().startswith("Cut short by")
    assert len(text.get_text().splitlines()) == 2


def test_one_coordinate_is_a_histogram_and_of_many_modes_the_heaviest_are_shown():
    result_of(dimension=1).plot().canvas.draw()
    figure = result_of(num_modes=40).plot()
    assert axes(figure, "Weights of the modes").get_xlabel() == "the 30 heaviest of 40 modes"
    figure.canvas.draw()


def test_coordinates_are_those_in_which_modes_differ():
    result = result_of(dimension=3)
    result.draws[..., 0] = np.random.default_rng(1).normal(size=(4, 200))
    result = vj.Result(**{**vars(result), "modes": result.modes.located(result.draws)})
    scatter = axes(result.plot(), "Draws by mode")
    assert (scatter.get_xlabel(), scatter.get_ylabel()) == ("x[1]", "x[2]")


def test_a_guide_that_is_too_thin_shows():
    result = result_of()
    result.frozen.population.logdensities[:100] += 5.0
    ax = axes(result.plot(), "Does the guide cover the target?")
    heights = ax.patches[-2].get_xy()
    assert heights[heights[:, 0] > np.log(5), 1].max() > 0
