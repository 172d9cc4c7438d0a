"""A kernel of anyone's as a part of one of ours: ``cycle``, ``mixture`` and ``with_jumps`` take it as it is.

Parts share position, log density and gradient. A part *shares* where its state is a NamedTuple with these three fields,
as the states of BlackJAX's NUTS and HMC are. Its further fields are variables of its own, kept while other parts move.
A state of another form (of a random walk, say, which has no gradient) is made anew by its kernel's ``init``.
"""

from typing import Any

import jax
import jax.numpy as jnp

from vhmc_jax import random
from vhmc_jax.base import Array, Info, Kernel, PRNGKey, PyTree, State, as_pytree_function


def as_part(kernel: Any, name: str = "kernel") -> Kernel:
    """A kernel whose functions are pytrees, or an error that names the argument."""
    if not (callable(getattr(kernel, "init", None)) and callable(getattr(kernel, "step", None))):
        raise TypeError(f"{name} must have the functions init and step, got {type(kernel).__name__}")
    return Kernel(as_pytree_function(kernel.init), as_pytree_function(kernel.step))


def init_part(kernel: Kernel, position: PyTree, rng_key: PRNGKey | None) -> Any:
    """A part's state at a position. The key is for kernels that draw variables of their own."""
    return kernel.init(position, None if rng_key is None else random.as_jax_key(rng_key))


def step_part(kernel: Kernel, rng_key: PRNGKey, state: Any) -> tuple[Any, Any]:
    """One step of a part. Its info is as it is where it has all fields of ``Info``, else an ``Info`` made of it."""
    moved, info = kernel.step(random.as_jax_key(rng_key), state)
    if all(hasattr(info, name) for name in Info._fields):
        return moved, info
    return jax.tree.map(_like, moved, state), info_of(info, state, moved)


def shares(state: Any) -> bool:
    """Whether a state has what all parts share, in fields that can be replaced."""
    return hasattr(state, "_replace") and all(hasattr(state, name) for name in State._fields)


def shared(state: Any) -> State:
    """What all parts share."""
    return State(state.position, state.logdensity, state.logdensity_grad)


def info_of(info: Any, state: Any, moved: Any) -> Info:
    """The ``Info`` of a foreign step.

    Parameters
    ----------
    info
        What the step reported.
    state
        Where it started.
    moved
        Where it ended.

    Returns
    -------
    The fields that it reported. What it did not is filled in: accepted is a step after which the position is another;
    none diverged; as many gradients as integration steps were reported, else one evaluation, which is a gradient where
    the state has one.
    """
    pairs = zip(jax.tree.leaves(state.position), jax.tree.leaves(moved.position), strict=True)
    has_moved = jnp.any(jnp.stack([jnp.any(old != new) for old, new in pairs]))
    is_accepted = jnp.asarray(getattr(info, "is_accepted", has_moved), bool)
    has_gradient = hasattr(state, "logdensity_grad")
    num_gradients = getattr(info, "num_integration_steps", int(has_gradient))
    dtype = jnp.result_type(jax.tree.leaves(state.position)[0])
    return Info(
        acceptance_rate=jnp.asarray(getattr(info, "acceptance_rate", is_accepted), dtype),
        is_accepted=is_accepted,
        is_divergent=jnp.asarray(getattr(info, "is_divergent", False), bool),
        num_gradients=jnp.asarray(getattr(info, "num_gradients", num_gradients), jnp.int32),
        num_densities=jnp.asarray(getattr(info, "num_densities", int(not has_gradient)), jnp.int32),
    )


def _like(new: Array, old: Array) -> Array:
    """The new value in the dtype of the old one, which a foreign step need not keep."""
    return new if jnp.issubdtype(old.dtype, jax.dtypes.prng_key) else jnp.asarray(new, jnp.result_type(old))
