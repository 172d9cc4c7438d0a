"""Climbing to the modes: all starts in one compiled loop, by Adam first and by L-BFGS once the top is near.

Each turn of the loop evaluates value and gradient once for each start. A start far from a top moves by Adam,
whose steps do not depend on the scale of the density. Its long first steps also spread the starts more evenly over
narrow and wide modes. After the density has bent down along several steps, L-BFGS takes over. The steps of Adam
have filled its memory by then. A start that is done waits for the others.

Notation: f log density, g its gradient, H⁻¹ the estimate of L-BFGS of the inverse of the negative Hessian. The
decrement gᵀH⁻¹g is the squared distance to the top in standard deviations.

References
----------
.. [1] D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity
from vhmc_jax.moves.folded import into_domain, whole_of
from vhmc_jax.programs import SOON_COMPILED, program
from vhmc_jax.search.lbfgs import Memory, empty_memory, has_pairs, precondition, remember

CLIMBING, ARRIVED, OUTSIDE, ESCAPED, UNCONVERGED = range(5)
"""What became of a start. ``OUTSIDE`` started where the density is zero or not a number."""

ADAM = optax.scale_by_adam()

ARRIVAL = 0.05
"""Distance to the top, in standard deviations, at which a start has arrived. Newton's method does the rest."""

NUM_BENDS = 5
"""Steps in a row along which the density has to bend down before L-BFGS takes over."""

ESCAPE_RADIUS = 1e6
"""Distance from the centre of the starts, in their standard deviations, beyond which a start has run away."""

LAST_RATE = 0.01
"""The learning rate falls along a cosine to this share of the first one."""

SUFFICIENT_RISE = 1e-4
"""Share of the rise gᵀs that the slope promises which a step s of L-BFGS has to achieve (Armijo's condition)."""

SHORTER, LONGER = 0.3, 2.0
"""Factors of the length of a step of L-BFGS: after one that was refused, and after one that met no curvature."""

SLOWER = 0.5
"""Factor of the rate of Adam after a step that was refused: its trial was not finite."""

SHORTEST = 1e-8
"""A start is stuck where the factor of its steps falls below this."""

ROUNDING = 10
"""Rounding errors of the dtype, relative to the numbers at hand, below which a difference means nothing."""


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


class _Point(NamedTuple):
    """A position with value and gradient there, in coordinates that are scaled by the spread of the starts."""

    position: Array
    value: Array
    gradient: Array


class _Pace(NamedTuple):
    """What decides about the next step: its method, and the factors by which steps are shortened.

    ``rate`` is Adam's and ``length`` that of L-BFGS. ``num_bends`` counts the last steps in a row along which the
    density bent down. Where ``is_near``, L-BFGS has taken over for good.
    """

    rate: Array
    length: Array
    num_bends: Array
    is_near: Array


class _Lane(NamedTuple):
    """One start on its way: the best it has, the trial that is evaluated next, and what it has learnt."""

    point: _Point
    trial: Array
    memory: Memory
    adam_state: optax.OptState
    pace: _Pace
    status: Array
    num_gradients: Array


class _Verdict(NamedTuple):
    """What the trial told: whether it is taken, whether the density bent down on the way, whether it is infinite."""

    is_accepted: Array
    bends: Array
    is_unbounded: Array


class _Schedule(NamedTuple):
    """The number of the turn, and the settings that all starts share."""

    turn: Array
    learning_rate: Array
    max_steps: Array

    @property
    def decay(self) -> Array:
        """Share of the learning rate that is left in this turn."""
        dtype = self.learning_rate.dtype
        fraction = jnp.minimum(1.0, self.turn.astype(dtype) / self.max_steps.astype(dtype))
        return LAST_RATE + 0.5 * (1 - LAST_RATE) * (1.0 + jnp.cos(jnp.pi * fraction))


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
        First step of Adam in those units. It falls to ``LAST_RATE`` of that along a cosine.
    max_steps
        Most steps of Adam, and again of L-BFGS.

    Returns
    -------
    The end points. Of a folded density they are those of the whole, each replaced by its image in the domain.
    """
    whole = whole_of(density)

    def evaluate(u: Array) -> _Point:
        return _Point(u, *jax.value_and_grad(lambda v: whole.value(centre + scale * v))(u))

    def advance(lane: _Lane, schedule: _Schedule, decay: Array) -> _Lane:
        trial = evaluate(lane.trial)
        verdict = _judge(lane, trial)
        point = _select(verdict.is_accepted, trial, lane.point)
        memory = _learn(lane, trial, point, verdict, schedule)
        newton = precondition(memory, point.gradient)
        decrement = point.gradient @ newton
        pace = _adjust(lane.pace, verdict, decrement, schedule, dim=starts.shape[1])
        direction, adam_state = _adam_direction(point.gradient, lane.adam_state)
        step = jnp.where(pace.is_near, pace.length * newton, decay * pace.rate * direction)
        status = _status(point, memory, pace, verdict, decrement, schedule)
        moved = _Lane(point, point.position + step, memory, adam_state, pace, status, lane.num_gradients + 1)
        return _select(lane.status == CLIMBING, moved, lane)

    def body(carry: tuple[Array, _Lane]) -> tuple[Array, _Lane]:
        turn, lanes = carry
        schedule = _Schedule(turn, learning_rate, max_steps)
        return turn + 1, jax.vmap(advance, in_axes=(0, None, None))(lanes, schedule, schedule.decay)

    def anyone_climbs(carry: tuple[Array, _Lane]) -> Array:
        return jnp.any(carry[1].status == CLIMBING)

    lanes = jax.vmap(lambda x: _first_lane((x - centre) / scale, learning_rate))(starts)
    _, lanes = jax.lax.while_loop(anyone_climbs, body, (jnp.zeros((), jnp.int32), lanes))
    ends = centre + scale * lanes.point.position
    positions, values = jax.vmap(functools.partial(into_domain, density))(ends, lanes.point.value)
    return Ascent(positions, values, lanes.status, lanes.num_gradients)


def _first_lane(u: Array, learning_rate: Array) -> _Lane:
    """Nothing is known yet: the trial of the first turn is the start itself."""
    dtype = u.dtype
    return _Lane(
        point=_Point(u, jnp.full((), -jnp.inf, dtype), jnp.zeros_like(u)),
        trial=u,
        memory=empty_memory(u.shape[0], dtype),
        adam_state=ADAM.init(u),
        pace=_Pace(learning_rate, jnp.ones((), dtype), jnp.zeros((), jnp.int32), jnp.zeros((), bool)),
        status=jnp.int32(CLIMBING),
        num_gradients=jnp.zeros((), jnp.int32),
    )


def _judge(lane: _Lane, trial: _Point) -> _Verdict:
    """Far out any finite trial is taken. Near the top it has to climb."""
    noise = ROUNDING * jnp.finfo(trial.position.dtype).eps
    step, fall = _pair(lane.point, trial)
    bends = step @ fall > noise * jnp.linalg.norm(step) * jnp.linalg.norm(fall)
    slack = noise * jnp.maximum(1.0, jnp.abs(lane.point.value))
    climbs = trial.value >= lane.point.value + SUFFICIENT_RISE * (lane.point.gradient @ step) - slack
    is_finite = jnp.isfinite(trial.value) & jnp.all(jnp.isfinite(trial.gradient))
    return _Verdict(is_finite & (climbs | ~lane.pace.is_near), bends, trial.value == jnp.inf)


def _learn(lane: _Lane, trial: _Point, point: _Point, verdict: _Verdict, schedule: _Schedule) -> Memory:
    """Remember an accepted step along which the density bent down. The first turn sets the scale alone."""
    remembered = remember(lane.memory, *_pair(lane.point, trial))
    memory = _select(verdict.is_accepted & verdict.bends, remembered, lane.memory)
    # A gradient of zero is no division by zero: the start has arrived, and the scale is not used.
    first_scale = schedule.learning_rate / (jnp.linalg.norm(point.gradient) + 1e-30)
    return memory._replace(scale=jnp.where(schedule.turn == 0, first_scale, memory.scale))


def _adjust(pace: _Pace, verdict: _Verdict, decrement: Array, schedule: _Schedule, dim: int) -> _Pace:
    """A refused step is followed by a shorter one, a step of L-BFGS that met no curvature by a longer one."""
    num_bends = jnp.where(verdict.is_accepted & verdict.bends, pace.num_bends + 1, 0)
    is_top_near = (num_bends >= NUM_BENDS) | ((num_bends > 0) & (decrement <= dim))
    grown = jnp.where(verdict.bends | ~pace.is_near, jnp.ones_like(pace.length), LONGER * pace.length)
    return _Pace(
        rate=jnp.where(verdict.is_accepted, pace.rate, SLOWER * pace.rate),
        length=jnp.where(verdict.is_accepted, grown, SHORTER * pace.length),
        num_bends=num_bends,
        is_near=pace.is_near | is_top_near | (schedule.turn >= schedule.max_steps),
    )


def _status(
    point: _Point, memory: Memory, pace: _Pace, verdict: _Verdict, decrement: Array, schedule: _Schedule
) -> Array:
    """Whether the start goes on, and if not, why. The first reason that holds counts."""
    is_outside = (schedule.turn == 0) & ~verdict.is_accepted
    is_flat = ~jnp.any(point.gradient)
    has_arrived = pace.is_near & has_pairs(memory) & (decrement <= ARRIVAL**2) | is_flat
    has_escaped = verdict.is_unbounded | (jnp.max(jnp.abs(point.position)) > ESCAPE_RADIUS)
    is_stuck = (schedule.turn >= 2 * schedule.max_steps) | (pace.length < SHORTEST) | (pace.rate < SHORTEST)
    reasons = [is_outside, has_arrived, has_escaped, is_stuck]
    return jnp.select(reasons, [OUTSIDE, ARRIVED, ESCAPED, UNCONVERGED], CLIMBING)


def _pair(point: _Point, trial: _Point) -> tuple[Array, Array]:
    """The step to the trial, and the fall of the gradient along it."""
    return trial.position - point.position, point.gradient - trial.gradient


def _select(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _adam_direction(gradient: Array, state: optax.OptState) -> tuple[Array, optax.OptState]:
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
        return ADAM.update(gradient, state)
