"""Variational Langevin HMC: ``with_jumps`` around Langevin HMC.

Notation: as in ``kernels.with_jumps``.
"""

from collections.abc import Callable
from typing import Any

from vhmc_jax.base import Kernel
from vhmc_jax.kernels.lhmc import lhmc
from vhmc_jax.kernels.with_jumps import with_jumps


def vhmc(
    logdensity_fn: Callable,
    guide: Any,
    *,
    step_size: Any,
    num_integration_steps: Any,
    friction: Any = 0.5,
    inverse_mass_matrix: Any = 1.0,
    jump_probability: Any = 0.1,
    log_envelope: Any,
    num_tries: int = 4,
    form: str = "exact",
) -> Kernel:
    """Variational Langevin Hamiltonian Monte Carlo.

    With probability β jump. Otherwise propose by DLHMC with random numbers z and accept with α(θ; z); if that is
    rejected, draw θ* from the guide as a jump does, and accept it with
    min(1, [w(θ*) / w(θ)] [1 − α(θ*; z)] / [1 − α(θ; z)]).

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    guide
        Anything with ``sample(rng_key) -> x`` and ``log_prob(x)`` on flat vectors, normalised. It is frozen.
    step_size
        ε > 0, or ``(low, high)``: drawn anew at each step, uniform in its logarithm.
    num_integration_steps
        L: an integer, or ``(low, high)``, both included.
    friction
        γ ≥ 0 of the thermostats.
    inverse_mass_matrix
        M⁻¹: a scalar, a vector (diagonal) or a matrix, in the order of ``ravel_pytree``.
    jump_probability
        β in [0, 1].
    log_envelope
        log c; any value is exact. ``estimate_log_envelope`` gives one that makes the most jumps succeed.
    num_tries
        K, the most candidates that a jump draws.
    form
        ``"exact"``, or ``"paper"`` for the paper's form without the envelope correction: biased, for comparison.

    Returns
    -------
    The kernel, with ``State`` and ``VHMCInfo``.

    Notes
    -----
    Under ``vmap`` the rarer of the two moves, jump or local, and second trajectories are evaluated for the chains that
    need them alone. Which is rarer, β tells where it is a number and not traced: below and above 1/2 are two programs.

    References
    ----------
    Gu & Sun (2019), Algorithm 5, where r stands for an acceptance in the algorithm and a rejection in the text:
    the ratio is of rejection probabilities. Tierney & Mira (1999) on delayed rejection.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> target = vj.targets.far_pair(0.7)
    >>> means = jnp.array([[6.5, -6.5], [-6.5, 6.5]])
    >>> guide = vj.GaussianMixture(jnp.log(jnp.array([0.5, 0.5])), means, jnp.stack([jnp.eye(2)] * 2))
    >>> log_envelope = vj.estimate_log_envelope(jax.random.key(0), target.logdensity, guide, num_tries=4)
    >>> settings = {"step_size": 0.9, "num_integration_steps": 5, "jump_probability": 0.5}
    >>> kernel = vj.vhmc(target.logdensity, guide, log_envelope=log_envelope, **settings)
    >>> chains = vj.run_chains(jax.random.key(1), kernel, jnp.zeros((64, 2)) + means[1], num_samples=200, num_burnin=20)
    >>> bool(abs(jnp.mean(chains.draws[..., 0] > 0) - 0.7) < 0.03)
    True
    """
    local = lhmc(
        logdensity_fn,
        step_size=step_size,
        num_integration_steps=num_integration_steps,
        friction=friction,
        inverse_mass_matrix=inverse_mass_matrix,
    )
    return with_jumps(
        local,
        guide,
        jump_probability=jump_probability,
        log_envelope=log_envelope,
        num_tries=num_tries,
        form=form,
    )
