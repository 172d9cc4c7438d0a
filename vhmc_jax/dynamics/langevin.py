"""Langevin dynamics: the thermostat, and DLHMC, the proposal of Langevin HMC.

Notation: B a kick, A a drift (``leapfrog.kick`` and ``leapfrog.drift``), O the thermostat
p' = a₁ p + a₂ M^{1/2} z with a₁ = exp(−γε), a₂ = √(1 − a₁²), z ~ N(0, I); γ friction, ε step size. The heat is
ΔE = K(p') − K(p) across O alone.
"""

from typing import Any

import jax.numpy as jnp

from vhmc_jax import random
from vhmc_jax.base import Array, FlatDensity, State
from vhmc_jax.dynamics.kinetic import GaussianKinetic
from vhmc_jax.dynamics.leapfrog import drift, kick, whole_steps


def thermostat(
    rng_key: Any, momentum: Array, kinetic: GaussianKinetic, friction: Array, step_size: Array
) -> tuple[Array, Array]:
    """O: a partial refresh that leaves N(0, M) invariant, and is reversible for it.

    Parameters
    ----------
    rng_key
        Key of the noise.
    momentum
        p.
    kinetic
        The kinetic energy, with M.
    friction
        γ ≥ 0.
    step_size
        ε.

    Returns
    -------
    p' and the heat K(p') − K(p).

    References
    ----------
    Gu & Sun (2019), eq. 9–12.
    """
    a1 = jnp.exp(-friction * step_size)
    a2 = jnp.sqrt(-jnp.expm1(-2 * friction * step_size))
    noise = kinetic.scale_noise(random.normal(rng_key, momentum.shape, momentum.dtype))
    refreshed = a1 * momentum + a2 * noise
    return refreshed, kinetic.energy(refreshed) - kinetic.energy(momentum)


def stochastic_drift(
    rng_key: Any, x: Array, momentum: Array, kinetic: GaussianKinetic, friction: Array, step_size: Array
) -> tuple[Array, Array, Array]:
    """A½ O A½: returns position, momentum and heat."""
    x = drift(x, momentum, kinetic, 0.5 * step_size)
    momentum, heat = thermostat(rng_key, momentum, kinetic, friction, step_size)
    return drift(x, momentum, kinetic, 0.5 * step_size), momentum, heat


def dlhmc(
    rng_key: Any,
    density: FlatDensity,
    kinetic: GaussianKinetic,
    step_size: Array,
    num_steps: int | Array,
    friction: Array,
    start: State,
    momentum: Array,
) -> tuple[State, Array, Array]:
    """DLHMC: a Langevin step, L leapfrog steps, a Langevin step.

    B½ (A½ O A½) B½ · (B½ A B½)ᴸ · B½ (A½ O A½) B½, with neighbouring kicks merged: L + 2 gradients.

    Parameters
    ----------
    rng_key
        Key of the two thermostats.
    density
        The log density on flat vectors.
    kinetic
        The kinetic energy.
    step_size
        ε.
    num_steps
        L.
    friction
        γ.
    start
        Flat state to start from, its gradient included.
    momentum
        Momentum to start with.

    Returns
    -------
    The flat state at the end, the momentum there, and the heat taken up by both thermostats.

    References
    ----------
    Gu & Sun (2019), eq. 9–15 and Algorithm 4, where the second half of the Langevin step omits the momentum in
    θ + (ε/2) M⁻¹p̂.
    """
    key_first, key_last = random.split(rng_key)
    p = kick(momentum, start.logdensity_grad, 0.5 * step_size)
    x, p, first_heat = stochastic_drift(key_first, start.position, p, kinetic, friction, step_size)
    p = kick(p, density.gradient(x), step_size)
    x, p = whole_steps(density, kinetic, step_size, num_steps, x, p)
    x, p, last_heat = stochastic_drift(key_last, x, p, kinetic, friction, step_size)
    end = density.state_at(x)
    return end, kick(p, end.logdensity_grad, 0.5 * step_size), first_heat + last_heat
