"""The table of figures, and the sentences that say why a figure is NaN."""

import numpy as np

from vhmc_jax.diagnostics import ess, mcse, problems, rhat, summary

DRAWS = {
    "a": np.random.default_rng(0).normal(size=(4, 100, 2, 2)),
    "b": np.random.default_rng(1).normal(size=(4, 100)),
}


def test_figures_are_those_of_the_functions_in_the_order_of_names():
    table = summary(DRAWS)
    assert table.names == ("a[0, 0]", "a[0, 1]", "a[1, 0]", "a[1, 1]", "b")
    np.testing.assert_allclose(table.mean[2], DRAWS["a"][:, :, 1, 0].mean())
    np.testing.assert_allclose(table.sd[4], DRAWS["b"].std())
    np.testing.assert_allclose(table.mcse[:4], np.ravel(mcse(DRAWS)["a"]))
    np.testing.assert_allclose(table.ess_tail[4], ess(DRAWS, "tail")["b"])
    np.testing.assert_allclose(table.rhat[:4], np.ravel(rhat(DRAWS)["a"]))
    assert table.notes == ()
    lines = str(table).splitlines()
    assert len(lines) == 6
    assert lines[0].split() == ["mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"]
    assert lines[5].split()[0] == "b"


def test_every_reason_is_stated():
    draws = np.random.default_rng(2).normal(size=(4, 100, 4))
    assert problems(draws) == ()
    draws[2, 5:7, 0] = np.nan
    draws[:, :, 1] = 3.0
    draws[1, :, 2] = 0.0
    assert problems({"x": draws}) == (
        "Not finite, hence NaN: x[0] (2 draws, first in chain 2).",
        "The same in every draw, hence NaN: x[1].",
        "Chains that never moved, which have no autocorrelation: x[2] (chain 1).",
    )
    assert "too few" in problems(draws[:, :3, 3])[0]
    table = summary(draws)
    np.testing.assert_array_equal(np.isnan(table.rhat), [True, True, False, False])
    assert "hence NaN: x[0]" in str(table)


def test_long_tables_are_cut():
    text = str(summary(np.random.default_rng(3).normal(size=(2, 10, 50))))
    assert "and 10 more components" in text
