"""Moves by symmetries of the density, exact or approximate.

Notation: g a map of the position, drawn from a set in which its inverse is as likely.
"""

from collections.abc import Callable
from typing import Any

from jax.tree_util import Partial

from vhmc_jax.base import Kernel, PRNGKey, PyTree, State, as_pytree_function
from vhmc_jax.density import flatten, init_state
from vhmc_jax.metropolis import MetropolisStep, Proposal, log_acceptance, metropolis_info
from vhmc_jax.moves.maps import flat_of
from vhmc_jax.moves.symmetries import Symmetries, as_symmetries


def symmetry(logdensity_fn: Callable, maps: Any) -> Kernel:
    """Moves by maps that leave the density as it is: permutations of labels, signs of factors, reflections.

    Draw g. Accept g(θ) with min(1, π(g(θ)) |det g'(θ)| / π(θ)). That is 1 where g is a symmetry. So the modes that
    symmetries exchange are one mode for the chain, however many they are. Where g is one only about, the kernel is
    exact all the same.

    This kernel alone moves along an orbit: combine it with another by ``cycle`` or ``mixture``.

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    maps
        ``permutations(...)``, ``signs(...)``, a map from a position to a position, or a sequence of these. A map must
        be an involution, or its inverse must be among the maps. log |det| is found by differentiation, or is zero
        where the map only permutes coordinates and changes signs. A pair ``(map, log_det)`` gives it: a function of
        the position, or 0.0 for a map that preserves volume.

    Returns
    -------
    The kernel, with ``State`` and ``Info``; one gradient a step. A mean acceptance well below 1 says that a map is no
    symmetry. ``Symmetries.check_density`` tells which.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> logdensity = lambda x: jax.numpy.logaddexp(-((x[0] - 9) ** 2), -((x[0] + 9) ** 2)) - x[1] ** 2
    >>> kernel = vj.symmetry(logdensity, lambda x: -x)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jax.numpy.array([9.0, 0.5])))
    >>> state.position.tolist()
    [-9.0, -0.5]
    """
    logdensity_fn, symmetries = as_pytree_function(logdensity_fn, "logdensity_fn"), as_symmetries(maps)
    return Kernel(Partial(init, logdensity_fn, symmetries), MetropolisStep(Partial(propose, logdensity_fn, symmetries)))


def init(logdensity_fn: Callable, symmetries: Symmetries, position: PyTree, rng_key: PRNGKey | None = None) -> State:
    """The state at ``position``; raises where the maps do not fit it, or have no inverses."""
    state = init_state(logdensity_fn, position, rng_key)
    symmetries.check(state.position)
    return state


def propose(logdensity_fn: Callable, symmetries: Symmetries, rng_key: PRNGKey, state: State) -> Proposal:
    """The image under a map drawn at random, with its Jacobian."""
    density, start = flatten(logdensity_fn, state)
    position, log_det = symmetries.draw(rng_key, state.position)
    end = density.state_at(flat_of(position))
    log_alpha, is_divergent = log_acceptance(-start.logdensity, -end.logdensity, log_det)
    return Proposal(density.unflatten(end), log_alpha, metropolis_info(log_alpha, is_divergent, 1))
