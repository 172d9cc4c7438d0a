"""The progress bar: what it shows, that it can be silent, and where it is shown by default."""

import inspect

import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.runner.progress import ProgressBar


def test_bar_shows_iterations_and_the_mean_acceptance(capsys):
    with ProgressBar(20, "3 chains", is_shown=True) as bar:
        bar.show(5)
        bar.show(20, np.array([0.5, 0.7, 0.9]))
    text = capsys.readouterr().err
    assert "3 chains: 100%" in text
    assert "20/20" in text
    assert "acceptance=0.700" in text


def test_compiling_promises_no_hours(capsys):
    """A hundred seconds before the first of a thousand iterations are no rate: 27 hours would be promised."""
    with ProgressBar(1000, "3 chains", is_shown=True) as bar:
        bar._bar.start_t -= 100.0
        bar.show(1)
        assert "27:4" not in (text := capsys.readouterr().err)
        assert "1/1000" in text


def test_a_bar_that_is_not_shown_writes_nothing(capsys):
    with ProgressBar(20, "3 chains", is_shown=False) as bar:
        bar.show(20, np.array([0.5]))
    assert capsys.readouterr().err == ""


WITH_PROGRESS = [
    name
    for name in vj.__all__
    if inspect.isfunction(getattr(vj, name)) and "progress" in inspect.signature(getattr(vj, name)).parameters
]


@pytest.mark.parametrize("name", WITH_PROGRESS)
def test_only_sample_shows_its_progress_unasked(name):
    """It takes long and is called by hand; the others are parts of programs."""
    assert inspect.signature(getattr(vj, name)).parameters["progress"].default is (name == "sample")


def test_functions_with_progress_are_found():
    assert {"find_modes", "run_chains", "sample"} <= set(WITH_PROGRESS)
