"""Conversion to whichever ArviZ is installed: InferenceData of 0.x, DataTree of 1.x."""

import sys
import warnings
from typing import NamedTuple

import numpy as np
import pytest

from vhmc_jax.diagnostics import ess, rhat, to_arviz

with warnings.catch_warnings():  # ArviZ 0.x announces 1.x when it is imported
    warnings.simplefilter("ignore", FutureWarning)
    import arviz

RNG = np.random.default_rng(0)
DRAWS = {"a": RNG.normal(size=(4, 100, 3)), "b": {"c": RNG.normal(size=(4, 100))}}


class Infos(NamedTuple):
    """Fields that every kernel has, and one of jumps."""

    acceptance_rate: np.ndarray
    is_accepted: np.ndarray
    is_divergent: np.ndarray
    num_gradients: np.ndarray
    is_jump: np.ndarray


INFOS = Infos(
    *(RNG.random((4, 100)), *(RNG.integers(0, 2, (4, 100)).astype(bool) for _ in range(2))),
    np.full((4, 100), 42),
    np.zeros((4, 100), bool),
)


def test_type_is_that_of_the_installed_version():
    data = to_arviz(DRAWS)
    expected = "InferenceData" if arviz.__version__.startswith("0.") else "DataTree"
    assert type(data).__name__ == expected
    assert not hasattr(data, "sample_stats")


def test_variables_are_named_by_path_and_statistics_as_usual():
    data = to_arviz(DRAWS, INFOS, logdensities=np.ones((4, 100)), dims={"a": ["coordinate"]})
    posterior, stats = data["posterior"], data["sample_stats"]
    assert set(posterior.data_vars) == {"a", "b.c"}
    assert posterior["a"].dims == ("chain", "draw", "coordinate")
    np.testing.assert_array_equal(posterior["b.c"].values, DRAWS["b"]["c"])
    assert set(stats.data_vars) == {"acceptance_rate", "is_accepted", "diverging", "n_steps", "is_jump", "lp"}
    assert stats["diverging"].dtype == bool
    assert stats["n_steps"].dtype == np.int64
    assert set(to_arviz(DRAWS["a"])["posterior"].data_vars) == {"x"}
    nested = to_arviz(DRAWS, {"local": INFOS})["sample_stats"]
    assert "local.diverging" in nested.data_vars


def test_a_prior_without_names():
    """As ``Problem.prior_draws`` gives it where there is nothing to constrain."""
    data = to_arviz(DRAWS["a"], prior=np.zeros((1, 50, 3)))
    assert set(data["prior"].data_vars) == {"x"}


def test_groups_beside_the_posterior():
    data = to_arviz(
        DRAWS,
        log_likelihood={"y": np.zeros((4, 100, 7))},
        posterior_predictive={"y": np.ones((4, 100, 7))},
        observed_data={"y": np.arange(7)},
        prior={"a": np.zeros((1, 50, 3))},
        dims={"a": ["coordinate"], "y": ["place"]},
        num_chains=2,
    )
    for group in ("log_likelihood", "posterior_predictive"):
        assert dict(data[group].sizes) == {"chain": 2, "draw": 200, "place": 7}
    assert dict(data["prior"].sizes) == {"chain": 1, "draw": 50, "coordinate": 3}
    np.testing.assert_array_equal(data["observed_data"]["y"], np.arange(7))
    with pytest.raises(ValueError, match=r"posterior predictive y must have axes \(chain, draw\) = \(4, 100\)"):
        to_arviz(DRAWS, posterior_predictive={"y": np.zeros(7)})


def test_arviz_reads_what_it_got_and_finds_our_figures():
    data = to_arviz(DRAWS)
    summary = arviz.summary(data)
    assert len(summary) == 4
    np.testing.assert_allclose(np.asarray(arviz.ess(data)["a"]), ess(DRAWS)["a"], rtol=1e-2)
    np.testing.assert_allclose(np.asarray(arviz.rhat(data)["a"]), rhat(DRAWS)["a"], rtol=1e-2)


def test_bad_statistics_are_named_and_a_missing_arviz_says_how_to_get_it(monkeypatch):
    with pytest.raises(ValueError, match=r"statistic lp must have axes \(chain, draw\) = \(4, 100\)"):
        to_arviz(DRAWS, logdensities=np.zeros(100))
    for name in ("arviz", "arviz_base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"vhmc-jax\[arviz\]"):
        to_arviz(DRAWS)


def test_parts_of_arviz_1_without_the_whole(monkeypatch):
    """ArviZ 1.x is three packages: the first has the data structure, the second reads it."""
    stats = pytest.importorskip("arviz_stats")
    monkeypatch.setitem(sys.modules, "arviz", None)
    likelihoods = {"y": RNG.normal(size=(4, 100, 7))}
    data = to_arviz(
        DRAWS,
        INFOS,
        labels=np.ones((4, 100), int),
        log_likelihood=likelihoods,
        observed_data={"y": np.arange(7)},
        prior={"a": np.zeros((1, 50, 3))},
        dims={"a": ["coordinate"], "y": ["place"]},
        coords={"coordinate": ["u", "v", "w"]},
        attributes={"mode_weights": [0.7, 0.3]},
        num_chains=2,
    )
    assert type(data).__name__ == "DataTree"
    assert set(data.children) == {"posterior", "sample_stats", "log_likelihood", "observed_data", "prior"}
    assert data.attrs["inference_library"] == "vhmc_jax"
    assert data.attrs["mode_weights"] == [0.7, 0.3]
    assert dict(data["posterior"]["a"].sizes) == {"chain": 2, "draw": 200, "coordinate": 3}
    assert {"a[u]", "b.c"} <= set(stats.summary(data).index)
    assert np.isfinite(stats.loo(data).elpd)
