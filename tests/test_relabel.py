"""One labelling for draws whose components were permuted at random."""

import numpy as np
import pytest

from vhmc_jax.diagnostics import relabel

RNG = np.random.default_rng(4)
MEANS = np.array([10.0, 21.0, 20.0])
SCALES = np.array([0.5, 2.0, 0.3])
SHAPE = (4, 250)


def permuted(seed=0):
    """Draws of three components, the last two told apart by their scales alone, and the same with permuted labels."""
    mu = MEANS + SCALES * RNG.normal(size=(*SHAPE, 3))
    scale = SCALES * np.exp(0.1 * RNG.normal(size=(*SHAPE, 3)))
    loadings = RNG.normal(size=(*SHAPE, 2, 3)) + np.array([0.0, 5.0, -5.0])
    order = np.random.default_rng(seed).permuted(np.broadcast_to(np.arange(3), (*SHAPE, 3)), axis=-1)
    truth = {"mu": mu, "scale": scale, "loadings": loadings, "noise": RNG.random(SHAPE)}
    moved = {
        "mu": np.take_along_axis(mu, order, -1),
        "scale": np.take_along_axis(scale, order, -1),
        "loadings": np.take_along_axis(loadings, np.repeat(order[..., None, :], 2, axis=-2), -1),
        "noise": truth["noise"],
    }
    return truth, moved


def test_all_parameters_move_together():
    truth, moved = permuted()
    found = relabel(moved, {"mu": 0, "scale": 0, "loadings": 1})
    places = np.argsort(found["loadings"].mean(axis=(0, 1, 2)))
    for name in ("mu", "scale", "loadings"):
        expected = truth[name][..., np.argsort([0.0, 5.0, -5.0])]
        np.testing.assert_array_equal(found[name][..., places], expected)
    np.testing.assert_array_equal(found["noise"], truth["noise"])


def test_order_of_one_parameter_confuses_components_that_cross():
    _, moved = permuted()
    found = relabel(moved, {"mu": 0, "scale": 0}, by="mu")
    assert np.all(np.diff(found["mu"], axis=-1) > 0)
    matched = relabel(moved, {"mu": 0, "scale": 0})
    assert found["scale"].std(axis=(0, 1)).max() > 3 * np.sort(matched["scale"].std(axis=(0, 1)))[1]


def test_bad_arguments_are_named():
    _, moved = permuted()
    with pytest.raises(ValueError, match="axes must name at least one parameter"):
        relabel(moved, {})
    with pytest.raises(ValueError, match=r"axes must name parameters of draws.* got 'sigma'"):
        relabel(moved, {"sigma": 0})
    with pytest.raises(ValueError, match=r"axes\['mu'\] must be from 0 to 0, got 1"):
        relabel(moved, {"mu": 1})
    with pytest.raises(ValueError, match="all parameters must have as many components"):
        relabel(moved, {"mu": 0, "loadings": 0})
    with pytest.raises(ValueError, match=r"by must be a parameter of axes, \['mu'\], got 'scale'"):
        relabel(moved, {"mu": 0}, by="scale")
    with pytest.raises(ValueError, match="by must have one number a component, got 2"):
        relabel(moved, {"loadings": 1}, by="loadings")
