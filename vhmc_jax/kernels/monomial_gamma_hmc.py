"""Monomial-Gamma Hamiltonian Monte Carlo.

Notation: as in ``kernels.hmc``; a the exponent of the kinetic energy of ``dynamics.monomial``.
"""

from collections.abc import Callable
from typing import Any

from jax.tree_util import Partial

from vhmc_jax.base import Kernel
from vhmc_jax.dynamics.monomial import monomial_kinetic
from vhmc_jax.kernels.hmc import propose
from vhmc_jax.metropolis import MetropolisStep
from vhmc_jax.moves.trajectory import init, trajectory


def monomial_gamma_hmc(
    logdensity_fn: Callable,
    *,
    step_size: Any,
    num_integration_steps: Any,
    exponent: Any = 1.0,
    inverse_mass_matrix: Any = 1.0,
) -> Kernel:
    """Hamiltonian Monte Carlo with the kinetic energy K(p) = Σ ½|pᵢ/√Mᵢ|^{1/a}, smoothed at 0 for a > ½.

    Draw p with a density in proportion to exp(−K(p)), run L leapfrog steps from (θ, p) to (θ̂, p̂), accept with
    min(1, exp(H(θ, p) − H(θ̂, p̂))), H = U + K. With a = ½ this is HMC.

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    step_size
        ε > 0 of the leapfrog, or ``(low, high)``: drawn anew at each step, uniform in its logarithm.
    num_integration_steps
        L: an integer, or ``(low, high)``, both included, drawn uniformly at each step by each chain.
    exponent
        a > 0. The larger, the heavier the tails of the momentum and the slower the particle when it is fast.
    inverse_mass_matrix
        M⁻¹: a scalar or a vector (diagonal), in the order of ``ravel_pytree``; K is a sum over coordinates, so there is
        no dense mass.

    Returns
    -------
    The kernel, with ``State`` and ``Info``.

    Notes
    -----
    Draw, drift and accept step use the same smoothed K, so the kernel is exact for any a: K is even and the leapfrog
    reversible. The smoothing leaves the tails as they are and K no more curved than HMC's; see ``dynamics.monomial``.

    References
    ----------
    Zhang, Wang, Chen, Henao, Fan & Carin (2016), Towards unifying Hamiltonian Monte Carlo and slice sampling. Its
    energy |p|^{1/a}/m is scaled here so that a = ½ is HMC with mass M, and it smooths a = 1 and 2 by other formulas.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> kernel = vj.monomial_gamma_hmc(lambda x: -0.5 * x @ x, step_size=0.2, num_integration_steps=5, exponent=1.0)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jax.numpy.zeros(2)))
    >>> bool(info.acceptance_rate > 0.5)
    True
    """
    kinetic: Any = monomial_kinetic(exponent, inverse_mass_matrix)
    settings = trajectory(logdensity_fn, step_size, num_integration_steps, 1.0)._replace(kinetic=kinetic)
    return Kernel(Partial(init, settings), MetropolisStep(Partial(propose, settings)))
