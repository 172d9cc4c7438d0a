"""The moves of a population: Hamiltonian Monte Carlo on the tempered density, all particles in one program.

Notation: as in ``search.population``; π_t ∝ r^{1−t} π^t.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from vhmc_jax import random
from vhmc_jax.base import Array, State
from vhmc_jax.density import FlatDensity
from vhmc_jax.kernels.hmc import hmc
from vhmc_jax.linalg import shrink
from vhmc_jax.programs import SOON_COMPILED, program
from vhmc_jax.runner.devices import CHAINS, EVERYWHERE

NUM_LEAPFROG_STEPS = 3
"""Of one move. Particles have step sizes of their own, so their trajectories differ in length."""

WANTED_ACCEPTANCE, GAIN = 0.75, 2.0
"""After a move the logarithm of a particle's step size changes by the gain times what its acceptance is above this. A
stage has two moves, and a valley asks for a third of the step size from one stage to the next: with a gain of 0.6 fewer
than 5 % of the moves along Rosenbrock's were accepted in the middle stages, with 2 it is half of them. With a change of
all step sizes alike, after each stage, they were a stage behind, and three of ten fits missed the ends."""

MAX_DENSE, WORTH = 64, 0.5
"""Up to this dimension the mass is a matrix, where there are particles enough to estimate one. It is shrunk as if they
were so many independent draws each: a mass that follows its own particles biases the evidence. Of N(0, I) in 32
dimensions it was exp(4) times too small with next to no shrinkage, and is exp(0.5) times so with this."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tempered:
    """log π_t, a callable pytree."""

    density: FlatDensity
    reference: Callable
    temperature: Array

    def __call__(self, x: Array) -> Array:
        """The log density, −∞ where either is not a number."""
        return self.combine(self.density(x), self.reference(x))

    def combine(self, target: Array, reference: Array) -> Array:
        """(1 − t) log r + t log π of values, or of gradients. At t = 1 a reference of −∞ does not count."""
        share = 1 - self.temperature
        return self.temperature * target + jnp.where(share > 0, share * reference, 0.0)


class Particles(NamedTuple):
    """Positions with values and gradients of both densities, and a step size for each."""

    x: Array
    target: Array
    target_grad: Array
    reference: Array
    reference_grad: Array
    step_sizes: Array


def moved(
    rng_key: Array, tempered: Tempered, particles: Particles, num_moves: int, mesh: Mesh | None = None
) -> tuple[Particles, float, int]:
    """The particles after their moves, with the mean acceptance and the gradients taken."""
    inverse_mass = _inverse_mass(np.asarray(particles.x, np.float64)).astype(particles.x.dtype)
    numbers = np.arange(len(particles.x), dtype=np.int32)
    move = _move if mesh is None else move_on(mesh)
    moved, rates = move(rng_key, tempered, numbers, particles, inverse_mass, np.int32(num_moves))
    cost = len(particles.x) * (NUM_LEAPFROG_STEPS * num_moves + 1)
    return jax.tree.map(np.asarray, moved), float(np.mean(rates)), cost


def _inverse_mass(x: np.ndarray) -> np.ndarray:
    """Covariance of the particles, or its diagonal."""
    num, dim = x.shape
    variances = x.var(axis=0)
    variances = np.where(variances > 0, variances, 1e-12 + 1e-6 * np.mean(x**2))
    if dim > MAX_DENSE or num < 4 * dim:
        return variances
    scales = np.sqrt(variances)
    white = (x - x.mean(axis=0)) / scales
    correlations, _ = shrink(white.T @ white / num, WORTH * num)
    return scales[:, None] * correlations * scales


@functools.partial(program, options=SOON_COMPILED)
def first_particles(density: FlatDensity, reference: Callable, x: Array) -> Particles:
    """Values and gradients at the first draws."""
    step_size = x.shape[1] ** -0.25
    parts = jax.vmap(lambda x: _values(density, reference, x))(x)
    return Particles(x, *parts, jnp.full(len(x), step_size, x.dtype))


def _values(density: FlatDensity, reference: Callable, x: Array) -> tuple[Array, Array, Array, Array]:
    value, gradient = jax.value_and_grad(density.value)(x)
    reference_value, reference_gradient = jax.value_and_grad(reference)(x)
    value = jnp.where(jnp.isnan(value) | (value == jnp.inf), -jnp.inf, value)
    return value, gradient, reference_value, reference_gradient


@functools.partial(program, options=SOON_COMPILED)
def _move(
    rng_key: Array, tempered: Tempered, numbers: Array, particles: Particles, inverse_mass: Array, num_moves: Array
) -> tuple[Particles, Array]:
    """Moves of every particle under π_t, each with a step size that follows its own acceptance."""

    def one(number: Array, particle: Particles) -> tuple[Particles, Array]:
        def move(i: Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
            state, step_size, total = carry
            kernel = hmc(
                tempered,
                step_size=step_size,
                num_integration_steps=NUM_LEAPFROG_STEPS,
                inverse_mass_matrix=inverse_mass,
            )
            key = random.fold_in(random.fold_in(rng_key, number), i)
            state, info = kernel.step(key, state)
            rate = info.acceptance_rate.astype(step_size.dtype)
            return state, step_size * jnp.exp(GAIN * (rate - WANTED_ACCEPTANCE)), total + rate

        start = State(
            particle.x,
            tempered.combine(particle.target, particle.reference),
            tempered.combine(particle.target_grad, particle.reference_grad),
        )
        zero = jnp.zeros((), particle.x.dtype)
        state, step_size, total = jax.lax.fori_loop(0, num_moves, move, (start, particle.step_sizes, zero))
        parts = _values(tempered.density, tempered.reference, state.position)
        return Particles(state.position, *parts, step_size), total / num_moves.astype(total.dtype)

    return jax.vmap(one)(numbers, particles)


@functools.cache
def move_on(mesh: Mesh) -> Any:
    """The program of the moves, with the particles divided among the devices of a mesh."""
    placed = jax.shard_map(
        _move.plain,
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, CHAINS, CHAINS, EVERYWHERE, EVERYWHERE),
        out_specs=(CHAINS, CHAINS),
        check_vma=False,  # it would ask for an exchange, as in runner.devices
    )
    return program(placed, options=SOON_COMPILED)
