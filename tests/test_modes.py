"""Mode finding: every mode of known targets, the merging rule, and inputs that have no modes."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import compiled_during

from vhmc_jax import targets
from vhmc_jax.search import merge
from vhmc_jax.search.modes import Failures, find_modes, narrow_starts_note, search_modes
from vhmc_jax.search.region import _draw, box, draw

pytestmark = pytest.mark.slow

KEY = jax.random.key(0)


def cube(dim, low, high, dtype=jnp.float64):
    return box(jnp.full(dim, low, dtype), jnp.full(dim, high, dtype))


TARGETS = {
    "far_pair": (targets.far_pair(0.5), -10.0, 10.0),
    "near_pair": (targets.near_pair(), -10.0, 10.0),
    "pair_2": (targets.high_dimensional_pair(2), -3.0, 3.0),
    "pair_32": (targets.high_dimensional_pair(32), -3.0, 3.0),
    "pair_256": (targets.high_dimensional_pair(256), -3.0, 3.0),
    "three_modes": (targets.three_modes(), -30.0, 30.0),
    "narrow_pair": (targets.narrow_pair(), -10.0, 10.0),
    "unequal_pair": (targets.unequal_pair(), -10.0, 10.0),
    "gmm40": (targets.gmm40(), -50.0, 50.0),
    "twenty_modes": (targets.twenty_modes(), 0.0, 10.0),
}


@pytest.mark.parametrize("name", TARGETS)
def test_every_mode_is_found_with_the_defaults(name):
    target, low, high = TARGETS[name]
    modes = find_modes(KEY, target.logdensity, cube(target.dim, low, high))
    owners = jax.jit(jax.vmap(target.mode_responsibilities))(modes.positions).argmax(axis=1)
    assert sorted(owners.tolist()) == list(range(len(target.mode_weights)))
    assert modes.num_failed == 0
    assert modes.undiscovered_share == 0
    assert modes.basin_counts.sum() == modes.num_starts
    assert modes.num_gradients < 12 * modes.num_starts
    assert np.all(np.diff(modes.logdensities) <= 0)
    np.testing.assert_allclose(modes.logdensities, jax.vmap(target.logdensity)(modes.positions), rtol=1e-12)

    def shape(x):
        return jax.grad(target.logdensity)(x), -jax.hessian(target.logdensity)(x)

    gradients, hessians = jax.lax.map(jax.jit(shape), modes.positions)
    distances = np.sqrt(np.einsum("ki,kij,kj->k", gradients, modes.covariances, gradients))
    assert np.max(distances) <= 1e-3
    products = np.asarray(hessians) @ np.asarray(modes.covariances)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(target.dim), products.shape), atol=1e-6)


def test_positions_are_pytrees():
    def logdensity(position):
        return -0.5 * jnp.sum((position["b"] - 2.0) ** 2) - 0.5 * (position["a"] + 3.0) ** 2 / 4.0

    start = {"a": jnp.zeros(5), "b": jnp.arange(10.0).reshape(5, 2)}
    modes = find_modes(KEY, logdensity, start)
    np.testing.assert_allclose(modes.positions["a"], [-3.0], atol=1e-2)
    np.testing.assert_allclose(modes.positions["b"], [[2.0, 2.0]], atol=1e-2)
    np.testing.assert_allclose(modes.covariances[0], np.diag([4.0, 1.0, 1.0]), atol=1e-9)
    region = box({"a": jnp.array(-5.0), "b": jnp.full(2, -5.0)}, {"a": jnp.array(5.0), "b": jnp.full(2, 5.0)})
    again = find_modes(KEY, logdensity, region, num_starts=5)
    np.testing.assert_allclose(again.positions["b"], [[2.0, 2.0]], atol=1e-2)


def test_single_precision_is_kept():
    target = targets.twenty_modes()
    modes = find_modes(KEY, target.logdensity, cube(2, 0.0, 10.0, jnp.float32))
    leaves = modes.positions, modes.logdensities, modes.covariances
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    assert len(modes.logdensities) == 20


def test_second_call_compiles_nothing_and_progress_is_shown(capsys):
    def logdensity(x):
        return -0.5 * jnp.sum(x**2)

    region = cube(2, -1.0, 1.0)
    find_modes(KEY, logdensity, region, num_starts=700)
    options = {"num_starts": 700, "learning_rate": 0.1, "max_steps": 50}
    modes, num_compiled = compiled_during(find_modes, jax.random.key(1), logdensity, region, **options)
    assert num_compiled == 0
    assert modes.num_starts == modes.basin_counts.sum() == 700
    assert capsys.readouterr().err == ""
    find_modes(KEY, logdensity, region, num_starts=700, progress=True)
    assert "700/700" in capsys.readouterr().err


def log_mixture(*parts):
    """Log density of Gaussians on the line, each (weight, mean, sd)."""

    def logdensity(x):
        logs = [jnp.log(w / s) - 0.5 * ((x[0] - m) / s) ** 2 for w, m, s in parts]
        return jax.nn.logsumexp(jnp.stack(logs))

    return logdensity


def grid(low, high, num):
    return jnp.linspace(low, high, num)[:, None]


def test_barrier_separates_a_narrow_mode_within_a_wide_one(monkeypatch):
    # The narrow mode stands a third of a standard deviation beside the top of the wide one.
    logdensity = log_mixture((0.999, 0.0, 3.0), (0.001, 1.0, 0.01))
    starts = jnp.concatenate([grid(-6.0, 0.5, 20), grid(0.99, 1.01, 5)])
    modes = find_modes(KEY, logdensity, starts, learning_rate=1e-3)
    np.testing.assert_allclose(np.sort(modes.positions[:, 0]), [0.0, 1.0], atol=2e-3)
    share = 0.1 / (0.1 + 0.333 * np.exp(-1 / 18))  # of the narrow component in the density at its top
    np.testing.assert_allclose(np.sort(modes.covariances[:, 0, 0]), [1e-4 / share, 9.0], rtol=1e-2)
    # Power: without the search for a barrier the two are one.
    monkeypatch.setattr(merge, "BARRIER", np.inf)
    assert len(find_modes(KEY, logdensity, starts, learning_rate=1e-3).logdensities) == 1


def test_curvature_separates_modes_that_are_close_in_space(monkeypatch):
    logdensity = log_mixture((0.4, 0.0, 0.01), (0.4, 0.1, 0.01), (0.2, 10.0, 3.0))
    starts = jnp.concatenate([grid(-0.05, 0.15, 20), grid(5.0, 15.0, 20)])
    modes = find_modes(KEY, logdensity, starts, learning_rate=1e-3)
    np.testing.assert_allclose(np.sort(modes.positions[:, 0]), [0.0, 0.1, 10.0], atol=1e-2)

    # Power: by Euclidean distance the two narrow ones are one.
    def euclidean(self, points):
        return np.sum((points - self.position) ** 2, axis=-1)

    monkeypatch.setattr(merge.FoundMode, "squared_distances", euclidean)
    assert len(find_modes(KEY, logdensity, starts, learning_rate=1e-3).logdensities) == 2


@pytest.mark.filterwarnings("ignore:.*Hessian that is singular")
@pytest.mark.parametrize("is_straight", [True, False])
def test_ends_along_a_ridge_are_one_mode(is_straight):
    def straight(x):
        return -0.5 * (x[0] / 100.0) ** 2 - 0.5 * ((x[1] - x[0]) / 0.1) ** 2

    def curved(x):
        return -(100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2) / 20.0

    logdensity, size = (straight, 100.0) if is_straight else (curved, 2.0)
    modes = find_modes(KEY, logdensity, cube(2, -size, size), num_starts=64)
    assert modes.basin_counts.tolist() == [64]
    if is_straight:
        np.testing.assert_allclose(modes.covariances[0], [[1e4, 1e4], [1e4, 1e4 + 0.01]], rtol=1e-6)


def test_share_not_discovered_is_that_of_modes_seen_once():
    starts = jnp.array([[-21.0], [-20.5], [-19.0], [1.0], [-1.0], [0.5], [21.0]])
    modes = find_modes(KEY, targets.three_modes().logdensity, starts, learning_rate=0.01)
    assert sorted(modes.basin_counts.tolist()) == [1, 3, 3]
    assert modes.undiscovered_share == pytest.approx(1 / 7)


def gaussian_beyond(edge):
    return lambda x: jnp.where(x[0] > edge, -0.5 * jnp.sum((x - edge - 1.0) ** 2), -jnp.inf)


NO_MODES = {
    "unbounded_far_out": (lambda x: x @ x, "16 ran off to infinity"),
    "unbounded_inside": (lambda x: -2.0 * jnp.log(jnp.linalg.norm(x)), "16 did not reach a small gradient"),
    "rises_for_ever": (lambda x: x[0], "16 ran off to infinity"),
    "constant": (lambda x: 0.0 * x[0], "16 ended where the density is flat"),
    "improper_along_a_ridge": (lambda x: -0.5 * x[0] ** 2, "16 ended where the density is flat"),
    "outside": (gaussian_beyond(10.0), "16 began where the density is zero or not a number"),
    "not_a_number": (lambda x: jnp.nan * x[0], "16 began where the density is zero or not a number"),
    "edge": (lambda x: jnp.where(x[0] > -4.0, -x[0], -jnp.inf) - x[1] ** 2, "16 did not reach a small"),
}


@pytest.mark.parametrize("name", NO_MODES)
def test_density_without_a_mode_is_an_error_that_says_why(name):
    logdensity, message = NO_MODES[name]
    with pytest.raises(ValueError, match=f"no mode found: of 16 starts.*{message}.*proper density"):
        find_modes(KEY, logdensity, cube(2, -3.0, 3.0), num_starts=16)


def test_failed_starts_are_counted_by_reason():
    half = find_modes(KEY, gaussian_beyond(0.0), cube(2, -3.0, 3.0), num_starts=64)
    assert half.failures.outside == half.num_failed > 10
    assert half.basin_counts.tolist() == [64 - half.num_failed]
    pair = targets.far_pair(0.5)
    modes = find_modes(KEY, pair.logdensity, jnp.array([[0.0, 0.0], [3.0, -2.0], [jnp.nan, 0.0]]))
    assert modes.failures == Failures(outside=1, saddle=1)
    assert modes.basin_counts.tolist() == [1]


FLAT_TOPS = {
    "quartic": (lambda x: -jnp.sum(x**4), 0.84),
    "plateau": (lambda x: -jnp.sum(jnp.maximum(jnp.abs(x) - 2.0, 0.0) ** 2), 2.0),
    "kink": (lambda x: -jnp.sum(jnp.abs(x)), 0.5),
}


@pytest.mark.parametrize("name", FLAT_TOPS)
def test_singular_hessian_is_a_warning_and_a_width_from_the_density(name):
    logdensity, width = FLAT_TOPS[name]
    with pytest.warns(UserWarning, match="1 of 1 modes have a Hessian that is singular"):
        modes = find_modes(KEY, logdensity, cube(2, -3.0, 3.0), num_starts=32)
    (note,) = modes.notes
    assert "singular" in note
    widths = np.sqrt(np.diagonal(modes.covariances[0]))
    assert np.all((widths > width / 2) & (widths < 2 * width))


def test_the_search_itself_notes_and_never_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        modes = search_modes(KEY, FLAT_TOPS["quartic"][0], cube(2, -3.0, 3.0), num_starts=32)
    assert len(modes.notes) == 1


def test_narrow_starts_are_noted():
    pair = targets.far_pair(0.5).logdensity
    one = jnp.tile(targets.far_pair(0.5).means[0], (8, 1)) + 0.1 * jax.random.normal(KEY, (8, 2))
    modes = find_modes(KEY, pair, one)
    assert "Give a region that covers more" in narrow_starts_note(one, modes)
    assert narrow_starts_note(100.0 * one, modes) is None
    assert narrow_starts_note(cube(2, -1.0, 1.0), modes) is None
    assert modes.notes == ()


def test_mode_far_outside_the_region_is_found():
    modes = find_modes(KEY, lambda x: -0.5 * jnp.sum((x - 1e4) ** 2), cube(3, -1.0, 1.0), num_starts=4)
    np.testing.assert_allclose(modes.positions, np.full((1, 3), 1e4), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"region": jnp.zeros(())}, ValueError, "leading axis"),
        ({"region": {"a": jnp.zeros((3, 2)), "b": jnp.zeros(2)}}, ValueError, "leading axis"),
        ({"region": jnp.zeros((3, 2), int)}, TypeError, "region.* floating"),
        ({"region": jnp.full((3, 2), jnp.inf)}, ValueError, "region must hold finite starts"),
        ({"region": jnp.zeros((3, 2)), "num_starts": 4}, ValueError, "num_starts .* 3 .* got 4"),
        ({"num_starts": 0}, ValueError, "num_starts must be at least 1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be positive"),
        ({"gradient_tolerance": -1.0}, ValueError, "gradient_tolerance must be positive"),
        ({"max_steps": 0}, ValueError, "max_steps must be at least 1"),
        ({"logdensity_fn": lambda x: x}, ValueError, "logdensity_fn must return one real number"),
        ({"logdensity_fn": None}, TypeError, "logdensity_fn must be a function"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    good = {"logdensity_fn": lambda x: -x @ x, "region": cube(2, -1.0, 1.0)}
    with pytest.raises(error, match=message):
        find_modes(KEY, **(good | arguments))


def test_box_is_checked():
    with pytest.raises(ValueError, match="low must be below high"):
        box(jnp.zeros(2), jnp.array([1.0, 0.0]))
    with pytest.raises(ValueError, match="low and high must be alike"):
        box(jnp.zeros(2), jnp.ones(3))
    with pytest.raises(TypeError, match="low must be of a floating dtype"):
        box(jnp.zeros(2, int), jnp.ones(2))
    draws = jax.vmap(cube(2, 3.0, 4.0))(jax.random.split(KEY, 1000))
    assert draws.min() > 3.0
    assert draws.max() < 4.0
    assert np.all(np.abs(draws.mean(axis=0) - 3.5) < 5 / np.sqrt(12 * 1000))


def test_density_of_a_box_is_uniform_and_zero_outside():
    region = box({"a": jnp.zeros(2), "b": jnp.ones(())}, {"a": jnp.full(2, 3.0), "b": jnp.full((), 5.0)})
    inside = jax.vmap(region.log_prob)(jax.vmap(region)(jax.random.split(KEY, 100)))
    np.testing.assert_allclose(inside, -np.log(3.0 * 3.0 * 4.0))
    for outside in (-0.1, 3.1, jnp.nan):
        assert region.log_prob({"a": jnp.array([1.0, outside]), "b": jnp.full((), 2.0)}) == -jnp.inf


def test_a_box_is_an_argument_of_programs():
    traces = []

    @jax.jit
    def sample(region, rng_key):
        traces.append(region)
        return region(rng_key)

    first, second = sample(cube(2, 0.0, 1.0), KEY), sample(cube(2, 1.0, 2.0), KEY)
    assert len(traces) == 1
    np.testing.assert_allclose(second, first + 1.0)


def test_no_warning_where_the_hessian_is_right():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_modes(KEY, targets.skewed().logdensity, cube(2, -3.0, 3.0), num_starts=16)


def test_starts_of_a_box_are_its_own_draws():
    region = box({"a": jnp.zeros(2), "b": jnp.ones(())}, {"a": jnp.full(2, 3.0), "b": jnp.full((), 5.0)})
    numbers = np.arange(9, dtype=np.int32)
    np.testing.assert_allclose(draw(region, KEY, numbers), _draw(region, KEY, numbers), rtol=1e-6)
