"""Kernels made of kernels: one after another, or one at random.

All parts share position, log density and gradient. A further field of a part's state (the sign of a magnetic field) is
a variable of that part alone, and is kept while the other parts run. So it must not be a function of the position.
Parts may be kernels of others: see ``kernels.part``.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import is_concrete
from vhmc_jax.base import Array, Kernel, PRNGKey, PyTree
from vhmc_jax.kernels.part import as_part, init_part, shared, shares, step_part
from vhmc_jax.lazy import lazy_cond


class ComposedState(NamedTuple):
    """The state of several kernels at one position.

    Attributes
    ----------
    position
        A pytree of floating arrays.
    logdensity
        The log density there, up to a constant.
    logdensity_grad
        Its gradient, with the structure of ``position``.
    own
        The state of each part without what all share: position, log density and gradient are None there. None for a
        part whose state has another form, and is made anew at each of its steps.
    """

    position: PyTree
    logdensity: Array
    logdensity_grad: PyTree
    own: tuple[Any, ...]


class ComposedInfo(NamedTuple):
    """What happened in one step of several kernels.

    Attributes
    ----------
    acceptance_rate
        Mean over the parts that were run.
    is_accepted
        Whether any part moved.
    is_divergent
        Whether any part diverged.
    num_gradients
        Gradients of all parts.
    num_densities
        Density values of all parts.
    parts
        Info of each part; all zeros for one that was not run. For a foreign kernel an ``Info``, see
        ``kernels.part.info_of``.
    """

    acceptance_rate: Array
    is_accepted: Array
    is_divergent: Array
    num_gradients: Array
    num_densities: Array
    parts: tuple[Any, ...]


def cycle(*kernels: Kernel) -> Kernel:
    """One kernel after another, each once a step.

    Parameters
    ----------
    kernels
        Kernels on the same log density, ours or those of BlackJAX as they are. At least one must have a state with
        position, log density and gradient. The gradients of NUTS are counted as its integration steps.

    Returns
    -------
    The kernel, with ``ComposedState`` and ``ComposedInfo``.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> logdensity = lambda x: -0.5 * x @ x
    >>> kernel = vj.cycle(vj.equipotential(logdensity), vj.hmc(logdensity, step_size=0.5, num_integration_steps=3))
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jax.numpy.ones(2)))
    >>> len(info.parts)
    2
    """
    parts = _parts(kernels)
    return Kernel(Partial(init, parts), Partial(step_cycle, parts))


def mixture(kernels: Sequence[Kernel], probabilities: Any) -> Kernel:
    """One of several kernels at random at each step.

    Parameters
    ----------
    kernels
        Kernels on the same log density, ours or those of BlackJAX as they are. At least one must have a state with
        position, log density and gradient. The gradients of NUTS are counted as its integration steps.
    probabilities
        One for each kernel, positive; they are normalised.

    Returns
    -------
    The kernel, with ``ComposedState`` and ``ComposedInfo``.

    Notes
    -----
    Each chain throws its own coin. Under ``vmap`` each kernel is evaluated for the chains that chose it alone, in
    blocks (``vhmc_jax.lazy``), so a step costs about the mean of the parts and not their sum.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> logdensity = lambda x: -0.5 * x @ x
    >>> long, short = (vj.hmc(logdensity, step_size=0.5, num_integration_steps=n) for n in (9, 3))
    >>> kernel = vj.mixture([long, short], [0.2, 0.8])
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jax.numpy.ones(2)))
    >>> int(info.num_gradients) in (3, 9)
    True
    """
    parts = _parts(kernels)
    weights = jnp.asarray(probabilities, dtype=float)
    if weights.shape != (len(parts),):
        raise ValueError(f"probabilities must be one for each of the {len(parts)} kernels, got shape {weights.shape}")
    if is_concrete(weights) and not jnp.all((weights > 0) & jnp.isfinite(weights)):
        raise ValueError(f"probabilities must be positive and finite, got {probabilities}")
    return Kernel(Partial(init, parts), Partial(step_mixture, parts, weights / jnp.sum(weights)))


def _parts(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    if not kernels:
        raise ValueError("expected at least one kernel, got none")
    return tuple(as_part(kernel, f"kernels[{number}]") for number, kernel in enumerate(kernels))


def init(parts: tuple[Kernel, ...], position: PyTree, rng_key: PRNGKey | None = None) -> ComposedState:
    """The state of all parts at ``position``."""
    keys = [None if rng_key is None else random.fold_in(rng_key, number) for number in range(len(parts))]
    states = [init_part(kernel, position, key) for kernel, key in zip(parts, keys, strict=True)]
    sharing = [state for state in states if shares(state)]
    if not sharing:
        names = ", ".join(type(state).__name__ for state in states)
        raise TypeError(
            f"at least one kernel must have a state with position, logdensity and logdensity_grad, got states {names}"
        )
    return ComposedState(*shared(sharing[0]), tuple(_own(state) for state in states))


def step_cycle(parts: tuple[Kernel, ...], rng_key: PRNGKey, state: ComposedState) -> tuple[ComposedState, ComposedInfo]:
    """Run every part once, in order."""
    infos = []
    for number in range(len(parts)):
        state, info = run_part(parts, number, random.fold_in(rng_key, number), state)
        infos.append(info)
    return state, _summary(infos, len(parts))


def step_mixture(
    parts: tuple[Kernel, ...], probabilities: Array, rng_key: PRNGKey, state: ComposedState
) -> tuple[ComposedState, ComposedInfo]:
    """Run the part that the coin chose."""
    key_coin, key_step = random.split(rng_key)
    uniform = random.uniform(key_coin, dtype=probabilities.dtype)
    choice = jnp.sum(uniform >= jnp.cumsum(probabilities)[:-1])
    infos = []
    for number in range(len(parts)):
        run = Partial(run_part, parts, number, key_step)
        _, shapes = jax.eval_shape(run, state)
        not_run = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        state, info = lazy_cond(choice == number, run, (state, not_run), state)
        infos.append(info)
    return state, _summary(infos, 1)


def run_part(
    parts: tuple[Kernel, ...], number: int, rng_key: PRNGKey, state: ComposedState
) -> tuple[ComposedState, Any]:
    """One step of a part, from and to the common state."""
    kernel, own = parts[number], state.own[number]
    if own is None:
        return _run_apart(parts, number, rng_key, state)
    moved, info = step_part(kernel, rng_key, own._replace(**shared(state)._asdict()))
    owns = (*state.own[:number], _own(moved), *state.own[number + 1 :])
    return ComposedState(*shared(moved), owns), info


def _run_apart(
    parts: tuple[Kernel, ...], number: int, rng_key: PRNGKey, state: ComposedState
) -> tuple[ComposedState, Any]:
    """One step of a part whose state does not share: its state, and then the common one, are made anew."""
    key_there, key_step, key_back = random.split(rng_key, 3)
    moved, info = step_part(parts[number], key_step, init_part(parts[number], state.position, key_there))
    sharing = next(kernel for kernel, own in zip(parts, state.own, strict=True) if own is not None)
    common = shared(init_part(sharing, moved.position, key_back))
    info = info._replace(num_gradients=info.num_gradients + 1, num_densities=info.num_densities + 1)
    return ComposedState(*common, state.own), info


def _own(state: Any) -> Any:
    """A part's state without what all parts share; None where it does not share."""
    return state._replace(position=None, logdensity=None, logdensity_grad=None) if shares(state) else None


def _summary(infos: Sequence[Any], num_run: int) -> ComposedInfo:
    def total(combine: Callable, name: str) -> Array:
        return combine(jnp.stack([getattr(info, name) for info in infos]))

    return ComposedInfo(
        acceptance_rate=total(jnp.sum, "acceptance_rate") / num_run,
        is_accepted=total(jnp.any, "is_accepted"),
        is_divergent=total(jnp.any, "is_divergent"),
        num_gradients=total(jnp.sum, "num_gradients").astype(jnp.int32),
        num_densities=total(jnp.sum, "num_densities").astype(jnp.int32),
        parts=tuple(infos),
    )
