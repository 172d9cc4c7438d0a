"""Draws around each mode: Langevin HMC from every mode at once, with mass and step size of its own."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.base import Array, Kernel
from vhmc_jax.kernels.lhmc import lhmc
from vhmc_jax.programs import SOON_COMPILED, program
from vhmc_jax.runner.adaptation import adapt_step_size

NUM_LEAPFROG_STEPS = (1, 3)
"""With the inverse Hessian as M⁻¹ and an acceptance of 0.8 in many dimensions, about a quarter of an oscillation: half
of one would turn a coordinate's sign, and leave its square, hence the covariance, as it was."""


class LocalDraws(NamedTuple):
    """Draws from chains that started at each of k modes.

    Attributes
    ----------
    positions
        Flat positions, shape (mode, chain, draw, d).
    logdensities
        Log densities there, shape (mode, chain, draw).
    step_sizes
        Step size of each mode.
    acceptance_rates
        Mean acceptance of each mode's chains.
    num_gradients
        Gradients taken, adaptation included.
    """

    positions: Array
    logdensities: Array
    step_sizes: Array
    acceptance_rates: Array
    num_gradients: Array


@functools.partial(program, options=SOON_COMPILED, static_argnames=("num_chains", "num_draws", "num_warmup"))
def draw_locally(
    rng_key: Array,
    logdensity_fn: Callable,
    modes: Array,
    covariances: Array,
    target_acceptance: Array,
    *,
    num_chains: int,
    num_draws: int,
    num_warmup: int,
) -> LocalDraws:
    """Run chains of ``lhmc`` from each mode, all in one program.

    The step size of a mode is found by dual averaging over its chains, which is their burn-in as well; M⁻¹ is the
    inverse Hessian of the mode.

    Parameters
    ----------
    rng_key
        Key of all chains.
    logdensity_fn
        Log density of a flat vector, a callable pytree.
    modes
        Flat positions, shape (k, d).
    covariances
        Inverse negative Hessians, shape (k, d, d).
    target_acceptance
        What dual averaging aims at.
    num_chains, num_draws, num_warmup
        Chains for each mode, draws kept from each chain, and iterations of the adaptation.

    Returns
    -------
    The draws.
    """

    def around(mode: Array, covariance: Array, number: Array) -> LocalDraws:
        key_adapt, key_draw = random.split(random.fold_in(rng_key, number))
        factory = Partial(_local_kernel, logdensity_fn, covariance)
        adapted = adapt_step_size(
            random.as_jax_key(key_adapt),
            factory,
            mode,
            target_acceptance=target_acceptance,
            num_chains=num_chains,
            num_steps=num_warmup,
        )
        kernel = factory(adapted.step_size)

        def chain(position: Array, number: Array) -> tuple[Array, Array, Array, Array]:
            def step(state, t):
                state, info = kernel.step(random.fold_in(random.fold_in(key_draw, number), t), state)
                return state, (state.position, state.logdensity, info.acceptance_rate, info.num_gradients)

            _, kept = jax.lax.scan(step, kernel.init(position), jnp.arange(num_draws))
            return kept

        positions, logdensities, rates, gradients = jax.vmap(chain)(adapted.positions, jnp.arange(num_chains))
        return LocalDraws(
            positions, logdensities, adapted.step_size, jnp.mean(rates), adapted.num_gradients + jnp.sum(gradients)
        )

    draws = jax.vmap(around)(modes, covariances, jnp.arange(len(modes)))
    return draws._replace(num_gradients=jnp.sum(draws.num_gradients))


def _local_kernel(logdensity_fn: Callable, covariance: Array, step_size: Array) -> Kernel:
    return lhmc(
        logdensity_fn, step_size=step_size, num_integration_steps=NUM_LEAPFROG_STEPS, inverse_mass_matrix=covariance
    )
