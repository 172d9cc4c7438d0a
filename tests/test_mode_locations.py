"""Where modes lie: means and deviations of the draws of each."""

import numpy as np

from vhmc_jax.diagnostics import mode_report
from vhmc_jax.diagnostics.modes.locations import locate

RNG = np.random.default_rng(2)
LABELS = RNG.integers(-1, 3, (4, 50))
DRAWS = {"mu": RNG.normal(size=(4, 50, 2)), "scale": RNG.random((4, 50))}


def test_figures_are_those_of_the_labelled_draws():
    found = locate(DRAWS, LABELS, 4)
    assert found.names == ("mu[0]", "mu[1]", "scale")
    for mode in range(3):
        np.testing.assert_allclose(found.means[mode, 1], DRAWS["mu"][..., 1][mode == LABELS].mean())
        np.testing.assert_allclose(found.sds[mode, 2], DRAWS["scale"][mode == LABELS].std())
    assert np.isnan(found.means[3]).all(), "no draw belongs to the last"


def test_table_shows_them_and_says_what_it_leaves_out():
    report = mode_report(labels=LABELS, num_modes=4)
    assert "Parameters in each mode" not in str(report)
    assert "mu[0]" in str(report.located(DRAWS))
    many = report.located({"x": RNG.normal(size=(4, 50, 30))})
    assert "... and 10 more parameters" in str(many)
    wide = mode_report(labels=LABELS, num_modes=12).located(DRAWS)
    assert "... and 2 more modes" in str(wide)
