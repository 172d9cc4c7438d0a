"""Langevin dynamics: the thermostat, and DLHMC, the proposal of Langevin HMC.

Notation: B a kick, A a drift (``leapfrog.kick`` and ``leapfrog.drift``), O the thermostat
p' = a₁ p + a₂ n with a₁ = exp(−γε), a₂ = √(1 − a₁²), n ~ N(0, M); γ friction, ε step size. The heat is
ΔE = K(p') − K(p) across O alone.
"""

from collections.abc import Sequence

import jax.numpy as jnp

from vhmc_jax.base import Array, State
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics.kinetic import GaussianKinetic, inner
from vhmc_jax.dynamics.leapfrog import drift, kick, straight, whole_steps


def thermostat(
    noise: Array, momentum: Array, kinetic: GaussianKinetic, friction: Array, step_size: Array
) -> tuple[Array, Array]:
    """O: a partial refresh that leaves N(0, M) invariant, and is reversible for it.

    Parameters
    ----------
    noise
        n ~ N(0, M), a momentum of its own.
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
    refreshed = a1 * momentum + a2 * noise
    # K(p') − K(p) = ½ (p' − p)ᵀ M⁻¹ (p' + p): one product for two, with velocities that the drifts need anyway.
    velocities = kinetic.velocity(refreshed) + kinetic.velocity(momentum)
    return refreshed, 0.5 * inner(refreshed - momentum, velocities)


def stochastic_drift(
    noise: Array, x: Array, momentum: Array, kinetic: GaussianKinetic, friction: Array, step_size: Array
) -> tuple[Array, Array, Array]:
    """A½ O A½: returns position, momentum and heat."""
    x = drift(x, momentum, kinetic, 0.5 * step_size)
    momentum, heat = thermostat(noise, momentum, kinetic, friction, step_size)
    return drift(x, momentum, kinetic, 0.5 * step_size), momentum, heat


def dlhmc(
    noises: Sequence[Array],
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
    noises
        The two thermostats' noises, each ~ N(0, M).
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
    first_noise, last_noise = noises
    p = kick(momentum, start.logdensity_grad, 0.5 * step_size)
    x, p, first_heat = stochastic_drift(first_noise, start.position, p, kinetic, friction, step_size)
    x, p = whole_steps(density, straight(kinetic, step_size), step_size, num_steps, x, p, kick_first=True)
    x, p, last_heat = stochastic_drift(last_noise, x, p, kinetic, friction, step_size)
    end = density.state_at(x)
    return end, kick(p, end.logdensity_grad, 0.5 * step_size), first_heat + last_heat
