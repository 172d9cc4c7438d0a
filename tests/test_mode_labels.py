"""Labels of draws by a guide, by centres and as told."""

import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.diagnostics import mode_report

MEANS = np.array([[-4.0, 0.0], [4.0, 0.0], [4.5, 0.0]])


GUIDE = vj.GaussianMixture(jnp.log(jnp.array([0.2, 0.4, 0.4])), MEANS, np.stack([np.eye(2)] * 3))


class Components:
    """The same components with a constant factor, in an object that is neither a pytree nor a mixture of ours."""

    def component_log_probs(self, x):
        """Log of each component's part of the density."""
        distances = jnp.sum((x - jnp.asarray(MEANS, x.dtype)) ** 2, axis=1)
        return jnp.log(jnp.array([0.2, 0.4, 0.4], x.dtype)) - distances / 2


def exact_draws(weights=(0.2, 0.4, 0.4)):
    rng = np.random.default_rng(0)
    return MEANS[rng.choice(3, (8, 500), p=weights)] + rng.normal(size=(8, 500, 2))


@pytest.mark.statistical
def test_responsibilities_give_unbiased_weights_where_components_overlap_and_counts_do_not():
    report = mode_report(exact_draws(), GUIDE)
    assert (np.abs(report.weights - [0.2, 0.4, 0.4]) < 3 * report.errors).all()
    unequal = exact_draws((0.2, 0.7, 0.1))
    counted = mode_report(unequal, centres=MEANS, covariances=np.stack([np.eye(2)] * 3))
    assert abs(counted.weights[2] - 0.1) > 10 * counted.errors[2]


def test_components_of_one_mode_are_summed_and_defensive_ones_left_out():
    draws = exact_draws()
    three, two = mode_report(draws, GUIDE), mode_report(draws, GUIDE, mode_of=[0, 1, 1])
    np.testing.assert_allclose(two.weights, [three.weights[0], three.weights[1:].sum()], rtol=1e-12)
    np.testing.assert_allclose(two.guide_weights, [0.2, 0.8], rtol=1e-12)
    others = mode_report(draws, Components(), mode_of=[0, 1, 1])
    np.testing.assert_allclose(others.weights, two.weights, rtol=1e-12)
    assert others.guide_weights is None
    assert np.isnan(others.far_share)
    without = mode_report(draws, GUIDE, mode_of=[0, -1, 1])
    np.testing.assert_allclose(without.weights, two.weights, atol=1e-3)
    np.testing.assert_allclose(without.guide_weights.sum(), 1.0)
    with pytest.raises(ValueError, match="mode_of must name a mode for each of 3"):
        mode_report(draws, GUIDE, mode_of=[0, 1])


def test_three_ways_agree_where_modes_are_apart():
    draws = exact_draws()
    by_guide = mode_report(draws, GUIDE, mode_of=[0, 1, 1])
    covariances = np.stack([np.eye(2), 1.2 * np.eye(2)])
    by_centres = mode_report({"x": draws}, centres={"x": MEANS[:2]}, covariances=covariances)
    as_told = mode_report(labels=by_guide.labels)
    np.testing.assert_array_equal(by_centres.labels, by_guide.labels)
    np.testing.assert_allclose(by_centres.weights, by_guide.weights, atol=1e-4)
    np.testing.assert_allclose(as_told.weights, by_centres.weights, rtol=1e-12)


def test_width_decides_between_centres():
    """Half way between a narrow and a wide mode, a draw belongs to the wide one."""
    report = mode_report(
        np.full((1, 4, 1), 5.0), centres=np.array([[0.0], [10.0]]), covariances=np.array([[[0.01]], [[9.0]]])
    )
    assert (report.labels == 1).all()


def test_far_draws_are_counted():
    draws = exact_draws()
    assert mode_report(draws, GUIDE).far_share == 0
    draws[0, :100] += 100.0
    report = mode_report(draws, GUIDE)
    assert report.far_share == 100 / 4000
    assert any("far from every mode" in note for note in report.notes)


def test_draws_that_are_not_finite_belong_to_no_mode():
    draws = exact_draws()
    draws[0, :8, 1], draws[0, 8:10, 0] = np.nan, np.inf
    for report in (
        mode_report(draws, GUIDE),
        mode_report(draws, Components()),
        mode_report(draws, centres=MEANS, covariances=np.stack([np.eye(2)] * 3)),
    ):
        assert (report.labels[0, :10] == -1).all()
        assert np.isclose(report.weights.sum(), 1 - 10 / 4000)
        assert np.isfinite(report.errors).all()
        assert any("10 draws belong to no mode" in note for note in report.notes)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "one way"),
        ({"guide": GUIDE, "labels": np.zeros((1, 4), int)}, ValueError, "one way"),
        ({"guide": object()}, TypeError, "component_log_probs"),
        ({"centres": MEANS}, ValueError, "covariances"),
        ({"centres": MEANS, "covariances": np.eye(2)}, ValueError, "expected centres"),
        ({"centres": MEANS, "covariances": -np.stack([np.eye(2)] * 3)}, ValueError, "positive definite"),
        ({"labels": np.zeros((1, 4))}, ValueError, "labels must be integers"),
        ({"labels": np.full((1, 4), 3), "num_modes": 2}, ValueError, "labels must lie in"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        mode_report(exact_draws(), **arguments)
    with pytest.raises(ValueError, match="draws are needed"):
        mode_report(guide=GUIDE)
