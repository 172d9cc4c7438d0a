"""Fitting a guide to modes."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.fit.assess import Judged
from vhmc_jax.fit.descriptions import _notes

pytestmark = pytest.mark.slow
SMALL = {"num_draws": 256, "num_chains": 8, "num_warmup": 48, "num_weight_draws": 512}


def modes_of(target, covariances):
    """Modes at the target's means, as ``find_modes`` would give them."""
    means = jnp.asarray(target.means, jnp.float64)
    k = len(means)
    return vj.Modes(
        positions={"x": means},
        logdensities=jax.vmap(target.logdensity)(means),
        covariances=jnp.asarray(covariances, jnp.float64),
        basin_counts=jnp.ones(k, jnp.int32),
        num_starts=k,
        num_failed=0,
        failures=None,
        undiscovered_share=0.0,
        num_gradients=0,
        num_densities=0,
    )


@pytest.fixture(scope="module")
def far():
    target = vj.targets.far_pair(0.7)
    modes = modes_of(target, np.broadcast_to(np.eye(2), (2, 2, 2)))
    return target, modes, vj.fit_guide(jax.random.key(0), lambda tree: target.logdensity(tree["x"]), modes, **SMALL)


def test_weights_of_the_far_pair_have_honest_errors(far):
    _, _, (_, report) = far
    assert np.all(report.mode_weight_errors < 0.01)
    assert np.all(np.abs(report.mode_weights - [0.7, 0.3]) < 4 * report.mode_weight_errors)
    assert report.expected_acceptance > 0.95
    assert report.component_modes.tolist() == [0, 1, -1]


def test_where_laplace_will_do_no_chains_are_run(far):
    target, modes, (_, report) = far
    assert report.is_laplace
    assert report.num_gradients == 0
    assert np.all(np.isnan(report.step_sizes))
    _, chained = vj.fit_guide(
        jax.random.key(0), lambda tree: target.logdensity(tree["x"]), modes, good_acceptance=1.0, **SMALL
    )
    assert not chained.is_laplace
    assert chained.num_gradients > 0
    assert np.all(chained.step_sizes > 0)


def test_the_acceptance_of_a_bent_mode_is_not_promised_by_few_draws():
    """A ridge along a parabola: a wide Gaussian has few draws on it, to which an envelope would fit too well."""

    def bent(x):
        return -0.5 * x[0] ** 2 / 4 - 0.5 * (x[1] - 0.5 * x[0] ** 2) ** 2 / 0.25

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modes = vj.find_modes(jax.random.key(0), bent, vj.box(jnp.full(2, -5.0), jnp.full(2, 5.0)), num_starts=32)
        guide, report = vj.fit_guide(jax.random.key(1), bent, modes)
    assert not report.is_laplace
    assert np.sum(report.component_modes == 0) > 1
    rng = jax.random.normal(jax.random.key(2), (4000, 2))
    exact = jnp.stack([2 * rng[:, 0], 0.5 * rng[:, 1] + 2 * rng[:, 0] ** 2], axis=1)
    kernel = vj.jump(bent, guide, log_envelope=report.log_envelope)
    _, infos = jax.jit(jax.vmap(kernel.step))(jax.random.split(jax.random.key(3), 4000), jax.vmap(kernel.init)(exact))
    assert float(infos.is_accepted.mean()) > report.expected_acceptance_by_mode[0] - 0.1


def test_the_guide_drives_a_jump_kernel_on_pytrees(far):
    target, modes, (guide, report) = far
    kernel = vj.jump(lambda tree: target.logdensity(tree["x"]), guide, log_envelope=report.log_envelope)
    start = jax.tree.map(lambda leaf: jnp.repeat(leaf[:1], 256, axis=0), modes.positions)
    states, infos = jax.jit(jax.vmap(kernel.step))(
        jax.random.split(jax.random.key(1), 256), jax.vmap(kernel.init)(start)
    )
    assert float(infos.is_accepted.mean()) == pytest.approx(report.expected_acceptance, abs=0.08)
    assert float((states.position["x"][:, 0] < 0).mean()) == pytest.approx(0.3, abs=0.12)


def test_a_mode_of_no_mass_keeps_a_floor(far):
    target, modes, _ = far

    def lopsided(tree):
        return target.logdensity(tree["x"]) - jnp.where(tree["x"][0] < 0, 60.0, 0.0)

    guide, report = vj.fit_guide(jax.random.key(0), lopsided, modes, weight_floor=0.02, **SMALL)
    weights = np.asarray(jax.nn.softmax(guide.log_weights))
    assert report.mode_weights[1] < 1e-8, "not below the tolerance of its iteration"
    assert weights[report.component_modes == 1].sum() > 0.005


def test_student_components_and_no_defence(far):
    target, modes, _ = far
    guide, report = vj.fit_guide(
        jax.random.key(0), lambda tree: target.logdensity(tree["x"]), modes, df=6.0, defensive_weight=0.0, **SMALL
    )
    assert isinstance(guide, vj.StudentTMixture)
    assert guide.num_components == 2
    assert report.expected_acceptance > 0.7


def test_fewer_draws_than_dimensions_is_a_warning_and_no_nan():
    target = vj.targets.high_dimensional_pair(20)
    modes = modes_of(target, np.broadcast_to(np.eye(20), (2, 20, 20)))
    with pytest.warns(UserWarning, match="draws in 20 dimensions"), warnings.catch_warnings():
        guide, _ = vj.fit_guide(
            jax.random.key(0),
            lambda tree: target.logdensity(tree["x"]),
            modes,
            num_draws=16,
            num_chains=8,
            num_warmup=16,
            num_weight_draws=64,
            max_components=1,
            good_acceptance=1.0,
        )
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(guide))


def test_modes_are_those_of_find_modes(far):
    target, _, _ = far
    with pytest.raises(TypeError, match="modes must be what find_modes returns, got list"):
        vj.fit_guide(jax.random.key(0), target.logdensity, [1.0, 2.0])


@pytest.mark.parametrize(("argument", "value"), [("defensive_weight", 1.0), ("weight_floor", -0.1), ("num_tries", 0)])
def test_bad_arguments_are_named(far, argument, value):
    target, modes, _ = far
    with pytest.raises(ValueError, match=argument):
        vj.fit_guide(jax.random.key(0), lambda tree: target.logdensity(tree["x"]), modes, **{argument: value})


def test_a_poor_fit_is_noted_where_jumps_fail_too(far):
    report = far[2][1]
    judged = Judged(*(getattr(report, name) for name in Judged._fields))
    poor = judged._replace(pareto_k=np.array([0.9, 0.9]), expected_acceptance_by_mode=np.array([0.95, 0.4]))
    (note,) = _notes(poor, report.mode_weights, least_weight=0.01)
    assert "Pareto-k is above 0.7 for modes [1]" in note
    assert _notes(poor, report.mode_weights, least_weight=0.4) == ()
    fine = poor._replace(expected_acceptance_by_mode=np.array([0.95, 0.95]))
    assert _notes(fine, report.mode_weights, least_weight=0.01) == ()


def test_the_report_says_what_was_tried_and_what_was_taken(far):
    target, modes, (_, report) = far
    (tried,) = report.tried
    assert tried.name == "Laplace's approximation"
    assert tried.num_components == 3
    assert report.description.startswith("Guide: Laplace's approximation (3 components); at least 0.9")
    _, chained = vj.fit_guide(
        jax.random.key(0), lambda tree: target.logdensity(tree["x"]), modes, good_acceptance=1.0, **SMALL
    )
    names = [tried.name for tried in chained.tried]
    assert names == ["Laplace's approximation", "components fitted to chains", "the same with more halos"]
    assert "Tried before: Laplace's approximation 0.9" in chained.description
    _, short = vj.fit_guide(
        jax.random.key(0),
        lambda tree: target.logdensity(tree["x"]),
        modes,
        good_acceptance=1.0,
        refinements=("growth",),
        **SMALL,
    )
    assert short.num_gradients == 0
    assert len(short.tried) == 2


@pytest.mark.parametrize("refinements", ["chains", ("chains", "flow")])
def test_descriptions_that_there_are_not_are_named(refinements):
    with pytest.raises(ValueError, match="refinements must be a tuple of some of draws, product, chains"):
        vj.FitOptions(refinements=refinements)
