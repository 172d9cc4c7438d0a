"""Climbing to the modes: every start in one compiled loop, Adam first and L-BFGS once the top is near.

Each turn of the loop evaluates value and gradient once for each start. A start far out moves by Adam, which
needs no step length of the density's own; its long first steps also spread the starts more evenly over
narrow and wide modes. Once the density has bent down along several steps it goes on by L-BFGS, whose memory
the steps of Adam have filled already. A start that is done waits.

Notation: f log density, g its gradient, (s, y) a step and the fall of the gradient along it, H⁻¹ an estimate
of the inverse of the negative Hessian; gᵀH⁻¹g, the squared distance to the top in standard deviations, is
called the decrement.

References
----------
.. [1] D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
.. [2] J. Nocedal, Updating quasi-Newton matrices with limited storage, Mathematics of Computation 35, 1980.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity
from vhmc_jax.programs import SOON_COMPILED, program

CLIMBING, ARRIVED, OUTSIDE, ESCAPED, UNCONVERGED = range(5)
"""What became of a start: ``OUTSIDE`` started where the density is zero or not a number."""

ADAM = optax.scale_by_adam()

ARRIVAL = 0.05
"""Distance to the top, in standard deviations, at which a start has arrived."""

MEMORY = 8
"""Pairs that L-BFGS remembers."""

NUM_BENDS = 5
"""Steps in a row along which the density has to bend down before L-BFGS takes over."""

ESCAPE_RADIUS = 1e6
"""In standard deviations of the starts: beyond, a start has run away."""


class Ascent(NamedTuple):
    """Where the starts ended.

    Attributes
    ----------
    positions
        End points, shape (n, d).
    logdensities
        Log densities there.
    statuses
        ``ARRIVED``, ``OUTSIDE``, ``ESCAPED`` or ``UNCONVERGED`` for each.
    num_gradients
        Evaluations of value and gradient that each start took.
    """

    positions: Array
    logdensities: Array
    statuses: Array
    num_gradients: Array


class _Memory(NamedTuple):
    """The last few steps and falls of the gradient, newest last; an empty row has weight zero."""

    steps: Array
    falls: Array
    weights: Array
    scale: Array


class _Lane(NamedTuple):
    """One start on its way, in coordinates that are scaled by the spread of the starts."""

    position: Array
    value: Array
    gradient: Array
    trial: Array
    memory: _Memory
    adam_state: optax.OptState
    rate: Array
    step_length: Array
    num_bends: Array
    is_near: Array
    status: Array
    num_gradients: Array


@functools.partial(program, options=SOON_COMPILED)
def ascend(
    density: FlatDensity,
    starts: Array,
    centre: Array,
    scale: Array,
    learning_rate: Array,
    max_steps: Array,
) -> Ascent:
    """Climb from every start until the top is within ``ARRIVAL`` standard deviations.

    Parameters
    ----------
    density
        Log density of flat positions.
    starts
        Flat positions, shape (n, d).
    centre, scale
        Mean and spread of the starts, shape (d,): the unit in which the learning rate is measured.
    learning_rate
        First step of Adam in those units; it falls to a hundredth along a cosine.
    max_steps
        Most steps of Adam, and again of L-BFGS.

    Returns
    -------
    The end points.
    """
    dtype, dim = starts.dtype, starts.shape[1]
    noise = 10 * jnp.finfo(dtype).eps

    def value_and_grad(u: Array) -> tuple[Array, Array]:
        return jax.value_and_grad(lambda v: density.value(centre + scale * v))(u)

    def start(x: Array) -> _Lane:
        """Nothing is known yet: the first turn evaluates the start itself."""
        u = (x - centre) / scale
        empty = jnp.zeros((MEMORY, dim), dtype)
        return _Lane(
            position=u, value=jnp.full((), -jnp.inf, dtype), gradient=jnp.zeros_like(u), trial=u,
            memory=_Memory(empty, empty, empty[:, 0], jnp.ones((), dtype)), adam_state=ADAM.init(u),
            rate=learning_rate, step_length=jnp.ones((), dtype), num_bends=jnp.zeros((), jnp.int32),
            is_near=jnp.zeros((), bool), status=jnp.int32(CLIMBING), num_gradients=jnp.zeros((), jnp.int32),
        )  # fmt: skip

    def advance(turn: Array, decay: Array, lane: _Lane) -> _Lane:
        value, gradient = value_and_grad(lane.trial)
        step, fall = lane.trial - lane.position, lane.gradient - gradient
        bends = step @ fall > noise * jnp.linalg.norm(step) * jnp.linalg.norm(fall)
        # Far out any finite trial is taken; near the top it has to climb, or the step is shortened.
        slack = noise * jnp.maximum(1.0, jnp.abs(lane.value))
        climbs = value >= lane.value + 1e-4 * (lane.gradient @ step) - slack
        is_accepted = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient)) & (climbs | ~lane.is_near)
        is_unbounded, is_outside = value == jnp.inf, (turn == 0) & ~is_accepted

        memory = _select(is_accepted & bends, _remember(lane.memory, step, fall), lane.memory)
        u, value, gradient = _select(
            is_accepted, (lane.trial, value, gradient), (lane.position, lane.value, lane.gradient)
        )
        first_scale = learning_rate / (jnp.linalg.norm(gradient) + 1e-30)
        memory = memory._replace(scale=jnp.where(turn == 0, first_scale, memory.scale))
        newton = _precondition(memory, gradient)
        decrement = gradient @ newton
        num_bends = jnp.where(is_accepted & bends, lane.num_bends + 1, 0)
        is_top_near = (num_bends >= NUM_BENDS) | ((num_bends > 0) & (decrement <= dim))
        is_near = lane.is_near | is_top_near | (turn >= max_steps)

        # A step that met no curvature could have been longer; one that was refused, shorter.
        grown = jnp.where(bends | ~lane.is_near, jnp.ones((), dtype), 2.0 * lane.step_length)
        step_length = jnp.where(is_accepted, grown, 0.3 * lane.step_length)
        rate = jnp.where(is_accepted, lane.rate, 0.5 * lane.rate)
        direction, adam_state = _adam_direction(gradient, lane.adam_state)
        trial = u + jnp.where(is_near, step_length * newton, decay * rate * direction)

        is_flat = ~jnp.any(gradient)
        has_arrived = is_near & (memory.weights[-1] > 0) & (decrement <= ARRIVAL**2) | is_flat
        has_escaped = is_unbounded | (jnp.max(jnp.abs(u)) > ESCAPE_RADIUS)
        is_stuck = (turn >= 2 * max_steps) | (step_length < 1e-8) | (rate < 1e-8)
        status = jnp.select(
            [is_outside, has_arrived, has_escaped, is_stuck], [OUTSIDE, ARRIVED, ESCAPED, UNCONVERGED], CLIMBING
        )
        moved = _Lane(
            u, value, gradient, trial, memory, adam_state, rate, step_length, num_bends, is_near, status,
            lane.num_gradients + 1,
        )  # fmt: skip
        return _select(lane.status == CLIMBING, moved, lane)

    def body(carry: tuple[Array, _Lane]) -> tuple[Array, _Lane]:
        turn, lanes = carry
        fraction = jnp.minimum(1.0, turn.astype(dtype) / max_steps.astype(dtype))
        decay = 0.01 + 0.495 * (1.0 + jnp.cos(jnp.pi * fraction))
        return turn + 1, jax.vmap(advance, in_axes=(None, None, 0))(turn, decay, lanes)

    def anyone_climbs(carry: tuple[Array, _Lane]) -> Array:
        return jnp.any(carry[1].status == CLIMBING)

    _, lanes = jax.lax.while_loop(anyone_climbs, body, (jnp.zeros((), jnp.int32), jax.vmap(start)(starts)))
    return Ascent(centre + scale * lanes.position, lanes.value, lanes.status, lanes.num_gradients)


def _select(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _adam_direction(gradient: Array, state: optax.OptState) -> tuple[Array, optax.OptState]:
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
        return ADAM.update(gradient, state)


def _remember(memory: _Memory, step: Array, fall: Array) -> _Memory:
    """Push a pair; its weight is 1/sᵀy, and sᵀy/yᵀy is the scale of H⁻¹."""
    product = step @ fall
    rows = (memory.steps, step), (memory.falls, fall), (memory.weights, 1.0 / product)
    steps, falls, weights = (jnp.concatenate([old[1:], new[None]]) for old, new in rows)
    return _Memory(steps, falls, weights, product / (fall @ fall))


def _precondition(memory: _Memory, gradient: Array) -> Array:
    """H⁻¹g by the two-loop recursion [2]_."""

    def backward(q: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        step, fall, weight = row
        share = weight * (step @ q)
        return q - share * fall, share

    def forward(r: Array, row: tuple[tuple[Array, Array, Array], Array]) -> tuple[Array, None]:
        (step, fall, weight), share = row
        return r + step * (share - weight * (fall @ r)), None

    rows = memory.steps, memory.falls, memory.weights
    q, shares = jax.lax.scan(backward, gradient, rows, reverse=True)
    r, _ = jax.lax.scan(forward, memory.scale * q, (rows, shares))
    return r
