"""The equipotential transformation: known chords, its Jacobian by differentiation, its inverse, and no root at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import TARGETS, every_dtype
from counting import counted

import vhmc_jax as vj
from vhmc_jax import targets
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics import equipotential
from vhmc_jax.dynamics.equipotential import Solver, initial_step, transform, transform_sequence

NEWTON = Solver(max_iterations=10, tolerance=None, name="deflated_newton")
PAPER = Solver(max_iterations=10, tolerance=0.01, name="paper")
NUM = 2000
# On the skewed target iterates may have to come down an exponential, on the mixture lines may hold four roots.
every_target = pytest.mark.parametrize("name", ["skewed", "mixture"])


def flat(logdensity_fn):
    return FlatDensity(logdensity_fn, lambda x: x)


def move(logdensity_fn, x, direction, solver=NEWTON):
    density = flat(logdensity_fn)
    return transform(density, solver, x, density.value(x), direction)


# Gaussians, where one update is exact.


@jax.jit
@jax.vmap
def gaussian_chord(rng_key):
    """A Gaussian's precision, its eigenvalues over some six decades; a point, a direction, f'(0) and f''."""
    keys = jax.random.split(rng_key, 4)
    scales = 10.0 ** jax.random.uniform(keys[3], (5, 1), minval=-1.5, maxval=1.5)
    factor = scales * jax.random.normal(keys[0], (5, 5))
    precision = factor @ factor.T + 1e-3 * jnp.eye(5)
    x, v = (jax.random.normal(key, (5,)) for key in keys[1:3])
    return precision, x, v, v @ precision @ x, v @ precision @ v


CHORDS = gaussian_chord(jax.random.split(jax.random.key(8), NUM))


@every_dtype
@pytest.mark.parametrize("start", [-2.0, -0.5, 0.3, 0.9, 3.0])
def test_one_update_reaches_the_end_of_any_gaussian_chord(start, dtype):
    """From any s₀ ≠ 0, here a multiple of s*, to a few units in the last place."""
    slope, curvature = (value.astype(dtype) for value in CHORDS[3:])
    end = -2 * slope / curvature
    s = start * end
    f, slope_at_s = slope * s + 0.5 * curvature * s**2, slope + curvature * s
    np.testing.assert_allclose(NEWTON.update(s, f, slope_at_s, slope), end, rtol=40 * float(jnp.finfo(dtype).eps))
    # Power: the paper's iteration halves the error, and is not there after one update.
    np.testing.assert_allclose(PAPER.update(s, f, slope_at_s, slope), 0.5 * (s + end), rtol=1e-5)


def moves_on_gaussians(dtype, solver=NEWTON):
    precisions, xs, directions, slopes, curvatures = (value.astype(dtype) for value in CHORDS)

    @jax.jit
    @jax.vmap
    def moves(precision, x, v):
        return move(lambda y: -0.5 * y @ precision @ y, x, v, solver)

    ends = xs - (2 * slopes / curvatures)[:, None] * directions
    return moves(precisions, xs, directions), ends


def blind_start(slope, curvature):
    return jnp.where(slope > 0, -1.0, 1.0).astype(slope.dtype)


@every_dtype
@pytest.mark.parametrize("is_blind", [False, True], ids=["start by curvature", "start at ±1"])
def test_transform_reaches_the_end_of_any_gaussian_chord(monkeypatch, dtype, is_blind):
    """Without an update where the curvature gives the start; else with one on the way there, and one back.

    In single precision a few chords are too shallow for their slopes to be known, and blind starts may be so
    far out that rounding costs another update.
    """
    if is_blind:
        monkeypatch.setattr(equipotential, "initial_step", blind_start)
    found, ends = moves_on_gaussians(dtype)
    moved = np.asarray(found.num_transformed == 1)
    assert moved.mean() == 1.0 if dtype == jnp.float64 else moved.mean() > 0.99
    assert {leaf.dtype for leaf in found[:3]} == {jnp.dtype(dtype)}
    # What rounding makes of s with |s₀| = 1: |s₀|, |s*|, s*² / |s₀| by the deflation, and that of U over f'' |s₀|.
    precisions, xs, directions, slopes, curvatures = (np.asarray(value) for value in CHORDS)
    s, reach = np.abs(2 * slopes / curvatures), np.abs(xs) + np.abs(directions)
    rounding = np.einsum("ni,nij,nj->n", reach, np.abs(precisions), reach) / curvatures
    scale = np.abs(xs).max(axis=1) + np.abs(directions).max(axis=1) * (1 + s + s**2 + rounding)
    errors = np.abs(np.asarray(found.position - ends)).max(axis=1) / scale
    assert errors[moved].max() < 100 * jnp.finfo(dtype).eps
    np.testing.assert_allclose(found.log_jacobian, 0.0, atol=1e4 * float(jnp.finfo(dtype).eps))
    num_updates = np.unique(found.num_iterations[moved] if dtype == jnp.float64 else np.median(found.num_iterations))
    np.testing.assert_array_equal(num_updates, 2 * is_blind)


def test_the_paper_iteration_halves_the_error(monkeypatch):
    """Hence the paper's ten iterations and 0.01; to the precision of the dtype it takes tens of updates."""
    monkeypatch.setattr(equipotential, "initial_step", blind_start)
    coarse, _ = moves_on_gaussians(jnp.float64, PAPER)
    fine, ends = moves_on_gaussians(jnp.float64, Solver(80, 1e-9, "paper"))
    assert 0.5 < np.mean(coarse.num_transformed) < 0.9
    assert np.all(fine.num_transformed == 1)
    assert np.median(fine.num_iterations) > 3 * np.median(coarse.num_iterations) > 0
    np.testing.assert_allclose(fine.position, ends, atol=1e-5)


# Any density.


def chords(name, num=NUM, dtype=jnp.float64):
    return TARGETS[name].sample(jax.random.key(1), num, dtype), jax.random.normal(jax.random.key(2), (num, 2), dtype)


def moves_on(name, solver=NEWTON):
    """A fresh function, so that what a test has replaced is seen."""
    return jax.jit(jax.vmap(lambda x, v: move(TARGETS[name].logdensity, x, v, solver)))


@every_target
def test_log_jacobian_is_that_of_the_map(name):
    logdensity_fn, tight = TARGETS[name].logdensity, Solver(max_iterations=30, tolerance=1e-13, name="deflated_newton")

    def end_of_chord(x, v):
        """The map θ → θ*, with one update more: the derivative of an iterate is only as good as the iterate before."""
        s = v @ (move(logdensity_fn, x, v, tight).position - x) / (v @ v)
        energy, slope = jax.jvp(lambda s: -logdensity_fn(x + s * v), (s,), (jnp.ones_like(s),))
        return x + NEWTON.update(s, energy + logdensity_fn(x), slope, slope) * v

    xs, directions = chords(name, 300)
    end = moves_on(name, tight)(xs, directions)
    moved = np.asarray(end.num_transformed == 1)
    jacobians = jax.jit(jax.vmap(jax.jacfwd(end_of_chord)))(xs, directions)
    log_dets = np.linalg.slogdet(jacobians[moved])[1]
    np.testing.assert_allclose(end.log_jacobian[moved], log_dets, atol=1e-6)
    assert moved.mean() > 0.85
    assert np.sum(np.abs(log_dets) > 0.1) > 30, "factors of one would show nothing"


@every_target
def test_every_move_is_undone_by_the_next(name):
    """An involution, also where a line has other points of the same energy; what cannot be undone is not done."""
    xs, directions = chords(name)
    moves = moves_on(name)
    there = moves(xs, directions)
    back = moves(there.position, directions)
    moved = np.asarray(there.num_transformed == 1)
    assert 0.85 < moved.mean() < 1.0
    np.testing.assert_array_equal(back.num_transformed, there.num_transformed)
    np.testing.assert_allclose(back.position, xs, atol=1e-7)
    np.testing.assert_allclose(back.log_jacobian, -there.log_jacobian, atol=1e-5)
    np.testing.assert_array_equal(there.position[~moved], xs[~moved])
    np.testing.assert_array_equal(there.log_jacobian[~moved], 0.0)
    logdensities = jax.vmap(jax.vmap(TARGETS[name].logdensity))(jnp.stack([xs, there.position]))
    np.testing.assert_allclose(logdensities[1], logdensities[0], atol=1e-8)
    np.testing.assert_allclose(there.logdensity, logdensities[1], rtol=1e-13)


def believe(solver, along_line, is_root, origin, energy, slope, s0, known):
    """The way back without the check: taken for granted."""
    return equipotential.Root(known.s, known.energy, known.slope, jnp.bool_(True), jnp.int32(0))


def test_without_the_check_some_moves_are_not_undone(monkeypatch):
    monkeypatch.setattr(equipotential, "_solve_back", believe)
    xs, directions = chords("mixture")
    moves = moves_on("mixture")
    there = moves(xs, directions)
    back = moves(there.position, directions)
    assert np.mean(np.abs(back.position - xs).max(axis=1) > 1e-2) > 0.01


@pytest.mark.parametrize("scale", [1e-3, -1.0, 50.0])
def test_length_and_sign_of_the_direction_do_not_matter(scale):
    xs, directions = chords("mixture", 100)
    moves = moves_on("mixture")
    end, scaled = moves(xs, directions), moves(xs, scale * directions)
    np.testing.assert_allclose(scaled.position, end.position, rtol=1e-7)
    np.testing.assert_allclose(scaled.log_jacobian, end.log_jacobian, atol=1e-6)


def test_sequence_adds_up():
    x, directions = jnp.array([0.8, -0.2]), chords("skewed", 4)[1]
    density = flat(TARGETS["skewed"].logdensity)
    sequence = jax.jit(lambda: transform_sequence(density, NEWTON, x, density.value(x), directions))()
    moves, sums = moves_on("skewed"), np.zeros(4)
    for direction in directions:
        one = jax.tree.map(lambda leaf: leaf[0], moves(x[None], direction[None]))
        x, sums = one.position, sums + np.array([float(value) for value in one[2:]])
    np.testing.assert_allclose(sequence.position, x, rtol=1e-8)
    np.testing.assert_allclose([float(value) for value in sequence[2:]], sums, atol=1e-6)
    assert sequence.num_transformed == 4


def test_evaluations_are_counted():
    """Each call of the density is one evaluation; the two calls with a second derivative count as two each."""
    calls, logdensity_fn = counted(TARGETS["mixture"].logdensity)
    density = flat(logdensity_fn)
    moves = jax.jit(lambda x, v: transform(density, NEWTON, x, TARGETS["mixture"].logdensity(x), v))
    counts = set()
    for x, direction in zip(*chords("mixture", 10), strict=True):
        before = calls()
        end = moves(x, direction)
        assert calls() - before + 2 == end.num_evaluations
        counts.add(int(end.num_evaluations))
    assert len(counts) > 2, "the same number each time would show little"


def test_start_by_curvature():
    slopes = jnp.array([2.0, -2.0, 2.0, 0.0, 2.0, jnp.inf, jnp.nan])
    curvatures = jnp.array([4.0, 4.0, -4.0, 4.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(initial_step(slopes, curvatures), [-1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0])


@pytest.mark.parametrize("beyond", [-jnp.inf, jnp.nan, jnp.inf], ids=["-inf", "NaN", "inf"])
def test_an_iterate_beyond_a_wall_comes_half_way_back(beyond):
    """From −2.5 the start by curvature is at 20, beyond the wall at 3; the other end of the chord is before it."""

    def walled(x):
        return jnp.where(x[0] > 3.0, beyond, x[0] - jnp.exp(x[0]))

    end = move(walled, jnp.array([-2.5]), jnp.ones(1))
    assert end.num_transformed == 1
    assert 1.0 < end.position[0] < 2.0
    np.testing.assert_allclose(walled(end.position), walled(jnp.array([-2.5])), rtol=1e-9)


ROOTLESS = {
    "flat": (lambda x: 0.0 * jnp.sum(x), [0.4, 1.0]),
    "constant slope": (lambda x: jnp.sum(x), [0.4, 1.0]),
    "never comes back up": (lambda x: -jnp.sum(jnp.exp(x)), [0.4, 1.0]),
    "flattens out": (lambda x: -jnp.tanh(x[0]) - jnp.tanh(x[1]), [0.4, 1.0]),
    "zero beyond a wall": (lambda x: jnp.where(x[0] < 0.0, -jnp.inf, -0.5 * x @ x), [0.4, 1.0]),
    "NaN beyond a wall": (lambda x: jnp.where(x[0] < 0.0, jnp.nan, -0.5 * x @ x), [0.4, 1.0]),
    "infinite beyond a wall": (lambda x: jnp.where(x[0] < 0.0, jnp.inf, -0.5 * x @ x), [0.4, 1.0]),
    "on the mode": (lambda x: -0.5 * x @ x, [0.0, 0.0]),
    "infinite gradient": (lambda x: -jnp.sqrt(x[0]), [0.0, 1.0]),
    "gradient of NaN": (lambda x: -jnp.linalg.norm(x), [0.0, 0.0]),
    "overflow": (lambda x: -jnp.sum(jnp.exp(x**2)), [30.0, 1.0]),
}


@pytest.mark.parametrize("solver", [NEWTON, PAPER], ids=["newton", "paper"])
@every_dtype
def test_without_a_root_nothing_moves(solver, dtype):
    """The identity with log-Jacobian 0, and reported as such."""

    @jax.jit
    def transform_one(which, x):
        def logdensity_fn(y):
            return jax.lax.switch(which, [function for function, _ in ROOTLESS.values()], y)

        return move(logdensity_fn, x, jnp.ones(2, dtype), solver), logdensity_fn(x)

    for which, (name, (_, point)) in enumerate(ROOTLESS.items()):
        x = jnp.array(point, dtype)
        end, logdensity = transform_one(which, x)
        np.testing.assert_array_equal(end.position, x, err_msg=name)
        np.testing.assert_array_equal(end.logdensity, logdensity, err_msg=name)
        assert (end.log_jacobian, end.num_transformed) == (0.0, 0), name
        assert end.num_iterations <= 2 * solver.max_iterations, name


# The kernel.


@pytest.mark.slow
@every_dtype
def test_always_accepted_on_a_gaussian(dtype):
    """In single precision as well, for these draws: a transformation whose slopes are lost is the identity."""
    target = targets.correlated_gaussian()
    kernel = vj.equipotential(target.logdensity, num_transformations=3)
    states = jax.vmap(kernel.init)(target.sample(jax.random.key(0), 20_000, dtype))
    _, infos = jax.jit(jax.vmap(kernel.step))(jax.random.split(jax.random.key(1), 20_000), states)
    assert np.all(infos.is_accepted)
    assert np.min(infos.acceptance_rate) > (1 - 1e-8 if dtype == jnp.float64 else 0.99)
    assert np.mean(infos.num_transformed) > (2.999 if dtype == jnp.float64 else 2.95)


def test_metric_is_the_covariance_of_the_directions():
    """A direction with no extent in a coordinate leaves it alone."""
    kernel = vj.equipotential(TARGETS["skewed"].logdensity, direction_metric=[1.0, 1e-20])
    state, info = kernel.step(jax.random.key(1), kernel.init(jnp.array([0.8, -0.2])))
    assert info.num_transformed == 1
    assert abs(state.position[0] - 0.8) > 0.1
    np.testing.assert_allclose(state.position[1], -0.2, atol=1e-8)


def test_evaluations_of_a_step_are_counted():
    calls, logdensity_fn = counted(TARGETS["skewed"].logdensity)
    kernel = vj.equipotential(logdensity_fn, num_transformations=3)
    state = kernel.init(jnp.array([0.8, -0.2]))
    before = calls()
    _, info = jax.jit(kernel.step)(jax.random.key(1), state)
    assert calls() - before == info.num_gradients - 2 * 3
    assert info.num_densities == 0


@pytest.mark.parametrize("factory", ["equipotential", "lhmc_et"])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_iterations": 0}, ValueError, "max_iterations must be at least 1, got 0"),
        ({"max_iterations": 2.5}, TypeError, "max_iterations must be an integer, got float"),
        ({"num_transformations": 0}, ValueError, "num_transformations must be at least 1, got 0"),
        ({"solver": "newton"}, ValueError, r"solver must be one of \('deflated_newton', 'paper'\), got 'newton'"),
        ({"tolerance": 0.0}, ValueError, "tolerance must be a number between 0 and 1, or None .* got 0.0"),
        ({"tolerance": "tight"}, ValueError, "tolerance must be a number between 0 and 1, or None .* got 'tight'"),
        ({"direction_metric": np.ones((2, 3))}, ValueError, r"direction_metric must be .* got shape \(2, 3\)"),
        ({"direction_metric": [1.0, -1.0]}, ValueError, "direction_metric must be positive, got"),
        ({"direction_metric": [[1.0, 2.0], [2.0, 1.0]]}, ValueError, "direction_metric must be positive definite"),
        ({"direction_metric": [1.0, np.nan]}, ValueError, "direction_metric must be finite"),
        ({"direction_metric": np.ones(3)}, ValueError, r"direction_metric must be .* length 2 .* got shape \(3,\)"),
    ],
)
def test_bad_input(factory, arguments, error, message):
    if factory == "lhmc_et":
        arguments = {"step_size": 0.1, "num_integration_steps": 3} | arguments
    with pytest.raises(error, match=message):
        getattr(vj, factory)(TARGETS["skewed"].logdensity, **arguments).init(jnp.zeros(2))
